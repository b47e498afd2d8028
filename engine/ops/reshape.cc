// SPDX-License-Identifier: Apache-2.0
// Reshape, Flatten, Squeeze, Unsqueeze, Identity: other dimensions for the same elements in order.
// https://onnx.ai/onnx/operators/onnx__Reshape.html (1+), Flatten (1+), Squeeze (1+), Unsqueeze (1+), Identity (1+).
// Refused: more than 8 axes.
#include <algorithm>

#include "engine/base/sort.h"

#include "engine/ops/movement.h"
#include "engine/ops/movement_wgsl.h"

namespace sinter {
namespace {

using namespace ops;

Result<> reference_alias(const RefContext& ctx) {
  copy_all(ctx.in(0), ctx.out());
  return {};
}

// --- Reshape: attribute allowzero; operands data, shape.

// A quotient of dimension products in which symbols cancel: [N,3,4] over [N] is 12.
class DimRatio {
 public:
  void times(int64_t dim) {
    if (is_known(dim)) {
      overflow_ |= __builtin_mul_overflow(number_, dim, &number_);
    } else {
      names_.push_back(dim);
    }
  }
  void over(int64_t dim) {
    if (is_known(dim)) {
      overflow_ |= __builtin_mul_overflow(divisor_, dim, &divisor_);
    } else if (const auto at = std::find(names_.begin(), names_.end(), dim); is_symbol(dim) && at != names_.end()) {
      names_.erase(at);
    } else {
      names_.push_back(kUnknownDim);
    }
  }
  bool known() const { return names_.empty() && !overflow_; }
  int64_t number() const { return number_; }
  int64_t divisor() const { return divisor_; }
  /// The quotient as a dimension; nothing where it is not a whole number.
  std::optional<int64_t> dim() const {
    if (overflow_) return kUnknownDim;
    if (names_.empty()) {
      if (divisor_ == 0 || number_ % divisor_ != 0) return std::nullopt;
      return number_ / divisor_;
    }
    return names_.size() == 1 && number_ == divisor_ ? names_[0] : kUnknownDim;
  }

