// SPDX-License-Identifier: Apache-2.0
#include "engine/diag/cost.h"

#include <algorithm>

#include "engine/ops/op_def.h"

namespace sinter::diag {
namespace {

class Costs {
 public:
  explicit Costs(const plan::Plan& plan) : plan_(plan) {}

  std::vector<StepCost> all() const {
    std::vector<StepCost> costs(plan_.steps.size());
    for (size_t i = 0; i < costs.size(); ++i) {
      costs[i].bytes = bytes_of(plan_.steps[i]);
      if (plan_.steps[i].node == kNone) continue;
      const Node& node = plan_.graph->nodes[plan_.steps[i].node];
      if (main_step(i)) costs[i].flops = own_flops(node) + epilogue_flops(node);
    }
    return costs;
  }

 private:
  static double threads(const plan::Step& step) {
    double all = 1;
    for (size_t axis = 0; axis < 3; ++axis) all *= double{1} * step.kernel.groups[axis] * step.kernel.group_size[axis];
    return all;
  }

  bool main_step(size_t index) const {
    const plan::Step& step = plan_.steps[index];
    if (step.kind == plan::Step::Kind::host) return true;
    if (step.kind != plan::Step::Kind::dispatch) return false;
    const auto more = [&](size_t other) {
      const plan::Step& rival = plan_.steps[other];
      if (rival.node != step.node || rival.kind != plan::Step::Kind::dispatch) return false;
      return threads(rival) > threads(step) || (threads(rival) == threads(step) && other < index);
    };
    for (size_t i = 0; i < plan_.steps.size(); ++i) {
      if (more(i)) return false;
    }
    return true;
  }

  bool has(const std::vector<ValueId>& values, size_t i) const { return i < values.size() && values[i] != kNone; }
  double numel(const std::vector<ValueId>& values, size_t i) const {
    return has(values, i) ? static_cast<double>(plan_.values[values[i]].shape.numel()) : 0;
  }
  const Shape& shape(ValueId value) const { return plan_.values[value].shape; }

  double bytes_of(const plan::Step& step) const {
    double bytes = 0;
    for (const plan::DeviceOperand& operand : step.operands) bytes += static_cast<double>(operand.bytes);
    if (step.kind == plan::Step::Kind::dispatch) return bytes;
    for (const auto* values : {&step.inputs, &step.outputs}) {
      for (size_t i = 0; i < values->size(); ++i) {
        if (has(*values, i))
          bytes += numel(*values, i) * static_cast<double>(size_of(plan_.values[(*values)[i]].dtype));
      }
    }
    return bytes;
  }

  static double operations(const Expr& expr) {
    return static_cast<double>(std::ranges::count_if(expr.nodes(), [](const ExprNode& node) {
      return node.op != ScalarOp::input && node.op != ScalarOp::constant;
    }));
  }

  double epilogue_flops(const Node& node) const {
    return node.op->op_class == OpClass::elementwise ? 0 : operations(node.expr) * numel(node.outputs, 0);
  }

  // Per output element: the products of one filter, which a weight [filters, ...] holds one after the other.
  double per_filter(const Node& node, size_t weight) const {
    const Shape& w = shape(node.inputs[weight]);
    return 2 * numel(node.inputs, weight) / static_cast<double>(std::max<int64_t>(1, w[0]));
  }

  double product_flops(const Node& node, bool transposed) const {
    const Shape& a = shape(node.inputs[0]);
    const size_t axis = transposed ? 0 : a.rank() - 1;
    return 2 * numel(node.outputs, 0) * (a.rank() ? static_cast<double>(a[axis]) : 1);
  }

  double own_flops(const Node& node) const {
    const std::string_view name = node.op->name;
    const double out = numel(node.outputs, 0), in = numel(node.inputs, 0);
    if (name == "Conv" || name == "ConvInteger") return out * per_filter(node, 1);
    if (name == "QLinearConv") return out * per_filter(node, 3);
    if (name == "ConvTranspose") return in * per_filter(node, 1);
    if (name == "Gemm") return product_flops(node, node.attrs.i("transA", 0) != 0);
    if (name == "MatMul" || name == "MatMulInteger" || name == "QLinearMatMul") return product_flops(node, false);
    if (name == "MaxPool" || name == "AveragePool" || name == "LpPool") {
      double taps = 1;
      for (const int64_t extent : node.attrs.ints("kernel_shape")) taps *= static_cast<double>(extent);
      return out * taps;
    }
    if (node.op->op_class == OpClass::movement || node.op->shape_only || node.op->alias) return 0;
    if (node.op->op_class == OpClass::elementwise) {
      const Result<Expr> expr = node.op->scalar ? node.op->scalar(node) : Result<Expr>(node.expr);
      return out * (expr ? operations(*expr) : 1);
    }
    // Reductions read more than they write, normalisations and the like as much: one operation an element.
    return std::max(in, out);
  }

  const plan::Plan& plan_;
};

}  // namespace

std::vector<StepCost> costs_of(const plan::Plan& plan) { return Costs(plan).all(); }

}  // namespace sinter::diag
