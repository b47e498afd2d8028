// SPDX-License-Identifier: Apache-2.0
// ONNX ConvInteger, MatMulInteger, QLinearConv and QLinearMatMul (opset 10 to newest): products of 8-bit integers, summed
// exactly, given as int32 or requantized: y = saturate(round_half_even(sum * (a_scale * b_scale / y_scale)) + y_zero_point).
// They run on the host. Zero points and scales of the second operand are one value or one per output channel.
#include <algorithm>
#include <array>
#include <cmath>

#include "engine/ops/cases.h"
#include "engine/ops/util.h"

namespace sinter {

using namespace ops;

namespace {

const OpDef& conv_row() { return *find_op("", "Conv"); }
const OpDef& matmul_row() { return *find_op("", "MatMul"); }

/// The output's shape, as the floating-point operator has it.
Result<> infer_as(InferContext& ctx, const OpDef& row, size_t a, size_t b, size_t bias, DType to) {
  std::vector<TensorInfo> inputs{ctx.inputs[a], ctx.inputs[b]};
  if (ctx.has(bias)) inputs.push_back(ctx.inputs[bias]);
  for (TensorInfo& info : inputs) info = {.dtype = DType::f32, .shape = info.shape};
  for (const size_t operand : {a, b}) {
    const DType dtype = ctx.inputs[operand].dtype;
    if (dtype != DType::i8 && dtype != DType::u8) {
      return bad(ctx.node, StrCat("input ", operand, " is ", name_of(dtype), ", not int8 or uint8"));
    }
  }
  InferContext as_float{ctx.node, inputs, ctx.outputs, ctx.concrete};
  SINTER_CHECK_OK(row.infer(as_float));
  ctx.outputs[0].dtype = to;
  return {};
}

/// x minus its zero point, as doubles: sums of such products are exact. `outer` is how often the zero points repeat, each over
/// a run of `inner` elements.
Result<Tensor> centred(const RefContext& ctx, size_t operand, size_t zero_operand, int64_t inner) {
  Tensor x = SINTER_TRY(convert(ctx.in(operand), DType::f64));
  if (!ctx.has(zero_operand)) return x;
  const Tensor& zero = ctx.in(zero_operand);
  const int64_t count = static_cast<int64_t>(zero.numel());
  const std::span<double> values = x.mutable_data<double>();
  for (size_t i = 0; i < values.size(); ++i) {
    const int64_t at = count == 1 ? 0 : static_cast<int64_t>(i) / inner % count;
    values[i] -= get_f64(zero, static_cast<size_t>(at));
  }
  return x;
}

Result<Tensor> sums(const RefContext& ctx, const OpDef& row, const Tensor& a, const Tensor& b) {
  std::array<Tensor, 1> out{SINTER_TRY(Tensor::alloc(DType::f64, ctx.out().shape(), "the sums of an integer product"))};
  const std::array<const Tensor*, 2> inputs{&a, &b};
  SINTER_CHECK_OK(row.reference(RefContext{ctx.node, inputs, out}));
  return std::move(out[0]);
}

/// Elements from one index of the axis that carries per-channel scales to the next: filters of a convolution's weight are its
/// first axis, columns of a matrix its last; rows of the first operand its last but one.
int64_t filter_size(const Shape& w) { return w.product(1, w.rank()); }
int64_t row_size(const Shape& a) { return a.rank() ? a[a.rank() - 1] : 1; }

Result<> check_count(const Node& node, const Tensor& values, int64_t channels, std::string_view what) {
  const auto count = static_cast<int64_t>(values.numel());
  if (count == 1 || count == channels) return {};
  return bad(node, StrCat(what, " has ", count, " values for ", channels, " channels"), "give one, or one per channel");
}

Result<> infer_conv_integer(InferContext& ctx) { return infer_as(ctx, conv_row(), 0, 1, 99, DType::i32); }
Result<> infer_matmul_integer(InferContext& ctx) { return infer_as(ctx, matmul_row(), 0, 1, 99, DType::i32); }
Result<> infer_qlinear_conv(InferContext& ctx) { return infer_as(ctx, conv_row(), 0, 3, 8, ctx.inputs[7].dtype); }
Result<> infer_qlinear_matmul(InferContext& ctx) { return infer_as(ctx, matmul_row(), 0, 3, 99, ctx.inputs[7].dtype); }

Result<> store_sums(const RefContext& ctx, const Tensor& sum) {
  const std::span<const double> values = sum.data<double>();
  for (size_t i = 0; i < values.size(); ++i) set_f64(ctx.out(), i, values[i]);
  return {};
}

Result<> reference_conv_integer(const RefContext& ctx) {
  if (ctx.has(3)) SINTER_CHECK_OK(check_count(ctx.node, ctx.in(3), ctx.in(1).shape()[0], "the weight's zero point"));
  const Tensor x = SINTER_TRY(centred(ctx, 0, 2, 1));
  const Tensor w = SINTER_TRY(centred(ctx, 1, 3, filter_size(ctx.in(1).shape())));
  return store_sums(ctx, SINTER_TRY(sums(ctx, conv_row(), x, w)));
}

Result<> reference_matmul_integer(const RefContext& ctx) {
  const Tensor a = SINTER_TRY(centred(ctx, 0, 2, row_size(ctx.in(0).shape())));
  const Tensor b = SINTER_TRY(centred(ctx, 1, 3, 1));
  return store_sums(ctx, SINTER_TRY(sums(ctx, matmul_row(), a, b)));
}

/// `channel(i)`: which scale of the second operand output element i belongs to.
template <class Channel>
Result<> requantize(const RefContext& ctx, const Tensor& sum, Channel channel, int64_t channels) {
  SINTER_CHECK_OK(check_count(ctx.node, ctx.in(4), channels, "the second operand's scale"));
  const auto a_scale = static_cast<float>(get_f64(ctx.in(1), 0)), y_scale = static_cast<float>(get_f64(ctx.in(6), 0));
  const double zero = get_f64(ctx.in(7), 0);
  const bool is_signed = ctx.out().dtype() == DType::i8;
  const bool one = ctx.in(4).numel() == 1;
  const std::span<const double> values = sum.data<double>();
  for (size_t i = 0; i < values.size(); ++i) {
    const auto b_scale =
        static_cast<float>(get_f64(ctx.in(4), one ? 0 : static_cast<size_t>(channel(static_cast<int64_t>(i)))));
    const float scaled = static_cast<float>(values[i]) * (a_scale * b_scale / y_scale);
    set_f64(ctx.out(), i,
            std::clamp(std::nearbyint(scaled) + zero, is_signed ? -128.0 : 0.0, is_signed ? 127.0 : 255.0));
  }
  return {};
}

Result<> reference_qlinear_conv(const RefContext& ctx) {
  const Shape &w_shape = ctx.in(3).shape(), &y = ctx.out().shape();
  const Tensor x = SINTER_TRY(centred(ctx, 0, 2, 1));
  const Tensor w = SINTER_TRY(centred(ctx, 3, 5, filter_size(w_shape)));
  Tensor sum = SINTER_TRY(sums(ctx, conv_row(), x, w));
  const int64_t points = y.product(2, y.rank()), filters = w_shape[0];
  const auto filter = [&](int64_t i) { return i / points % filters; };
  if (ctx.has(8)) {
    const std::span<double> values = sum.mutable_data<double>();
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] += get_f64(ctx.in(8), static_cast<size_t>(filter(static_cast<int64_t>(i))));
    }
  }
  return requantize(ctx, sum, filter, filters);
}

