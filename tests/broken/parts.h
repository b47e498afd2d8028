// SPDX-License-Identifier: Apache-2.0
// Kernels and passes that are wrong on purpose, one at a time. This program defines the engine's three tables itself, so they
// exist nowhere else.
#pragma once

#include <cstdint>

namespace sinter::test {

enum class Broken : uint8_t {
  nothing,
  fused_clamp,       // the depthwise CPU kernel forgets the clamp fused into it
  fused_failure,     // the depthwise CPU kernel fails where something is fused into it
  depthwise,         // the depthwise CPU kernel itself, fused or not
  wgsl_tail,         // MaxPool's WGSL does not write its last elements
  wgsl_fused_clamp,  // Conv's WGSL takes the lower bound of a fused clamp for the upper one
  swapped_padding,   // a pass swaps the begin and end padding of strided convolutions
  batchnorm_fold,    // fold_batchnorm shifts 16 channels wrongly
};

extern Broken g_broken;

}  // namespace sinter::test
