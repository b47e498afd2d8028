// SPDX-License-Identifier: Apache-2.0
#include "engine/runtime/self_check.h"

#include <cmath>

#include "engine/base/str.h"
#include "engine/cpu/exec.h"
#include "engine/cpu/pool.h"
#include "engine/gpu/exec.h"
#include "engine/gpu/prepare.h"
#include "engine/ops/infer.h"
#include "engine/passes/passes.h"
#include "engine/runtime/weights.h"

namespace sinter {
namespace {

// Odd extents: what a driver gets wrong is often the last, incomplete group of threads.
constexpr Shape kInput = {1, 5, 9, 7};

Result<Tensor> noise(const Shape& shape) {
  Tensor tensor = SINTER_TRY(Tensor::alloc(DType::f32, shape));
  uint32_t state = 1;
  for (float& value : tensor.mutable_data<float>()) {
    state = state * 1664525u + 1013904223u;
    value = static_cast<float>(state >> 8) / (1 << 23) - 1;
  }
  return tensor;
}

ValueId constant(Graph& graph, std::string_view name, Tensor tensor) {
  const ValueId id = graph.add_value(std::string(name), tensor.dtype(), tensor.shape());
  graph.values[id].constant = std::move(tensor);
  return id;
}

// Appends a node of the operator to the graph; gives its output.
ValueId apply(Graph& graph, std::string_view op, std::vector<ValueId> inputs, Attrs attrs = {}) {
  Node node;
  node.name = op;
  node.op = find_op("", op);
  node.attrs = std::move(attrs);
  node.inputs = std::move(inputs);
  const ValueId output = graph.add_value(StrCat(op, ".y"), DType::f32, std::nullopt);
  graph.values[output].producer = static_cast<NodeId>(graph.nodes.size());
  node.outputs = {output};
  node.origins = {node.name};
  graph.nodes.push_back(std::move(node));
  return output;
}

Result<Graph> make_model() {
  Graph graph;
  graph.inputs = {graph.add_value("x", DType::f32, kInput)};
  Attrs window;
  window.set("strides", std::vector<int64_t>{2, 2});
  window.set("pads", std::vector<int64_t>{1, 1, 1, 1});
  const ValueId weight = constant(graph, "w", SINTER_TRY(noise({13, 5, 3, 3})));
  const ValueId conv = apply(graph, "Conv", {graph.inputs[0], weight}, std::move(window));
  const ValueId low = constant(graph, "low", SINTER_TRY(Tensor::scalar_f32(-2)));
  const ValueId high = constant(graph, "high", SINTER_TRY(Tensor::scalar_f32(3)));
  const ValueId clip = apply(graph, "Clip", {conv, low, high});
  const ValueId axes = constant(graph, "axes", SINTER_TRY(Tensor::of_i64(std::array<int64_t, 2>{2, 3})));
  Attrs flat;
  flat.set("keepdims", int64_t{0});
  const ValueId mean = apply(graph, "ReduceMean", {clip, axes}, std::move(flat));
  Attrs transposed;
  transposed.set("transB", int64_t{1});
  const ValueId matrix = constant(graph, "b", SINTER_TRY(noise({10, 13})));
  const ValueId bias = constant(graph, "c", SINTER_TRY(noise({10})));
  graph.outputs = {clip, apply(graph, "Gemm", {mean, matrix, bias}, std::move(transposed))};
  SINTER_CHECK_OK(infer_shapes(graph));
  return graph;
}

Result<std::vector<Tensor>> right_values(std::shared_ptr<const Graph> graph, const Tensor& input) {
  plan::Target target;
  target.backend = plan::Backend::reference;
  const auto plan = SINTER_TRY(plan::build(graph, target, {{kInput}, {}}));
  Weights weights(graph);
  cpu::SerialPool pool;
  const auto prepared = SINTER_TRY(cpu::Prepared::make(plan, weights, pool));
  cpu::CpuRun run = SINTER_TRY(cpu::CpuRun::start(*prepared, {&input, 1}));
  if (cpu::run_some(run, cpu::Budget::infinite()) == cpu::StepStatus::failed) return std::unexpected(run.error());
  return run.take_outputs();
}

}  // namespace

Task<> self_check(std::shared_ptr<gpu::PipelineCache> pipelines) {
  Graph model = SINTER_CO_TRY(make_model());
  const Tensor input = SINTER_CO_TRY(noise(kInput));
  const auto expected = SINTER_CO_TRY(right_values(std::make_shared<Graph>(model), input));
  SINTER_CO_CHECK_OK(passes::run(model, {}));  // the kernels that models get
  const auto graph = std::make_shared<const Graph>(std::move(model));
  plan::Target target;
  target.backend = plan::Backend::webgpu;
  target.gpu = pipelines->device()->target();
  const auto plan = SINTER_CO_TRY(plan::build(graph, target, {{kInput}, {}}));
  Weights weights(graph);
  const auto prepared = SINTER_CO_TRY(co_await gpu::prepare(
      pipelines, std::make_shared<gpu::DeviceWeights>(pipelines->device()), plan, weights, {}, nullptr));
  const auto actual = SINTER_CO_TRY(co_await gpu::run(prepared, {input}, nullptr, {}, nullptr));
  for (size_t i = 0; i < expected.size(); ++i) {
    for (size_t k = 0; k < expected[i].numel(); ++k) {
      const double is = get_f64(actual[i], k), should = get_f64(expected[i], k);
      if (std::abs(is - should) <= 1e-4 + 1e-3 * std::abs(should)) continue;
      co_return fail(Code::Gpu,
                     StrCat("the device computes wrong values: element ", k, " of a small ", i ? "Gemm" : "Conv",
                            " is ", is, " instead of ", should),
                     "update the graphics driver or the browser; the CPU backend computes right values");
    }
  }
  co_return Result<>{};
}

}  // namespace sinter
