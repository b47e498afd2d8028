// SPDX-License-Identifier: Apache-2.0
#include "engine/diag/verdict.h"

#include <algorithm>

#include "engine/base/str.h"

namespace sinter::diag {
namespace {

struct Verdict {
  bool healthy = false;
  std::string text, hint;
};
using Found = std::optional<Verdict>;

std::string_view text_of(plan::Backend backend) { return plan::name_of(backend); }

const ModelRun* run_on(const DoctorReport& report, plan::Backend backend) {
  const auto at = std::ranges::find(report.runs, backend, &ModelRun::backend);
  return at == report.runs.end() ? nullptr : &*at;
}

// The stage at which a backend failed: the row that carries the error.
std::string failed_stage(const DoctorReport& report, plan::Backend backend) {
  for (const StageRow& row : report.stages) {
    if (row.backend == text_of(backend) && !row.error.empty()) return row.stage;
  }
  return "load";
}

std::string context_of(const Error& error) { return error.chain.empty() ? "" : StrCat(", ", error.chain.front()); }

Found judge_adapter(const DoctorReport& report, const DoctorOptions& options) {
  const AdapterReport& adapter = report.adapter;
  if (!adapter.available && options.backend == BackendChoice::webgpu) {
    return Verdict{false, StrCat("WebGPU does not work here: ", adapter.reason), adapter.hint};
  }
  if (adapter.available && !adapter.right) {
    return Verdict{
        false, StrCat("the GPU cannot be trusted, so 'auto' takes the CPU: ", adapter.wrong),
        "update the graphics driver (or the browser), or pick another adapter; the CPU backend is not concerned"};
  }
  return std::nullopt;
}

Found judge_reference(const DoctorReport& report, const DoctorOptions& options) {
  const ModelRun* run = run_on(report, plan::Backend::reference);
  if (!run || !run->error) return std::nullopt;
  const Error& error = *run->error;
  return Verdict{false,
                 StrCat("'", options.model_name, "' fails on every backend, in stage '",
                        failed_stage(report, plan::Backend::reference), "': ", code_name(error.code), ", ",
                        error.message, context_of(error)),
                 error.hint.empty() ? "the model or its inputs are at fault, not this machine" : error.hint};
}

Found judge_run(const DoctorReport& report, const DoctorOptions& options, plan::Backend backend) {
  const ModelRun* run = run_on(report, backend);
  if (!run) return std::nullopt;
  const std::string_view name = text_of(backend);
  const std::string spared = backend == plan::Backend::webgpu ? "; meanwhile the CPU backend answers" : "";
  if (run->error) {
    const Error& error = *run->error;
    std::string hint = error.code == Code::Timeout ? std::string("give it more time if this machine is just slow")
                       : error.hint.empty() ? StrCat("find the node with bisect (good: reference, bad: ", name, ")")
                                            : error.hint;
    return Verdict{false,
                   StrCat("'", options.model_name, "' fails on ", name, " in stage '", failed_stage(report, backend),
                          "': ", code_name(error.code), ", ", error.message, context_of(error)),
                   hint + spared};
  }
  if (run->agrees) return std::nullopt;
  return Verdict{false,
                 StrCat("'", options.model_name, "' runs on ", name, " but its answer is wrong: ", run->difference),
                 StrCat("find the first node that differs with compare (a: reference, b: ", name,
                        "), and the rewrite or node to blame with bisect", spared)};
}

Found judge_cases(const DoctorReport& report) {
  for (const BackendCases& backend : report.self_test) {
    const std::string_view name = text_of(backend.backend);
    if (!backend.stopped.empty()) {
      return Verdict{false, StrCat("the operator cases on ", name, " stopped ", backend.stopped),
                     "the driver gave up: update it, or use the CPU backend"};
    }
    if (backend.failures.empty()) continue;
    std::vector<std::string> operators;
    for (const OperatorNumbers& row : backend.operators) {
      if (row.numbers.failed > 0) operators.push_back(row.op);
    }
    return Verdict{
        false,
        StrCat(backend.failures.size(), " of ", backend.total.cases, " operator cases fail on ", name, ": ",
               StrJoin(operators, ", ")),
        backend.backend == plan::Backend::webgpu
            ? "models with these operators may be wrong on this GPU: use the CPU backend, update the driver, "
              "and report it with this report"
            : "this is a mistake of the engine: report it with this report"};
  }
  return std::nullopt;
}

Verdict all_right(const DoctorReport& report, const DoctorOptions& options) {
  const AdapterReport& adapter = report.adapter;
  const std::string subject = options.model ? StrCat("'", options.model_name, "' runs") : std::string("models run");
  const std::string agreed = options.model ? " and agrees with the reference" : "";
  if (options.backend == BackendChoice::reference) return {true, StrCat(subject, " on the reference backend"), ""};
  if (options.backend == BackendChoice::cpu) return {true, StrCat(subject, " on the CPU", agreed), ""};
  if (!adapter.available) {
    return {true, StrCat(subject, " on the CPU", agreed, "; WebGPU does not work here: ", adapter.reason),
            adapter.hint};
  }
  // Browsers give away as little as they can.
  std::string where = adapter.info.description.empty() ? adapter.info.device : adapter.info.description;
  if (where.empty()) where = StrCat(adapter.info.vendor, " ", adapter.info.architecture);
  const std::string both = options.backend == BackendChoice::webgpu ? " on WebGPU (" : " on the CPU and on WebGPU (";
  if (adapter.info.software) {
    return {true,
            StrCat(subject, both, where, ")", agreed, "; the adapter computes in software, so 'auto' takes the CPU"),
            "for speed, install a driver for the graphics card, or enable hardware acceleration"};
  }
  return {true, StrCat(subject, both, where, ")", agreed, "; 'auto' takes WebGPU"), ""};
}

}  // namespace

void judge(DoctorReport& report, const DoctorOptions& options) {
  Found found = judge_adapter(report, options);
  if (!found) found = judge_reference(report, options);
  for (plan::Backend backend : {plan::Backend::cpu, plan::Backend::webgpu}) {
    if (!found) found = judge_run(report, options, backend);
  }
  if (!found) found = judge_cases(report);
  if (!found) found = all_right(report, options);
  report.healthy = found->healthy;
  report.verdict = std::move(found->text);
  report.hint = std::move(found->hint);
}

}  // namespace sinter::diag
