// SPDX-License-Identifier: Apache-2.0
#include "engine/ops/annotate.h"

#include "engine/ops/infer.h"

namespace sinter {
namespace {

constexpr size_t kMaxFoldedElements = 1024;  // shape arithmetic is smaller; weights are not folded here

}  // namespace

const Tensor* Annotator::known(ValueId id) {
  if (known_.size() < graph_.values.size()) known_.resize(graph_.values.size());
  const Tensor& constant = graph_.values[id].constant;
  if (!known_[id] && constant && constant.nbytes() <= kMaxInferredConstantBytes) {
    if (auto aligned = constant.aligned()) known_[id] = std::move(*aligned);
  }
  return known_[id] ? &known_[id] : nullptr;
}

Result<> Annotator::infer(NodeId id) {
  const Node& node = graph_.nodes[id];
  std::vector<TensorInfo> inputs(node.inputs.size());
  for (const ValueId input : node.inputs) {
    if (input != kNone) known(input);  // all of them first: pointers into known_ must stay
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    inputs[i].present = node.inputs[i] != kNone;
    if (!inputs[i].present) continue;
    const Value& value = graph_.values[node.inputs[i]];
    inputs[i].dtype = value.dtype;
    inputs[i].shape = value.shape;
    inputs[i].constant = known(node.inputs[i]);
    if (node.inputs[i] < dims_.size() && dims_[node.inputs[i]]) inputs[i].dims = &*dims_[node.inputs[i]];
  }
  const std::vector<TensorInfo> outputs = SINTER_TRY(infer_node(node, inputs, false));
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (node.outputs[i] == kNone) continue;
    Value& value = graph_.values[node.outputs[i]];
    value.dtype = outputs[i].dtype;
    value.shape = outputs[i].shape;
  }
  if (node.op->dims && node.outputs[0] != kNone && is_integer(outputs[0].dtype)) {
    auto dims = node.op->dims(node, inputs);
    dims_.resize(graph_.values.size());
    dims_[node.outputs[0]] = std::move(dims);
  }
  fold(node, inputs, outputs);
  return {};
}

void Annotator::fold(const Node& node, std::span<const TensorInfo> inputs, std::span<const TensorInfo> outputs) {
  if (inputs.empty() || !node.op->reference) return;
  const auto small = [](const std::optional<Shape>& shape) {
    if (!shape || !shape->is_static()) return false;
    const auto numel = checked_numel(*shape);
    return numel && static_cast<uint64_t>(*numel) <= kMaxFoldedElements;
  };
  std::vector<Tensor> shapes(inputs.size());
  std::vector<const Tensor*> values(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].present) continue;
    values[i] = inputs[i].constant;
    if (node.op->shape_only && inputs[i].shape && inputs[i].shape->is_static()) {
      shapes[i] = Tensor::view(inputs[i].dtype, *inputs[i].shape, {}, nullptr);
      values[i] = &shapes[i];
    } else if (!values[i] || !small(inputs[i].shape)) {
      return;
    }
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (node.outputs[i] != kNone && !small(outputs[i].shape)) return;
  }
  auto results = run_reference(node, values, outputs);
  if (!results) return;  // the run will say the same, with the values that matter
  if (known_.size() < graph_.values.size()) known_.resize(graph_.values.size());
  for (size_t i = 0; i < results->size(); ++i) {
    if (node.outputs[i] != kNone) known_[node.outputs[i]] = std::move((*results)[i]);
  }
}

}  // namespace sinter
