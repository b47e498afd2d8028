// SPDX-License-Identifier: Apache-2.0
// Runs one OpCase: inputs from its ranges and a seed, the row's inference and reference, and the row's kernels on a device,
// one buffer per operand and no planner in between.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "engine/async/executor.h"
#include "engine/gpu/device.h"
#include "engine/ops/op_def.h"

namespace sinter::testing {

struct CaseSetup {
  Node node;
  std::vector<Tensor> inputs;  // empty handles for absent ones
  std::vector<TensorInfo> in, out;

  std::vector<const Tensor*> operands() const;
};

/// A seeded tensor for one input of a case.
Result<Tensor> make_input(const OpCase::Input& input, uint32_t seed);
Result<CaseSetup> make_case(const OpDef& op, const OpCase& op_case);
Result<std::vector<Tensor>> run_reference(const CaseSetup& setup);

/// A device, what drives it, and the pipelines it has compiled so far (many cases share their text).
class DeviceRunner {
 public:
  DeviceRunner(Executor& e, gpu::Device& d) : executor(e), device(d) {}

  Executor& executor;
  gpu::Device& device;
  std::map<std::string, gpu::PipelineId> pipelines;

  /// The row's kernels for `target`, run; outputs start as garbage. Unsupported where the row refuses.
  Result<std::vector<Tensor>> run(const CaseSetup& setup, const wgsl::Target& target);

 private:
  Result<> compile(std::span<const wgsl::Kernel> kernels);
};

/// Empty where the tensors agree (NaN equals NaN, equal infinities agree, integers exactly), else what differs first.
std::string difference(const Tensor& expected, const Tensor& actual, double rtol, double atol);

}  // namespace sinter::testing
