// SPDX-License-Identifier: Apache-2.0
// ReverseSequence: the first elements along the time axis in reverse, as many as each batch entry says.
// https://onnx.ai/onnx/operators/onnx__ReverseSequence.html (10+). Nothing is refused.
#include "engine/ops/movement.h"
#include "engine/ops/movement_wgsl.h"

namespace sinter {
namespace {

using namespace ops;

// Attributes time_axis, batch_axis (0 and 1 in either order); operands data, sequence_lens.
struct Axes {
  size_t time, batch;
};
Axes axes_of(const Node& node) {
  const size_t time = node.attrs.i("time_axis", 0) != 0;
  return {time, static_cast<size_t>(node.attrs.i("batch_axis", 1) != 0)};
}

Result<> infer(InferContext& ctx) {
  SINTER_CHECK_OK(infer_same(ctx));
  const int64_t time = ctx.attrs().i("time_axis", 0), batch = ctx.attrs().i("batch_axis", 1);
  if (time + batch != 1 || time * batch != 0) {
    return bad(ctx.node, StrCat("time_axis ", time, " and batch_axis ", batch, " must be 0 and 1 in either order"));
  }
  if (!ctx.inputs[0].shape || !ctx.inputs[1].shape) return {};
  const Shape &data = *ctx.inputs[0].shape, &lengths = *ctx.inputs[1].shape;
  const int64_t entries = data.rank() >= 2 ? data[axes_of(ctx.node).batch] : 0;
  if (data.rank() < 2 || lengths.rank() != 1 || (is_known(lengths[0]) && is_known(entries) && lengths[0] != entries)) {
    return bad(ctx.node, StrCat("sequence_lens ", to_string(lengths), " does not fit data ", to_string(data)));
  }
  return {};
}

Result<> reference(const RefContext& ctx) {
  const Shape& shape = ctx.out().shape();
  const Axes axes = axes_of(ctx.node);
  const Shape strides = row_major_strides(shape);
  const int64_t inner = shape.product(2, shape.rank());
  const int64_t size = static_cast<int64_t>(size_of(ctx.out().dtype()));
  for (int64_t b = 0; b < shape[axes.batch]; ++b) {
    const int64_t length = get_i64(ctx.in(1), static_cast<size_t>(b));
    if (length < 0 || length > shape[axes.time]) {
      return fail(Code::InvalidInput, StrCat("ReverseSequence: sequence_lens[", b, "] is ", length,
                                             ", the time axis has ", shape[axes.time], " elements"));
    }
    for (int64_t t = 0; t < shape[axes.time]; ++t) {
      const int64_t from = t < length ? length - 1 - t : t, row = b * strides[axes.batch];
      strided_copy(ctx.out().mutable_bytes().data() + (row + t * strides[axes.time]) * size, {1},
                   ctx.in(0).bytes().data() + (row + from * strides[axes.time]) * size, {1}, {inner},
                   static_cast<size_t>(size));
    }
  }
  return {};
}

Result<> device(WgslContext& ctx) {
  const uint32_t bytes = SINTER_TRY(element_bytes(ctx, ctx.inputs[0].dtype));
  const Shape& shape = ctx.out_shape();
  if (shape.numel() == 0) return {};
  SINTER_CHECK_OK(check_distinct(ctx, 0, 1));
  const Axes axes = axes_of(ctx.node);
  const std::vector<int64_t> inner{shape.product(2, shape.rank())};
  const uint32_t unit = unit_elements(ctx, bytes, inner);
  wgsl::Writer writer("reverse_sequence", ctx.target);
  bind_units(writer, ctx, "a", 0, bytes * unit);
  SINTER_CHECK_OK(bind_index(writer, ctx, "lengths", 1));
  bind_output_units(writer, "o", 0, bytes * unit);
  writer.linear(static_cast<uint64_t>(shape.numel() / unit));
  writer.u32("inner", static_cast<uint32_t>(inner[0] / unit));
  writer.u32("second", static_cast<uint32_t>(shape[1]));
  writer.u32("time", static_cast<uint32_t>(shape[axes.time]));
  writer.u32("stride", static_cast<uint32_t>((axes.time == 0 ? shape[1] : 1) * inner[0] / unit));
  const std::string_view first = "i / p.inner / p.second", second = "i / p.inner % p.second";
  writer.body(
      StrCat("  let t = ", axes.time == 0 ? first : second, ";\n  let b = ", axes.time == 0 ? second : first,
             ";\n  let n = u32(clamp(", read_index(ctx, 1, "lengths", "b"),
             ", 0, i32(p.time)));\n  var src = i;\n  if (t < n) { src = i - t * p.stride + (n - 1u - t) * p.stride; }\n"
             "  o[i] = a[src];\n"));
  return emit(ctx, writer);
}

void cases(std::vector<OpCase>& cases) {
  const auto add = [&](std::string name, DType dtype, int64_t time, Shape shape, std::vector<double> lengths) {
    const int64_t entries = static_cast<int64_t>(lengths.size());
    cases.push_back({.name = std::move(name),
                     .attrs = make_attrs({{"time_axis", time}, {"batch_axis", 1 - time}}),
                     .inputs = {{.dtype = dtype, .shape = shape, .lo = 0, .hi = 9},
                                {.dtype = DType::i64, .shape = {entries}, .values = std::move(lengths)}}});
  };
  add("time first", DType::f32, 0, {4, 3, 5}, {4, 1, 3});
  add("batch first", DType::i64, 1, {3, 4}, {0, 4, 2});
  add("whole units", DType::f32, 1, {2, 3, 8}, {3, 2});
}

}  // namespace

extern const OpDef op_reverse_sequence = {
    .name = "ReverseSequence",
    .first_opset = 10,
    .min_inputs = 2,
    .max_inputs = 2,
    .op_class = OpClass::movement,
    .notes = "on webgpu, out-of-range lengths computed during the run clamp to the axis",
    .infer = infer,
    .reference = reference,
    .wgsl = device,
    .cases = cases};

}  // namespace sinter
