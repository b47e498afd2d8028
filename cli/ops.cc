// SPDX-License-Identifier: Apache-2.0
// sinter ops
#include <algorithm>
#include <cstdio>
#include <memory>

#include "cli/verbs.h"
#include "engine/base/str.h"
#include "engine/cpu/kernels.h"
#include "engine/onnx/import.h"
#include "engine/ops/op_def.h"

namespace sinter::cli {
namespace {

/// Element types that the operator's own tests cover, in the order of their ONNX numbers.
std::vector<std::string> dtypes(const OpDef& op) {
  std::vector<OpCase> cases;
  if (op.cases) op.cases(cases);
  std::vector<DType> seen;
  for (const OpCase& one : cases) {
    for (const OpCase::Input& input : one.inputs) {
      if (!input.absent && std::find(seen.begin(), seen.end(), input.dtype) == seen.end()) seen.push_back(input.dtype);
    }
  }
  std::sort(seen.begin(), seen.end());
  std::vector<std::string> names;
  for (const DType dtype : seen) names.emplace_back(name_of(dtype));
  return names;
}

Result<Outcome> list(bool json) {
  Outcome outcome{Json::object()};
  for (const OpDef* op : all_ops()) {
    if (!op->domain.empty()) continue;
    std::vector<std::string> kernels;
    for (const plan::HostKernel* kernel : cpu::host_kernels()) {
      if (kernel->op == op->name && kernel->domain == op->domain) kernels.emplace_back(kernel->name);
    }
    const std::string opsets =
        StrCat(std::max<int64_t>(op->first_opset, onnx::kOldestOpset), "-", onnx::newest_opset());
    const std::string cpu = kernels.empty() ? "reference" : "kernels";
    const std::string webgpu = op->wgsl ? "yes" : "on the CPU";
    outcome.document[std::string(op->name)] = {
        {"opsets", opsets}, {"dtypes", dtypes(*op)}, {"cpu", cpu}, {"webgpu", webgpu}, {"notes", op->notes}};
    if (json) continue;
    std::printf("%-24s opset %-6s cpu: %-10s webgpu: %-11s %s\n", std::string(op->name).c_str(), opsets.c_str(),
                cpu.c_str(), webgpu.c_str(), std::string(op->notes).c_str());
  }
  return outcome;
}

}  // namespace

Verb add_ops(CLI::App& app) {
  auto json = std::make_shared<bool>(false);
  CLI::App* verb = app.add_subcommand("ops", "list the operators: opsets, types, backends, what is refused");
  verb->add_flag("--json", *json, "one JSON document");
  return {verb, [json] { return list(*json); }, [json] { return *json; }};
}

}  // namespace sinter::cli
