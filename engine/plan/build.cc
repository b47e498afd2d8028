// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include "engine/base/str.h"
#include "engine/ops/infer.h"
#include "engine/ops/where.h"
#include "engine/plan/bind.h"
#include "engine/plan/memory.h"
#include "engine/plan/plan.h"

namespace sinter::plan {
namespace {

constexpr uint64_t kHostAlignment = 64;

uint64_t round_up(uint64_t value, uint64_t alignment) { return (value + alignment - 1) / alignment * alignment; }

// A buffer of the device arena before layout: one value, or several that alias it, or one step's scratch.
struct DeviceBuffer {
  Lifetime life;
  std::vector<ValueId> values;
};

class Builder {
 public:
  Builder(std::shared_ptr<const Graph> graph, const Target& target, const Bindings& bindings)
      : plan_(std::make_shared<Plan>()), graph_(*graph) {
    plan_->graph = std::move(graph);
    plan_->target = target;
    plan_->bindings = bindings;
  }

  Result<std::shared_ptr<const Plan>> run(std::vector<Refusal>* out_refusals) {
    std::vector<Refusal> refusals;
    Bound bound = SINTER_TRY(bind(graph_, plan_->bindings, refusals));
    if (!refusals.empty()) {
      std::unexpected<Error> error = refuse(refusals);
      if (out_refusals) *out_refusals = std::move(refusals);
      return error;
    }
    if (!bound.needed.empty()) {
      return fail(Code::InvalidInput, StrCat("the contents of input '", graph_.values[bound.needed[0]].name,
                                             "' decide shapes and are not given"));
    }
    plan_->values = std::move(bound.values);
    on_device_.assign(plan_->values.size(), false);
    on_host_.assign(plan_->values.size(), false);
    for (ValueId input : graph_.inputs) on_host_[input] = true;
    for (NodeId id : bound.order) SINTER_CHECK_OK(add_node(id));
    mark_live();
    lay_out_host();
    lay_out_device();
    resolve_operands();
    return std::shared_ptr<const Plan>(std::move(plan_));
  }

 private:
  std::unexpected<Error> refuse(const std::vector<Refusal>& refusals) const {
    std::string text = StrCat("the model needs what this engine does not have: ");
    std::string hint;
    for (size_t i = 0; i < refusals.size(); ++i) {
      const Refusal& refusal = refusals[i];
      text += StrCat(i ? "; " : "", "node '", refusal.node, "' (", refusal.op, "): ", refusal.reason);
      if (hint.empty()) hint = refusal.hint;
    }
    return fail(Code::Unsupported, std::move(text), std::move(hint));
  }

  std::vector<TensorInfo> infos(const std::vector<ValueId>& ids) const {
    std::vector<TensorInfo> result = operand_infos(plan_->values, ids);
    // Kernels bind folded constants like weights: read-only.
    for (TensorInfo& info : result) info.weight |= info.constant != nullptr;
    return result;
  }

  bool is_constant(ValueId id) const { return plan_->values[id].weight || plan_->values[id].constant; }

  uint32_t weight_use(ValueId value, const Packer* packer, int64_t arg, bool device) {
    WeightUse use{value, packer, arg, device, {}};
    if (!plan_->values[value].weight) use.constant = plan_->values[value].constant;
    for (size_t i = 0; i < plan_->weights.size(); ++i) {
      const WeightUse& known = plan_->weights[i];
      if (known.value == value && known.packer == packer && known.packer_arg == arg && known.on_device == device) {
        return static_cast<uint32_t>(i);
      }
    }
    plan_->weights.push_back(std::move(use));
    return static_cast<uint32_t>(plan_->weights.size() - 1);
  }

  Result<> add_node(NodeId id) {
    const Node& node = graph_.nodes[id];
    const std::vector<TensorInfo> inputs = infos(node.inputs);
    const std::vector<TensorInfo> outputs = infos(node.outputs);
    std::string reason;
    if (plan_->target.backend == Backend::webgpu) {
      if (alias_on_device(node)) return {};
      auto kernels = device_kernels(node, inputs, outputs);
      if (kernels) {
        return add_dispatches(id, *kernels);
      }
      if (kernels.error().code != Code::Unsupported) {
        return std::unexpected(at(std::move(kernels).error(), sinter::where(graph_, node))
                                   .with_context(StrCat("planning ", describe(node))));
      }
      reason = kernels.error().message;
    }
    add_host_step(id, inputs, outputs, std::move(reason));
    return {};
  }

