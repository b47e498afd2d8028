// SPDX-License-Identifier: Apache-2.0
// MaxPool (ai.onnx 1-22), AveragePool (1-22) and LpPool (1-22): 1-D, 2-D and 3-D, every form of padding, ceil_mode.
// https://onnx.ai/onnx/operators/onnx__MaxPool.html
// Refused: more than 3 spatial axes.
//
// NaN propagates: a window that holds one gives NaN. A partial window of ceil_mode counts only if it starts inside the
// input or its leading padding. With nhwc=1 input 0 and output 0 are [N, spatial..., C]; MaxPool's Indices keep ONNX's
// layout and count in it.
#include "engine/ops/pool.h"

#include <cmath>
#include <limits>

#include "engine/ops/util.h"

namespace sinter::ops {
namespace {

bool accepts(PoolKind kind, DType dtype) {
  return is_float(dtype) || (kind == PoolKind::max && (dtype == DType::i8 || dtype == DType::u8));
}

Result<> infer(InferContext& ctx) {
  const Node& node = ctx.node;
  const DType dtype = ctx.inputs[0].dtype;
  if (!accepts(pool_kind(node), dtype)) {
    return bad(node, StrCat("dtype ", name_of(dtype), " is not accepted"), "insert a Cast to float32 before it");
  }
  if (pool_kind(node) == PoolKind::lp && node.attrs.i("p", 2) < 1) return bad(node, "attribute p must be at least 1");
  ctx.outputs[0].dtype = dtype;
  if (ctx.wants(1)) ctx.outputs[1].dtype = DType::i64;
  if (!ctx.inputs[0].shape) return {};
  const Shape& x = *ctx.inputs[0].shape;
  const SpatialDims dims = SINTER_TRY(spatial_dims(node, x));
  const Window window = SINTER_TRY(resolve_window(node, x));
  ctx.outputs[0].shape = spatial_shape(node, dims.batch, dims.channels, window);
  if (ctx.wants(1)) {
    Shape indices{dims.batch, dims.channels};
    for (const WindowAxis& axis : window.own()) indices.push_back(axis.out);
    ctx.outputs[1].shape = indices;
  }
  return {};
}

/// Calls visit(input offset, index offset) for the taps of output (d, h, w) that lie inside the input.
template <class Visit>
void for_each_tap(const Window& window, std::array<int64_t, 3> at, const SpatialDims& in,
                  const std::array<int64_t, 3>& index_steps, Visit visit) {
  const auto& [depth, height, width] = window.axes;
  for (int64_t kd = depth.first_tap(at[0]); kd < depth.last_tap(at[0]); ++kd) {
    for (int64_t kh = height.first_tap(at[1]); kh < height.last_tap(at[1]); ++kh) {
      for (int64_t kw = width.first_tap(at[2]); kw < width.last_tap(at[2]); ++kw) {
        const int64_t d = depth.at(at[0], kd), h = height.at(at[1], kh), w = width.at(at[2], kw);
        visit(d * in.stride[0] + h * in.stride[1] + w * in.stride[2],
              d * index_steps[0] + h * index_steps[1] + w * index_steps[2]);
      }
    }
  }
}

struct Pooled {
  double value = 0;
  int64_t index = -1;
};

class Reference {
 public:
  Reference(const Node& node, const Tensor& x, const Window& window, const SpatialDims& in)
      : kind_(pool_kind(node)),
        x_(x),
        window_(window),
        in_(in),
        steps_(index_strides(node, window)),
        p_(static_cast<double>(node.attrs.i("p", 2))),
        include_pad_(node.attrs.i("count_include_pad", 0) != 0) {}

  Pooled at(int64_t base, std::array<int64_t, 3> position) const {
    switch (kind_) {
      case PoolKind::max:
        return largest(base, position);
      case PoolKind::average:
        return average(base, position);
      case PoolKind::lp:
        return norm(base, position);
    }
    return {};
  }

 private:
  double load(int64_t i) const { return get_f64(x_, static_cast<size_t>(i)); }

  Pooled largest(int64_t base, std::array<int64_t, 3> position) const {
    Pooled best;
    best.value = x_.dtype() == DType::i8   ? -128
                 : x_.dtype() == DType::u8 ? 0
                                           : -std::numeric_limits<double>::infinity();
    for_each_tap(window_, position, in_, steps_, [&](int64_t offset, int64_t index) {
      const double v = load(base + offset);
      if (best.index < 0 || v > best.value || (std::isnan(v) && !std::isnan(best.value))) best = {v, index};
    });
    return best;
  }

