// SPDX-License-Identifier: Apache-2.0
// The native WebGPU library, opened at run time so that a machine without one still computes on the CPU.
// Only the native device includes this header: it is the one that sees webgpu.h.
#pragma once

#if SINTER_HAVE_WEBGPU

#include <webgpu/webgpu.h>

#include <string>
#include <string_view>

#include "engine/base/result.h"

namespace sinter::gpu::native {

// clang-format off
#define SINTER_WGPU_FUNCTIONS(X)                                                                          \
  X(CreateInstance) X(InstanceProcessEvents) X(InstanceRequestAdapter) X(InstanceRelease)                 \
  X(AdapterGetFeatures) X(AdapterGetInfo) X(AdapterGetLimits) X(AdapterRequestDevice) X(AdapterRelease)   \
  X(AdapterInfoFreeMembers) X(SupportedFeaturesFreeMembers)                                               \
  X(DeviceCreateBindGroup) X(DeviceCreateBindGroupLayout) X(DeviceCreateBuffer)                           \
  X(DeviceCreateCommandEncoder) X(DeviceCreateComputePipelineAsync) X(DeviceCreatePipelineLayout)         \
  X(DeviceCreateShaderModule) X(DeviceDestroy) X(DeviceGetLimits) X(DeviceGetQueue)                       \
  X(DeviceCreateQuerySet) X(DevicePopErrorScope) X(DevicePushErrorScope) X(DeviceRelease)                 \
  X(ShaderModuleGetCompilationInfo) X(ShaderModuleRelease)                                                \
  X(BindGroupLayoutRelease) X(PipelineLayoutRelease) X(ComputePipelineRelease) X(BindGroupRelease)        \
  X(BufferDestroy) X(BufferGetConstMappedRange) X(BufferGetMappedRange) X(BufferMapAsync)                 \
  X(BufferRelease) X(BufferUnmap)                                                                         \
  X(CommandEncoderBeginComputePass) X(CommandEncoderCopyBufferToBuffer) X(CommandEncoderFinish)           \
  X(CommandEncoderRelease) X(CommandEncoderResolveQuerySet) X(CommandBufferRelease)                       \
  X(ComputePassEncoderDispatchWorkgroups) X(ComputePassEncoderEnd) X(ComputePassEncoderRelease)           \
  X(ComputePassEncoderSetBindGroup) X(ComputePassEncoderSetPipeline)                                      \
  X(QuerySetRelease) X(QueueSubmit) X(QueueWriteBuffer) X(QueueRelease)
// clang-format on

/// The functions of the library, by their names without the prefix "wgpu".
struct Api {
#define SINTER_WGPU_FIELD(name) decltype(&::wgpu##name) name = nullptr;
  SINTER_WGPU_FUNCTIONS(SINTER_WGPU_FIELD)
#undef SINTER_WGPU_FIELD
  std::string path;  // of the library that was opened
};

/// Opens the library once per process: SINTER_WEBGPU_LIB where it is set, else the paths that the build knows. The
/// library is never closed (its threads and the drivers behind it do not survive that). A failure is forgotten, so a
/// later call with a corrected environment works.
Result<const Api*> load_api();

/// Refuses a library whose structures are laid out otherwise than in the webgpu.h of this build, as far as its answers
/// for an adapter can tell: those of another release differ in size or place of fields.
Result<> check_layout(const Api& api, WGPUAdapter adapter);

inline WGPUStringView view_of(std::string_view text) { return {text.data(), text.size()}; }
std::string text_of(WGPUStringView view);

}  // namespace sinter::gpu::native

#endif  // SINTER_HAVE_WEBGPU
