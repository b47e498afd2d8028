// SPDX-License-Identifier: Apache-2.0
// DepthToSpace (ai.onnx 1-13) and SpaceToDepth (1-13): blocks of channels to blocks of pixels and back.
// https://onnx.ai/onnx/operators/onnx__DepthToSpace.html
// Nothing is refused. With nhwc=1 both images are [N, H, W, C].
//
// Both are one transposition of the axes [N, C, block row, block column, H, W], where H and W count blocks.
#include <array>

#include "engine/ops/cases.h"
#include "engine/ops/movement.h"
#include "engine/ops/movement_wgsl.h"
#include "engine/ops/util.h"
#include "engine/ops/window.h"

namespace sinter::ops {
namespace {

bool to_space(const Node& node) { return node.op->name == "DepthToSpace"; }

Result<> infer_blocks(InferContext& ctx) {
  const Node& node = ctx.node;
  ctx.outputs[0].dtype = ctx.inputs[0].dtype;
  const int64_t block = node.attrs.i("blocksize", 0);
  if (block < 1 || block > (1 << 15)) return bad(node, StrCat("attribute blocksize = ", block, " must be at least 1"));
  const std::string_view mode = node.attrs.s("mode", "DCR");
  if (to_space(node) && mode != "DCR" && mode != "CRD") {
    return bad(node, StrCat("attribute mode is '", mode, "'; it must be DCR or CRD"));
  }
  if (!ctx.inputs[0].shape) return {};
  const Shape& x = *ctx.inputs[0].shape;
  if (x.rank() != 4) return bad(node, StrCat("the input ", to_string(x), " must have rank 4"));
  const SpatialDims in = SINTER_TRY(spatial_dims(node, x));
  const auto [d, h, w] = in.spatial;
  const auto divides = [](int64_t dim, int64_t by) { return !is_known(dim) || dim % by == 0; };
  const auto times = [](int64_t dim, int64_t by) { return is_known(dim) ? dim * by : by == 1 ? dim : kUnknownDim; };
  const auto over = [](int64_t dim, int64_t by) { return is_known(dim) ? dim / by : by == 1 ? dim : kUnknownDim; };
  Window out;
  out.rank = 2;
  int64_t channels = 0;
  if (to_space(node)) {
    if (!divides(in.channels, block * block)) {
      return bad(node, StrCat("the input ", to_string(x), " has ", in.channels, " channels, which blocksize ", block,
                              " squared does not divide"));
    }
    channels = over(in.channels, block * block);
    out.axes[1].out = times(h, block);
    out.axes[2].out = times(w, block);
  } else {
    if (!divides(h, block) || !divides(w, block)) {
      return bad(node, StrCat("the input ", to_string(x), " has images that blocksize ", block, " does not divide"));
    }
    channels = times(in.channels, block * block);
    out.axes[1].out = over(h, block);
    out.axes[2].out = over(w, block);
  }
  ctx.outputs[0].shape = spatial_shape(node, in.batch, channels, out);
  return {};
}

/// Strides of an image seen as [N, C, block row, block column, H, W]: `deep` where the blocks lie among the channels.
std::array<int64_t, 6> block_strides(const SpatialDims& image, bool deep, int64_t channels, int64_t block,
                                     bool blocks_first) {
  const auto [sd, sh, sw] = image.stride;
  const int64_t sc = image.channel_stride;
  if (!deep) return {image.batch_stride, sc, sh, sw, sh * block, sw * block};
  // The channel index is [block row, block column, C] (DCR), or [C, block row, block column] (CRD).
  if (blocks_first) return {image.batch_stride, sc, sc * block * channels, sc * channels, sh, sw};
  return {image.batch_stride, sc * block * block, sc * block, sc, sh, sw};
}

Result<DeviceCopy> copy_of(const Node& node, const Shape& x, const Shape& y) {
  const int64_t block = node.attrs.i("blocksize", 1);
  const SpatialDims in = SINTER_TRY(spatial_dims(node, x));
  const SpatialDims out = SINTER_TRY(spatial_dims(node, y));
  const bool spread = to_space(node);
  const SpatialDims& wide = spread ? out : in;  // the one with large images and few channels
  const bool blocks_first = !spread || node.attrs.s("mode", "DCR") == "DCR";
  DeviceCopy copy;
  copy.dims = {wide.batch, wide.channels, block, block, wide.spatial[1] / block, wide.spatial[2] / block};
  copy.from_strides = Shape(block_strides(in, spread, wide.channels, block, blocks_first));
  copy.to_strides = Shape(block_strides(out, !spread, wide.channels, block, blocks_first));
  return copy;
}

Result<> reference_blocks(const RefContext& ctx) {
  const DeviceCopy copy = SINTER_TRY(copy_of(ctx.node, ctx.in(0).shape(), ctx.out().shape()));
  strided_copy(ctx.out().mutable_bytes().data(), copy.to_strides, ctx.in(0).bytes().data(), copy.from_strides,
               copy.dims, size_of(ctx.in(0).dtype()));
  return {};
}

Result<> wgsl_blocks(WgslContext& ctx) {
  if (ctx.out_shape().numel() == 0) return {};
  return emit_copy(ctx, to_space(ctx.node) ? "depth_to_space" : "space_to_depth",
                   SINTER_TRY(copy_of(ctx.node, ctx.in_shape(0), ctx.out_shape())));
}

void add_case(std::vector<OpCase>& cases, std::string_view name, const Shape& x, const Attrs& attrs,
              DType dtype = DType::f32) {
  for (const bool nhwc : {false, true}) {
    OpCase c;
    c.name = StrCat(name, nhwc ? " nhwc" : "");
    c.attrs = attrs;
    if (nhwc) c.attrs.set("nhwc", int64_t{1});
    c.inputs = {{.dtype = dtype, .shape = nhwc ? channels_last(x) : x, .lo = -100, .hi = 100}};
    cases.push_back(std::move(c));
  }
}

void to_space_cases(std::vector<OpCase>& cases) {
  const Attrs two = attrs_of({{"blocksize", int64_t{2}}});
  const Attrs crd = attrs_of({{"blocksize", int64_t{2}}, {"mode", std::string("CRD")}});
  add_case(cases, "block 2", {1, 8, 2, 3}, two);
  add_case(cases, "block 2 to one channel", {2, 4, 3, 3}, two);
  add_case(cases, "block 2 crd", {1, 12, 2, 3}, crd);
  add_case(cases, "block 3 crd", {2, 18, 3, 2}, attrs_of({{"blocksize", int64_t{3}}, {"mode", std::string("CRD")}}));
  add_case(cases, "block 1", {1, 3, 2, 2}, attrs_of({{"blocksize", int64_t{1}}}));
  add_case(cases, "int64", {1, 8, 2, 2}, two, DType::i64);
  add_case(cases, "half", {1, 8, 3, 3}, two, DType::f16);
  add_case(cases, "empty batch", {0, 8, 3, 3}, two);
}

void to_depth_cases(std::vector<OpCase>& cases) {
  const Attrs two = attrs_of({{"blocksize", int64_t{2}}});
  add_case(cases, "block 2", {1, 3, 4, 6}, two);
  add_case(cases, "block 2 of four channels", {2, 4, 4, 4}, two);
  add_case(cases, "block 3", {1, 2, 6, 3}, attrs_of({{"blocksize", int64_t{3}}}));
  add_case(cases, "uint8", {1, 2, 2, 4}, two, DType::u8);
  add_case(cases, "empty image", {1, 2, 0, 4}, two);
}

}  // namespace
}  // namespace sinter::ops

namespace sinter {

extern const OpDef op_depth_to_space;
const OpDef op_depth_to_space = {
    .name = "DepthToSpace",
    .op_class = OpClass::spatial,
    .infer = ops::infer_blocks,
    .reference = ops::reference_blocks,
    .wgsl = ops::wgsl_blocks,
    .cases = ops::to_space_cases,
};

extern const OpDef op_space_to_depth;
const OpDef op_space_to_depth = {
    .name = "SpaceToDepth",
    .op_class = OpClass::spatial,
    .infer = ops::infer_blocks,
    .reference = ops::reference_blocks,
    .wgsl = ops::wgsl_blocks,
    .cases = ops::to_depth_cases,
};

}  // namespace sinter