  // Reshape and its kin give the same bytes another shape: the output shares the input's place in the arena.
  bool alias_on_device(const Node& node) {
    if (!node.op->alias || node.inputs[0] == kNone || is_constant(node.inputs[0])) return false;
    for (size_t i = 1; i < node.outputs.size(); ++i) {
      if (node.outputs[i] != kNone) return false;
    }
    const PlannedValue& input = plan_->values[node.inputs[0]];
    if (plan_->values[node.outputs[0]].dtype != input.dtype) return false;
    if (wgsl::storage_of(input.dtype, plan_->target.gpu) == wgsl::Storage::none || input.shape.numel() == 0)
      return false;
    if (!on_device_[node.inputs[0]]) add_upload(node.inputs[0]);
    aliases_[node.outputs[0]] = alias_root(node.inputs[0]);
    on_device_[node.outputs[0]] = true;
    return true;
  }

  ValueId alias_root(ValueId value) const {
    const auto at = aliases_.find(value);
    return at == aliases_.end() ? value : at->second;
  }

  struct DeviceKernels {
    std::vector<wgsl::Kernel> kernels;
    std::vector<wgsl::Scratch> scratch;
  };

  Result<DeviceKernels> device_kernels(const Node& node, const std::vector<TensorInfo>& inputs,
                                       const std::vector<TensorInfo>& outputs) {
    if (!node.op->wgsl) return fail(Code::Unsupported, StrCat(node.op->name, " has no device kernel"));
    const wgsl::Target& gpu = plan_->target.gpu;
    for (const auto* operands : {&inputs, &outputs}) {
      for (const TensorInfo& info : *operands) {
        if (!info.present || info.dtype == DType::undefined) continue;
        if (wgsl::storage_of(info.dtype, gpu) == wgsl::Storage::none) {
          return fail(Code::Unsupported, StrCat(name_of(info.dtype), " does not exist on the device"));
        }
        const uint64_t bytes = wgsl::device_bytes(info.dtype, info.shape->numel(), gpu);
        if (bytes > gpu.max_binding_bytes) {
          return fail(Code::Unsupported, StrCat("an operand of shape ", to_string(*info.shape), " takes ", bytes,
                                                " bytes, one binding may have ", gpu.max_binding_bytes));
        }
      }
    }
    WgslContext ctx{node, gpu, inputs, outputs, {}, {}};
    SINTER_CHECK_OK(node.op->wgsl(ctx));
    for (const wgsl::Kernel& kernel : ctx.kernels) {
      for (const wgsl::Binding& binding : kernel.bindings) {
        if (binding.role == wgsl::Binding::Role::scratch) continue;
        const auto& operands = binding.role == wgsl::Binding::Role::input ? inputs : outputs;
        if (operands[binding.index].shape->numel() > 0) continue;
        return fail(Code::Unsupported, StrCat(node.op->name, " reads an empty tensor, which a device cannot bind"));
      }
    }
    return DeviceKernels{std::move(ctx.kernels), std::move(ctx.scratch)};
  }

  void add_upload(ValueId value) {
    Step step;
    step.kind = Step::Kind::upload;
    step.inputs = {value};
    plan_->steps.push_back(std::move(step));
    on_device_[value] = true;
  }

  void add_download(ValueId value) {
    Step step;
    step.kind = Step::Kind::download;
    step.inputs = {value};
    plan_->steps.push_back(std::move(step));
    on_host_[value] = true;
  }

