// SPDX-License-Identifier: Apache-2.0
// What the SIMD files share, once per instruction set.
#include <cstddef>
#include <cstring>

#include "hwy/highway.h"

#if defined(SINTER_CPU_SIMD_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef SINTER_CPU_SIMD_INL_H
#undef SINTER_CPU_SIMD_INL_H
#else
#define SINTER_CPU_SIMD_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace sinter::cpu {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using F32 = hn::ScalableTag<float>;
using VF = hn::Vec<F32>;
constexpr size_t kLanes = hn::MaxLanes(F32());

/// a * b + c. Highway's wasm target has no fused form; the relaxed instruction is one where the machine has it.
HWY_INLINE VF Fma(VF a, VF b, VF c) {
#if HWY_TARGET == HWY_WASM && defined(__wasm_relaxed_simd__)
  return VF{__builtin_wasm_relaxed_madd_f32x4(a.raw, b.raw, c.raw)};
#else
  return hn::MulAdd(a, b, c);
#endif
}

// NaN rules. x86 and wasm return the second operand of Max and Min where either is NaN, Arm returns NaN: with the data
// second, all of them keep its NaN. Highway's Ne is false for NaN on AVX, so NaN is told by Eq.
HWY_INLINE VF ClampKeepNaN(VF x, VF lo, VF hi) { return hn::Min(hi, hn::Max(lo, x)); }
HWY_INLINE VF MaxEitherNaN(VF a, VF b) { return hn::IfThenElse(hn::Eq(a, a), hn::Max(a, b), a); }
HWY_INLINE VF MinEitherNaN(VF a, VF b) { return hn::IfThenElse(hn::Eq(a, a), hn::Min(a, b), a); }

/// The first n < kLanes elements; the rest is zero. Touches no byte outside.
HWY_INLINE VF LoadPart(const float* p, size_t n) {
  const F32 d;
#if HWY_MEM_OPS_MIGHT_FAULT
  HWY_ALIGN float lanes[kLanes] = {};
  for (size_t i = 0; i < n; ++i) lanes[i] = p[i];
  return hn::Load(d, lanes);
#else
  return hn::MaskedLoad(hn::FirstN(d, n), d, p);
#endif
}
HWY_INLINE void StorePart(VF v, float* p, size_t n) {
  const F32 d;
#if HWY_MEM_OPS_MIGHT_FAULT
  HWY_ALIGN float lanes[kLanes];
  hn::Store(v, d, lanes);
  for (size_t i = 0; i < n; ++i) p[i] = lanes[i];
#else
  hn::BlendedStore(v, hn::FirstN(d, n), d, p);
#endif
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace sinter::cpu
HWY_AFTER_NAMESPACE();
#endif
