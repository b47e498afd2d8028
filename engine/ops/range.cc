// SPDX-License-Identifier: Apache-2.0
// Range: start, start + delta, ... up to but without limit.
// https://onnx.ai/onnx/operators/onnx__Range.html (11+). Refused: bounds that are known only while running.
#include <cmath>

#include "engine/ops/movement.h"

namespace sinter {
namespace {

using namespace ops;

// Operands start, limit, delta: scalars of one dtype.
Result<int64_t> count(const Node& node, const Tensor& start, const Tensor& limit, const Tensor& delta) {
  if (!is_float(start.dtype())) {
    const int64_t step = get_i64(delta, 0);
    int64_t span = 0;
    if (step == 0) return bad(node, "delta is 0");
    if (__builtin_sub_overflow(get_i64(limit, 0), get_i64(start, 0), &span)) return bad(node, "the range overflows");
    if (span == 0 || (span > 0) != (step > 0)) return 0;
    return span / step + (span % step != 0);
  }
  const double step = get_f64(delta, 0);
  const double n = std::ceil((get_f64(limit, 0) - get_f64(start, 0)) / step);
  if (step == 0 || std::isnan(n) || n > 1e15) return bad(node, "delta is 0, or the range has no end");
  return n > 0 ? static_cast<int64_t>(n) : 0;
}

Result<> infer(InferContext& ctx) {
  const DType dtype = ctx.inputs[0].dtype;
  ctx.outputs[0].dtype = dtype;
  ctx.outputs[0].shape = Shape{kUnknownDim};
  for (const TensorInfo& input : ctx.inputs) {
    if (input.dtype != dtype) return bad(ctx.node, "start, limit and delta differ in dtype");
    if (input.shape && input.shape->is_static() && input.shape->numel() != 1) {
      return bad(ctx.node, StrCat("an operand of shape ", to_string(*input.shape), " is not a scalar"));
    }
  }
  if (!SINTER_TRY(shape_operands_known(ctx))) return {};
  ctx.outputs[0].shape =
      Shape{SINTER_TRY(count(ctx.node, *ctx.inputs[0].constant, *ctx.inputs[1].constant, *ctx.inputs[2].constant))};
  return {};
}

Result<> reference(const RefContext& ctx) {
  const size_t n = ctx.out().numel();
  if (is_float(ctx.out().dtype())) {
    const double start = get_f64(ctx.in(0), 0), delta = get_f64(ctx.in(2), 0);
    for (size_t i = 0; i < n; ++i) set_f64(ctx.out(), i, start + static_cast<double>(i) * delta);
  } else {
    const int64_t start = get_i64(ctx.in(0), 0), delta = get_i64(ctx.in(2), 0);
    for (size_t i = 0; i < n; ++i) set_i64(ctx.out(), i, start + static_cast<int64_t>(i) * delta);
  }
  return {};
}

// The bounds are known at plan time, so no operand is bound.
Result<> device(WgslContext& ctx) {
  const int64_t n = ctx.out_shape().numel();
  if (n == 0) return {};
  const wgsl::Storage form = storage(ctx, ctx.outputs[0]);
  const Tensor &start = *ctx.inputs[0].constant, &delta = *ctx.inputs[2].constant;
  wgsl::Writer writer("range", ctx.target);
  bind_output(writer, ctx, "o");
  writer.linear(static_cast<uint64_t>(n));
  if (form == wgsl::Storage::f32 || form == wgsl::Storage::f16) {
    writer.f32("start", static_cast<float>(get_f64(start, 0)));
    writer.f32("delta", static_cast<float>(get_f64(delta, 0)));
    writer.body(StrCat("  o[i] = ", wgsl::element_type(form), "(p.start + f32(i) * p.delta);\n"));
    return emit(ctx, writer);
  }
  const int64_t first = get_i64(start, 0), last = first + (n - 1) * get_i64(delta, 0);
  if (form == wgsl::Storage::none || std::min(first, last) < INT32_MIN || std::max(first, last) > INT32_MAX) {
    return unsupported(ctx.node, StrCat("values ", first, " to ", last, " of dtype ", name_of(ctx.outputs[0].dtype),
                                        " on the device"));
  }
  writer.i32("start", static_cast<int32_t>(first));
  writer.i32("delta", static_cast<int32_t>(get_i64(delta, 0)));
  writer.body("  let v = p.start + i32(i) * p.delta;\n");
  if (form == wgsl::Storage::words2) {
    writer.body("  o[i] = vec2<u32>(u32(v), select(0u, 0xffffffffu, v < 0));\n");
  } else {
    writer.body(StrCat("  o[i] = ", wgsl::element_type(form), "(v);\n"));
  }
  return emit(ctx, writer);
}

void cases(std::vector<OpCase>& cases) {
  const auto add = [&](std::string name, DType dtype, double start, double limit, double delta) {
    OpCase item{.name = std::move(name)};
    for (double value : {start, limit, delta})
      item.inputs.push_back({.dtype = dtype, .values = {value}, .constant = true});
    cases.push_back(std::move(item));
  };
  add("float", DType::f32, 1, 5, 0.75);
  add("float backward", DType::f32, 10, 4, -2);
  add("int32 backward", DType::i32, 10, 6, -3);
  add("int64", DType::i64, -2, 9, 4);
  add("empty", DType::i64, 3, 3, 1);
}

}  // namespace

extern const OpDef op_range = {.name = "Range",
                               .first_opset = 11,
                               .min_inputs = 3,
                               .max_inputs = 3,
                               .notes = "bounds must be computable before the run",
                               .shape_operands = 0b111,
                               .infer = infer,
                               .reference = reference,
                               .wgsl = device,
                               .cases = cases};

}  // namespace sinter