  Pooled average(int64_t base, std::array<int64_t, 3> position) const {
    double sum = 0;
    int64_t count = 0;
    for_each_tap(window_, position, in_, steps_, [&](int64_t offset, int64_t) {
      sum += load(base + offset);
      ++count;
    });
    if (include_pad_) {
      count = 1;
      for (size_t a = 0; a < kMaxSpatial; ++a) count *= window_.axes[a].padded_taps(position[a]);
    }
    return {count == 0 ? 0 : sum / static_cast<double>(count)};
  }

  Pooled norm(int64_t base, std::array<int64_t, 3> position) const {
    double sum = 0;
    for_each_tap(window_, position, in_, steps_,
                 [&](int64_t offset, int64_t) { sum += std::pow(std::abs(load(base + offset)), p_); });
    return {std::pow(sum, 1 / p_)};
  }

  const PoolKind kind_;
  const Tensor& x_;
  const Window& window_;
  const SpatialDims& in_;
  const std::array<int64_t, 3> steps_;
  const double p_;
  const bool include_pad_;
};

Result<> reference(const RefContext& ctx) {
  const Node& node = ctx.node;
  const Window window = SINTER_TRY(resolve_window(node, ctx.in(0).shape()));
  const SpatialDims in = SINTER_TRY(spatial_dims(node, ctx.in(0).shape()));
  const SpatialDims out = SINTER_TRY(spatial_dims(node, ctx.out().shape()));
  const Reference pool(node, ctx.in(0), window, in);
  const bool indices = ctx.outputs.size() > 1 && node.outputs[1] != kNone;
  size_t next = 0;  // the loops run in ONNX's layout, which is that of the indices
  for (int64_t n = 0; n < in.batch; ++n) {
    for (int64_t c = 0; c < in.channels; ++c) {
      const int64_t base = n * in.batch_stride + c * in.channel_stride;
      for (int64_t d = 0; d < out.spatial[0]; ++d) {
        for (int64_t h = 0; h < out.spatial[1]; ++h) {
          for (int64_t w = 0; w < out.spatial[2]; ++w, ++next) {
            const Pooled pooled = pool.at(base, {d, h, w});
            const int64_t at = n * out.batch_stride + c * out.channel_stride + d * out.stride[0] + h * out.stride[1] +
                               w * out.stride[2];
            set_f64(ctx.out(), static_cast<size_t>(at), pooled.value);
            if (!indices) continue;
            const int64_t image = (n * in.channels + c) * window.in_points();
            set_i64(ctx.out(1), next, pooled.index < 0 ? -1 : image + pooled.index);
          }
        }
      }
    }
  }
  return {};
}

}  // namespace

PoolKind pool_kind(const Node& node) {
  const std::string_view name = node.op->name;
  if (name.ends_with("MaxPool")) return PoolKind::max;
  return name.ends_with("AveragePool") ? PoolKind::average : PoolKind::lp;
}

std::array<int64_t, kMaxSpatial> index_strides(const Node& node, const Window& window) {
  const auto& [depth, height, width] = window.axes;
  if (node.attrs.i("storage_order", 0) == 0) return {height.in * width.in, width.in, 1};
  return {1, depth.in, depth.in * height.in};
}

}  // namespace sinter::ops

namespace sinter {

extern const OpDef op_max_pool;
const OpDef op_max_pool = {
    .name = "MaxPool",
    .max_outputs = 2,
    .op_class = OpClass::spatial,
    .notes = "1 to 3 spatial axes",
    .infer = ops::infer,
    .reference = ops::reference,
    .wgsl = ops::pool_wgsl,
    .cases = ops::max_pool_cases,
};

extern const OpDef op_average_pool;
const OpDef op_average_pool = {
    .name = "AveragePool",
    .op_class = OpClass::spatial,
    .notes = "1 to 3 spatial axes",
    .infer = ops::infer,
    .reference = ops::reference,
    .wgsl = ops::pool_wgsl,
    .cases = ops::average_pool_cases,
};

extern const OpDef op_lp_pool;
const OpDef op_lp_pool = {
    .name = "LpPool",
    .op_class = OpClass::spatial,
    .notes = "1 to 3 spatial axes",
    .infer = ops::infer,
    .reference = ops::reference,
    .wgsl = ops::pool_wgsl,
    .cases = ops::lp_pool_cases,
};

}  // namespace sinter
