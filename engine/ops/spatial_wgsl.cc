// SPDX-License-Identifier: Apache-2.0
#include "engine/ops/spatial_wgsl.h"

#include <cstring>

#include "engine/ops/util.h"

namespace sinter::ops {
namespace {

constexpr int64_t kHalf = 1, kPad = 2;  // bits of the packers' argument

Result<> check_operand(const WgslContext& ctx, const TensorInfo& info, std::string_view what, bool may_be_empty) {
  if (storage(ctx, info) == wgsl::Storage::none) {
    return unsupported(ctx.node, StrCat(what, " of dtype ", name_of(info.dtype), " has no form in device memory"));
  }
  if (!may_be_empty && info.shape->numel() == 0) {
    return unsupported(ctx.node, StrCat(what, " ", to_string(*info.shape), " is empty, which a device cannot bind"));
  }
  return {};
}

int64_t padded(int64_t filters, int64_t arg) { return arg & kPad ? (filters + 3) / 4 * 4 : filters; }

/// The weight with the dtype that the device holds.
Result<Tensor> stored_weight(const Tensor& weight, int64_t arg) {
  const Tensor aligned = SINTER_TRY(weight.aligned());
  const DType dtype = arg & kHalf ? DType::f16 : DType::f32;
  return aligned.dtype() == dtype ? aligned : convert(aligned, dtype);
}

template <class T>
void taps_first(const Tensor& from, Tensor& to, int64_t filters, int64_t rows, int64_t row) {
  const T* in = from.data<T>().data();
  T* out = to.mutable_data<T>().data();
  // `rows` runs over [channel, tap] in the weight's order; the result's order is [tap, channel].
  const int64_t channels = from.shape()[1];
  const int64_t taps = channels == 0 ? 0 : rows / channels;
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t t = 0; t < taps; ++t) {
      T* line = out + (t * channels + c) * row;
      for (int64_t m = 0; m < filters; ++m) line[m] = in[m * rows + c * taps + t];
    }
  }
}

Result<Tensor> pack_taps_first(const Tensor& weight, int64_t arg) {
  const Tensor from = SINTER_TRY(stored_weight(weight, arg));
  const int64_t filters = from.shape()[0], row = padded(filters, arg);
  const int64_t rows = from.shape().product(1, from.shape().rank());
  Tensor to = SINTER_TRY(Tensor::alloc(from.dtype(), Shape{rows, row}, "a convolution's packed weights"));
  if (from.dtype() == DType::f16) {
    taps_first<uint16_t>(from, to, filters, rows, row);
  } else {
    taps_first<float>(from, to, filters, rows, row);
  }
  return to;
}

Result<Tensor> pack_pad_vector(const Tensor& vector, int64_t arg) {
  const Tensor from = SINTER_TRY(stored_weight(vector, arg));
  Tensor to =
      SINTER_TRY(Tensor::alloc(from.dtype(), Shape{padded(static_cast<int64_t>(from.numel()), arg)}, "a padded bias"));
  std::memcpy(to.mutable_bytes().data(), from.bytes().data(), from.nbytes());
  return to;
}

}  // namespace

const Packer kTapsFirst = {"taps_first", pack_taps_first};
const Packer kPadVector = {"pad_vector", pack_pad_vector};

void window_uniforms(wgsl::Writer& writer, const Window& window) {
  const auto& [depth, height, width] = window.axes;
  writer.u32("ow", static_cast<uint32_t>(width.out));
  writer.u32("oh", static_cast<uint32_t>(height.out));
  writer.u32("iw", static_cast<uint32_t>(width.in));
  writer.u32("ih", static_cast<uint32_t>(height.in));
  writer.u32("kw", static_cast<uint32_t>(width.kernel));
  writer.u32("kh", static_cast<uint32_t>(height.kernel));
  writer.u32("sw", static_cast<uint32_t>(width.stride));
  writer.u32("sh", static_cast<uint32_t>(height.stride));
  writer.u32("dw", static_cast<uint32_t>(width.dilation));
  writer.u32("dh", static_cast<uint32_t>(height.dilation));
  writer.i32("left", static_cast<int32_t>(width.pad_begin));
  writer.i32("top", static_cast<int32_t>(height.pad_begin));
}

int64_t weight_pack_arg(wgsl::Storage storage, bool pad_filters) {
  return (storage == wgsl::Storage::f16 ? kHalf : 0) | (pad_filters ? kPad : 0);
}

Result<> check_device_operands(const WgslContext& ctx) {
  for (size_t i = 0; i < ctx.inputs.size(); ++i) {
    if (ctx.has(i)) SINTER_CHECK_OK(check_operand(ctx, ctx.inputs[i], StrCat("input ", i), false));
  }
  for (size_t i = 0; i < ctx.outputs.size(); ++i) {
    if (ctx.node.outputs[i] != kNone) SINTER_CHECK_OK(check_operand(ctx, ctx.outputs[i], StrCat("output ", i), true));
  }
  return {};
}

Result<> check_device_window(const Node& node, const Window& window) {
  constexpr int64_t kLimit = int64_t{1} << 30;
  for (const WindowAxis& axis : window.axes) {
    const int64_t span = axis.in + axis.pad_begin + axis.pad_end + axis.reach();
    if (axis.out * axis.stride + span >= kLimit) {
      return unsupported(node, StrCat("the window leaves the device's 32-bit arithmetic: ", to_string(window)));
    }
  }
  return {};
}

}  // namespace sinter::ops
