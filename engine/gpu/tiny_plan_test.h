// SPDX-License-Identifier: Apache-2.0
// Plans made by hand for the tests of prepare and run: y = x * w + 0.5, on the device alone or with a host step between.
#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "engine/gpu/exec.h"
#include "engine/gpu/fake_device.h"

namespace sinter::gpu::testing {

constexpr int64_t kElements = 100;
constexpr uint64_t kPlace = 512;  // arena bytes per value
constexpr float kAdd = 0.5f;

constexpr std::string_view kMulText = R"(
@group(0) @binding(0) var<storage, read_write> x: array<f32>;
@group(0) @binding(1) var<storage, read> w: array<f32>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) gid: vec3<u32>) {
  if (gid.x < 100u) { y[gid.x] = x[gid.x] * w[gid.x]; }
}
)";

constexpr std::string_view kAddText = R"(
@group(0) @binding(0) var<storage, read_write> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
struct P { add: f32 }
@group(0) @binding(2) var<uniform> p: P;
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) gid: vec3<u32>) {
  if (gid.x < 100u) { y[gid.x] = x[gid.x] + p.add; }
}
)";

/// Values x, w, t, (u), y; t = x * w; y = t + 0.5. With `host_step`, u = 2 * t is made on the host and y = u + 0.5.
struct TinyPlan {
  static constexpr ValueId kX = 0, kW = 1, kT = 2, kU = 3, kY = 4;

  explicit TinyPlan(bool host_step = false, DType dtype = DType::f32) {
    auto graph = std::make_shared<Graph>();
    const Shape shape{kElements};
    for (const char* name : {"x", "w", "t", "u", "y"}) graph->add_value(name, dtype, shape);
    graph->inputs = {kX};
    graph->outputs = {kY};
    for (const char* name : {"mul node", "host node", "add node"}) {
      Node node;
      node.name = name;
      graph->nodes.push_back(std::move(node));
    }
    plan->graph = graph;
    plan->values.resize(5);
    uint64_t offset = 0;
    for (plan::PlannedValue& value : plan->values) {
      value.dtype = dtype;
      value.shape = shape;
    }
    for (ValueId id : {kX, kT, kU, kY}) plan->values[id].device_offset = std::exchange(offset, offset + kPlace);
    plan->values[kW].weight = true;
    plan->device_arena_bytes = offset;
    plan->weights.push_back({kW, nullptr, 0, true, {}});
    plan->uniforms.resize(16);
    std::memcpy(plan->uniforms.data(), &kAdd, sizeof(kAdd));

    plan->steps.push_back(dispatch(0, "mul", kMulText, {at(kX), weight(), at(kT, true)}));
    if (host_step) {
      plan->steps.push_back(move(plan::Step::Kind::download, kT));
      plan::Step host;
      host.kind = plan::Step::Kind::host;
      host.node = 1;
      host.inputs = {kT};
      host.outputs = {kU};
      plan->steps.push_back(host);
      plan->steps.push_back(move(plan::Step::Kind::upload, kU));
    }
    plan::Step add = dispatch(2, "add", kAddText, {at(host_step ? kU : kT), at(kY, true)});
    add.kernel.uniforms.assign(plan->uniforms.begin(), plan->uniforms.begin() + 4);
    plan->steps.push_back(std::move(add));
  }

  static plan::DeviceOperand at(ValueId value, bool writes = false) {
    const uint64_t index = value == kX ? 0 : value - 1;
    return {plan::DeviceOperand::Kind::arena, 0, index * kPlace, kElements * 4, writes};
  }
  static plan::DeviceOperand weight() { return {plan::DeviceOperand::Kind::weight, 0, 0, kElements * 4, false}; }

  static plan::Step dispatch(NodeId node, std::string_view name, std::string_view text,
                             std::vector<plan::DeviceOperand> operands) {
    plan::Step step;
    step.kind = plan::Step::Kind::dispatch;
    step.node = node;
    step.kernel.name = name;
    step.kernel.text = text;
    step.kernel.groups = {2, 1, 1};
    for (const plan::DeviceOperand& operand : operands) {
      wgsl::Binding binding;
      binding.writes = operand.kind == plan::DeviceOperand::Kind::arena;
      step.kernel.bindings.push_back(binding);
    }
    step.operands = std::move(operands);
    return step;
  }

  static plan::Step move(plan::Step::Kind kind, ValueId value) {
    plan::Step step;
    step.kind = kind;
    step.inputs = {value};
    return step;
  }

  std::shared_ptr<plan::Plan> plan = std::make_shared<plan::Plan>();
};

inline float input_at(size_t i) { return static_cast<float>(i) - 20.0f; }
inline float weight_at(size_t i) { return 1.0f + static_cast<float>(i % 7); }
inline float expected_at(size_t i, bool host_step = false) {
  return (host_step ? 2.0f : 1.0f) * input_at(i) * weight_at(i) + kAdd;
}

inline Tensor tensor_of(float (*at)(size_t)) {
  Tensor tensor = *Tensor::alloc(DType::f32, Shape{kElements});
  for (size_t i = 0; i < kElements; ++i) tensor.mutable_data<float>()[i] = at(i);
  return tensor;
}

inline bool is_expected(const std::vector<Tensor>& outputs, bool host_step = false) {
  if (outputs.size() != 1 || outputs[0].numel() != kElements) return false;
  for (size_t i = 0; i < kElements; ++i) {
    if (outputs[0].data<float>()[i] != expected_at(i, host_step)) return false;
  }
  return true;
}

struct TinyWeights final : plan::WeightSource {
  Result<Tensor> load(const plan::WeightUse&, const wgsl::Target&) override {
    ++loads;
    if (fail_with) return std::unexpected(*fail_with);
    return tensor_of(weight_at);
  }
  int loads = 0;
  std::optional<Error> fail_with;
};

struct TinyHost final : HostSteps {
  Task<> run_host_step(const plan::Plan&, size_t, std::vector<Tensor>& values) override {
    ++runs;
    Tensor out = SINTER_CO_TRY(Tensor::alloc(DType::f32, Shape{kElements}));
    for (size_t i = 0; i < kElements; ++i) {
      out.mutable_data<float>()[i] = 2 * values[TinyPlan::kT].data<float>()[i];
    }
    values[TinyPlan::kU] = out;
    co_return Result<>();
  }
  int runs = 0;
};

/// What the two kernels do, for the scripted device.
inline void emulate(std::string_view kernel, std::span<const std::span<std::byte>> bindings, const Command&) {
  auto floats = [&](size_t i) { return reinterpret_cast<float*>(bindings[i].data()); };
  for (size_t i = 0; i < kElements; ++i) {
    if (kernel.starts_with("mul")) floats(2)[i] = floats(0)[i] * floats(1)[i];
    if (kernel.starts_with("add")) floats(1)[i] = floats(0)[i] + floats(2)[0];
  }
}

}  // namespace sinter::gpu::testing
