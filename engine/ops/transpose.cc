// SPDX-License-Identifier: Apache-2.0
// Transpose: axes in another order.
// https://onnx.ai/onnx/operators/onnx__Transpose.html (1+). Nothing is refused.
#include "engine/ops/movement.h"
#include "engine/ops/movement_wgsl.h"

namespace sinter {
namespace {

using namespace ops;

// Attribute perm: output axis i is input axis perm[i]; reversed where absent.
Result<std::vector<size_t>> permutation(const Node& node, size_t rank) {
  const std::span<const int64_t> perm = node.attrs.ints("perm");
  std::vector<size_t> axes;
  if (!node.attrs.has("perm")) {
    for (size_t i = rank; i-- > 0;) axes.push_back(i);
    return axes;
  }
  if (perm.size() != rank)
    return bad(node, StrCat("perm has ", perm.size(), " entries, its input has ", rank, " axes"));
  return checked_axes(node, perm, rank);
}

Result<> infer(InferContext& ctx) {
  ctx.outputs[0].dtype = ctx.inputs[0].dtype;
  if (!ctx.inputs[0].shape) {
    if (const size_t rank = ctx.attrs().ints("perm").size()) ctx.outputs[0].shape = Shape::filled(rank, kUnknownDim);
    return {};
  }
  const Shape& in = *ctx.inputs[0].shape;
  Shape out;
  for (size_t axis : SINTER_TRY(permutation(ctx.node, in.rank()))) out.push_back(in[axis]);
  ctx.outputs[0].shape = out;
  return {};
}

// Strides of the input as the output's axes see them.
Result<Shape> input_strides(const Node& node, const Shape& in) {
  const Shape own = row_major_strides(in);
  Shape strides;
  for (size_t axis : SINTER_TRY(permutation(node, in.rank()))) strides.push_back(own[axis]);
  return strides;
}

Result<> reference(const RefContext& ctx) {
  const Shape& out = ctx.out().shape();
  const Shape from = SINTER_TRY(input_strides(ctx.node, ctx.in(0).shape()));
  strided_copy(ctx.out().mutable_bytes().data(), row_major_strides(out), ctx.in(0).bytes().data(), from, out,
               size_of(ctx.out().dtype()));
  return {};
}

Result<> device(WgslContext& ctx) {
  const Shape& out = ctx.out_shape();
  const Shape from = SINTER_TRY(input_strides(ctx.node, ctx.in_shape(0)));
  return emit_copy(ctx, "transpose", {.dims = out, .from_strides = from, .to_strides = row_major_strides(out)});
}

void cases(std::vector<OpCase>& cases) {
  const auto add = [&](std::string name, DType dtype, Shape shape, std::initializer_list<int64_t> perm) {
    OpCase item{.name = std::move(name), .inputs = {{.dtype = dtype, .shape = shape, .lo = -9, .hi = 9}}};
    if (perm.size()) item.attrs.set("perm", std::vector<int64_t>(perm));
    cases.push_back(std::move(item));
  };
  add("rank 1", DType::f32, {7}, {0});
  add("default perm", DType::f32, {2, 3, 5}, {});
  add("nchw to nhwc", DType::f32, {2, 5, 3, 7}, {0, 2, 3, 1});
  add("nhwc to nchw", DType::f32, {1, 17, 33, 20}, {0, 3, 1, 2});
  add("inner axis kept", DType::f32, {3, 5, 8}, {1, 0, 2});
  add("tiles with tails", DType::f32, {3, 37, 50}, {0, 2, 1});
  add("tiles int64", DType::i64, {20, 33}, {1, 0});
  add("tiles float16", DType::f16, {20, 33}, {1, 0});
  add("bool", DType::boolean, {3, 5}, {1, 0});
  add("rank 8", DType::f32, {2, 1, 3, 2, 2, 1, 2, 3}, {7, 3, 1, 0, 2, 6, 5, 4});
  add("empty", DType::f32, {2, 0, 5}, {2, 1, 0});
}

}  // namespace

extern const OpDef op_transpose = {.name = "Transpose",
                                   .op_class = OpClass::movement,
                                   .infer = infer,
                                   .reference = reference,
                                   .wgsl = device,
                                   .cases = cases};

}  // namespace sinter
