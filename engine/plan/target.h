// SPDX-License-Identifier: Apache-2.0
// Target: everything that planning needs to know about where a model will run, as data.
#pragma once

#include <span>
#include <string_view>

#include "engine/ops/op_def.h"
#include "engine/tensor/packer.h"
#include "engine/wgsl/kernel.h"

namespace sinter::plan {

enum class Backend : uint8_t { reference, cpu, webgpu };
std::string_view name_of(Backend backend);

/// Runs parallel work; the single-threaded one calls the body in place.
class ThreadPool {
 public:
  virtual ~ThreadPool() = default;
  virtual unsigned threads() const = 0;
  /// Calls body(context, index) for index in [0, count), on any thread, and returns when all are done.
  virtual void parallel_for(size_t count, void (*body)(void* context, size_t index), void* context) = 0;
};

/// What a host kernel gets for one execution. Inputs that have a packer arrive packed.
struct HostArgs {
  const Node& node;
  std::span<const Tensor* const> inputs;  // null where absent
  std::span<Tensor> outputs;              // allocated, contents undefined
  std::span<std::byte> scratch;           // scratch_bytes, 64-byte aligned
  ThreadPool& pool;
};

/// A fast CPU kernel: an extra row beside an operator's reference, never a replacement for it.
struct HostKernel {
  std::string_view name;  // "conv1x1_nhwc_f32"
  std::string_view op;    // empty: any operator, `accepts` decides
  std::string_view domain = "";
  bool (*accepts)(const Node& node, std::span<const TensorInfo> inputs, std::span<const TensorInfo> outputs) = nullptr;
  /// The packer for a weight operand and its argument, or null for the operand as it is. May be null as a whole.
  const Packer* (*packer)(const Node& node, std::span<const TensorInfo> inputs, size_t operand, int64_t* arg) = nullptr;
  uint64_t (*scratch_bytes)(const Node& node, std::span<const TensorInfo> inputs, std::span<const TensorInfo> outputs,
                            unsigned threads) = nullptr;  // null: none
  Result<> (*run)(const HostArgs&) = nullptr;
};

struct Target {
  Backend backend = Backend::cpu;
  wgsl::Target gpu;                                      // webgpu
  std::span<const HostKernel* const> host_kernels = {};  // cpu and webgpu's host steps; empty: reference rows only
  unsigned threads = 1;
};

}  // namespace sinter::plan
