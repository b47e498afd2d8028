// SPDX-License-Identifier: Apache-2.0
// Which instruction sets the SIMD files are compiled for; to be included before any Highway header. On x86: SSE4 as the
// floor (each function carries its target attribute, so the rest of the binary stays at the compiler's baseline), AVX2 and
// AVX-512. Elsewhere Highway's static target.
#pragma once

#if defined(__x86_64__)
#define HWY_BASELINE_TARGETS HWY_SSE4
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)
#endif
