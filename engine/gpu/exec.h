// SPDX-License-Identifier: Apache-2.0
// run: inputs up, one submit, one read-back, for each segment of the plan; usually there is one.
#pragma once

#include <memory>
#include <vector>

#include "engine/gpu/prepare.h"

namespace sinter::gpu {

/// Runs the plan's host steps; the runtime implements it.
class HostSteps {
 public:
  /// Runs `plan.steps[step]`. `values`, indexed by ValueId, holds the graph inputs, what was downloaded and what earlier
  /// host steps made; the step's outputs are to be put there. Weights and constants are the runtime's own business.
  virtual Task<> run_host_step(const plan::Plan& plan, size_t step, std::vector<Tensor>& values) = 0;

 protected:
  ~HostSteps() = default;
};

/// Takes over the device's commands in a run, to measure them.
class StepTimer {
 public:
  /// Runs the commands to their end; the i-th stands for step `steps[i]` of the plan. All outlive the task.
  virtual Task<> run(std::shared_ptr<Device> device, std::span<const Command> commands,
                     std::span<const uint32_t> steps) = 0;
  virtual void after_host_step(uint32_t step, double ms) = 0;

 protected:
  ~StepTimer() = default;
};

/// Inputs in the graph's order, outputs in the graph's order. An output that is a constant of the plan comes from there.
/// A plan with host steps needs `host`, which must outlive the task, as must `trace` and `timer` (may be null). Concurrent runs queue;
/// a cancelled one ends at once, and the next starts when the device has let go of the buffers.
Task<std::vector<Tensor>> run(std::shared_ptr<Prepared> prepared, std::vector<Tensor> inputs, HostSteps* host,
                              CancelToken cancel, trace::Log* trace, StepTimer* timer = nullptr);

}  // namespace sinter::gpu
