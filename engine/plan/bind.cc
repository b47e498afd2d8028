// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/bind.h"

#include <algorithm>

#include "engine/base/str.h"
#include "engine/ops/infer.h"

namespace sinter::plan {
namespace {

// Results up to this size are folded at plan time; larger ones stay steps or weights.
constexpr size_t kMaxFoldedBytes = kMaxInferredConstantBytes;

class Binder {
 public:
  Binder(const Graph& graph, const Bindings& bindings, std::vector<Refusal>& refusals)
      : graph_(graph), bindings_(bindings), refusals_(refusals) {
    bound_.values.resize(graph.values.size());
    broken_.resize(graph.values.size());
  }

  Result<Bound> run() {
    SINTER_CHECK_OK(bind_sources());
    const std::vector<NodeId> order = SINTER_TRY(topological_order(graph_));
    const std::vector<bool> wanted = reachable(order);
    for (NodeId id : order) {
      if (wanted[id]) SINTER_CHECK_OK(bind_node(id));
    }
    return std::move(bound_);
  }

 private:
  // Nodes that a graph output depends on; others never run.
  std::vector<bool> reachable(const std::vector<NodeId>& order) const {
    std::vector<bool> value_wanted(graph_.values.size()), wanted(graph_.nodes.size());
    for (ValueId output : graph_.outputs) value_wanted[output] = true;
    for (size_t i = order.size(); i-- > 0;) {
      const Node& node = graph_.nodes[order[i]];
      for (ValueId output : node.outputs) {
        if (output != kNone && value_wanted[output]) wanted[order[i]] = true;
      }
      if (!wanted[order[i]]) continue;
      for (ValueId input : node.inputs) {
        if (input != kNone) value_wanted[input] = true;
      }
    }
    return wanted;
  }

  Result<> bind_sources() {
    for (size_t id = 0; id < graph_.values.size(); ++id) {
      const Value& value = graph_.values[id];
      PlannedValue& planned = bound_.values[id];
      planned.dtype = value.dtype;
      if (!value.constant) continue;
      planned.shape = value.constant.shape();
      planned.weight = true;
      if (value.constant.nbytes() <= kMaxInferredConstantBytes) planned.constant = SINTER_TRY(value.constant.aligned());
    }
    for (size_t i = 0; i < graph_.inputs.size(); ++i) {
      PlannedValue& planned = bound_.values[graph_.inputs[i]];
      planned.live = true;
      planned.shape = bindings_.inputs.at(i);
      if (!addressable(planned.shape)) {
        return fail(Code::OutOfMemory, StrCat("input '", graph_.values[graph_.inputs[i]].name, "': ",
                                              to_string(planned.shape), " elements are more than any memory holds"));
      }
    }
    for (const auto& [id, tensor] : bindings_.values) bound_.values[id].constant = tensor;
    return {};
  }

  void refuse(const Node& node, const Error& error) {
    refusals_.push_back({node.name, std::string(node.op->name), error.message, error.hint});
    mark_broken(node);
  }
  void mark_broken(const Node& node) {
    for (ValueId output : node.outputs) {
      if (output != kNone) broken_[output] = true;
    }
  }

  // Adds the graph inputs that a missing shape operand is computed from: they must be given by value. False where one of
  // them is too large for that.
  bool collect_needed(ValueId value, std::vector<ValueId>& needed) const {
    const NodeId producer = graph_.values[value].producer;
    if (producer == kNone) {
      const bool is_input = std::find(graph_.inputs.begin(), graph_.inputs.end(), value) != graph_.inputs.end();
      if (!is_input) return true;  // an initialiser
      const PlannedValue& planned = bound_.values[value];
      if (planned.constant) return true;
      if (size_of(planned.dtype) * planned.shape.numel() > kMaxInferredConstantBytes) return false;
      needed.push_back(value);
      return true;
    }
    for (ValueId input : graph_.nodes[producer].inputs) {
      if (input != kNone && !bound_.values[input].constant && !collect_needed(input, needed)) return false;
    }
    return true;
  }