 private:
  int64_t number_ = 1, divisor_ = 1;
  bool overflow_ = false;
  std::vector<int64_t> names_;
};

std::string to_text(const DimValues& values) {
  std::string text = "[";
  for (const auto& [value, number] : values) {
    if (text.size() > 1) text += ',';
    text += number ? StrCat(value) : "?";
  }
  return text + "]";
}

Result<> infer_reshape(InferContext& ctx) {
  const Node& node = ctx.node;
  ctx.outputs[0].dtype = ctx.inputs[0].dtype;
  const std::optional<Shape>& in = ctx.inputs[0].shape;
  SINTER_CHECK_OK(shape_operands_known(ctx));
  const auto wanted = dim_values(ctx.inputs[1]);
  const auto length = wanted ? wanted->size() : operand_length(ctx, 1);
  if (!length) return {};
  SINTER_CHECK_OK(check_rank(node, *length));
  if (!wanted) {
    ctx.outputs[0].shape = Shape::filled(*length, kUnknownDim);
    return {};
  }
  const bool copies_zero = ctx.attrs().i("allowzero", 0) == 0;
  const auto text = [&] { return to_text(*wanted); };
  Shape out;
  std::optional<size_t> rest;  // the axis given as -1
  uint32_t copied = 0;         // axes of the input that 0 copies
  bool explicit_zero = false;
  for (size_t i = 0; i < wanted->size(); ++i) {
    auto [dim, number] = (*wanted)[i];
    if (!number) {
      out.push_back(dim);
      continue;
    }
    if (dim < -1 || (dim == -1 && rest)) {
      return bad(node, StrCat("shape ", text(), " may hold one -1 and no other negative number"));
    }
    explicit_zero |= dim == 0 && !copies_zero;
    if (dim == -1) {
      rest = i;
      dim = kUnknownDim;
    } else if (dim == 0 && copies_zero) {
      if (in && i >= in->rank()) {
        return bad(node, StrCat("shape ", text(), " copies axis ", i, ", the input ", to_string(*in), " has none"));
      }
      copied |= 1u << i;
      dim = in ? (*in)[i] : kUnknownDim;
    }
    out.push_back(dim);
  }
  if (explicit_zero && rest) return bad(node, StrCat("shape ", text(), " with allowzero=1 may not hold both 0 and -1"));
  if (in) {
    DimRatio ratio;
    for (size_t i = 0; i < in->rank(); ++i) {
      if (!(copied >> i & 1)) ratio.times((*in)[i]);
    }
    for (size_t i = 0; i < out.rank(); ++i) {
      if (i != rest && !(copied >> i & 1)) ratio.over(out[i]);
    }
    const auto dim = ratio.dim();
    const bool fits = rest ? dim.has_value() : !ratio.known() || ratio.number() == ratio.divisor();
    if (!fits) return bad(node, StrCat("input ", to_string(*in), " does not fit shape ", text()));
    if (rest) out[*rest] = *dim;
  }
  ctx.outputs[0].shape = out;
  return {};
}

void reshape_cases(std::vector<OpCase>& cases) {
  cases.push_back({.name = "0 and -1", .inputs = {{.shape = {2, 3, 5}}, constant_ints({0, -1})}});
  cases.push_back({.name = "int64 to a scalar",
                   .inputs = {{.dtype = DType::i64, .shape = {1, 1}, .lo = -9, .hi = 9}, constant_ints({})}});
  cases.push_back(
      {.name = "bool", .inputs = {{.dtype = DType::boolean, .shape = {7}, .lo = 0, .hi = 2}, constant_ints({7, 1})}});
  cases.push_back({.name = "empty",
                   .attrs = make_attrs({{"allowzero", int64_t{1}}}),
                   .inputs = {{.shape = {0, 3}}, constant_ints({3, 0})}});
}

// --- Flatten: attribute axis.

Result<> infer_flatten(InferContext& ctx) {
  ctx.outputs[0].dtype = ctx.inputs[0].dtype;
  if (!ctx.inputs[0].shape) {
    ctx.outputs[0].shape = Shape::filled(2, kUnknownDim);
    return {};
  }
  const Shape& in = *ctx.inputs[0].shape;
  const int64_t rank = static_cast<int64_t>(in.rank());
  int64_t axis = ctx.attrs().i("axis", 1);
  if (axis < -rank || axis > rank) return bad(ctx.node, StrCat("axis ", axis, " is outside [", -rank, ",", rank, "]"));
  if (axis < 0) axis += rank;
  DimRatio sides[2];
  for (int64_t i = 0; i < rank; ++i) sides[i >= axis].times(in[i]);
  ctx.outputs[0].shape = Shape{*sides[0].dim(), *sides[1].dim()};
  return {};
}

void flatten_cases(std::vector<OpCase>& cases) {
  for (int64_t axis : {0, 1, 3, -1}) {
    cases.push_back(
        {.name = StrCat("axis ", axis), .attrs = make_attrs({{"axis", axis}}), .inputs = {{.shape = {2, 3, 5}}}});
  }
}

// --- Squeeze, Unsqueeze: operands data, axes.

Result<> infer_squeeze(InferContext& ctx) {
  ctx.outputs[0].dtype = ctx.inputs[0].dtype;
  const bool known = SINTER_TRY(shape_operands_known(ctx));
  if (!ctx.inputs[0].shape) return {};
  const Shape& in = *ctx.inputs[0].shape;
  uint32_t dropped = 0;
  if (!known) {
    const auto length = operand_length(ctx, 1);
    if (length && *length <= in.rank()) ctx.outputs[0].shape = Shape::filled(in.rank() - *length, kUnknownDim);
    return {};
  }
  if (ctx.has(1)) {
    for (size_t axis : SINTER_TRY(checked_axes(ctx.node, *known_ints(ctx, 1), in.rank()))) {
      if (is_known(in[axis]) && in[axis] != 1) {
        return bad(ctx.node, StrCat("axis ", axis, " of ", to_string(in), " is not of extent 1"));
      }
      dropped |= 1u << axis;
    }
  } else {
    if (!in.is_static()) return {};
    for (size_t i = 0; i < in.rank(); ++i) dropped |= static_cast<uint32_t>(in[i] == 1) << i;
  }
  Shape out;
  for (size_t i = 0; i < in.rank(); ++i) {
    if (!(dropped >> i & 1)) out.push_back(in[i]);
  }
  ctx.outputs[0].shape = out;
  return {};
}

void squeeze_cases(std::vector<OpCase>& cases) {
  cases.push_back({.name = "no axes", .inputs = {{.shape = {1, 3, 1, 5}}}});
  cases.push_back({.name = "negative axis",
                   .inputs = {{.dtype = DType::i64, .shape = {1, 3, 1}, .lo = -9, .hi = 9}, constant_ints({-1})}});
}

Result<> infer_unsqueeze(InferContext& ctx) {
  ctx.outputs[0].dtype = ctx.inputs[0].dtype;
  const bool known = SINTER_TRY(shape_operands_known(ctx));
  const auto added = operand_length(ctx, 1);
  if (!ctx.inputs[0].shape || !added) return {};
  const Shape& in = *ctx.inputs[0].shape;
  const size_t rank = in.rank() + *added;
  SINTER_CHECK_OK(check_rank(ctx.node, rank));
  Shape out = Shape::filled(rank, kUnknownDim);
  if (known) {
    std::vector<size_t> axes = SINTER_TRY(checked_axes(ctx.node, *known_ints(ctx, 1), rank));
    out = in;
    heap_sort(axes);
    for (size_t axis : axes) out.insert(axis, 1);
  }
  ctx.outputs[0].shape = out;
  return {};
}

void unsqueeze_cases(std::vector<OpCase>& cases) {
  cases.push_back({.name = "axes 3 0", .inputs = {{.shape = {2, 3}}, constant_ints({3, 0})}});
  cases.push_back({.name = "axis -1 of a scalar", .inputs = {{.shape = {}}, constant_ints({-1})}});
  cases.push_back(
      {.name = "rank-0 axes", .inputs = {{.shape = {5}}, {.dtype = DType::i64, .values = {0}, .constant = true}}});
}

void identity_cases(std::vector<OpCase>& cases) {
  for (DType dtype : {DType::f32, DType::f16, DType::u8, DType::boolean, DType::i64}) {
    cases.push_back(
        {.name = std::string(name_of(dtype)), .inputs = {{.dtype = dtype, .shape = {3, 7}, .lo = 0, .hi = 2}}});
  }
  cases.push_back({.name = "empty", .inputs = {{.shape = {0}}}});
}

}  // namespace

extern const OpDef op_flatten = {.name = "Flatten",
                                 .op_class = OpClass::movement,
                                 .alias = true,
                                 .infer = infer_flatten,
                                 .reference = reference_alias,
                                 .wgsl = emit_alias,
                                 .cases = flatten_cases};

extern const OpDef op_identity = {.name = "Identity",
                                  .op_class = OpClass::movement,
                                  .notes = "tensors only: no sequence or optional",
                                  .alias = true,
                                  .infer = infer_same,
                                  .dims = same_dims,
                                  .reference = reference_alias,
                                  .wgsl = emit_alias,
                                  .cases = identity_cases};

extern const OpDef op_reshape = {.name = "Reshape",
                                 .min_inputs = 2,
                                 .max_inputs = 2,
                                 .op_class = OpClass::movement,
                                 .notes = "at most 8 axes; the shape must be computable before the run",
                                 .shape_operands = 0b10,
                                 .alias = true,
                                 .infer = infer_reshape,
                                 .dims = same_dims,
                                 .reference = reference_alias,
                                 .wgsl = emit_alias,
                                 .cases = reshape_cases};

extern const OpDef op_squeeze = {.name = "Squeeze",
                                 .max_inputs = 2,
                                 .op_class = OpClass::movement,
                                 .notes = "axes must be computable before the run",
                                 .shape_operands = 0b10,
                                 .alias = true,
                                 .infer = infer_squeeze,
                                 .dims = same_dims,
                                 .reference = reference_alias,
                                 .wgsl = emit_alias,
                                 .cases = squeeze_cases};

extern const OpDef op_unsqueeze = {.name = "Unsqueeze",
                                   .min_inputs = 2,
                                   .max_inputs = 2,
                                   .op_class = OpClass::movement,
                                   .notes = "at most 8 axes; axes must be computable before the run",
                                   .shape_operands = 0b10,
                                   .alias = true,
                                   .infer = infer_unsqueeze,
                                   .dims = same_dims,
                                   .reference = reference_alias,
                                   .wgsl = emit_alias,
                                   .cases = unsqueeze_cases};

}  // namespace sinter
