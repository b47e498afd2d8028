// SPDX-License-Identifier: Apache-2.0
// Plan: a model made ready for one target and one set of dimensions: kernels chosen, shader text written, memory laid
// out. Pure data: building a plan touches no device, and running one makes no decision.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/ir/graph.h"
#include "engine/plan/target.h"

namespace sinter::plan {

/// What makes a plan concrete: the shape of every graph input, and the contents of those (small) inputs that decide shapes,
/// such as Reshape's shape given at run time.
struct Bindings {
  std::vector<Shape> inputs;                       // one per graph input, in order; static
  std::vector<std::pair<ValueId, Tensor>> values;  // sorted by ValueId
};

/// A value with all that is known at plan time.
struct PlannedValue {
  DType dtype = DType::undefined;
  Shape shape;
  Tensor constant;                 // small constants and folded shape arithmetic; empty otherwise
  bool weight = false;             // computed from initialisers alone, materialised at prepare
  bool live = false;               // read or written by a step, or a graph input or output
  uint64_t host_offset = ~0ull;    // bytes in the host arena; ~0: not there
  uint64_t device_offset = ~0ull;  // bytes in the device arena
};

/// A weight as one backend wants it: shared by all plans of a session where `constant` is empty (key: value, packer,
/// packer_arg, on_device), else folded at plan time and private to its plan.
struct WeightUse {
  ValueId value = kNone;
  const Packer* packer = nullptr;  // null: as it is
  int64_t packer_arg = 0;
  bool on_device = false;
  Tensor constant;
};

/// Where prepare gets weights from; the session implements it. Gives the packed host tensor, one at a time, so that the
/// unpacked copy can be freed before the next; for the device the bytes are already converted to device storage.
class WeightSource {
 public:
  virtual Result<Tensor> load(const WeightUse& use, const wgsl::Target& device) = 0;

 protected:
  ~WeightSource() = default;
};

/// A dispatch's binding, resolved: a range of the arena or a weight.
struct DeviceOperand {
  enum class Kind : uint8_t { arena, weight };
  Kind kind = Kind::arena;
  uint32_t weight = 0;  // index into Plan::weights
  uint64_t offset = 0;  // bytes in the arena
  uint64_t bytes = 0;   // bytes bound
  bool writes = false;
};

struct Step {
  enum class Kind : uint8_t {
    host,      // run on the CPU: a host kernel or the reference row
    dispatch,  // one kernel on the device
    upload,    // host value `inputs[0]` to the device arena
    download,  // device value `inputs[0]` to the host
  };
  Kind kind = Kind::host;
  NodeId node = kNone;
  // host
  std::vector<ValueId> inputs, outputs;     // as the node's; kNone where absent
  std::vector<uint32_t> input_weights;      // per input: index into Plan::weights or kNone
  const HostKernel* host_kernel = nullptr;  // null: the reference row
  uint64_t scratch_bytes = 0;
  std::string reason;  // why a webgpu plan runs this step on the CPU
  // dispatch
  wgsl::Kernel kernel;
  std::vector<DeviceOperand> operands;  // one per kernel binding
  uint64_t uniform_offset = 0;          // in the plan's uniform block
};

struct Plan {
  std::shared_ptr<const Graph> graph;
  Target target;
  Bindings bindings;
  std::vector<PlannedValue> values;  // indexed by ValueId
  std::vector<Step> steps;
  std::vector<WeightUse> weights;
  std::vector<std::byte> uniforms;  // all uniform blocks, each at a uniform_offset
  uint64_t host_arena_bytes = 0;
  uint64_t device_arena_bytes = 0;
  uint64_t max_scratch_bytes = 0;

  size_t dispatches() const;
  size_t pipelines() const;  // distinct shader texts
};

/// One node that the target cannot run, with the reason and what would work.
struct Refusal {
  std::string node, op, reason, hint;
};

/// Names of graph inputs whose contents must be in `Bindings::values` before a plan can be built. Found by trying:
/// empty where the given bindings suffice.
Result<std::vector<ValueId>> needed_values(const Graph& graph, const Bindings& bindings);

/// Collects every refusal before failing: the Unsupported error lists all of them, and `refusals` (may be null) gets
/// them as data. An explicit webgpu target may place single steps on the host; those carry their reason.
Result<std::shared_ptr<const Plan>> build(std::shared_ptr<const Graph> graph, const Target& target,
                                          const Bindings& bindings, std::vector<Refusal>* refusals = nullptr);

/// Evaluates a weight (a value computed from initialisers alone) with the reference rows; intermediates are freed at
/// once.
Result<Tensor> evaluate_weight(const Graph& graph, ValueId value);

}  // namespace sinter::plan
