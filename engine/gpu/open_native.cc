// SPDX-License-Identifier: Apache-2.0
// Opening an adapter and a device natively. Real adapters come before software ones, the fast one before the frugal
// one.
#include "engine/gpu/device.h"

#if SINTER_HAVE_WEBGPU
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include "engine/async/completion.h"
#include "engine/base/str.h"
#include "engine/gpu/device_native.h"

namespace sinter::gpu {
namespace native {
namespace {

constexpr std::string_view kNoAdapterHint =
    "install a Vulkan driver (vulkaninfo --summary must list a device; mesa-vulkan-drivers has a software one), or use "
    "the CPU backend";

struct AdapterAnswer {
  WGPUAdapter adapter = nullptr;
  std::string message;
};

struct DeviceAnswer {
  WGPUDevice device = nullptr;
  std::string message;
};

void on_adapter(WGPURequestAdapterStatus status, WGPUAdapter adapter, WGPUStringView message, void* user, void*) {
  auto* done = static_cast<Completion<AdapterAnswer>*>(user);
  const bool good = status == WGPURequestAdapterStatus_Success;
  done->complete(AdapterAnswer{good ? adapter : nullptr, text_of(message)});
  delete done;
}

void on_device(WGPURequestDeviceStatus status, WGPUDevice device, WGPUStringView message, void* user, void*) {
  auto* done = static_cast<Completion<DeviceAnswer>*>(user);
  const bool good = status == WGPURequestDeviceStatus_Success;
  done->complete(DeviceAnswer{good ? device : nullptr, text_of(message)});
  delete done;
}

// Comes exactly once, at the latest when the device is released, and may come from another thread: it owns its
// reference.
void on_lost(const WGPUDevice*, WGPUDeviceLostReason, WGPUStringView message, void* user, void*) {
  auto* trouble = static_cast<std::shared_ptr<Trouble>*>(user);
  (*trouble)->lose(text_of(message));
  delete trouble;
}

void on_uncaptured(const WGPUDevice*, WGPUErrorType type, WGPUStringView message, void* user, void*) {
  static_cast<Trouble*>(user)->add_error(error_of(type, text_of(message)));
}

// There is no Device yet that the caller could poll, so opening pumps the instance itself, a turn at a time.
template <class T>
Task<T> pump(const Api& api, WGPUInstance instance, Completion<T> done) {
  while (!done.done()) {
    api.InstanceProcessEvents(instance);
    if (!done.done()) co_await next_turn();
  }
  co_return co_await done;
}

Task<AdapterAnswer> request_adapter(const Api& api, WGPUInstance instance, bool low_power, bool software) {
  WGPURequestAdapterOptions options{};
  options.featureLevel = WGPUFeatureLevel_Core;
  options.powerPreference = low_power ? WGPUPowerPreference_LowPower : WGPUPowerPreference_HighPerformance;
  options.forceFallbackAdapter = software;
  Completion<AdapterAnswer> done;
  WGPURequestAdapterCallbackInfo info{};
  info.mode = WGPUCallbackMode_AllowProcessEvents;
  info.callback = on_adapter;
  info.userdata1 = new Completion<AdapterAnswer>(done);
  api.InstanceRequestAdapter(instance, &options, info);
  return pump(api, instance, done);
}

std::string_view name_of(WGPUBackendType backend) {
  switch (backend) {
    case WGPUBackendType_D3D11:
      return "d3d11";
    case WGPUBackendType_D3D12:
      return "d3d12";
    case WGPUBackendType_Metal:
      return "metal";
    case WGPUBackendType_Vulkan:
      return "vulkan";
    case WGPUBackendType_OpenGL:
      return "opengl";
    case WGPUBackendType_OpenGLES:
      return "opengles";
    default:
      return "unknown";
  }
}

struct Facts {
  AdapterInfo info;
  bool software = false;
  bool computes = true;  // false for the library's null backend, which accepts everything and answers zeros
  WGPULimits limits{};
  bool f16 = false, subgroups = false, timestamps = false;
  std::vector<WGPUFeatureName> features;  // those three, where supported, as the library numbers them
};

bool offers(const WGPUSupportedFeatures& supported, uint32_t feature) {
  const std::span all(supported.features, supported.featureCount);
  return std::ranges::find(all, static_cast<WGPUFeatureName>(feature)) != all.end();
}

constexpr uint32_t kOldTimestampQuery = 3;

// Feature numbers moved up by one when CoreFeaturesAndLimits went from the end of the list to its front, and timestamp
// queries from the third place to the ninth; webgpu.h may be newer than the library in that. A sliced-3D texture
// compression is always offered together with its base, which tells the numberings apart.
uint32_t feature_shift(const WGPUSupportedFeatures& supported) {
  const bool consistent = offers(supported, WGPUFeatureName_TextureCompressionBC) ==
                              offers(supported, WGPUFeatureName_TextureCompressionBCSliced3D) &&
                          offers(supported, WGPUFeatureName_TextureCompressionASTC) ==
                              offers(supported, WGPUFeatureName_TextureCompressionASTCSliced3D);
  return consistent ? 0 : 1;
}

Facts facts_of(const Api& api, WGPUAdapter adapter) {
  Facts facts;
  WGPUAdapterInfo info{};
  if (api.AdapterGetInfo(adapter, &info) == WGPUStatus_Success) {
    facts.info = {text_of(info.vendor), text_of(info.architecture), text_of(info.device), text_of(info.description),
                  std::string(name_of(info.backendType))};
    facts.software = facts.info.software = info.adapterType == WGPUAdapterType_CPU;
    facts.computes = info.backendType != WGPUBackendType_Null;
    api.AdapterInfoFreeMembers(info);
  }
  api.AdapterGetLimits(adapter, &facts.limits);
  WGPUSupportedFeatures supported{};
  api.AdapterGetFeatures(adapter, &supported);
  const uint32_t shift = feature_shift(supported);
  const auto take = [&](WGPUFeatureName name) {
    const bool moved = shift != 0 && name == WGPUFeatureName_TimestampQuery;
    const auto feature = static_cast<WGPUFeatureName>(moved ? kOldTimestampQuery : name - shift);
    if (!offers(supported, feature)) return false;
    facts.features.push_back(feature);
    return true;
  };
  facts.f16 = take(WGPUFeatureName_ShaderF16);
  facts.subgroups = take(WGPUFeatureName_Subgroups);
  facts.timestamps = take(WGPUFeatureName_TimestampQuery);
  api.SupportedFeaturesFreeMembers(supported);
  return facts;
}

// Compute limits cost nothing, so they are the adapter's; buffer sizes are what the caller asks for: some drivers
// refuse a device whose limits are all at their maximum. The rest keeps its default.
WGPULimits limits_for(const WGPULimits& adapter, const DeviceOptions& options) {
  constexpr wgsl::Target kDefault;
  WGPULimits limits;
  std::memset(static_cast<void*>(&limits), 0xFF, sizeof(limits));  // every field "undefined": the default
  limits.nextInChain = nullptr;
  limits.maxStorageBuffersPerShaderStage = adapter.maxStorageBuffersPerShaderStage;
  limits.maxComputeWorkgroupStorageSize = adapter.maxComputeWorkgroupStorageSize;
  limits.maxComputeInvocationsPerWorkgroup = adapter.maxComputeInvocationsPerWorkgroup;
  limits.maxComputeWorkgroupSizeX = adapter.maxComputeWorkgroupSizeX;
  limits.maxComputeWorkgroupSizeY = adapter.maxComputeWorkgroupSizeY;
  limits.maxComputeWorkgroupSizeZ = adapter.maxComputeWorkgroupSizeZ;
  limits.maxStorageBufferBindingSize =
      std::min(adapter.maxStorageBufferBindingSize, std::max(kDefault.max_binding_bytes, options.need_binding_bytes));
  limits.maxBufferSize =
      std::min(adapter.maxBufferSize, std::max(kDefault.max_buffer_bytes, options.need_buffer_bytes));
  return limits;
}

wgsl::Target target_of(const WGPULimits& limits, const Facts& facts) {
  wgsl::Target target;
  target.max_storage_buffers = limits.maxStorageBuffersPerShaderStage;
  target.max_binding_bytes = limits.maxStorageBufferBindingSize;
  target.max_buffer_bytes = limits.maxBufferSize;
  target.max_uniform_bytes = static_cast<uint32_t>(std::min<uint64_t>(limits.maxUniformBufferBindingSize, ~0u));
  target.storage_alignment = limits.minStorageBufferOffsetAlignment;
  target.uniform_alignment = limits.minUniformBufferOffsetAlignment;
  target.max_groups = limits.maxComputeWorkgroupsPerDimension;
  target.max_invocations = limits.maxComputeInvocationsPerWorkgroup;
  target.max_group_size = {limits.maxComputeWorkgroupSizeX, limits.maxComputeWorkgroupSizeY,
                           limits.maxComputeWorkgroupSizeZ};
  target.max_workgroup_bytes = limits.maxComputeWorkgroupStorageSize;
  target.f16 = facts.f16;
  target.subgroups = facts.subgroups;
  target.timestamps = facts.timestamps;
  target.software = facts.software;
  return target;
}

Task<DeviceAnswer> request_device(const Api& api, WGPUInstance instance, WGPUAdapter adapter, const Facts& facts,
                                  const DeviceOptions& options, std::shared_ptr<Trouble> trouble) {
  const WGPULimits limits = limits_for(facts.limits, options);
  WGPUDeviceDescriptor desc{};
#ifdef WGPU_DAWN_TOGGLES_DESCRIPTOR_INIT
  // Dawn rounds timestamps to 65 µs, so that pages cannot measure what they should not know; a kernel takes less.
  const char* const rounding = "timestamp_quantization";
  WGPUDawnTogglesDescriptor toggles = WGPU_DAWN_TOGGLES_DESCRIPTOR_INIT;
  toggles.disabledToggleCount = 1;
  toggles.disabledToggles = &rounding;
  desc.nextInChain = &toggles.chain;
#endif
  desc.label = view_of("sinter");
  desc.requiredFeatureCount = facts.features.size();
  desc.requiredFeatures = facts.features.data();
  desc.requiredLimits = &limits;
  desc.deviceLostCallbackInfo.mode = WGPUCallbackMode_AllowSpontaneous;
  desc.deviceLostCallbackInfo.callback = on_lost;
  desc.deviceLostCallbackInfo.userdata1 = new std::shared_ptr<Trouble>(trouble);
  desc.uncapturedErrorCallbackInfo.callback = on_uncaptured;
  desc.uncapturedErrorCallbackInfo.userdata1 = trouble.get();
  Completion<DeviceAnswer> done;
  WGPURequestDeviceCallbackInfo info{};
  info.mode = WGPUCallbackMode_AllowProcessEvents;
  info.callback = on_device;
  info.userdata1 = new Completion<DeviceAnswer>(done);
  api.AdapterRequestDevice(adapter, &desc, info);
  return pump(api, instance, done);
}

Task<Ref<WGPUAdapter>> pick_adapter(const Api& api, WGPUInstance instance, DeviceOptions options) {
  trace::Span span(options.trace, "open adapter");
  std::string reason;
  for (bool software : {false, true}) {
    if (software && !options.allow_software) continue;
    AdapterAnswer answer = SINTER_CO_TRY(co_await request_adapter(api, instance, options.prefer_low_power, software));
    if (answer.adapter) {
      Ref adapter(answer.adapter, api.AdapterRelease);
      SINTER_CO_CHECK_OK(check_layout(api, adapter.get()));
      const Facts facts = facts_of(api, adapter.get());
      if (facts.computes && (options.allow_software || !facts.software)) co_return std::move(adapter);
      reason = facts.computes ? "there is only a software adapter, and the options refuse one"
                              : "there is only the null backend, which computes nothing";
    } else if (reason.empty()) {
      reason = answer.message;
    }
  }
  co_return fail(Code::Gpu, StrCat("no WebGPU adapter: ", reason.empty() ? "the library found none" : reason),
                 std::string(kNoAdapterHint));
}

// Some drivers complain on standard error where this is not set; they look for a window system that is not needed here.
void quieten_drivers() {
  if (!std::getenv("XDG_RUNTIME_DIR")) setenv("XDG_RUNTIME_DIR", "/tmp", 0);
}

Task<std::shared_ptr<Device>> open(DeviceOptions options) {
  quieten_drivers();
  const Api& api = *SINTER_CO_TRY(load_api());
  OpenedDevice opened;
  opened.api = &api;
  // Some drivers cannot be loaded any more after a hundred instances or so. One per thread, because an instance serves the
  // callbacks of all its devices; and only one that found an adapter, because it never looks for drivers again.
  thread_local std::shared_ptr<Ref<WGPUInstance>> kept;
  opened.instance = kept ? kept : std::make_shared<Ref<WGPUInstance>>(api.CreateInstance(nullptr), api.InstanceRelease);
  if (!*opened.instance) {
    co_return fail(Code::Gpu, StrCat("wgpuCreateInstance of ", api.path, " failed"), std::string(kNoAdapterHint));
  }
  WGPUInstance instance = opened.instance->get();
  Ref<WGPUAdapter> adapter = SINTER_CO_TRY(co_await pick_adapter(api, instance, options));
  kept = opened.instance;

  const Facts facts = facts_of(api, adapter.get());
  trace::Span span(options.trace, "open device", {}, StrCat(facts.info.device, " ", facts.info.description));
  opened.trouble = std::make_shared<Trouble>();
  DeviceAnswer answer =
      SINTER_CO_TRY(co_await request_device(api, instance, adapter.get(), facts, options, opened.trouble));
  if (!answer.device) {
    co_return fail(Code::Gpu, StrCat("the adapter ", facts.info.device, " gave no device: ", answer.message),
                   std::string(kNoAdapterHint));
  }
  opened.device = Ref(answer.device, api.DeviceRelease);
  opened.queue = Ref(api.DeviceGetQueue(answer.device), api.QueueRelease);
  WGPULimits limits{};
  api.DeviceGetLimits(answer.device, &limits);
  opened.target = target_of(limits, facts);
  opened.adapter = facts.info;
  co_return std::make_shared<NativeDevice>(std::move(opened));
}

}  // namespace
}  // namespace native

Task<std::shared_ptr<Device>> open_device(DeviceOptions options) { return native::open(options); }

}  // namespace sinter::gpu

#else

namespace sinter::gpu {

Task<std::shared_ptr<Device>> open_device(DeviceOptions) {
  co_return fail(Code::Gpu, "this build has no WebGPU device",
                 "run ./dev setup and build again, or pass WEBGPU_ROOT to CMake; the CPU backend needs none");
}

}  // namespace sinter::gpu

#endif  // SINTER_HAVE_WEBGPU