  Result<> add_dispatches(NodeId id, DeviceKernels& built) {
    const Node& node = graph_.nodes[id];
    for (ValueId input : node.inputs) {
      const bool bindable = input != kNone && !is_constant(input) && plan_->values[input].shape.numel() > 0;
      if (bindable && !on_device_[input]) add_upload(input);
    }
    const size_t scratch_base = buffers_.size();
    for (const wgsl::Scratch& scratch : built.scratch) buffers_.push_back({{scratch.bytes, UINT32_MAX, 0, 0}, {}});
    for (wgsl::Kernel& kernel : built.kernels) {
      // WebGPU forbids two writable bindings of one range, and every arena binding is writable: a value read twice by
      // one kernel is read the second time from a copy.
      std::vector<ValueId> bound;
      std::vector<Place> places;
      for (const wgsl::Binding& binding : kernel.bindings) {
        if (binding.role == wgsl::Binding::Role::scratch) {
          places.push_back({.buffer = scratch_base + binding.index});
          continue;
        }
        const bool input = binding.role == wgsl::Binding::Role::input;
        const ValueId value = input ? node.inputs[binding.index] : node.outputs[binding.index];
        Place place{.value = value};
        if (!is_constant(value)) {
          const ValueId root = alias_root(value);
          if (std::find(bound.begin(), bound.end(), root) != bound.end()) {
            place = {.buffer = SINTER_TRY(add_copy(id, value))};
          }
          bound.push_back(root);
        }
        places.push_back(place);
      }
      add_dispatch(id, std::move(kernel), places);
    }
    for (ValueId output : node.outputs) {
      if (output == kNone) continue;
      const bool has_bytes = plan_->values[output].shape.numel() > 0;
      on_device_[output] = has_bytes;
      on_host_[output] = !has_bytes;  // an empty tensor exists without bytes
    }
    return {};
  }

  // Where a binding's bytes are: a value, or a buffer of its own (scratch, copies).
  struct Place {
    ValueId value = kNone;
    size_t buffer = SIZE_MAX;
  };

  // Dispatches a copy of `value` into a fresh buffer and returns that buffer.
  Result<size_t> add_copy(NodeId id, ValueId value) {
    const OpDef* identity = find_op("", "Identity");
    Node copy;
    copy.name = graph_.nodes[id].name;
    copy.op = identity;
    copy.inputs = copy.outputs = {value};
    const std::vector<TensorInfo> operands = infos({value});
    WgslContext ctx{copy, plan_->target.gpu, operands, operands, {}, {}};
    SINTER_CHECK_OK(identity->wgsl(ctx));
    const PlannedValue& planned = plan_->values[value];
    const uint64_t bytes = wgsl::device_bytes(planned.dtype, planned.shape.numel(), plan_->target.gpu);
    buffers_.push_back({{bytes, UINT32_MAX, 0, 0}, {}});
    const size_t buffer = buffers_.size() - 1;
    std::vector<Place> places;
    for (const wgsl::Binding& binding : ctx.kernels[0].bindings) {
      const bool input = binding.role == wgsl::Binding::Role::input;
      places.push_back(input ? Place{.value = value} : Place{.buffer = buffer});
    }
    add_dispatch(id, std::move(ctx.kernels[0]), places);
    return buffer;
  }

  void add_dispatch(NodeId id, wgsl::Kernel kernel, const std::vector<Place>& places) {
    Step step;
    step.kind = Step::Kind::dispatch;
    step.node = id;
    const uint32_t at = static_cast<uint32_t>(plan_->steps.size());
    step.uniform_offset = round_up(plan_->uniforms.size(), plan_->target.gpu.uniform_alignment);
    if (!kernel.uniforms.empty()) {
      plan_->uniforms.resize(step.uniform_offset);
      plan_->uniforms.insert(plan_->uniforms.end(), kernel.uniforms.begin(), kernel.uniforms.end());
    }
    for (size_t i = 0; i < places.size(); ++i) {
      const wgsl::Binding& binding = kernel.bindings[i];
      const Place& place = places[i];
      DeviceOperand operand;
      operand.writes = binding.writes;
      if (place.buffer != SIZE_MAX) {
        Lifetime& life = buffers_[place.buffer].life;
        life.first = std::min(life.first, at);
        life.last = std::max(life.last, at);
        operand.bytes = life.bytes;
        fixups_.push_back({at, i, place});
      } else if (is_constant(place.value)) {
        operand.kind = DeviceOperand::Kind::weight;
        operand.weight = weight_use(place.value, binding.packer, binding.packer_arg, true);
      } else {
        const PlannedValue& planned = plan_->values[place.value];
        operand.bytes = wgsl::device_bytes(planned.dtype, planned.shape.numel(), plan_->target.gpu);
        fixups_.push_back({at, i, place});
      }
      step.operands.push_back(operand);
    }
    step.kernel = std::move(kernel);
    plan_->steps.push_back(std::move(step));
  }

