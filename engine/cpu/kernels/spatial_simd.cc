// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/cpu/kernels/spatial_simd.cc"
#include "hwy/foreach_target.h"

#include "engine/cpu/kernels/simd-inl.h"
#include "engine/cpu/kernels/spatial.h"

HWY_BEFORE_NAMESPACE();
namespace sinter::cpu {
namespace HWY_NAMESPACE {
namespace {

#define SINTER_UNROLL _Pragma("clang loop unroll(full)")

// Points computed together: each loaded weight serves that many, and their sums hide the latency of the additions.
constexpr size_t kPoints = 4;

/// Runs f.template operator()<kPoints>(first point) over all points, then single ones.
template <class F>
HWY_INLINE void EachGroup(size_t points, F&& f) {
  size_t p = 0;
  for (; p + kPoints <= points; p += kPoints) f.template operator()<kPoints>(p);
  for (; p < points; ++p) f.template operator()<1>(p);
}

/// Calls f(channel, load, store) for each vector of channels; the last one, where partial, touches no other channel.
template <class F>
HWY_INLINE void EachChannel(size_t channels, F&& f) {
  const F32 d;
  size_t c = 0;
  for (; c + kLanes <= channels; c += kLanes) {
    f(
        c, [d](const float* p) HWY_ATTR { return hn::LoadU(d, p); },
        [d](VF v, float* p) HWY_ATTR { hn::StoreU(v, d, p); });
  }
  if (const size_t left = channels - c) {
    f(
        c, [left](const float* p) HWY_ATTR { return LoadPart(p, left); },
        [left](VF v, float* p) HWY_ATTR { StorePart(v, p, left); });
  }
}

void Depthwise(const DepthwiseRun& run) {
  const F32 d;
  const VF lo = hn::Set(d, run.lo), hi = hn::Set(d, run.hi);
  EachChannel(run.channels, [&](size_t c, auto load, auto store) HWY_ATTR {
    const VF bias = run.bias ? load(run.bias + c) : hn::Zero(d);
    EachGroup(run.points, [&]<size_t kCount>(size_t p) HWY_ATTR {
      VF acc[kCount];
      SINTER_UNROLL for (size_t i = 0; i < kCount; ++i) acc[i] = bias;
      const float* in = run.in + static_cast<ptrdiff_t>(p) * run.in_step + c;
      for (size_t t = 0; t < run.taps; ++t) {
        const VF w = hn::LoadU(d, run.weights + run.weight_rows[t] * run.weight_stride + c);
        const float* x = in + run.offsets[t];
        SINTER_UNROLL for (size_t i = 0; i < kCount; ++i) {
          acc[i] = Fma(w, load(x + static_cast<ptrdiff_t>(i) * run.in_step), acc[i]);
        }
      }
      SINTER_UNROLL for (size_t i = 0; i < kCount; ++i) {
        const size_t at = (p + i) * run.out_step + c;
        if (run.add) acc[i] = hn::Add(acc[i], load(run.add + at));
        store(ClampKeepNaN(acc[i], lo, hi), run.out + at);
      }
    });
  });
}

/// out = finish(fold of the taps with f, from start).
template <class F, class G>
HWY_INLINE void Pool(const TapRun& run, VF start, F&& f, G&& finish) {
  EachChannel(run.channels, [&](size_t c, auto load, auto store) HWY_ATTR {
    EachGroup(run.points, [&]<size_t kCount>(size_t p) HWY_ATTR {
      VF acc[kCount];
      SINTER_UNROLL for (size_t i = 0; i < kCount; ++i) acc[i] = start;
      const float* in = run.in + static_cast<ptrdiff_t>(p) * run.in_step + c;
      for (size_t t = 0; t < run.taps; ++t) {
        const float* x = in + run.offsets[t];
        SINTER_UNROLL for (size_t i = 0; i < kCount; ++i) {
          acc[i] = f(acc[i], load(x + static_cast<ptrdiff_t>(i) * run.in_step));
        }
      }
      SINTER_UNROLL for (size_t i = 0; i < kCount; ++i) store(finish(acc[i]), run.out + (p + i) * run.out_step + c);
    });
  });
}

void MaxPool(const TapRun& run) {
  Pool(
      run, hn::Set(F32(), -__builtin_inff()), [](VF a, VF b) HWY_ATTR { return MaxEitherNaN(a, b); },
      [](VF v) HWY_ATTR { return v; });
}

void SumPool(const TapRun& run, float scale) {
  const VF factor = hn::Set(F32(), scale);
  Pool(
      run, hn::Zero(F32()), [](VF a, VF b) HWY_ATTR { return hn::Add(a, b); },
      [factor](VF v) HWY_ATTR { return hn::Mul(v, factor); });
}

void SumRows(const float* in, size_t rows, size_t stride, size_t channels, float scale, float* out) {
  // In parts: the rounding error grows with the length of one part rather than with all rows.
  constexpr size_t kPart = 64;
  const F32 d;
  EachChannel(channels, [&](size_t c, auto load, auto store) HWY_ATTR {
    VF total = hn::Zero(d);
    for (size_t first = 0; first < rows; first += kPart) {
      VF part = hn::Zero(d);
      const size_t last = first + kPart < rows ? first + kPart : rows;
      for (size_t r = first; r < last; ++r) part = hn::Add(part, load(in + r * stride + c));
      total = hn::Add(total, part);
    }
    store(hn::Mul(total, hn::Set(d, scale)), out + c);
  });
}

const SpatialKernels kSpatial = {kLanes, &Depthwise, &MaxPool, &SumPool, &SumRows};

}  // namespace

const SpatialKernels& Spatial() { return kSpatial; }

}  // namespace HWY_NAMESPACE
}  // namespace sinter::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sinter::cpu {
HWY_EXPORT(Spatial);
const SpatialKernels& spatial_kernels() { return HWY_DYNAMIC_DISPATCH(Spatial)(); }
}  // namespace sinter::cpu
#endif
