// SPDX-License-Identifier: Apache-2.0
// The device HAL: a dozen calls, three implementations: native (webgpu.h), web (host imports), fake (scripted, for
// tests).
//
// Creation calls never fail on the spot: they return an id at once, and what went wrong comes out of the error scope
// around them. Ids are never 0 and never reused within one device. All calls come from the engine's one thread.
//
// A call that returns a Task does its device work in the call itself, not when the task is first awaited, and has read
// its arguments (spans and views) before it returns; only `read_buffer`'s and `execute`'s `out` stay in use until the
// task ends. So push, create, pop is one uninterrupted stretch: no other coroutine's errors get into the scope.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/async/task.h"
#include "engine/base/memory.h"
#include "engine/base/trace.h"
#include "engine/wgsl/kernel.h"

namespace sinter::gpu {

using BufferId = uint32_t;
using PipelineId = uint32_t;
using BindGroupId = uint32_t;

/// WebGPU's usage bits.
enum BufferUse : uint32_t {
  kMapRead = 0x0001,
  kCopySrc = 0x0004,
  kCopyDst = 0x0008,
  kUniform = 0x0040,
  kStorage = 0x0080,
};

struct AdapterInfo {
  std::string vendor, architecture, device, description, backend;  // any may be empty
  bool software = false;  // computes on the CPU (SwiftShader, lavapipe, a fallback adapter)
};

struct PipelineDesc {
  std::string_view label;
  std::string_view wgsl;                    // entry point "main"
  std::span<const wgsl::Binding> bindings;  // @group(0), in order: read-only or read-write storage
  bool uniform = false;                     // one more binding after them: the uniform block
  // A binding that `writes` is declared `var<storage, read_write>`, any other `var<storage, read>`.
};

struct BufferRange {
  BufferId buffer = 0;
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

/// Plain old data, so that a whole run crosses into the host as one block of memory. Fields by kind:
///   dispatch: a=pipeline, b=bind group, x/y/z=groups     copy: a=from, b=to, from, to, bytes
/// Dispatches between copies share one compute pass.
struct Command {
  enum Kind : uint32_t { kDispatch = 1, kCopy = 2 };
  uint32_t kind = kDispatch;
  uint32_t a = 0, b = 0;
  uint32_t x = 1, y = 1, z = 1;
  uint64_t from = 0, to = 0, bytes = 0;
};
static_assert(sizeof(Command) == 48);

struct Write {
  BufferId buffer = 0;
  uint64_t offset = 0;
  std::span<const std::byte> bytes;
};

/// All device work between two points where the host is needed: usually a whole run.
struct Batch {
  std::span<const Write> writes;      // in order, before the commands
  std::span<const Command> commands;  // one submit
  BufferId read = 0;                  // a kMapRead buffer to read back afterwards; 0: none
  uint64_t read_offset = 0;
  std::span<std::byte> out;  // empty: nothing is read
};

class Device {
 public:
  virtual ~Device() = default;

  virtual const wgsl::Target& target() const = 0;
  virtual const AdapterInfo& adapter() const = 0;

  virtual BufferId create_buffer(uint64_t bytes, uint32_t use, std::string_view label) = 0;
  virtual void destroy_buffer(BufferId buffer) = 0;
  /// Offset and size are multiples of 4. The bytes are taken before the call returns.
  virtual void write_buffer(BufferId buffer, uint64_t offset, std::span<const std::byte> bytes) = 0;

  /// Compiles all of them at once, asynchronously; all or none. A shader error names the label and carries the
  /// compiler's message and the marked line.
  virtual Task<std::vector<PipelineId>> create_pipelines(std::vector<PipelineDesc> descs) = 0;
  virtual void destroy_pipeline(PipelineId pipeline) = 0;
  virtual BindGroupId create_bind_group(PipelineId pipeline, std::span<const BufferRange> ranges) = 0;
  virtual void destroy_bind_group(BindGroupId group) = 0;

  virtual void submit(std::span<const Command> commands) = 0;
  /// Maps a kMapRead buffer when the submitted work before it is done, copies `out.size()` bytes from `offset`, unmaps.
  virtual Task<> read_buffer(BufferId buffer, uint64_t offset, std::span<std::byte> out) = 0;

  /// Scopes nest. `pop_error_scope` gives the first validation, out-of-memory or internal error since its push
  /// (Gpu or OutOfMemory), DeviceLost if the device went away. An error that arose outside every scope comes out of the
  /// next one popped: no error is lost.
  virtual void push_error_scope() = 0;
  virtual Task<> pop_error_scope() = 0;

  /// The whole batch under one error scope. This one is composed of the calls above; a host for which a call is
  /// expensive overrides it with a single one.
  virtual Task<> execute(const Batch& batch);

  /// Submits the commands and says how many milliseconds each took by the device's own clock; 0 for copies. Unsupported
  /// where it has none (target().timestamps). `commands` must outlive the task.
  virtual Task<std::vector<double>> time(std::span<const Command> commands);

  /// Gives the device up: it counts as lost ("destroyed"), its memory is freed, pending operations end as DeviceLost.
  virtual void destroy() = 0;

  /// Set once the device is lost; every later call ends as DeviceLost.
  virtual bool lost() const = 0;
  virtual std::string lost_reason() const = 0;

  /// Serves pending callbacks (native pump; nothing to do on the web). Returns true if it delivered something.
  virtual bool poll() = 0;

  /// Bytes of the buffers that are alive; kept by gpu::Buffer.
  MemoryStats memory;

  /// The loss, as the first operation to meet it was told; what meets it later is its echo. Kept by prepare and run.
  std::shared_ptr<Failure> loss;
};

struct DeviceOptions {
  bool prefer_low_power = false;
  bool allow_software = true;       // a software adapter (SwiftShader, lavapipe) is accepted
  trace::Log* trace = nullptr;      // may be null
  uint64_t need_binding_bytes = 0;  // limits wanted above the default; clamped to the adapter's
  uint64_t need_buffer_bytes = 0;
};

/// Opens an adapter and a device. Unavailable: Code::Gpu with what was missing (library, navigator.gpu, adapter) and
/// the next step. Each platform links one implementation.
Task<std::shared_ptr<Device>> open_device(DeviceOptions options);

}  // namespace sinter::gpu
