// SPDX-License-Identifier: Apache-2.0
// Kernel: one dispatch as pure data: WGSL text, uniform values, bindings and grid. No device header is needed to make
// one.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/result.h"
#include "engine/tensor/packer.h"
#include "engine/tensor/tensor.h"

namespace sinter::wgsl {

/// What kernels may assume of a device. Filled from the adapter; the defaults are WebGPU's guaranteed limits.
struct Target {
  uint32_t max_storage_buffers = 8;           // per shader stage
  uint64_t max_binding_bytes = 128ull << 20;  // maxStorageBufferBindingSize
  uint64_t max_buffer_bytes = 256ull << 20;   // maxBufferSize
  uint32_t max_uniform_bytes = 64u << 10;     // maxUniformBufferBindingSize
  uint32_t storage_alignment = 256;           // minStorageBufferOffsetAlignment
  uint32_t uniform_alignment = 256;
  uint32_t max_groups = 65535;     // maxComputeWorkgroupsPerDimension
  uint32_t max_invocations = 256;  // maxComputeInvocationsPerWorkgroup
  std::array<uint32_t, 3> max_group_size = {256, 256, 64};
  uint32_t max_workgroup_bytes = 16u << 10;  // maxComputeWorkgroupStorageSize
  bool f16 = false;                          // feature shader-f16
  bool subgroups = false;
  bool timestamps = false;
  bool software = false;     // a CPU plays the device: few threads suffice, workgroup memory is slow
  bool force_plain = false;  // rows use their plain kernels only: for tests and for diagnosis
};

/// How elements of a dtype are held in device memory. Narrow integers and bool are widened to 32 bits; 64-bit integers
/// are two words (low, high): moved exactly, never computed with; f16 is native where the device has it, else f32.
enum class Storage : uint8_t { f32, f16, i32, u32, words2, none };
Storage storage_of(DType dtype, const Target& target);
/// Bytes per element on the device; 0 for `none`.
uint32_t device_size(Storage storage);
/// Host bytes to device bytes and back (widen, narrow). `none` is refused.
Result<Tensor> to_device(const Tensor& tensor, const Target& target);
Result<> from_device(std::span<const std::byte> device_bytes, Tensor& out, const Target& target);
/// Bytes a tensor of that many elements occupies on the device, rounded up to 4.
uint64_t device_bytes(DType dtype, uint64_t numel, const Target& target);

/// A kernel's binding to a value of its node.
struct Binding {
  enum class Role : uint8_t { input, output, scratch };
  Role role = Role::input;
  uint32_t index = 0;  // operand, output or scratch number
  bool writes = false;
  const Packer* packer = nullptr;  // constants only
  int64_t packer_arg = 0;
};

struct Scratch {
  uint64_t bytes = 0;
};

/// Bindings become @group(0) @binding(0..n-1) in order; the uniform block, where there is one, is @binding(n).
struct Kernel {
  std::string name;  // "conv1x1_vec4": for traces and profiles
  std::string text;  // complete WGSL; equal text is the same pipeline
  std::vector<Binding> bindings;
  std::vector<std::byte> uniforms;  // contents of the uniform block, laid out as WGSL does
  std::array<uint32_t, 3> groups = {1, 1, 1};
  std::array<uint32_t, 3> group_size = {1, 1, 1};
};

}  // namespace sinter::wgsl