Result<> reference_qlinear_matmul(const RefContext& ctx) {
  const Shape& b_shape = ctx.in(3).shape();
  const Tensor a = SINTER_TRY(centred(ctx, 0, 2, row_size(ctx.in(0).shape())));
  const Tensor b = SINTER_TRY(centred(ctx, 3, 5, 1));
  const int64_t columns = b_shape.rank() > 1 ? b_shape[b_shape.rank() - 1] : 1;
  return requantize(ctx, SINTER_TRY(sums(ctx, matmul_row(), a, b)), [&](int64_t i) { return i % columns; }, columns);
}

OpCase::Input bytes(Shape shape, DType dtype = DType::u8) {
  return {.dtype = dtype,
          .shape = std::move(shape),
          .lo = dtype == DType::u8 ? 0.0 : -128.0,
          .hi = dtype == DType::u8 ? 255.0 : 127.0};
}
OpCase::Input value(double v, DType dtype = DType::f32) {
  return {.dtype = dtype, .shape = {}, .values = {v}, .constant = true};
}

void conv_integer_cases(std::vector<OpCase>& out) {
  out.push_back({.name = "padded",
                 .attrs = attrs_of({{"pads", std::vector<int64_t>{1, 1, 1, 1}}}),
                 .inputs = {bytes({1, 3, 5, 5}), bytes({4, 3, 3, 3}, DType::i8), value(7, DType::u8)}});
}
void matmul_integer_cases(std::vector<OpCase>& out) {
  out.push_back(
      {.name = "zero points", .inputs = {bytes({3, 4}), bytes({4, 5}), value(12, DType::u8), value(3, DType::u8)}});
}
void qlinear_conv_cases(std::vector<OpCase>& out) {
  OpCase c{.name = "per channel, bias", .attrs = attrs_of({{"pads", std::vector<int64_t>{1, 0, 0, 1}}})};
  c.inputs = {bytes({2, 3, 5, 4}),
              value(0.02),
              value(120, DType::u8),
              bytes({4, 3, 3, 2}, DType::i8),
              {.shape = {4}, .lo = 0.01, .hi = 0.03, .constant = true},
              {.dtype = DType::i8, .shape = {4}, .values = {0, 1, -2, 3}, .constant = true},
              value(0.4),
              value(100, DType::u8),
              {.dtype = DType::i32, .shape = {4}, .lo = -900, .hi = 900, .constant = true}};
  out.push_back(c);
}
void qlinear_matmul_cases(std::vector<OpCase>& out) {
  out.push_back({.name = "batched",
                 .inputs = {bytes({2, 3, 4}), value(0.02), value(120, DType::u8), bytes({2, 4, 5}), value(0.03),
                            value(9, DType::u8), value(0.2), value(128, DType::u8)}});
}

}  // namespace

