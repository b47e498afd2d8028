// SPDX-License-Identifier: Apache-2.0
// The device kernel of reductions: one thread per result, or one workgroup per result where much is reduced into little.
#include <cmath>

#include "engine/ops/reduce.h"
#include "engine/wgsl/expr_wgsl.h"

namespace sinter::ops {

namespace {

class ReduceKernel {
 public:
  ReduceKernel(WgslContext& ctx, ReduceKind kind, ReduceLoops loops)
      : ctx_(ctx),
        kind_(kind),
        loops_(std::move(loops)),
        shared_(choose_shared()),
        writer_(StrCat(ctx.node.op->name, shared_ ? "_shared" : ""), ctx.target) {}

  Result<> run() {
    if (loops_.outputs == 0) return {};
    const wgsl::Storage held = storage(ctx_, ctx_.outputs[0]);
    switch (held) {
      case wgsl::Storage::f32:
      case wgsl::Storage::f16:
        type_ = "f32";
        break;
      case wgsl::Storage::i32:
        type_ = "i32";
        break;
      case wgsl::Storage::u32:
        type_ = "u32";
        break;
      default:
        return unsupported(ctx_.node, StrCat(name_of(ctx_.outputs[0].dtype), " arithmetic runs on the host"));
    }
    // An empty input is not bound: every result is what nothing reduces to.
    if (loops_.count > 0) bind_input(writer_, ctx_, "x", 0);
    bind_output(writer_, ctx_, "y");
    if (shared_) {
      writer_.groups(static_cast<uint64_t>(loops_.outputs), threads());
    } else {
      writer_.linear(static_cast<uint64_t>(loops_.outputs));
    }
    declare_helpers();
    writer_.u32("count", static_cast<uint32_t>(loops_.count));
    const std::string_view item = shared_ ? "group" : "i";
    writer_.offsets(item, loops_.kept, {"base"});
    writer_.body(StrCat("  var total = ", type_, "(p.init);\n"));
    if (loops_.count > 0) accumulate("total", "join(total, before(v))", "join");
    std::string result = "after(total)";
    if (kind_ == ReduceKind::log_sum_exp) {
      writer_.body("  let shift = select(total, 0.0, is_special(total));\n  var sum = 0.0;\n");
      if (loops_.count > 0) accumulate("sum", "sum + power(v - shift)", "plus");
      result = "shift + log(sum)";
    }
    std::string store = StrCat("y[", item, "] = ", wgsl::element_type(held), "(", result, ");");
    if (kind_ == ReduceKind::log_sum_exp) {
      // A NaN must not go through log, and nothing or only -infinity sums to -infinity.
      store = StrCat("y[", item, "] = ", wgsl::element_type(held), "(select(", result, ", total, is_special(total)));");
    }
    writer_.body(shared_ ? StrCat("  if (lindex == 0u) { ", store, " }\n") : StrCat("  ", store, "\n"));
    return emit(ctx_, writer_);
  }

 private:
  bool choose_shared() const {
    if (loops_.count < 64 || ctx_.target.max_invocations < 64 || ctx_.target.force_plain) return false;
    // Neighbouring threads of the plain kernel read neighbouring elements only where the innermost axis is kept.
    const Shape& strides = loops_.reduced.strides[0];
    const bool dense = strides.rank() > 0 && strides[strides.rank() - 1] == 1;
    return dense ? loops_.outputs < 65536 : loops_.outputs < 1024;
  }
  uint32_t threads() const { return loops_.count >= 1024 && ctx_.target.max_invocations >= 256 ? 256 : 64; }

