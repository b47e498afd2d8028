// SPDX-License-Identifier: Apache-2.0
// Packed convolution weights: a header that keeps what packing loses of the shape, then the floats.
#pragma once

#include <array>
#include <cstdint>

#include "engine/tensor/packer.h"

namespace sinter::cpu {

struct ConvWeightsHeader {
  int32_t out_channels, group_channels, groups;
  int32_t rank;
  int32_t kernel[3];  // the operator's own axes, from index 0
  int32_t unused[9];
};
static_assert(sizeof(ConvWeightsHeader) == 64);

struct ConvWeights {
  const ConvWeightsHeader* header;
  const float* data;

  explicit ConvWeights(const Tensor& packed)
      : header(reinterpret_cast<const ConvWeightsHeader*>(packed.bytes().data())),
        data(packed.data<float>().data() + sizeof(ConvWeightsHeader) / sizeof(float)) {}
  std::array<int64_t, 3> kernel() const { return {header->kernel[0], header->kernel[1], header->kernel[2]}; }
};

/// For the packed matrix product; the argument comes from `conv_pack_arg`.
extern const Packer kConvPacker;
/// [taps][channels padded to whole vectors], for group count = channels = output channels.
extern const Packer kDepthwisePacker;
int64_t conv_pack_arg(int64_t groups);

}  // namespace sinter::cpu
