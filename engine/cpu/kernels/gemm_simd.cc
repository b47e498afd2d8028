// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/cpu/kernels/gemm_simd.cc"
#include "hwy/foreach_target.h"

#include "engine/cpu/kernels/gemm.h"
#include "engine/cpu/kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sinter::cpu {
namespace HWY_NAMESPACE {
namespace {

// AVX-512 has 32 registers: 8 x 3 accumulators, 3 of the panel, one broadcast. With 16: 6 x 2, 2, 1 and one for products.
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON
constexpr size_t kHeight = 8, kWidth = 3;
#else
constexpr size_t kHeight = 6, kWidth = 2;
#endif

// The accumulators must live in registers: every loop over them is unrolled in full.
#define SINTER_UNROLL _Pragma("clang loop unroll(full)")

template <size_t kRows, size_t kVectors>
HWY_INLINE void Finish(const TileArgs& t, VF (&acc)[kRows][kVectors]) {
  const F32 d;
  const size_t last = t.columns - (kVectors - 1) * kLanes;  // valid columns of the last vector
  if (t.epilogue.add) {
    const float* add = t.epilogue.add;
    SINTER_UNROLL for (size_t m = 0; m < kRows; ++m) {
      SINTER_UNROLL for (size_t v = 0; v + 1 < kVectors; ++v) {
        acc[m][v] = hn::Add(acc[m][v], hn::LoadU(d, add + v * kLanes));
      }
      const float* end = add + (kVectors - 1) * kLanes;
      acc[m][kVectors - 1] = hn::Add(acc[m][kVectors - 1], last == kLanes ? hn::LoadU(d, end) : LoadPart(end, last));
      add += t.epilogue.add_stride;
    }
  }
  const VF lo = hn::Set(d, t.epilogue.lo), hi = hn::Set(d, t.epilogue.hi);
  float* out = t.out;
  SINTER_UNROLL for (size_t m = 0; m < kRows; ++m) {
    SINTER_UNROLL for (size_t v = 0; v + 1 < kVectors; ++v) {
      hn::StoreU(ClampKeepNaN(acc[m][v], lo, hi), d, out + v * kLanes);
    }
    const VF y = ClampKeepNaN(acc[m][kVectors - 1], lo, hi);
    float* end = out + (kVectors - 1) * kLanes;
    if (last == kLanes) {
      hn::StoreU(y, d, end);
    } else {
      StorePart(y, end, last);
    }
    out += t.out_stride;
  }
}

template <size_t kRows, size_t kVectors>
HWY_NOINLINE void Tile(const TileArgs& t) {
  const F32 d;
  VF acc[kRows][kVectors];
  SINTER_UNROLL for (size_t v = 0; v < kVectors; ++v) {
    const VF start = t.bias ? hn::LoadU(d, t.bias + v * kLanes) : hn::Zero(d);
    SINTER_UNROLL for (size_t m = 0; m < kRows; ++m) acc[m][v] = start;
  }
  // What the end of the tile touches, while the sums keep the machine busy.
  for (size_t m = 0; m < kRows; ++m) {
    for (size_t v = 0; v < kVectors; ++v) {
      __builtin_prefetch(t.out + m * t.out_stride + v * kLanes, 1);
      if (t.epilogue.add) __builtin_prefetch(t.epilogue.add + m * t.epilogue.add_stride + v * kLanes);
    }
  }
  const float* HWY_RESTRICT b = t.packed;
  const float* HWY_RESTRICT ahead = t.ahead;
  const float* const* rows = t.rows;
  for (size_t s = 0; s < t.segments; ++s, rows += kRows) {
    const float* HWY_RESTRICT a[kRows];
    SINTER_UNROLL for (size_t m = 0; m < kRows; ++m) a[m] = rows[m] + t.row_offset;
    for (size_t k = 0; k < t.k; ++k, b += kVectors * kLanes, ahead += 16) {
      __builtin_prefetch(ahead, 0, 2);
      VF bv[kVectors];
      SINTER_UNROLL for (size_t v = 0; v < kVectors; ++v) bv[v] = hn::LoadU(d, b + v * kLanes);
      SINTER_UNROLL for (size_t m = 0; m < kRows; ++m) {
        const VF am = hn::Set(d, a[m][k]);
        SINTER_UNROLL for (size_t v = 0; v < kVectors; ++v) acc[m][v] = Fma(am, bv[v], acc[m][v]);
      }
    }
  }
  Finish<kRows, kVectors>(t, acc);
}
#undef SINTER_UNROLL

template <size_t kRows, size_t kVectors>
void Fill(GemmKernels& kernels) {
  kernels.tile[kRows - 1][kVectors - 1] = &Tile<kRows, kVectors>;
  if constexpr (kVectors > 1) {
    Fill<kRows, kVectors - 1>(kernels);
  } else if constexpr (kRows > 1) {
    Fill<kRows - 1, kWidth>(kernels);
  }
}

}  // namespace

const GemmKernels& Gemm() {
  static const GemmKernels kernels = [] {
    GemmKernels k;
    k.lanes = kLanes;
    k.height = kHeight;
    k.max_vectors = kWidth;
    Fill<kHeight, kWidth>(k);
    return k;
  }();
  return kernels;
}

}  // namespace HWY_NAMESPACE
}  // namespace sinter::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sinter::cpu {
HWY_EXPORT(Gemm);
const GemmKernels& gemm_kernels() { return HWY_DYNAMIC_DISPATCH(Gemm)(); }
}  // namespace sinter::cpu
#endif