  void declare_helpers() {
    const auto one = [&](std::string_view name, std::string_view body) {
      writer_.declare(StrCat("fn ", name, "(v: ", type_, ") -> ", type_, " { return ", body, "; }\n"));
    };
    const bool squares = kind_ == ReduceKind::l2 || kind_ == ReduceKind::sum_square;
    one("before", kind_ == ReduceKind::l1 ? "abs(v)" : squares ? "v * v" : "v");
    one("after", kind_ == ReduceKind::mean      ? "v / f32(p.count)"
                 : kind_ == ReduceKind::l2      ? "sqrt(v)"
                 : kind_ == ReduceKind::log_sum ? log_of("v")
                                                : "v");
    std::string join = "a + b";
    double init = 0;
    const bool floats = type_ == "f32";
    const DType dtype = ctx_.outputs[0].dtype;
    if (kind_ == ReduceKind::prod) {
      join = "a * b";
      init = 1;
    } else if (kind_ == ReduceKind::max || kind_ == ReduceKind::log_sum_exp) {
      join = StrCat(wgsl::declare_max(writer_, type_), "(a, b)");
      init = floats ? -INFINITY : static_cast<double>(lowest_of(dtype));
    } else if (kind_ == ReduceKind::min) {
      join = StrCat(wgsl::declare_min(writer_, type_), "(a, b)");
      init = floats ? INFINITY : static_cast<double>(highest_of(dtype));
    }
    if (floats) writer_.f32("init", static_cast<float>(init));
    if (type_ == "i32") writer_.i32("init", static_cast<int32_t>(init));
    if (type_ == "u32") writer_.u32("init", static_cast<uint32_t>(init));
    writer_.declare(StrCat("fn join(a: ", type_, ", b: ", type_, ") -> ", type_, " { return ", join, "; }\n"));
    if (kind_ == ReduceKind::log_sum_exp) {
      writer_.declare(
          "fn is_special(v: f32) -> bool { return (bitcast<u32>(v) & 0x7f800000u) == 0x7f800000u; }\n"
          "fn power(v: f32) -> f32 { return exp(v); }\n"
          "fn plus(a: f32, b: f32) -> f32 { return a + b; }\n");
    }
    if (shared_) writer_.declare(StrCat("var<workgroup> part: array<", type_, ", ", threads(), ">;\n"));
  }

  // log that keeps NaN and gives NaN below zero.
  std::string log_of(std::string_view v) {
    Expr expr;
    expr.unary(ScalarOp::log, expr.input(0));
    const std::string names[] = {std::string(v)};
    return wgsl::print_expr(writer_, expr, names, "f32", "log");
  }

  // VAR = UPDATE for every element v that this thread reads; the workgroup's parts are then combined by JOIN.
  void accumulate(std::string_view var, std::string_view update, std::string_view join) {
    const std::string step = shared_ ? StrCat(threads(), "u") : "1u";
    writer_.body(StrCat("  for (var r = ", shared_ ? "lindex" : "0u", "; r < p.count; r += ", step, ") {\n"));
    const std::string at = StrCat("at_", var);
    writer_.offsets("r", loops_.reduced, {at});
    writer_.body(StrCat("    let v = ", type_, "(x[base + ", at, "]);\n    ", var, " = ", update, ";\n  }\n"));
    if (!shared_) return;
    writer_.body(StrCat("  part[lindex] = ", var, ";\n  workgroupBarrier();\n  for (var half = ", threads() / 2,
                        "u; half > 0u; half = half / 2u) {\n    if (lindex < half) { part[lindex] = ", join,
                        "(part[lindex], part[lindex + half]); }\n    workgroupBarrier();\n  }\n  ", var,
                        " = part[0];\n  workgroupBarrier();\n"));
  }

  WgslContext& ctx_;
  ReduceKind kind_;
  ReduceLoops loops_;
  bool shared_;
  wgsl::Writer writer_;
  std::string_view type_;
};

}  // namespace

Result<> wgsl_reduce(WgslContext& ctx, ReduceKind kind) {
  std::vector<int64_t> given;
  if (ctx.has(1)) {
    if (!ctx.inputs[1].constant) return unsupported(ctx.node, "the axes are computed while the model runs");
    given = to_ints(*ctx.inputs[1].constant);
  }
  const Axes axes = SINTER_TRY(resolve_axes(ctx.node, given, ctx.in_shape(0).rank()));
  return ReduceKernel(ctx, kind, reduce_loops(ctx.in_shape(0), axes)).run();
}

}  // namespace sinter::ops