  void add_host_step(NodeId id, const std::vector<TensorInfo>& inputs, const std::vector<TensorInfo>& outputs,
                     std::string reason) {
    const Node& node = graph_.nodes[id];
    Step step;
    step.kind = Step::Kind::host;
    step.node = id;
    step.inputs = node.inputs;
    step.outputs = node.outputs;
    step.reason = std::move(reason);
    step.input_weights.assign(node.inputs.size(), kNone);
    for (const HostKernel* kernel : plan_->target.host_kernels) {
      const bool any_op = kernel->op.empty();
      if (!any_op && (kernel->op != node.op->name || kernel->domain != node.op->domain)) continue;
      if (!kernel->accepts(node, inputs, outputs)) continue;
      step.host_kernel = kernel;
      if (kernel->scratch_bytes) {
        step.scratch_bytes = kernel->scratch_bytes(node, inputs, outputs, plan_->target.threads);
      }
      break;
    }
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId input = node.inputs[i];
      if (input == kNone) continue;
      if (is_constant(input)) {
        int64_t arg = 0;
        const bool packs = step.host_kernel && step.host_kernel->packer;
        const Packer* packer = packs ? step.host_kernel->packer(node, inputs, i, &arg) : nullptr;
        step.input_weights[i] = weight_use(input, packer, arg, false);
      } else if (!on_host_[input]) {
        add_download(input);
      }
    }
    for (ValueId output : node.outputs) {
      if (output != kNone) on_host_[output] = true;
    }
    plan_->max_scratch_bytes = std::max(plan_->max_scratch_bytes, step.scratch_bytes);
    plan_->steps.push_back(std::move(step));
  }

  void mark_live() {
    for (const Step& step : plan_->steps) {
      for (const auto* ids : {&step.inputs, &step.outputs}) {
        for (ValueId id : *ids) {
          if (id != kNone) plan_->values[id].live = true;
        }
      }
      if (step.kind != Step::Kind::dispatch) continue;
      for (const auto* ids : {&graph_.nodes[step.node].inputs, &graph_.nodes[step.node].outputs}) {
        for (ValueId id : *ids) {
          if (id != kNone) plan_->values[id].live = true;
        }
      }
    }
    for (ValueId output : graph_.outputs) plan_->values[output].live = true;
  }

  // Host arena of a pure CPU plan: values between host steps. Graph inputs are used in place and graph outputs are
  // written into tensors of the caller; mixed plans allocate host values a step at a time.
  void lay_out_host() {
    if (plan_->target.backend == Backend::webgpu) return;
    std::vector<Lifetime> lives;
    std::vector<ValueId> owners;
    std::map<ValueId, size_t> index;
    for (size_t s = 0; s < plan_->steps.size(); ++s) {
      const Step& step = plan_->steps[s];
      for (ValueId output : step.outputs) {
        if (output == kNone || is_output(output)) continue;
        const PlannedValue& value = plan_->values[output];
        index[output] = lives.size();
        const uint32_t now = static_cast<uint32_t>(s);
        lives.push_back({static_cast<uint64_t>(value.shape.numel()) * size_of(value.dtype), now, now, 0});
        owners.push_back(output);
      }
      for (ValueId input : step.inputs) {
        if (const auto at = index.find(input); at != index.end()) lives[at->second].last = static_cast<uint32_t>(s);
      }
    }
    plan_->host_arena_bytes = layout(lives, kHostAlignment);
    for (size_t i = 0; i < lives.size(); ++i) plan_->values[owners[i]].host_offset = lives[i].offset;
  }

  bool is_output(ValueId id) const {
    return std::find(graph_.outputs.begin(), graph_.outputs.end(), id) != graph_.outputs.end();
  }