  // True where a shape operand of the node waits for the contents of graph inputs, which are then in `needed`.
  bool waits_for_contents(const Node& node, const std::vector<TensorInfo>& inputs) {
    std::vector<ValueId> needed;
    for (size_t i = 0; i < inputs.size() && i < 32; ++i) {
      if (!(node.op->shape_operands >> i & 1) || !inputs[i].present || inputs[i].constant) continue;
      if (!collect_needed(node.inputs[i], needed)) return false;
    }
    for (ValueId value : needed) {
      const bool listed = std::find(bound_.needed.begin(), bound_.needed.end(), value) != bound_.needed.end();
      if (!listed) bound_.needed.push_back(value);
    }
    return !needed.empty();
  }

  Result<> bind_node(NodeId id) {
    const Node& node = graph_.nodes[id];
    for (ValueId input : node.inputs) {
      if (input != kNone && broken_[input]) {
        mark_broken(node);
        return {};
      }
    }
    const std::vector<TensorInfo> inputs = operand_infos(bound_.values, node.inputs);
    if (waits_for_contents(node, inputs)) {
      mark_broken(node);  // planned again once the caller has given the contents
      return {};
    }
    auto outputs = infer_node(node, inputs, true);
    if (!outputs) {
      if (outputs.error().code == Code::Unsupported) {
        refuse(node, outputs.error());
        return {};
      }
      return std::unexpected(std::move(outputs).error());
    }
    return place(id, inputs, *outputs);
  }

  // Folds the node, sets it apart as a weight, or leaves it to run.
  Result<> place(NodeId id, const std::vector<TensorInfo>& inputs, const std::vector<TensorInfo>& outputs) {
    const Node& node = graph_.nodes[id];
    bool known = true, weight = true;
    size_t bytes = 0;
    for (const TensorInfo& input : inputs) {
      if (!input.present) continue;
      known &= input.constant != nullptr;
      weight &= input.weight;
    }
    for (const TensorInfo& output : outputs) {
      if (output.dtype != DType::undefined) bytes += output.shape->numel() * size_of(output.dtype);
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (node.outputs[i] == kNone) continue;
      PlannedValue& planned = bound_.values[node.outputs[i]];
      planned.dtype = outputs[i].dtype;
      planned.shape = *outputs[i].shape;
      planned.weight = weight && !inputs.empty();
    }
    if ((known || node.op->shape_only) && bytes <= kMaxFoldedBytes) return fold(node, inputs, outputs);
    if (!weight || inputs.empty()) bound_.order.push_back(id);
    return {};
  }

  Result<> fold(const Node& node, const std::vector<TensorInfo>& inputs, const std::vector<TensorInfo>& outputs) {
    std::vector<Tensor> stand_ins(inputs.size());
    std::vector<const Tensor*> tensors(inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i].present) continue;
      tensors[i] = inputs[i].constant;
      if (tensors[i]) continue;
      stand_ins[i] = Tensor::view(inputs[i].dtype, *inputs[i].shape, {}, nullptr);  // shape_only: never read
      tensors[i] = &stand_ins[i];
    }
    std::vector<Tensor> results = SINTER_TRY(run_reference(node, tensors, outputs));
    for (size_t i = 0; i < results.size(); ++i) {
      if (node.outputs[i] != kNone) bound_.values[node.outputs[i]].constant = std::move(results[i]);
    }
    return {};
  }

  const Graph& graph_;
  const Bindings& bindings_;
  std::vector<Refusal>& refusals_;
  Bound bound_;
  std::vector<bool> broken_;
};

}  // namespace

std::vector<TensorInfo> operand_infos(const std::vector<PlannedValue>& values, const std::vector<ValueId>& ids) {
  std::vector<TensorInfo> infos(ids.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    infos[i].present = ids[i] != kNone;
    if (!infos[i].present) continue;
    const PlannedValue& value = values[ids[i]];
    infos[i].dtype = value.dtype;
    infos[i].shape = value.shape;
    infos[i].constant = value.constant ? &value.constant : nullptr;
    infos[i].weight = value.weight;
  }
  return infos;
}

Result<Bound> bind(const Graph& graph, const Bindings& bindings, std::vector<Refusal>& refusals) {
  return Binder(graph, bindings, refusals).run();
}

}  // namespace sinter::plan
