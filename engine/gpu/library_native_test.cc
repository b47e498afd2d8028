// SPDX-License-Identifier: Apache-2.0
// A library of another release must be refused, not crash: check_layout against functions that answer as one would.
#include "engine/gpu/library_native.h"

#if SINTER_HAVE_WEBGPU

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

namespace sinter::gpu::native {
namespace {

using ::testing::HasSubstr;

WGPULimits plausible_limits() {
  WGPULimits limits{};
  limits.maxTextureDimension2D = 8192;
  limits.maxBindGroups = 4;
  limits.maxStorageBuffersPerShaderStage = 8;
  limits.maxUniformBufferBindingSize = 65536;
  limits.maxStorageBufferBindingSize = 128ull << 20;
  limits.minUniformBufferOffsetAlignment = 256;
  limits.minStorageBufferOffsetAlignment = 256;
  limits.maxBufferSize = 256ull << 20;
  limits.maxComputeWorkgroupStorageSize = 16384;
  limits.maxComputeInvocationsPerWorkgroup = 256;
  limits.maxComputeWorkgroupSizeZ = 64;
  limits.maxComputeWorkgroupsPerDimension = 65535;
  return limits;
}

WGPUStatus good_limits(WGPUAdapter, WGPULimits* out) {
  *out = plausible_limits();
  return WGPUStatus_Success;
}

// A release whose structure has one field less before maxUniformBufferBindingSize.
WGPUStatus shifted_limits(WGPUAdapter, WGPULimits* out) {
  const WGPULimits limits = plausible_limits();
  constexpr size_t kFrom = offsetof(WGPULimits, maxUniformBufferBindingSize);
  auto* bytes = reinterpret_cast<unsigned char*>(out);
  std::memcpy(bytes, &limits, kFrom);
  std::memcpy(bytes + kFrom - 8, reinterpret_cast<const unsigned char*>(&limits) + kFrom, sizeof(limits) - kFrom);
  return WGPUStatus_Success;
}

// A release whose structure is larger.
WGPUStatus larger_limits(WGPUAdapter, WGPULimits* out) {
  *out = plausible_limits();
  std::memset(reinterpret_cast<unsigned char*>(out) + sizeof(WGPULimits), 0, 8);
  return WGPUStatus_Success;
}

WGPUStatus good_info(WGPUAdapter, WGPUAdapterInfo* out) {
  *out = WGPUAdapterInfo{};
  out->adapterType = WGPUAdapterType_CPU;
  out->backendType = WGPUBackendType_Vulkan;
  return WGPUStatus_Success;
}

WGPUStatus other_info(WGPUAdapter, WGPUAdapterInfo* out) {
  *out = WGPUAdapterInfo{};
  out->vendor.length = ~size_t{0} - 7;  // a pointer where a length is expected
  out->adapterType = WGPUAdapterType_CPU;
  return WGPUStatus_Success;
}

void free_nothing(WGPUAdapterInfo) {}

TEST(CheckLayout, AcceptsOurReleaseAndRefusesOthers) {
  Api api;
  api.path = "libother.so";
  api.AdapterInfoFreeMembers = free_nothing;
  struct Case {
    decltype(Api::AdapterGetLimits) limits;
    decltype(Api::AdapterGetInfo) info;
    std::string_view says;
  };
  const Case cases[] = {
      {good_limits, good_info, ""},
      {shifted_limits, good_info, "WGPULimits has no plausible"},
      {larger_limits, good_info, "WGPULimits is larger"},
      {good_limits, other_info, "WGPUAdapterInfo has other fields"},
  };
  for (const Case& c : cases) {
    api.AdapterGetLimits = c.limits;
    api.AdapterGetInfo = c.info;
    Result<> result = check_layout(api, nullptr);
    EXPECT_EQ(result.has_value(), c.says.empty()) << c.says;
    if (result) continue;
    EXPECT_EQ(result.error().code, Code::Gpu);
    EXPECT_THAT(result.error().message, HasSubstr("libother.so does not fit"));
    EXPECT_THAT(result.error().message, HasSubstr(c.says));
    EXPECT_THAT(result.error().hint, HasSubstr("SINTER_WEBGPU_LIB"));
  }
}

}  // namespace
}  // namespace sinter::gpu::native

#endif  // SINTER_HAVE_WEBGPU