  void lay_out_device() {
    if (plan_->target.backend != Backend::webgpu) return;
    const uint32_t end = static_cast<uint32_t>(plan_->steps.size());
    std::map<ValueId, size_t> index;  // by alias root
    const auto touch = [&](ValueId id, uint32_t step) {
      if (id == kNone || is_constant(id) || !on_device_[id]) return;
      const ValueId root = alias_root(id);
      const auto [at, fresh] = index.try_emplace(root, buffers_.size());
      if (fresh) {
        const PlannedValue& value = plan_->values[root];
        buffers_.push_back(
            {{wgsl::device_bytes(value.dtype, value.shape.numel(), plan_->target.gpu), step, step, 0}, {}});
      }
      DeviceBuffer& buffer = buffers_[at->second];
      buffer.life.last = std::max(buffer.life.last, step);
      if (std::find(buffer.values.begin(), buffer.values.end(), id) == buffer.values.end()) buffer.values.push_back(id);
    };
    for (uint32_t s = 0; s < end; ++s) {
      const Step& step = plan_->steps[s];
      if (step.kind == Step::Kind::dispatch) {
        for (ValueId id : graph_.nodes[step.node].inputs) touch(id, s);
        for (ValueId id : graph_.nodes[step.node].outputs) touch(id, s);
      } else if (step.kind != Step::Kind::host) {
        // Uploads of graph inputs are written before anything runs.
        touch(step.inputs[0], s);
        const bool early = step.kind == Step::Kind::upload && graph_.values[step.inputs[0]].producer == kNone;
        if (early) buffers_[index[alias_root(step.inputs[0])]].life.first = 0;
      }
    }
    for (ValueId output : graph_.outputs) touch(output, end);
    for (const auto& [alias, root] : aliases_) {
      if (index.contains(root)) touch(alias, buffers_[index[root]].life.first);
    }
    std::vector<Lifetime> lives;
    for (const DeviceBuffer& buffer : buffers_) lives.push_back(buffer.life);
    plan_->device_arena_bytes = layout(lives, plan_->target.gpu.storage_alignment);
    for (size_t i = 0; i < buffers_.size(); ++i) {
      buffers_[i].life.offset = lives[i].offset;
      for (ValueId id : buffers_[i].values) plan_->values[id].device_offset = lives[i].offset;
    }
  }

  void resolve_operands() {
    for (const Fixup& fixup : fixups_) {
      const Place& place = fixup.place;
      plan_->steps[fixup.step].operands[fixup.operand].offset =
          place.buffer != SIZE_MAX ? buffers_[place.buffer].life.offset : plan_->values[place.value].device_offset;
    }
  }

  struct Fixup {
    size_t step, operand;
    Place place;
  };

  std::shared_ptr<Plan> plan_;
  const Graph& graph_;
  std::vector<bool> on_device_, on_host_;
  std::map<ValueId, ValueId> aliases_;
  std::vector<DeviceBuffer> buffers_;
  std::vector<Fixup> fixups_;
};

}  // namespace

std::string_view name_of(Backend backend) {
  switch (backend) {
    case Backend::reference:
      return "reference";
    case Backend::cpu:
      return "cpu";
    case Backend::webgpu:
      return "webgpu";
  }
  return "";
}

size_t Plan::dispatches() const {
  return std::count_if(steps.begin(), steps.end(), [](const Step& step) { return step.kind == Step::Kind::dispatch; });
}

size_t Plan::pipelines() const {
  std::map<std::string_view, uint32_t> texts;
  for (const Step& step : steps) {
    if (step.kind == Step::Kind::dispatch) texts.try_emplace(step.kernel.text, 0);
  }
  return texts.size();
}

Result<std::vector<ValueId>> needed_values(const Graph& graph, const Bindings& bindings) {
  std::vector<Refusal> refusals;
  return SINTER_TRY(bind(graph, bindings, refusals)).needed;
}

Result<std::shared_ptr<const Plan>> build(std::shared_ptr<const Graph> graph, const Target& target,
                                          const Bindings& bindings, std::vector<Refusal>* refusals) {
  return Builder(std::move(graph), target, bindings).run(refusals);
}

Result<Tensor> evaluate_weight(const Graph& graph, ValueId value) {
  const Value& target = graph.values[value];
  if (target.constant) return target.constant.aligned();
  if (target.producer == kNone) return fail(Code::Internal, StrCat("value '", target.name, "' is not a weight"));
  const Node& node = graph.nodes[target.producer];
  std::vector<Tensor> tensors(node.inputs.size());
  std::vector<const Tensor*> pointers(node.inputs.size());
  std::vector<TensorInfo> infos(node.inputs.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    infos[i].present = node.inputs[i] != kNone;
    if (!infos[i].present) continue;
    tensors[i] = SINTER_TRY(evaluate_weight(graph, node.inputs[i]));
    pointers[i] = &tensors[i];
    infos[i] = {tensors[i].dtype(), tensors[i].shape(), &tensors[i], true, true};
  }
  const std::vector<TensorInfo> outputs = SINTER_TRY(infer_node(node, infos, true));
  std::vector<Tensor> results = SINTER_TRY(run_reference(node, pointers, outputs));
  for (size_t i = 0; i < results.size(); ++i) {
    if (node.outputs[i] == value) return std::move(results[i]);
  }
  return fail(Code::Internal, StrCat("value '", target.name, "' is not an output of its producer"));
}

}  // namespace sinter::plan