extern const OpDef op_conv_integer{.name = "ConvInteger",
                                   .first_opset = 10,
                                   .min_inputs = 2,
                                   .max_inputs = 4,
                                   .notes = "on the host",
                                   .infer = infer_conv_integer,
                                   .reference = reference_conv_integer,
                                   .cases = conv_integer_cases};
extern const OpDef op_matmul_integer{.name = "MatMulInteger",
                                     .first_opset = 10,
                                     .min_inputs = 2,
                                     .max_inputs = 4,
                                     .notes = "on the host",
                                     .infer = infer_matmul_integer,
                                     .reference = reference_matmul_integer,
                                     .cases = matmul_integer_cases};
extern const OpDef op_qlinear_conv{.name = "QLinearConv",
                                   .first_opset = 10,
                                   .min_inputs = 8,
                                   .max_inputs = 9,
                                   .notes = "on the host",
                                   .infer = infer_qlinear_conv,
                                   .reference = reference_qlinear_conv,
                                   .cases = qlinear_conv_cases};
extern const OpDef op_qlinear_matmul{.name = "QLinearMatMul",
                                     .first_opset = 10,
                                     .min_inputs = 8,
                                     .max_inputs = 8,
                                     .notes = "on the host",
                                     .infer = infer_qlinear_matmul,
                                     .reference = reference_qlinear_matmul,
                                     .cases = qlinear_matmul_cases};

}  // namespace sinter
