// SPDX-License-Identifier: Apache-2.0
// FakeDevice: a scripted device for tests. It checks what WebGPU checks, holds real bytes, and lets the test choose in
// which order asynchronous operations end, which of them fails, and when the device goes away.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/async/completion.h"
#include "engine/gpu/device.h"

namespace sinter::gpu {

class FakeDevice final : public Device {
 public:
  /// What a dispatch does: `kernel` is the pipeline's label; one span per binding, the uniform block last.
  using Kernel = std::function<void(std::string_view kernel, std::span<const std::span<std::byte>> bindings,
                                    const Command& command)>;

  explicit FakeDevice(wgsl::Target target = {}) : target_(target) {}
  ~FakeDevice() override;

  // --- the script ---

  /// Without one, dispatches compute nothing.
  void on_dispatch(Kernel kernel) { kernel_ = std::move(kernel); }
  /// In manual mode `poll` ends nothing; the test calls `finish`. Otherwise `poll` ends the oldest operation.
  void set_manual(bool manual) { manual_ = manual; }
  /// The n-th call from now on (0: the next) fails: a creation or queue call into the scope around it, an asynchronous
  /// operation when it ends.
  void fail_call(size_t n, Error error) { fault_ = Fault{calls_.size() + n, std::move(error)}; }
  /// The device is lost right before the n-th call from now on.
  void lose_at(size_t n) { lose_at_ = calls_.size() + n; }
  void lose(std::string reason);

  /// Operations that have not ended, oldest first: "create_pipelines 2", "pop_error_scope", "read_buffer".
  std::vector<std::string> pending() const;
  /// Ends one of them, as it would by itself or with an error.
  void finish(size_t index, std::optional<Error> error = std::nullopt);

  // --- what happened ---

  const std::vector<std::string>& calls() const { return calls_; }
  size_t count(std::string_view call) const;  // calls whose text starts so
  size_t live_buffers() const { return buffers_.size(); }
  size_t live_pipelines() const { return pipelines_.size(); }
  size_t live_bind_groups() const { return bind_groups_.size(); }
  std::span<std::byte> bytes_of(BufferId buffer);

  // --- Device ---

  const wgsl::Target& target() const override { return target_; }
  const AdapterInfo& adapter() const override { return adapter_; }
  BufferId create_buffer(uint64_t bytes, uint32_t use, std::string_view label) override;
  void destroy_buffer(BufferId buffer) override;
  void write_buffer(BufferId buffer, uint64_t offset, std::span<const std::byte> bytes) override;
  Task<std::vector<PipelineId>> create_pipelines(std::vector<PipelineDesc> descs) override;
  void destroy_pipeline(PipelineId pipeline) override { pipelines_.erase(pipeline); }
  BindGroupId create_bind_group(PipelineId pipeline, std::span<const BufferRange> ranges) override;
  void destroy_bind_group(BindGroupId group) override { bind_groups_.erase(group); }
  void submit(std::span<const Command> commands) override;
  Task<> read_buffer(BufferId buffer, uint64_t offset, std::span<std::byte> out) override;
  void push_error_scope() override;
  Task<> pop_error_scope() override;
  void destroy() override { lose("destroyed"); }
  bool lost() const override { return lost_; }
  std::string lost_reason() const override { return lost_reason_; }
  bool poll() override;

 private:
  struct FakeBuffer {
    std::vector<std::byte> bytes;
    uint32_t use = 0;
    std::string label;
    bool map_pending = false;
  };
  struct FakePipeline {
    std::string label;
    std::vector<bool> writes;  // per storage binding
    bool uniform = false;
  };
  struct FakeBindGroup {
    PipelineId pipeline = 0;
    std::vector<BufferRange> ranges;
  };
  struct Fault {
    size_t call = 0;
    Error error;
  };
  struct Operation {
    std::string what;
    std::optional<Error> fault;  // decided when it began
    std::function<void(std::optional<Error>)> end;
  };

  /// Notes a call; returns the error that the script has for it.
  std::optional<Error> note(std::string call);
  void error(std::string message) { error(Error{Code::Gpu, std::move(message), {}, {}}); }
  void error(Error error);
  std::optional<Error> lost_error() const;
  std::string check_ranges(const FakePipeline& pipeline, std::span<const BufferRange> ranges) const;
  void dispatch(const Command& command);
  void copy(const Command& command);

  wgsl::Target target_;
  AdapterInfo adapter_{"sinter", "fake", "fake device", "scripted device for tests", "fake"};
  Kernel kernel_;
  bool manual_ = false;
  std::optional<Fault> fault_;
  std::optional<size_t> lose_at_;
  bool lost_ = false;
  std::string lost_reason_;

  uint32_t next_id_ = 1;
  std::map<BufferId, FakeBuffer> buffers_;
  std::map<PipelineId, FakePipeline> pipelines_;
  std::map<BindGroupId, FakeBindGroup> bind_groups_;
  std::vector<std::optional<Error>> scopes_;
  std::optional<Error> stray_;
  std::vector<Operation> operations_;
  std::vector<std::string> calls_;
};

}  // namespace sinter::gpu
