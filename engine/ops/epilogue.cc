// SPDX-License-Identifier: Apache-2.0
#include "engine/ops/epilogue.h"

#include <limits>

#include "engine/ops/util.h"
#include "engine/wgsl/expr_wgsl.h"

namespace sinter::ops {

Result<HostEpilogue> HostEpilogue::make(const RefContext& ctx) {
  HostEpilogue epilogue;
  if (ctx.node.expr.empty()) return epilogue;
  epilogue.expr_ = &ctx.node.expr;
  const size_t count = ctx.node.expr.input_count();
  epilogue.values_.resize(count);
  for (size_t k = 1; k < count; ++k) {
    const size_t operand = ctx.node.epilogue_first + k - 1;
    if (!ctx.has(operand) || ctx.in(operand).numel() != ctx.outputs[0].numel()) {
      return fail(Code::Internal, StrCat(ctx.node.op->name, ": epilogue operand ", operand,
                                         " does not have the output's shape ", to_string(ctx.outputs[0].shape())));
    }
    epilogue.operands_.push_back(&ctx.in(operand));
  }
  return epilogue;
}

double HostEpilogue::operator()(double value, size_t i) {
  if (expr_ == nullptr) return value;
  if (!values_.empty()) values_[0] = value;
  for (size_t k = 0; k < operands_.size(); ++k) values_[k + 1] = get_f64(*operands_[k], i);
  return expr_->eval(std::span<const double>(values_));
}

void declare_finish(wgsl::Writer& writer, const WgslContext& ctx, int width, std::span<const std::string_view> bound) {
  const Node& node = ctx.node;
  const std::string_view type = width == 4 ? "vec4<f32>" : "f32";
  const size_t count = node.expr.input_count();
  std::vector<std::string> names = {"v"};
  std::string loads;
  for (size_t k = 1; k < count; ++k) {
    const uint32_t operand = node.epilogue_first + static_cast<uint32_t>(k) - 1;
    std::string var;
    for (size_t j = 0; j < bound.size(); ++j) {
      if (!bound[j].empty() && j < node.inputs.size() && node.inputs[j] == node.inputs[operand]) var = bound[j];
    }
    for (uint32_t j = node.epilogue_first; j < operand; ++j) {
      if (var.empty() && node.inputs[j] == node.inputs[operand]) var = wgsl::indexed("e_", j);
    }
    if (var.empty()) {
      var = wgsl::indexed("e_", operand);
      bind_input(writer, ctx, var, operand, width);
    }
    names.push_back(wgsl::indexed("r", k));
    loads += StrCat("  let ", names.back(), " = ", type, "(", var, "[i]);\n");
  }
  const EpilogueForm form = recognise_epilogue(node.expr);
  std::string result;
  if (node.expr.empty() || form.kind == EpilogueForm::Kind::clamp) {
    const float infinity = std::numeric_limits<float>::infinity();
    writer.f32("lo", node.expr.empty() ? -infinity : form.lo);
    writer.f32("hi", node.expr.empty() ? infinity : form.hi);
    // Comparisons with NaN are false, so it stays, as clamp() does not promise.
    result = StrCat("  let s = v", form.add_input && !node.expr.empty() ? " + r1" : "", ";\n  let a = select(s, ", type,
                    "(p.lo), s < ", type, "(p.lo));\n  return select(a, ", type, "(p.hi), a > ", type, "(p.hi));\n");
  } else {
    result = StrCat("  return ", wgsl::print_expr(writer, node.expr, names, type, "k"), ";\n");
  }
  writer.declare(StrCat("fn finish(v: ", type, ", i: u32) -> ", type, " {\n", loads, result, "}\n"));
}

}  // namespace sinter::ops
