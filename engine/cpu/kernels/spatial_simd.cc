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

// Several sums are kept at once: they hide the latency of the additions and share what is loaded per tap. Four points by
// two vectors of channels, or, at the ends of a row, one point by four vectors.
constexpr size_t kPoints = 4, kVectors = 2, kEdgeVectors = 4;

/// Loads and stores of whole vectors, and of a last one that must not touch the channels behind it.
struct Whole {
  HWY_INLINE VF Load(const float* p) const { return hn::LoadU(F32(), p); }
  HWY_INLINE void Store(VF v, float* p) const { hn::StoreU(v, F32(), p); }
};
struct Part {
  size_t count;
  HWY_INLINE VF Load(const float* p) const { return LoadPart(p, count); }
  HWY_INLINE void Store(VF v, float* p) const { StorePart(v, p, count); }
};

/// Calls f.template operator()<points, vectors>(first point, first channel, memory) so that all of a run is covered.
template <class F>
HWY_INLINE void EachTile(size_t points, size_t channels, F&& f) {
  const size_t grouped = points / kPoints * kPoints;
  size_t c = 0;
  for (; c + kVectors * kLanes <= channels; c += kVectors * kLanes) {
    for (size_t p = 0; p < grouped; p += kPoints) f.template operator()<kPoints, kVectors>(p, c, Whole());
  }
  for (; c + kLanes <= channels; c += kLanes) {
    for (size_t p = 0; p < grouped; p += kPoints) f.template operator()<kPoints, 1>(p, c, Whole());
  }
  if (c < channels) {
    for (size_t p = 0; p < grouped; p += kPoints) f.template operator()<kPoints, 1>(p, c, Part{channels - c});
  }
  for (size_t p = grouped; p < points; ++p) {
    for (c = 0; c + kEdgeVectors * kLanes <= channels; c += kEdgeVectors * kLanes) {
      f.template operator()<1, kEdgeVectors>(p, c, Whole());
    }
    for (; c + kLanes <= channels; c += kLanes) f.template operator()<1, 1>(p, c, Whole());
    if (c < channels) f.template operator()<1, 1>(p, c, Part{channels - c});
  }
}

void Depthwise(const DepthwiseRun& run) {
  const F32 d;
  const VF lo = hn::Set(d, run.lo), hi = hn::Set(d, run.hi);
  EachTile(run.points, run.channels, [&]<size_t kP, size_t kV>(size_t p, size_t c, auto memory) HWY_ATTR {
    VF acc[kP][kV];
    SINTER_UNROLL for (size_t v = 0; v < kV; ++v) {
      const VF start = run.bias ? memory.Load(run.bias + c + v * kLanes) : hn::Zero(d);
      SINTER_UNROLL for (size_t i = 0; i < kP; ++i) acc[i][v] = start;
    }
    const float* in = run.in + static_cast<ptrdiff_t>(p) * run.in_step + c;
    const float* weights = run.weights + c;
    for (size_t t = 0; t < run.taps; ++t) {
      const float* w = weights + run.weight_offsets[t];
      const float* x = in + run.offsets[t];
      SINTER_UNROLL for (size_t v = 0; v < kV; ++v) {
        const VF wv = hn::LoadU(d, w + v * kLanes);
        SINTER_UNROLL for (size_t i = 0; i < kP; ++i) {
          const float* at = x + static_cast<ptrdiff_t>(i) * run.in_step + v * kLanes;
          acc[i][v] = Fma(wv, memory.Load(at), acc[i][v]);
        }
      }
    }
    SINTER_UNROLL for (size_t i = 0; i < kP; ++i) {
      SINTER_UNROLL for (size_t v = 0; v < kV; ++v) {
        const size_t at = (p + i) * run.out_step + c + v * kLanes;
        VF y = acc[i][v];
        if (run.add) y = hn::Add(y, memory.Load(run.add + at));
        memory.Store(ClampKeepNaN(y, lo, hi), run.out + at);
      }
    }
  });
}

/// out = finish(fold of the taps with f, from start).
template <class F, class G>
HWY_INLINE void Pool(const TapRun& run, VF start, F&& f, G&& finish) {
  EachTile(run.points, run.channels, [&]<size_t kP, size_t kV>(size_t p, size_t c, auto memory) HWY_ATTR {
    VF acc[kP][kV];
    SINTER_UNROLL for (size_t i = 0; i < kP; ++i) { SINTER_UNROLL for (size_t v = 0; v < kV; ++v) acc[i][v] = start; }
    const float* in = run.in + static_cast<ptrdiff_t>(p) * run.in_step + c;
    for (size_t t = 0; t < run.taps; ++t) {
      const float* x = in + run.offsets[t];
      SINTER_UNROLL for (size_t i = 0; i < kP; ++i) {
        SINTER_UNROLL for (size_t v = 0; v < kV; ++v) {
          acc[i][v] = f(acc[i][v], memory.Load(x + static_cast<ptrdiff_t>(i) * run.in_step + v * kLanes));
        }
      }
    }
    SINTER_UNROLL for (size_t i = 0; i < kP; ++i) {
      SINTER_UNROLL for (size_t v = 0; v < kV; ++v) {
        memory.Store(finish(acc[i][v]), run.out + (p + i) * run.out_step + c + v * kLanes);
      }
    }
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
  EachTile(1, channels, [&]<size_t kP, size_t kV>(size_t, size_t c, auto memory) HWY_ATTR {
    VF total[kV];
    SINTER_UNROLL for (size_t v = 0; v < kV; ++v) total[v] = hn::Zero(d);
    for (size_t first = 0; first < rows; first += kPart) {
      VF part[kV];
      SINTER_UNROLL for (size_t v = 0; v < kV; ++v) part[v] = hn::Zero(d);
      const size_t last = first + kPart < rows ? first + kPart : rows;
      for (size_t r = first; r < last; ++r) {
        SINTER_UNROLL for (size_t v = 0; v < kV; ++v) {
          part[v] = hn::Add(part[v], memory.Load(in + r * stride + c + v * kLanes));
        }
      }
      SINTER_UNROLL for (size_t v = 0; v < kV; ++v) total[v] = hn::Add(total[v], part[v]);
    }
    SINTER_UNROLL for (size_t v = 0; v < kV; ++v) {
      memory.Store(hn::Mul(total[v], hn::Set(d, scale)), out + c + v * kLanes);
    }
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
