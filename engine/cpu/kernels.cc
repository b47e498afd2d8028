// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/kernels.h"

#include "engine/cpu/kernels/list.h"
#include "engine/cpu/kernels/targets.h"
#include "hwy/highway.h"

namespace sinter::cpu {
namespace {

// Depthwise before the general convolutions, which accept depthwise nodes too.
constexpr const plan::HostKernel* kKernels[] = {
    &kDepthwiseKernel,
    &kConvKernel,
    &kDepthwiseFirstKernel,
    &kConvFirstKernel,
    &kMatMulKernel,
    &kGemmKernel,
    &kMaxPoolKernel,
    &kAveragePoolKernel,
    &kGlobalAveragePoolKernel,
    &kMaxPoolFirstKernel,
    &kAveragePoolFirstKernel,
    &kGlobalAveragePoolFirstKernel,
    &kBatchNormKernel,
    &kSoftmaxKernel,
    &kLogSoftmaxKernel,
    &kTransposeKernel,
    &kMapKernel,
};

#if HWY_TARGETS & (HWY_TARGETS - 1)
std::vector<int64_t> sets(int64_t mask) {
  std::vector<int64_t> result;  // lower bits are better
  for (int64_t left = mask & HWY_TARGETS; left != 0; left &= left - 1) result.push_back(left & -left);
  return result;
}

// What the machine can run, whatever is forced now.
int64_t supported() {
  static const int64_t mask = [] {
    const int64_t all = hwy::SupportedTargets() & HWY_TARGETS;
    return all ? all : int64_t{HWY_STATIC_TARGET};
  }();
  return mask;
}
#endif

}  // namespace

std::span<const plan::HostKernel* const> host_kernels() { return kKernels; }

#if HWY_TARGETS & (HWY_TARGETS - 1)

std::vector<std::string_view> instruction_sets() {
  std::vector<std::string_view> names;
  for (int64_t set : sets(supported())) names.push_back(hwy::TargetName(set));
  return names;
}

std::string_view instruction_set() {
  supported();
  const auto now = sets(hwy::SupportedTargets());
  return hwy::TargetName(now.empty() ? int64_t{HWY_STATIC_TARGET} : now.front());
}

bool force_instruction_set(std::string_view name) {
  int64_t mask = 0;  // no restriction
  if (!name.empty()) {
    for (int64_t set : sets(supported())) {
      if (name == hwy::TargetName(set)) mask = set;
    }
    if (mask == 0) return false;
  }
  hwy::SetSupportedTargetsForTest(mask);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  return true;
}

#else

std::string_view instruction_set() {
#if defined(__wasm_relaxed_simd__)
  return "WASM_RELAXED";
#else
  return hwy::TargetName(HWY_STATIC_TARGET);
#endif
}
std::vector<std::string_view> instruction_sets() { return {instruction_set()}; }
bool force_instruction_set(std::string_view name) { return name.empty() || name == instruction_set(); }

#endif

}  // namespace sinter::cpu
