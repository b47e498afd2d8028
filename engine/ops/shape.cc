// SPDX-License-Identifier: Apache-2.0
// Shape, Size: dimensions as int64 values.
// https://onnx.ai/onnx/operators/onnx__Shape.html (1+), Size (1+). Nothing is refused.
#include <algorithm>

#include "engine/ops/movement.h"
#include "engine/ops/movement_wgsl.h"

namespace sinter {
namespace {

using namespace ops;

// --- Shape: attributes start, end (clamped like a slice).

struct Range {
  int64_t begin, end;
};

Range shape_range(const Node& node, size_t rank) {
  const int64_t r = static_cast<int64_t>(rank);
  const auto clamp = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + r : at, 0, r); };
  const int64_t begin = clamp(node.attrs.i("start", 0));
  return {begin, std::max(begin, clamp(node.attrs.i("end", r)))};
}

Result<> infer_shape(InferContext& ctx) {
  ctx.outputs[0].dtype = DType::i64;
  ctx.outputs[0].shape = Shape{kUnknownDim};
  if (!ctx.inputs[0].shape) return {};
  const Range range = shape_range(ctx.node, ctx.inputs[0].shape->rank());
  ctx.outputs[0].shape = Shape{range.end - range.begin};
  return {};
}

std::optional<DimValues> shape_dims(const Node& node, std::span<const TensorInfo> inputs) {
  if (!inputs[0].shape) return std::nullopt;
  const Shape& shape = *inputs[0].shape;
  const Range range = shape_range(node, shape.rank());
  DimValues dims;
  for (int64_t i = range.begin; i < range.end; ++i) {
    const int64_t dim = shape[static_cast<size_t>(i)];
    dims.push_back({dim, is_known(dim)});
  }
  return dims;
}

Result<> reference_shape(const RefContext& ctx) {
  const Shape& shape = ctx.in(0).shape();
  const Range range = shape_range(ctx.node, shape.rank());
  for (int64_t i = range.begin; i < range.end; ++i) {
    ctx.out().mutable_data<int64_t>()[i - range.begin] = shape[static_cast<size_t>(i)];
  }
  return {};
}

void shape_cases(std::vector<OpCase>& cases) {
  cases.push_back({.name = "all", .inputs = {{.shape = {2, 3, 5}}}});
  cases.push_back({.name = "start -2 end 9",
                   .attrs = make_attrs({{"start", int64_t{-2}}, {"end", int64_t{9}}}),
                   .inputs = {{.shape = {2, 3, 5}}}});
  cases.push_back({.name = "scalar", .inputs = {{.shape = {}}}});
}

// --- Size.

Result<> infer_size(InferContext& ctx) {
  ctx.outputs[0].dtype = DType::i64;
  ctx.outputs[0].shape = Shape{};
  return {};
}

Result<> reference_size(const RefContext& ctx) {
  ctx.out().mutable_data<int64_t>()[0] = ctx.in(0).shape().numel();
  return {};
}

void size_cases(std::vector<OpCase>& cases) {
  cases.push_back({.name = "all", .inputs = {{.shape = {2, 3, 5}}}});
  cases.push_back({.name = "empty", .inputs = {{.shape = {2, 0, 5}}}});
}

}  // namespace

extern const OpDef op_shape = {.name = "Shape",
                               .op_class = OpClass::other,
                               .notes = "known at plan time, never a step",
                               .shape_only = true,
                               .infer = infer_shape,
                               .dims = shape_dims,
                               .reference = reference_shape,
                               .cases = shape_cases};

extern const OpDef op_size = {.name = "Size",
                              .op_class = OpClass::other,
                              .notes = "known at plan time, never a step",
                              .shape_only = true,
                              .infer = infer_size,
                              .reference = reference_size,
                              .cases = size_cases};

}  // namespace sinter
