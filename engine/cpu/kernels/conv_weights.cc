// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/kernels/conv_weights.h"

#include <cstring>

#include "engine/cpu/kernels/matrix.h"
#include "engine/cpu/kernels/spatial.h"

namespace sinter::cpu {
namespace {

constexpr size_t kHeaderFloats = sizeof(ConvWeightsHeader) / sizeof(float);

Result<Tensor> with_header(const Tensor& weight, int64_t groups, size_t floats) {
  Tensor packed = SINTER_TRY(
      Tensor::alloc(DType::f32, {static_cast<int64_t>(kHeaderFloats + floats)}, "packed convolution weights"));
  const Shape& shape = weight.shape();
  ConvWeightsHeader header{};
  header.out_channels = static_cast<int32_t>(shape[0]);
  header.group_channels = static_cast<int32_t>(shape[1]);
  header.groups = static_cast<int32_t>(groups);
  header.rank = static_cast<int32_t>(shape.rank() - 2);
  for (size_t i = 2; i < shape.rank(); ++i) header.kernel[i - 2] = static_cast<int32_t>(shape[i]);
  std::memcpy(packed.mutable_bytes().data(), &header, sizeof(header));
  return packed;
}

Result<Tensor> pack_conv(const Tensor& weight, int64_t arg) {
  const Shape& shape = weight.shape();
  const size_t groups = static_cast<size_t>(arg & 0xffffffff);
  const size_t columns = static_cast<size_t>(shape[0]) / groups, channels = static_cast<size_t>(shape[1]);
  const size_t taps = static_cast<size_t>(shape.product(2, shape.rank()));
  const size_t group_floats = packed_floats(columns, taps * channels);
  Tensor packed = SINTER_TRY(with_header(weight, static_cast<int64_t>(groups), groups * group_floats));
  for (size_t g = 0; g < groups; ++g) {
    const float* source = weight.data<float>().data() + g * columns * channels * taps;
    pack_matrix({source, taps, channels, columns, 1, taps, channels * taps}, 1.0f,
                packed.mutable_data<float>().data() + kHeaderFloats + g * group_floats);
  }
  return packed;
}

Result<Tensor> pack_depthwise(const Tensor& weight, int64_t) {
  const Shape& shape = weight.shape();
  const size_t channels = static_cast<size_t>(shape[0]);
  const size_t taps = static_cast<size_t>(shape.product(2, shape.rank()));
  const size_t padded = gemm_kernels().padded(channels);
  Tensor packed = SINTER_TRY(with_header(weight, shape[0], taps * padded));
  const float* source = weight.data<float>().data();
  float* to = packed.mutable_data<float>().data() + kHeaderFloats;
  for (size_t t = 0; t < taps; ++t) {
    for (size_t c = 0; c < channels; ++c) to[t * padded + c] = source[c * taps + t];
  }
  return packed;
}

}  // namespace

const Packer kConvPacker = {"cpu_conv", &pack_conv};
const Packer kDepthwisePacker = {"cpu_depthwise", &pack_depthwise};

int64_t conv_pack_arg(int64_t groups) {
  // The layout follows the vector length, which tests change within one process.
  return groups | static_cast<int64_t>(gemm_kernels().lanes) << 32;
}

}  // namespace sinter::cpu
