// SPDX-License-Identifier: Apache-2.0
// Images as [N, H, W, C]: the channels of one pixel lie together, which is what vectorised kernels read. Every
// convertible node is rewritten to work on that layout; each converted value keeps a transposed twin under its old name
// for readers that were not converted, and twins that nobody reads are dead.
#include <array>

#include "engine/passes/util.h"

namespace sinter::passes {
namespace {

constexpr std::array<int64_t, 4> kToLast = {0, 2, 3, 1};
constexpr std::array<int64_t, 4> kToFirst = {0, 3, 1, 2};

bool is_image(const Graph& graph, ValueId value) {
  const Value& v = graph.values[value];
  return v.shape && v.shape->rank() == 4 && (v.dtype == DType::f32 || v.dtype == DType::f16);
}

Shape permuted(const Shape& shape, const std::array<int64_t, 4>& perm) {
  return {shape[perm[0]], shape[perm[1]], shape[perm[2]], shape[perm[3]]};
}

class Layout {
 public:
  explicit Layout(Rewriter& rewriter) : rewriter_(rewriter), graph_(rewriter.graph()) {}

  Result<> run() {
    for (NodeId id : SINTER_TRY(topological_order(graph_))) {
      if (!rewriter_.open()) return {};
      SINTER_CHECK_OK(visit(id));
    }
    return {};
  }

 private:
  Result<> visit(NodeId id) {
    const Node& node = graph_.nodes[id];
    if (node.outputs.empty() || node.outputs[0] == kNone || !is_image(graph_, node.outputs[0])) return {};
    for (size_t i = 1; i < node.outputs.size(); ++i) {
      if (node.outputs[i] != kNone) return {};
    }
    switch (node.op->op_class) {
      case OpClass::spatial:
        return convert_spatial(id);
      case OpClass::elementwise:
        return convert_elementwise(id);
      default:
        return is_op(node, "Concat") ? convert_concat(id) : Result<>{};
    }
  }

  Result<> convert_spatial(NodeId id) {
    if (!is_image(graph_, graph_.nodes[id].inputs[0]) || graph_.nodes[id].attrs.i("nhwc", 0)) return {};
    Patch patch(graph_);
    Node by = graph_.nodes[id];
    by.inputs[0] = SINTER_TRY(channels_last(patch, by.inputs[0]));
    by.attrs.set("nhwc", int64_t{1});
    return finish(patch, id, std::move(by));
  }

  // Converted where an operand is an image already converted; constants per channel are reshaped.
  Result<> convert_elementwise(NodeId id) {
    bool any = false;
    for (ValueId input : graph_.nodes[id].inputs) {
      if (input == kNone) continue;
      if (last_of(input) != kNone) {
        any = true;
      } else if (!is_per_channel(input) && !(is_image(graph_, input) && !graph_.values[input].constant)) {
        return {};
      }
    }
    if (!any) return {};
    Patch patch(graph_);
    Node by = graph_.nodes[id];
    for (ValueId& input : by.inputs) {
      if (input == kNone) continue;
      input = graph_.values[input].constant ? SINTER_TRY(per_channel_last(patch, input))
                                            : SINTER_TRY(channels_last(patch, input));
    }
    return finish(patch, id, std::move(by));
  }

  Result<> convert_concat(NodeId id) {
    const int64_t axis = graph_.nodes[id].attrs.i("axis", 0);
    bool any = false;
    for (ValueId input : graph_.nodes[id].inputs) {
      if (!is_image(graph_, input) || graph_.values[input].constant) return {};
      any |= last_of(input) != kNone;
    }
    const auto folded = fold_axis(axis, 4);
    if (!any || !folded) return {};
    Patch patch(graph_);
    Node by = graph_.nodes[id];
    for (ValueId& input : by.inputs) input = SINTER_TRY(channels_last(patch, input));
    constexpr int64_t kAxisToLast[] = {0, 3, 1, 2};
    by.attrs.set("axis", kAxisToLast[*folded]);
    return finish(patch, id, std::move(by));
  }

  ValueId last_of(ValueId value) const { return value < last_.size() ? last_[value] : kNone; }
  void set_last(ValueId value, ValueId last) {
    if (last_.size() < graph_.values.size()) last_.resize(graph_.values.size(), kNone);
    last_[value] = last;
  }

  // The channels-last twin of an image, transposed here where no converted node made it.
  Result<ValueId> channels_last(Patch& patch, ValueId value) {
    if (last_of(value) != kNone) return last_of(value);
    const Shape shape = permuted(*graph_.values[value].shape, kToLast);
    const ValueId twin = patch.value(graph_.values[value].name + "_nhwc", graph_.values[value].dtype, shape);
    SINTER_CHECK_OK(add_transpose(patch, value, twin, kToLast));
    set_last(value, twin);
    return twin;
  }

  bool is_per_channel(ValueId value) const {
    const Tensor& constant = graph_.values[value].constant;
    if (!constant || constant.shape().rank() > 4) return false;
    const Shape& shape = constant.shape();
    for (size_t i = 0; i < shape.rank(); ++i) {
      const bool is_channel = i + 3 == shape.rank();
      if (!is_channel && shape[i] != 1) return false;
    }
    return true;
  }

  Result<ValueId> per_channel_last(Patch& patch, ValueId value) {
    const Tensor constant = graph_.values[value].constant;
    if (constant.numel() == 1) return value;
    const std::string name = graph_.values[value].name + "_last";
    return patch.constant(name, constant.reshaped({static_cast<int64_t>(constant.numel())}));
  }

  Result<> finish(Patch& patch, NodeId id, Node by) {
    const ValueId old = by.outputs[0];
    const Shape shape = permuted(*graph_.values[old].shape, kToLast);
    const ValueId twin = patch.value(graph_.values[old].name + "_nhwc", graph_.values[old].dtype, shape);
    graph_.values[twin].stands_for = graph_.values[old].name;
    by.outputs[0] = twin;
    patch.replace(id, std::move(by));
    SINTER_CHECK_OK(add_transpose(patch, twin, old, kToFirst));
    rewriter_.apply(patch);
    set_last(old, twin);
    return {};
  }

  // A transpose that moves only dimensions of extent 1 is a reshape: no bytes move.
  Result<> add_transpose(Patch& patch, ValueId from, ValueId to, const std::array<int64_t, 4>& perm) {
    const Shape& target = *graph_.values[to].shape;
    const size_t h = perm == kToLast ? 1 : 2;
    Node node;
    node.name = graph_.values[to].name;
    node.outputs = {to};
    if (target[h] == 1 && target[h + 1] == 1) {
      node.op = find_op("", "Reshape");
      std::array<int64_t, 4> dims{};
      for (size_t i = 0; i < 4; ++i) dims[i] = is_known(target[i]) ? target[i] : (i == 0 ? 0 : -1);
      node.inputs = {from, patch.constant(node.name + "_shape", SINTER_TRY(Tensor::of_i64(dims)))};
    } else {
      node.op = find_op("", "Transpose");
      node.attrs.set("perm", std::vector<int64_t>(perm.begin(), perm.end()));
      node.inputs = {from};
    }
    patch.add(std::move(node));
    return {};
  }

  Rewriter& rewriter_;
  Graph& graph_;
  std::vector<ValueId> last_;
};

}  // namespace

Result<> to_channels_last(Rewriter& rewriter) { return Layout(rewriter).run(); }

}  // namespace sinter::passes
