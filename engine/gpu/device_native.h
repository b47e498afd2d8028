// SPDX-License-Identifier: Apache-2.0
// The device over webgpu.h. One thread makes all calls and pumps the callbacks by `poll`; only the lost and uncaptured
// error callbacks may come from the library's own threads, and they touch nothing but `Trouble`.
#pragma once

#include "engine/gpu/library_native.h"

#if SINTER_HAVE_WEBGPU

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/async/completion.h"
#include "engine/gpu/device.h"

namespace sinter::gpu::native {

/// An object of the library, released with its own function.
template <class T>
class Ref {
 public:
  Ref() = default;
  Ref(T object, void (*release)(T)) : object_(object), release_(release) {}
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)), release_(other.release_) {}
  Ref& operator=(Ref&& other) noexcept {
    std::swap(object_, other.object_);
    std::swap(release_, other.release_);
    return *this;
  }
  ~Ref() {
    if (object_) release_(object_);
  }
  T get() const { return object_; }
  T detach() { return std::exchange(object_, nullptr); }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  T object_ = nullptr;
  void (*release_)(T) = nullptr;
};

/// What went wrong outside any call: written by callbacks on any thread, read by the engine's.
class Trouble {
 public:
  void lose(std::string reason);
  void add_error(Error error);
  bool lost() const;
  std::string reason() const;
  /// The first error that no scope caught, once.
  std::optional<Error> take_error();

 private:
  mutable std::mutex mutex_;
  bool lost_ = false;
  std::string reason_;
  std::optional<Error> error_;
};

Error error_of(WGPUErrorType type, std::string message);

struct OpenedDevice {
  const Api* api = nullptr;
  std::shared_ptr<Trouble> trouble;  // outlives the device, whose release may still report
  std::shared_ptr<Ref<WGPUInstance>> instance;
  Ref<WGPUDevice> device;
  Ref<WGPUQueue> queue;
  wgsl::Target target;
  AdapterInfo adapter;
};

class NativeDevice final : public Device {
 public:
  explicit NativeDevice(OpenedDevice opened);
  ~NativeDevice() override;

  const wgsl::Target& target() const override { return opened_.target; }
  const AdapterInfo& adapter() const override { return opened_.adapter; }

  BufferId create_buffer(uint64_t bytes, uint32_t use, std::string_view label) override;
  void destroy_buffer(BufferId buffer) override;
  void write_buffer(BufferId buffer, uint64_t offset, std::span<const std::byte> bytes) override;
  Task<std::vector<PipelineId>> create_pipelines(std::vector<PipelineDesc> descs) override;
  void destroy_pipeline(PipelineId pipeline) override;
  BindGroupId create_bind_group(PipelineId pipeline, std::span<const BufferRange> ranges) override;
  void destroy_bind_group(BindGroupId group) override;
  void submit(std::span<const Command> commands) override;
  Task<> read_buffer(BufferId buffer, uint64_t offset, std::span<std::byte> out) override;
  void push_error_scope() override;
  Task<> pop_error_scope() override;
  Task<> execute(const Batch& batch) override;
  Task<std::vector<double>> time(std::span<const Command> commands) override;  // in timestamps_native.cc
  bool lost() const override { return opened_.trouble->lost(); }
  std::string lost_reason() const override { return opened_.trouble->reason(); }
  void destroy() override;
  bool poll() override;

  // For the callbacks in this folder.
  const Api& api() const { return *opened_.api; }
  void delivered() { ++deliveries_; }
  Error lost_error() const;
  WGPUBuffer find_buffer(BufferId id) const;  // null where there is none
  PipelineId add_pipeline(WGPUComputePipeline pipeline, WGPUBindGroupLayout layout);

 private:
  struct Pipeline {
    Ref<WGPUComputePipeline> pipeline;
    Ref<WGPUBindGroupLayout> layout;
  };

  /// A buffer that is mapped for writing whenever the device is done with it.
  struct Staging {
    Ref<WGPUBuffer> buffer;
    uint64_t bytes = 0;
    uintptr_t id = 0;
    bool mapped = false;
  };

  /// Where large inputs are put together; null where the library gives none.
  Staging* free_staging(uint64_t bytes);
  void write_staged(const Write& write);
  /// `pass` describes the compute passes; null: plain ones.
  void encode(WGPUCommandEncoder encoder, std::span<const Command> commands,
              const WGPUComputePassDescriptor* pass = nullptr);
  Task<> time_some(std::span<const Command> commands, std::span<double> ms);
  /// An id that is not there: reported through the scope, as the library does for its own invalid objects.
  void bad_id(std::string_view call, uint32_t id);

  OpenedDevice opened_;
  uint64_t deliveries_ = 0;
  uint32_t next_id_ = 1;
  // Destroyed before the device: declared after it.
  std::unordered_map<BufferId, Ref<WGPUBuffer>> buffers_;
  std::unordered_map<PipelineId, Pipeline> pipelines_;
  std::unordered_map<BindGroupId, Ref<WGPUBindGroup>> bind_groups_;
  std::vector<std::unique_ptr<Staging>> staging_;
};

/// In pipeline_native.cc.
Task<std::vector<PipelineId>> compile_pipelines(NativeDevice& device, WGPUDevice handle,
                                                std::shared_ptr<Trouble> trouble, std::vector<PipelineDesc> descs);

}  // namespace sinter::gpu::native

#endif  // SINTER_HAVE_WEBGPU
