// SPDX-License-Identifier: Apache-2.0
// Run while configuring: does the library take this header's structures? It asks for an adapter, a call that passes
// nested structures both ways, and expects the callback with its own user data. Whether there is an adapter does not matter.
#include <dlfcn.h>
#include <webgpu/webgpu.h>

#include <cstdio>

namespace {
bool called = false;
int token = 0;

void on_adapter(WGPURequestAdapterStatus status, WGPUAdapter, WGPUStringView, void* first, void* second) {
  called = status >= WGPURequestAdapterStatus_Success && status <= WGPURequestAdapterStatus_Error && first == &token &&
           second == nullptr;
}

template <typename F>
bool find(void* library, const char* name, F& function) {
  function = reinterpret_cast<F>(dlsym(library, name));
  if (!function) std::printf("the library has no %s\n", name);
  return function != nullptr;
}
}  // namespace

int main(int, char** argv) {
  void* library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    std::printf("%s\n", dlerror());
    return 1;
  }
  WGPUProcCreateInstance create = nullptr;
  WGPUProcInstanceRequestAdapter request = nullptr;
  WGPUProcInstanceProcessEvents process = nullptr;
  if (!find(library, "wgpuCreateInstance", create) || !find(library, "wgpuInstanceRequestAdapter", request) ||
      !find(library, "wgpuInstanceProcessEvents", process)) {
    return 1;
  }
  WGPUInstance instance = create(nullptr);
  if (!instance) {
    std::printf("the library makes no instance\n");
    return 1;
  }
  WGPURequestAdapterCallbackInfo callback = {};
  callback.mode = WGPUCallbackMode_AllowProcessEvents;
  callback.callback = on_adapter;
  callback.userdata1 = &token;
  request(instance, nullptr, callback);
  for (int i = 0; i < 1000 && !called; ++i) process(instance);
  if (!called) std::printf("the library does not call back as the header says\n");
  return called ? 0 : 1;
}
