// SPDX-License-Identifier: Apache-2.0
// FaultyDevice: a device over another one that fails on purpose, right before a command of the caller's choice. Everything
// above it meets the fault as it would meet a real one.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "engine/gpu/device.h"

namespace sinter::gpu {

class FaultyDevice final : public Device {
 public:
  explicit FaultyDevice(std::shared_ptr<Device> inner) : inner_(std::move(inner)) {}

  const std::shared_ptr<Device>& inner() const { return inner_; }

  /// Happens once: `error` in place of `command`. DeviceLost destroys the device below; any other code fails the submit.
  /// A later call replaces what has not happened yet.
  void arm(const Command& command, Error error) { fault_ = Fault{command, std::move(error)}; }
  bool happened() const { return happened_; }

  const wgsl::Target& target() const override { return inner_->target(); }
  const AdapterInfo& adapter() const override { return inner_->adapter(); }
  BufferId create_buffer(uint64_t bytes, uint32_t use, std::string_view label) override {
    return inner_->create_buffer(bytes, use, label);
  }
  void destroy_buffer(BufferId buffer) override { inner_->destroy_buffer(buffer); }
  void write_buffer(BufferId buffer, uint64_t offset, std::span<const std::byte> bytes) override {
    inner_->write_buffer(buffer, offset, bytes);
  }
  Task<std::vector<PipelineId>> create_pipelines(std::vector<PipelineDesc> descs) override {
    return inner_->create_pipelines(std::move(descs));
  }
  void destroy_pipeline(PipelineId pipeline) override { inner_->destroy_pipeline(pipeline); }
  BindGroupId create_bind_group(PipelineId pipeline, std::span<const BufferRange> ranges) override {
    return inner_->create_bind_group(pipeline, ranges);
  }
  void destroy_bind_group(BindGroupId group) override { inner_->destroy_bind_group(group); }
  void submit(std::span<const Command> commands) override;
  Task<> read_buffer(BufferId buffer, uint64_t offset, std::span<std::byte> out) override;
  void push_error_scope() override;
  Task<> pop_error_scope() override;
  void destroy() override { inner_->destroy(); }
  bool lost() const override { return inner_->lost(); }
  std::string lost_reason() const override { return loss_ ? "injected" : inner_->lost_reason(); }
  bool poll() override { return inner_->poll(); }

 private:
  struct Fault {
    Command command;
    Error error;
  };

  std::shared_ptr<Device> inner_;
  std::optional<Fault> fault_;
  bool happened_ = false;
  std::optional<Error> loss_;                 // what operations on the lost device end with
  std::vector<std::optional<Error>> scopes_;  // the fault in each open scope
};

}  // namespace sinter::gpu
