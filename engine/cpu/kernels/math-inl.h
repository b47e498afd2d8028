// SPDX-License-Identifier: Apache-2.0
// Vectorised exp, log and what derives from them, within a few units in the last place, with IEEE special cases: NaN in
// gives NaN out, overflow gives infinity, subnormal results are kept.
#include "engine/cpu/kernels/simd-inl.h"

#if defined(SINTER_CPU_MATH_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef SINTER_CPU_MATH_INL_H
#undef SINTER_CPU_MATH_INL_H
#else
#define SINTER_CPU_MATH_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace sinter::cpu {
namespace HWY_NAMESPACE {
namespace {

HWY_INLINE VF Splat(float value) { return hn::Set(F32(), value); }

template <size_t kCount>
HWY_INLINE VF Polynomial(VF x, const float (&coefficients)[kCount]) {
  VF y = Splat(coefficients[0]);
  for (size_t i = 1; i < kCount; ++i) y = hn::MulAdd(y, x, Splat(coefficients[i]));
  return y;
}

HWY_INLINE VF PowerOfTwo(hn::Vec<hn::RebindToSigned<F32>> n) {
  const hn::RebindToSigned<F32> di;
  return hn::BitCast(F32(), hn::ShiftLeft<23>(hn::Add(n, hn::Set(di, 127))));
}

constexpr float kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;

HWY_INLINE VF Exp(VF x) {
  const hn::RebindToSigned<F32> di;
  x = ClampKeepNaN(x, Splat(-104.0f), Splat(89.0f));
  const VF n = hn::Round(hn::Mul(x, Splat(1.44269504088896341f)));
  VF r = hn::NegMulAdd(n, Splat(kLn2High), x);
  r = hn::NegMulAdd(n, Splat(kLn2Low), r);
  const float coefficients[] = {1.9875691500e-4f, 1.3981999507e-3f, 8.3334519073e-3f,
                                4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f};
  const VF p = hn::Add(hn::MulAdd(Polynomial(r, coefficients), hn::Mul(r, r), r), Splat(1.0f));
  // In two halves, so that neither factor leaves the range of normal numbers.
  const auto whole = hn::ConvertTo(di, n);
  const auto half = hn::ShiftRight<1>(whole);
  return hn::Mul(hn::Mul(p, PowerOfTwo(half)), PowerOfTwo(hn::Sub(whole, half)));
}

HWY_INLINE VF Log(VF x) {
  const F32 d;
  const hn::RebindToSigned<F32> di;
  const auto tiny = hn::Lt(x, Splat(1.17549435e-38f));
  const VF scaled = hn::IfThenElse(tiny, hn::Mul(x, Splat(33554432.0f)), x);  // 2^25
  // Exponent such that the mantissa lies in [sqrt(1/2), sqrt(2)).
  const auto offset = hn::Sub(hn::BitCast(di, scaled), hn::Set(di, 0x3f3504f3));
  const auto exponent = hn::ShiftRight<23>(offset);
  const auto mantissa = hn::Add(hn::And(offset, hn::Set(di, 0x007fffff)), hn::Set(di, 0x3f3504f3));
  const VF e = hn::Sub(hn::ConvertTo(d, exponent), hn::IfThenElseZero(tiny, Splat(25.0f)));
  const VF f = hn::Sub(hn::BitCast(d, mantissa), Splat(1.0f));
  const VF f2 = hn::Mul(f, f);
  const float coefficients[] = {7.0376836292e-2f,  -1.1514610310e-1f, 1.1676998740e-1f,
                                -1.2420140846e-1f, 1.4249322787e-1f,  -1.6668057665e-1f,
                                2.0000714765e-1f,  -2.4999993993e-1f, 3.3333331174e-1f};
  VF y = hn::Mul(Polynomial(f, coefficients), hn::Mul(f, f2));
  y = hn::MulAdd(e, Splat(kLn2Low), y);
  y = hn::NegMulAdd(f2, Splat(0.5f), y);
  y = hn::MulAdd(e, Splat(kLn2High), hn::Add(f, y));
  const VF inf = Splat(__builtin_inff());
  y = hn::IfThenElse(hn::Eq(x, inf), inf, y);
  y = hn::IfThenElse(hn::Eq(x, hn::Zero(d)), hn::Neg(inf), y);
  return hn::IfThenElse(hn::Ge(x, hn::Zero(d)), y, Splat(__builtin_nanf("")));
}

HWY_INLINE VF Sigmoid(VF x) { return hn::Div(Splat(1.0f), hn::Add(Splat(1.0f), Exp(hn::Neg(x)))); }

HWY_INLINE VF Tanh(VF x) {
  const VF size = hn::Abs(x), z = hn::Mul(x, x);
  const float coefficients[] = {-5.70498872745e-3f, 2.06390887954e-2f, -5.37397155531e-2f, 1.33314422036e-1f,
                                -3.33332819422e-1f};
  const VF small = hn::MulAdd(hn::Mul(Polynomial(z, coefficients), z), x, x);
  const VF large = hn::Sub(Splat(1.0f), hn::Div(Splat(2.0f), hn::Add(Exp(hn::Add(size, size)), Splat(1.0f))));
  return hn::IfThenElse(hn::Lt(size, Splat(0.625f)), small, hn::CopySign(large, x));
}

// A rational approximation on [-4, 4]; beyond, erf is +-1 in single precision.
HWY_INLINE VF Erf(VF x) {
  x = ClampKeepNaN(x, Splat(-4.0f), Splat(4.0f));
  const VF z = hn::Mul(x, x);
  const float over[] = {-2.72614225801306e-10f, 2.77068142495902e-08f,  -2.10102402082508e-06f, -5.69250639462346e-05f,
                        -7.34990630326855e-04f, -2.95459980854025e-03f, -1.60960333262415e-02f};
  const float under[] = {-1.45660718464996e-05f, -2.13374055278905e-04f, -1.68282697438203e-03f, -7.37332916720468e-03f,
                         -1.42647390514189e-02f};
  return hn::Div(hn::Mul(x, Polynomial(z, over)), Polynomial(z, under));
}

/// log(1 + exp(x)).
HWY_INLINE VF Softplus(VF x) {
  const VF u = Exp(hn::Neg(hn::Abs(x))), w = hn::Add(u, Splat(1.0f));
  // The rounding error of w cancels in the quotient.
  const VF grown = hn::Sub(w, Splat(1.0f));
  const VF log1p = hn::IfThenElse(hn::Eq(grown, hn::Zero(F32())), u, hn::Mul(Log(w), hn::Div(u, grown)));
  return hn::Add(hn::Max(hn::Zero(F32()), x), log1p);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace sinter::cpu
HWY_AFTER_NAMESPACE();
#endif
