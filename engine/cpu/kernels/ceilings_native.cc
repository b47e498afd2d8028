// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/cpu/kernels/ceilings_native.cc"
#include "hwy/foreach_target.h"

#include "engine/cpu/ceilings.h"
#include "engine/cpu/kernels/simd-inl.h"
#include "engine/cpu/pool.h"

HWY_BEFORE_NAMESPACE();
namespace sinter::cpu {
namespace HWY_NAMESPACE {
namespace {

// Twelve chains hide a latency of up to six cycles on two units and still fit into sixteen registers.
constexpr size_t kChains = 12;

HWY_NOINLINE float MultiplyAdd(size_t rounds) {
  const F32 d;
  VF acc[kChains];
  for (size_t i = 0; i < kChains; ++i) acc[i] = hn::Set(d, static_cast<float>(i));
  const VF factor = hn::Set(d, 0.5f), term = hn::Set(d, 1.0f);
  for (size_t round = 0; round < rounds; ++round) {
    _Pragma("clang loop unroll(full)") for (size_t i = 0; i < kChains; ++i) acc[i] = Fma(acc[i], factor, term);
  }
  VF sum = acc[0];
  for (size_t i = 1; i < kChains; ++i) sum = hn::Add(sum, acc[i]);
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

HWY_NOINLINE float ReadAll(const float* values, size_t count, size_t rounds) {
  const F32 d;
  constexpr size_t kUnroll = 8;
  VF acc[kUnroll];
  for (size_t i = 0; i < kUnroll; ++i) acc[i] = hn::Zero(d);
  for (size_t round = 0; round < rounds; ++round) {
    for (size_t at = 0; at + kUnroll * kLanes <= count; at += kUnroll * kLanes) {
      _Pragma("clang loop unroll(full)") for (size_t i = 0; i < kUnroll; ++i) {
        acc[i] = hn::Add(acc[i], hn::LoadU(d, values + at + i * kLanes));
      }
    }
  }
  VF sum = acc[0];
  for (size_t i = 1; i < kUnroll; ++i) sum = hn::Add(sum, acc[i]);
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

size_t Lanes() { return kLanes; }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace sinter::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sinter::cpu {
namespace {

HWY_EXPORT(MultiplyAdd);
HWY_EXPORT(ReadAll);
HWY_EXPORT(Lanes);

// What the loops computed goes here, so that no compiler finds them idle.
volatile float sink;

}  // namespace

double multiply_add(plan::ThreadPool& pool, size_t rounds) {
  const size_t threads = pool.threads();
  parallel_for(pool, threads, [&](size_t) { sink = HWY_DYNAMIC_DISPATCH(MultiplyAdd)(rounds); });
  return 2.0 * 12 * static_cast<double>(threads * rounds * HWY_DYNAMIC_DISPATCH(Lanes)());
}

double read_all(plan::ThreadPool& pool, std::span<const float> values, size_t rounds) {
  const size_t threads = pool.threads(), part = values.size() / threads;
  parallel_for(pool, threads,
               [&](size_t i) { sink = HWY_DYNAMIC_DISPATCH(ReadAll)(values.data() + i * part, part, rounds); });
  return static_cast<double>(threads * part * rounds * sizeof(float));
}

}  // namespace sinter::cpu
#endif  // HWY_ONCE
