// SPDX-License-Identifier: Apache-2.0
// prepare: a plan becomes device objects: buffers filled, pipelines compiled, bind groups made, commands written down.
// All costly and all waiting work is here; what is left for a run is in exec.h.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/async/cancel.h"
#include "engine/async/lane.h"
#include "engine/gpu/buffer.h"
#include "engine/gpu/pipeline_cache.h"
#include "engine/gpu/weights.h"
#include "engine/plan/plan.h"

namespace sinter::gpu {

/// A stretch of the plan that the device does in one submit, and the host steps after it.
struct Segment {
  struct Transfer {
    ValueId value = kNone;
    uint64_t offset = 0;  // writes: in the arena; reads: in the staging buffer
    uint64_t bytes = 0;   // on the device
  };
  std::vector<Transfer> writes;  // host values that go up before the commands
  std::vector<Command> commands;
  std::vector<uint32_t> origins;     // per command: the step it stands for
  std::vector<Transfer> reads;       // device values that come down after them
  uint64_t read_bytes = 0;           // of the staging buffer
  std::vector<uint32_t> host_steps;  // then these run on the host, in order
};

/// A plan on its device. Runs of one Prepared pass one at a time through `lane`; it stays taken until the device has
/// let go of the buffers, even where a run's await was cancelled before.
struct Prepared {
  std::shared_ptr<Device> device;
  std::shared_ptr<const plan::Plan> plan;
  std::shared_ptr<PipelineCache> pipelines;
  std::vector<DeviceWeight> weights;  // per Plan::weights
  Buffer arena, uniforms, staging;
  std::shared_ptr<std::byte> read_back;  // host side of the staging buffer
  std::vector<BindGroupId> groups;
  std::vector<Segment> segments;
  Lane lane;

  Prepared() = default;
  Prepared(const Prepared&) = delete;
  Prepared& operator=(const Prepared&) = delete;
  ~Prepared();

  /// Device bytes of this plan alone (weights are the session's).
  uint64_t device_bytes() const { return arena.bytes() + uniforms.bytes() + staging.bytes(); }
};

/// Weights go up while pipelines compile. Everything is created under error scopes: a failure names the node and kernel
/// and leaves nothing behind. `source` and `trace` (may be null) must outlive the task.
Task<std::shared_ptr<Prepared>> prepare(std::shared_ptr<PipelineCache> pipelines,
                                        std::shared_ptr<DeviceWeights> weights, std::shared_ptr<const plan::Plan> plan,
                                        plan::WeightSource& source, CancelToken cancel, trace::Log* trace);

/// "node 'conv1' (Conv), kernel conv1x1_vec4": how errors name a step.
std::string describe_step(const plan::Plan& plan, size_t step);

/// The first command that a prepared plan issues from a step on. The step is given by its index or by the name of its node
/// (one of the nodes it stands for will do); an upload and a step on the host have no command of their own.
struct StepCommand {
  size_t step = 0;
  Command command;
};
Result<StepCommand> find_command(const Prepared& prepared, std::string_view step);

/// Cuts the plan into segments. Exposed for tests.
Result<std::vector<Segment>> cut_segments(const plan::Plan& plan);

}  // namespace sinter::gpu
