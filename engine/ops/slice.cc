// SPDX-License-Identifier: Apache-2.0
// Slice: every step-th element of a range along some axes.
// https://onnx.ai/onnx/operators/onnx__Slice.html (1+). Refused: bounds that are known only while running.
#include <algorithm>

#include "engine/ops/movement.h"
#include "engine/ops/movement_wgsl.h"

namespace sinter {
namespace {

using namespace ops;

// Operands data, starts, ends, axes, steps.
struct Cut {
  Shape first, step, count;  // per axis of the input; count may be unknown
};

struct Bounds {
  std::vector<size_t> axes;
  std::vector<int64_t> starts, ends, steps;
};

// The axes that are cut; starts, ends and steps only where known.
Result<Bounds> bounds(const Node& node, size_t rank, const IntOperands& ints) {
  const auto get = [&](size_t i) { return i < ints.size() ? ints[i] : std::nullopt; };
  Bounds b;
  b.starts = get(1).value_or(std::vector<int64_t>{});
  b.ends = get(2).value_or(std::vector<int64_t>{});
  std::vector<int64_t> axes;
  for (size_t i = 0; i < b.starts.size(); ++i) axes.push_back(static_cast<int64_t>(i));
  b.axes = SINTER_TRY(checked_axes(node, get(3).value_or(axes), rank));
  b.steps = get(4).value_or(std::vector<int64_t>(b.axes.size(), 1));
  if (b.starts.size() != b.axes.size() || b.ends.size() != b.axes.size() || b.steps.size() != b.axes.size()) {
    return bad(node, StrCat("starts, ends, axes and steps have ", b.starts.size(), ", ", b.ends.size(), ", ",
                            b.axes.size(), " and ", b.steps.size(), " entries"));
  }
  if (std::find(b.steps.begin(), b.steps.end(), 0) != b.steps.end()) return bad(node, "a step is 0");
  return b;
}

struct AxisCut {
  int64_t first, step, count;
};

// numpy's rules: negative bounds count from the end, then both clamp to the axis.
AxisCut cut_axis(int64_t start, int64_t end, int64_t step, int64_t dim) {
  step = std::clamp(step, -(dim + 1), dim + 1);  // a longer step takes the first element alone, too
  if (start < 0) start += dim;
  if (end < 0) end += dim;
  if (step > 0) {
    start = std::clamp<int64_t>(start, 0, dim);
    end = std::clamp<int64_t>(end, 0, dim);
    return {start, step, std::max<int64_t>(0, (end - start + step - 1) / step)};
  }
  start = std::clamp<int64_t>(start, -1, dim - 1);
  end = std::clamp<int64_t>(end, -1, dim - 1);
  return {start, step, std::max<int64_t>(0, (start - end - step - 1) / -step)};
}

// A whole axis of unknown extent, forward or backward.
bool takes_all(int64_t start, int64_t end, int64_t step) {
  constexpr int64_t kMax = INT32_MAX, kMin = INT32_MIN;
  return (step == 1 && start == 0 && end >= kMax) || (step == -1 && (start == -1 || start >= kMax) && end <= kMin + 1);
}

Result<Cut> cut(const Node& node, const Shape& in, const IntOperands& ints) {
  const Bounds b = SINTER_TRY(bounds(node, in.rank(), ints));
  Cut cut{Shape::filled(in.rank(), 0), Shape::filled(in.rank(), 1), in};
  for (size_t i = 0; i < b.axes.size(); ++i) {
    const size_t axis = b.axes[i];
    if (!is_known(in[axis])) {
      if (!takes_all(b.starts[i], b.ends[i], b.steps[i])) cut.count[axis] = kUnknownDim;
      continue;
    }
    const AxisCut one = cut_axis(b.starts[i], b.ends[i], b.steps[i], in[axis]);
    cut.first[axis] = one.first;
    cut.step[axis] = one.step;
    cut.count[axis] = one.count;
  }
  return cut;
}

Result<> infer(InferContext& ctx) {
  ctx.outputs[0].dtype = ctx.inputs[0].dtype;
  const bool known = SINTER_TRY(shape_operands_known(ctx));
  if (!ctx.inputs[0].shape) return {};
  const Shape& in = *ctx.inputs[0].shape;
  if (known) {
    ctx.outputs[0].shape = SINTER_TRY(cut(ctx.node, in, int_operands(ctx))).count;
    return {};
  }
  // The axes that are cut have an unknown extent, the others keep theirs.
  Shape out = Shape::filled(in.rank(), kUnknownDim);
  const auto axes = known_ints(ctx, 3);
  const auto length = operand_length(ctx, 1);
  if (axes || (!ctx.has(3) && length && *length <= in.rank())) {
    out = in;
    if (axes) {
      for (size_t axis : SINTER_TRY(checked_axes(ctx.node, *axes, in.rank()))) out[axis] = kUnknownDim;
    } else {
      for (size_t axis = 0; axis < *length; ++axis) out[axis] = kUnknownDim;
    }
  }
  ctx.outputs[0].shape = out;
  return {};
}

std::optional<DimValues> slice_dims(const Node& node, std::span<const TensorInfo> inputs) {
  const auto data = dim_values(inputs[0]);
  if (!data || !inputs[0].shape || inputs[0].shape->rank() != 1) return std::nullopt;
  IntOperands ints(inputs.size());
  for (size_t i = 1; i < inputs.size(); ++i) {
    if (!inputs[i].present) continue;
    if (!inputs[i].constant) return std::nullopt;
    ints[i] = to_ints(*inputs[i].constant);
  }
  const auto taken = cut(node, Shape{static_cast<int64_t>(data->size())}, ints);
  if (!taken) return std::nullopt;
  DimValues values;
  for (int64_t i = 0; i < taken->count[0]; ++i) {
    values.push_back((*data)[static_cast<size_t>(taken->first[0] + i * taken->step[0])]);
  }
  return values;
}

// Moves the input's strides to the cut: the first element's offset and the step along each axis.
int64_t apply(const Cut& cut, Shape& strides) {
  int64_t base = 0;
  for (size_t i = 0; i < strides.rank(); ++i) {
    base += cut.first[i] * strides[i];
    strides[i] *= cut.step[i];
  }
  return base;
}

Result<> reference(const RefContext& ctx) {
  const Shape &in = ctx.in(0).shape(), &out = ctx.out().shape();
  if (out.numel() == 0) return {};
  Shape strides = row_major_strides(in);
  const int64_t base = apply(SINTER_TRY(cut(ctx.node, in, int_operands(ctx))), strides);
  const size_t size = size_of(ctx.out().dtype());
  strided_copy(ctx.out().mutable_bytes().data(), row_major_strides(out),
               ctx.in(0).bytes().data() + static_cast<size_t>(base) * size, strides, out, size);
  return {};
}

Result<> device(WgslContext& ctx) {
  const Shape& out = ctx.out_shape();
  Shape strides = row_major_strides(ctx.in_shape(0));
  const int64_t base = apply(SINTER_TRY(cut(ctx.node, ctx.in_shape(0), int_operands(ctx))), strides);
  return emit_copy(ctx, "slice",
                   {.dims = out, .from_strides = strides, .to_strides = row_major_strides(out), .from_base = base});
}

void cases(std::vector<OpCase>& cases) {
  const auto add = [&](std::string name, DType dtype, Shape shape, std::initializer_list<OpCase::Input> operands) {
    OpCase item{.name = std::move(name), .inputs = {{.dtype = dtype, .shape = shape, .lo = 0, .hi = 9}}};
    item.inputs.insert(item.inputs.end(), operands.begin(), operands.end());
    cases.push_back(std::move(item));
  };
  const auto ints = [](std::initializer_list<int64_t> values) { return constant_ints(values); };
  add("backward by 2", DType::f32, {6}, {ints({5}), ints({-7}), ints({0}), ints({-2})});
  add("two axes", DType::f32, {5, 7, 3}, {ints({1, 2}), ints({4, 100}), ints({0, -2})});
  add("contiguous", DType::f32, {2, 8, 4}, {ints({2}), ints({6}), ints({1})});
  add("to the end", DType::i64, {5}, {ints({2}), ints({INT64_MAX})});
  add("reversed to the start", DType::f32, {4, 3}, {ints({-1}), ints({INT64_MIN}), ints({0}), ints({-1})});
  add("bool step 3", DType::boolean, {10}, {ints({0}), ints({10}), ints({0}), ints({3})});
  add("float16", DType::f16, {3, 5}, {ints({1}), ints({5}), ints({1})});
  add("empty", DType::f32, {5}, {ints({3}), ints({3})});
}

}  // namespace

extern const OpDef op_slice = {.name = "Slice",
                               .min_inputs = 3,
                               .max_inputs = 5,
                               .op_class = OpClass::movement,
                               .notes = "bounds must be computable before the run",
                               .shape_operands = 0b11110,
                               .infer = infer,
                               .dims = slice_dims,
                               .reference = reference,
                               .wgsl = device,
                               .cases = cases};

}  // namespace sinter
