// SPDX-License-Identifier: Apache-2.0
// Vectorised loops over channels of [N, spatial..., C] tensors: depthwise convolution and pools.
#pragma once

#include <cstddef>

namespace sinter::cpu {

/// A run of output points along the innermost spatial axis that all see the same taps: output p reads
/// in + offsets[t] + p * in_step for every tap t < taps.
struct TapRun {
  const float* in;
  const ptrdiff_t* offsets;
  size_t taps;
  size_t points;
  ptrdiff_t in_step;  // floats from one output point's window to the next one's
  size_t channels;
  float* out;
  size_t out_step;  // floats from one output point to the next one
};

struct DepthwiseRun : TapRun {
  const float* weights;          // [all taps][padded channels]
  const size_t* weight_offsets;  // into `weights`, per tap of the run
  const float* bias;             // channels, or null
  const float* add;              // laid out as `out`, or null
  float lo, hi;
};

struct SpatialKernels {
  size_t lanes;
  void (*depthwise)(const DepthwiseRun&);
  /// Largest element over the taps, NaN where there is one; -inf for no taps.
  void (*max_pool)(const TapRun&);
  /// Sum over the taps times `scale`.
  void (*sum_pool)(const TapRun&, float scale);
  /// out[c] = scale * sum of in[r * stride + c] over the rows.
  void (*sum_rows)(const float* in, size_t rows, size_t stride, size_t channels, float scale, float* out);
};

const SpatialKernels& spatial_kernels();

}  // namespace sinter::cpu
