// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/cpu/kernels/rows_simd.cc"
#include "hwy/foreach_target.h"

#include "engine/cpu/kernels/math-inl.h"
#include "engine/cpu/kernels/rows.h"

HWY_BEFORE_NAMESPACE();
namespace sinter::cpu {
namespace HWY_NAMESPACE {
namespace {

/// out[i] = f(in0[i], ..., in{kArity-1}[i]).
template <size_t kArity, class F>
HWY_INLINE bool Each(const RowOp& row, F&& f) {
  const F32 d;
  const auto call = [&](auto&& load) {
    if constexpr (kArity == 1) {
      return f(load(0));
    } else if constexpr (kArity == 2) {
      return f(load(0), load(1));
    } else {
      return f(load(0), load(1), load(2));
    }
  };
  size_t i = 0;
  for (; i + kLanes <= row.count; i += kLanes) {
    hn::StoreU(call([&](size_t k) { return hn::LoadU(d, row.in[k] + i * row.step[k]); }), d, row.out + i);
  }
  if (const size_t left = row.count - i) {
    StorePart(call([&](size_t k) { return LoadPart(row.in[k] + i * row.step[k], left); }), row.out + i, left);
  }
  return true;
}

HWY_INLINE VF Truth(hn::Mask<F32> mask) { return hn::IfThenElseZero(mask, Splat(1.0f)); }

bool RunUnary(const RowOp& row) {
  switch (row.op) {
    case ScalarOp::input:
      return Each<1>(row, [](VF x) { return x; });
    case ScalarOp::neg:
      return Each<1>(row, [](VF x) { return hn::Neg(x); });
    case ScalarOp::abs:
      return Each<1>(row, [](VF x) { return hn::Abs(x); });
    case ScalarOp::sign:
      return Each<1>(row, [](VF x) {
        const VF zero = hn::Zero(F32());
        return hn::IfThenElse(hn::Lt(x, zero), Splat(-1.0f), hn::IfThenElse(hn::Gt(x, zero), Splat(1.0f), x));
      });
    case ScalarOp::floor:
      return Each<1>(row, [](VF x) { return hn::Floor(x); });
    case ScalarOp::ceil:
      return Each<1>(row, [](VF x) { return hn::Ceil(x); });
    case ScalarOp::round_even:
      return Each<1>(row, [](VF x) { return hn::Round(x); });
    case ScalarOp::exp:
      return Each<1>(row, [](VF x) { return Exp(x); });
    case ScalarOp::log:
      return Each<1>(row, [](VF x) { return Log(x); });
    case ScalarOp::sqrt:
      return Each<1>(row, [](VF x) { return hn::Sqrt(x); });
    case ScalarOp::reciprocal:
      return Each<1>(row, [](VF x) { return hn::Div(Splat(1.0f), x); });
    case ScalarOp::relu:
      return Each<1>(row, [](VF x) { return hn::Max(hn::Zero(F32()), x); });
    case ScalarOp::sigmoid:
      return Each<1>(row, [](VF x) { return Sigmoid(x); });
    case ScalarOp::tanh:
      return Each<1>(row, [](VF x) { return Tanh(x); });
    case ScalarOp::erf:
      return Each<1>(row, [](VF x) { return Erf(x); });
    case ScalarOp::softplus:
      return Each<1>(row, [](VF x) { return Softplus(x); });
    case ScalarOp::logical_not:
      return Each<1>(row, [](VF x) { return Truth(hn::Eq(x, hn::Zero(F32()))); });
    case ScalarOp::is_nan:
      return Each<1>(row, [](VF x) { return hn::IfThenZeroElse(hn::Eq(x, x), Splat(1.0f)); });
    default:
      return false;
  }
}

bool RunBinary(const RowOp& row) {
  switch (row.op) {
    case ScalarOp::add:
      return Each<2>(row, [](VF a, VF b) { return hn::Add(a, b); });
    case ScalarOp::sub:
      return Each<2>(row, [](VF a, VF b) { return hn::Sub(a, b); });
    case ScalarOp::mul:
      return Each<2>(row, [](VF a, VF b) { return hn::Mul(a, b); });
    case ScalarOp::div:
      return Each<2>(row, [](VF a, VF b) { return hn::Div(a, b); });
    case ScalarOp::min:
      return Each<2>(row, [](VF a, VF b) { return MinEitherNaN(a, b); });
    case ScalarOp::max:
      return Each<2>(row, [](VF a, VF b) { return MaxEitherNaN(a, b); });
    case ScalarOp::less:
      return Each<2>(row, [](VF a, VF b) { return Truth(hn::Lt(a, b)); });
    case ScalarOp::less_equal:
      return Each<2>(row, [](VF a, VF b) { return Truth(hn::Le(a, b)); });
    case ScalarOp::greater:
      return Each<2>(row, [](VF a, VF b) { return Truth(hn::Gt(a, b)); });
    case ScalarOp::greater_equal:
      return Each<2>(row, [](VF a, VF b) { return Truth(hn::Ge(a, b)); });
    case ScalarOp::equal:
      return Each<2>(row, [](VF a, VF b) { return Truth(hn::Eq(a, b)); });
    case ScalarOp::prelu:
      return Each<2>(row, [](VF a, VF b) { return hn::IfThenElse(hn::Lt(a, hn::Zero(F32())), hn::Mul(a, b), a); });
    default:
      return false;
  }
}

bool Run(const RowOp& row) {
  if (row.op == ScalarOp::select) {
    return Each<3>(row, [](VF c, VF yes, VF no) { return hn::IfThenElse(hn::Eq(c, hn::Zero(F32())), no, yes); });
  }
  return RunUnary(row) || RunBinary(row);
}

/// Folds a row with f, starting from `start`; f must not care about the order.
template <class F>
HWY_INLINE float Fold(const float* in, size_t count, float start, F&& f) {
  const F32 d;
  VF acc = Splat(start);
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) acc = f(acc, hn::LoadU(d, in + i));
  HWY_ALIGN float lanes[kLanes];
  hn::Store(acc, d, lanes);
  float result = start;
  const auto scalar = [&](float x) { result = hn::GetLane(f(Splat(result), Splat(x))); };
  for (float lane : lanes) scalar(lane);
  for (; i < count; ++i) scalar(in[i]);
  return result;
}

void Softmax(const float* in, float* out, size_t count, bool log) {
  const F32 d;
  const float most = Fold(in, count, -__builtin_inff(), [](VF a, VF b) { return MaxEitherNaN(a, b); });
  const VF shift = Splat(most);
  VF sum = hn::Zero(d);
  float tail_sum = 0;
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const VF shifted = hn::Sub(hn::LoadU(d, in + i), shift), e = Exp(shifted);
    sum = hn::Add(sum, e);
    hn::StoreU(log ? shifted : e, d, out + i);
  }
  for (; i < count; ++i) {
    const VF shifted = Splat(in[i] - most), e = Exp(shifted);
    tail_sum += hn::GetLane(e);
    out[i] = hn::GetLane(log ? shifted : e);
  }
  const float total = hn::GetLane(hn::SumOfLanes(d, sum)) + tail_sum;
  const float operand = log ? hn::GetLane(Log(Splat(total))) : 1.0f / total;
  HWY_ALIGN float splat[RowKernels::kSplat];
  for (float& value : splat) value = operand;
  Run(RowOp{log ? ScalarOp::sub : ScalarOp::mul, {out, splat, nullptr}, {1, 0, 0}, out, count});
}

void Affine(const float* in, const float* scale, const float* shift, bool each, float* out, size_t count) {
  HWY_ALIGN float splats[2][RowKernels::kSplat];
  for (size_t i = 0; i < RowKernels::kSplat; ++i) {
    splats[0][i] = *scale;
    splats[1][i] = *shift;
  }
  const size_t step = each ? 1 : 0;
  const RowOp row{
      ScalarOp::input, {in, each ? scale : splats[0], each ? shift : splats[1]}, {1, step, step}, out, count};
  Each<3>(row, [](VF x, VF a, VF b) { return Fma(x, a, b); });
}

const RowKernels kRows = {kLanes, &Run, &Softmax, &Affine};

}  // namespace

const RowKernels& Rows() { return kRows; }

}  // namespace HWY_NAMESPACE
}  // namespace sinter::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sinter::cpu {
HWY_EXPORT(Rows);
const RowKernels& row_kernels() { return HWY_DYNAMIC_DISPATCH(Rows)(); }
}  // namespace sinter::cpu
#endif
