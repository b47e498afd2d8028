// SPDX-License-Identifier: Apache-2.0
#include "engine/gpu/library_native.h"

#if SINTER_HAVE_WEBGPU

#include <dlfcn.h>
#include <stdlib.h>

#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include "engine/base/str.h"

namespace sinter::gpu::native {
namespace {

constexpr std::string_view kHint =
    "run ./dev setup, or set SINTER_WEBGPU_LIB to a WebGPU library of the same release as the webgpu.h of this build; "
    "the CPU backend needs none";

// The folder of this executable, for candidates that start with "$ORIGIN".
std::string executable_folder() {
  std::string path(4096, '\0');
  const char* resolved = realpath("/proc/self/exe", path.data());
  if (!resolved) return ".";
  path.resize(std::strlen(resolved));
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

// The folder of the object that holds this code (libsinter.so, or the executable), for "$LIBRARY".
std::string library_folder() {
  Dl_info info;
  if (!dladdr(reinterpret_cast<void*>(&library_folder), &info) || !info.dli_fname) return ".";
  const std::string path = info.dli_fname;
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

std::vector<std::string> candidates(const std::string& chosen) {
  if (!chosen.empty()) return {chosen};
  std::vector<std::string> paths;
  std::string_view rest = SINTER_WEBGPU_LIBRARIES;
  while (!rest.empty()) {
    const size_t colon = rest.find(':');
    std::string path(rest.substr(0, colon));
    rest = colon == std::string_view::npos ? std::string_view{} : rest.substr(colon + 1);
    constexpr std::string_view kOrigin = "$ORIGIN";
    constexpr std::string_view kLibrary = "$LIBRARY";
    if (path.starts_with(kOrigin)) path = executable_folder() + path.substr(kOrigin.size());
    if (path.starts_with(kLibrary)) path = library_folder() + path.substr(kLibrary.size());
    paths.push_back(std::move(path));
  }
  return paths;
}

template <class Function>
bool resolve(void* library, const char* name, Function& function, std::string& missing) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (!function && missing.empty()) missing = name;
  return function != nullptr;
}

Result<Api> resolve_all(void* library, const std::string& path) {
  Api api;
  api.path = path;
  std::string missing;
#define SINTER_WGPU_RESOLVE(name) resolve(library, "wgpu" #name, api.name, missing);
  SINTER_WGPU_FUNCTIONS(SINTER_WGPU_RESOLVE)
#undef SINTER_WGPU_RESOLVE
  if (!missing.empty()) {
    return fail(Code::Gpu, StrCat("the WebGPU library ", path, " has no function ", missing), std::string(kHint));
  }
  return api;
}

Result<Api> open_library(const std::string& chosen) {
  std::string tried;
  for (const std::string& path : candidates(chosen)) {
    if (void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return resolve_all(library, path);
    const char* reason = dlerror();
    if (!tried.empty()) tried += "; ";
    tried += reason ? reason : path.c_str();
  }
  return fail(Code::Gpu, StrCat("no WebGPU library could be opened: ", tried), std::string(kHint));
}

bool is_power_of_two(uint64_t n) { return n && !(n & (n - 1)); }

// What the WebGPU specification guarantees of every adapter. Fields that have moved fail one of these.
std::string_view implausible(const WGPULimits& limits) {
  struct Bound {
    std::string_view name;
    uint64_t value, least, most;
  };
  constexpr uint64_t kMany = 1u << 30;
  const Bound bounds[] = {
      {"maxTextureDimension2D", limits.maxTextureDimension2D, 4096, 1u << 20},
      {"maxBindGroups", limits.maxBindGroups, 4, 1024},
      {"maxStorageBuffersPerShaderStage", limits.maxStorageBuffersPerShaderStage, 4, kMany},
      {"maxUniformBufferBindingSize", limits.maxUniformBufferBindingSize, 16384, 1ull << 40},
      {"maxStorageBufferBindingSize", limits.maxStorageBufferBindingSize, 128ull << 20, 1ull << 50},
      {"maxBufferSize", limits.maxBufferSize, 256ull << 20, 1ull << 50},
      {"maxComputeWorkgroupStorageSize", limits.maxComputeWorkgroupStorageSize, 16384, kMany},
      {"maxComputeInvocationsPerWorkgroup", limits.maxComputeInvocationsPerWorkgroup, 128, 1u << 20},
      {"maxComputeWorkgroupSizeZ", limits.maxComputeWorkgroupSizeZ, 64, 1u << 20},
      {"maxComputeWorkgroupsPerDimension", limits.maxComputeWorkgroupsPerDimension, 65535, ~0u},
  };
  for (const Bound& bound : bounds) {
    if (bound.value < bound.least || bound.value > bound.most) return bound.name;
  }
  if (!is_power_of_two(limits.minUniformBufferOffsetAlignment)) return "minUniformBufferOffsetAlignment";
  if (!is_power_of_two(limits.minStorageBufferOffsetAlignment)) return "minStorageBufferOffsetAlignment";
  return {};
}

// A structure with room behind it: what the library writes beyond the size that we know shows in `behind`.
template <class T>
struct Guarded {
  static constexpr unsigned char kMark = 0xA5;
  T value;
  unsigned char behind[256];
  Guarded() {
    std::memset(static_cast<void*>(this), kMark, sizeof(*this));
    value.nextInChain = nullptr;
  }
  bool overrun() const {
    for (unsigned char byte : behind) {
      if (byte != kMark) return true;
    }
    return false;
  }
};

std::unexpected<Error> mismatch(const Api& api, std::string_view structure, std::string_view why) {
  return fail(
      Code::Gpu,
      StrCat("the WebGPU library ", api.path, " does not fit the webgpu.h of this build: ", structure, " ", why),
      std::string(kHint));
}

}  // namespace

std::string text_of(WGPUStringView view) {
  if (!view.data) return {};
  return view.length == WGPU_STRLEN ? std::string(view.data) : std::string(view.data, view.length);
}

Result<const Api*> load_api() {
  static std::mutex mutex;
  static std::map<std::string, Api> loaded;  // by the value of SINTER_WEBGPU_LIB
  const char* variable = getenv("SINTER_WEBGPU_LIB");
  const std::string chosen = variable ? variable : "";
  std::lock_guard lock(mutex);
  auto found = loaded.find(chosen);
  if (found == loaded.end()) found = loaded.emplace(chosen, SINTER_TRY(open_library(chosen))).first;
  return &found->second;
}

Result<> check_layout(const Api& api, WGPUAdapter adapter) {
  Guarded<WGPULimits> limits;
  if (api.AdapterGetLimits(adapter, &limits.value) != WGPUStatus_Success) {
    return mismatch(api, "WGPULimits", "was refused");
  }
  if (limits.overrun()) return mismatch(api, "WGPULimits", "is larger in the library");
  const std::string_view field = implausible(limits.value);
  if (!field.empty()) return mismatch(api, "WGPULimits", StrCat("has no plausible ", field));

  Guarded<WGPUAdapterInfo> info;
  if (api.AdapterGetInfo(adapter, &info.value) != WGPUStatus_Success) {
    return mismatch(api, "WGPUAdapterInfo", "was refused");
  }
  if (info.overrun()) return mismatch(api, "WGPUAdapterInfo", "is larger in the library");
  constexpr size_t kLongText = 1u << 16;
  if (info.value.adapterType < WGPUAdapterType_DiscreteGPU || info.value.adapterType > WGPUAdapterType_Unknown ||
      info.value.vendor.length > kLongText || info.value.description.length > kLongText) {
    return mismatch(api, "WGPUAdapterInfo", "has other fields in the library");
  }
  api.AdapterInfoFreeMembers(info.value);
  return {};
}

}  // namespace sinter::gpu::native

#endif  // SINTER_HAVE_WEBGPU
