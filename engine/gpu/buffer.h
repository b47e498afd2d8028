// SPDX-License-Identifier: Apache-2.0
// Buffer: a device buffer with an owner; the device's memory figures are kept here.
#pragma once

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>

#include "engine/gpu/device.h"

namespace sinter::gpu {

class Buffer {
 public:
  Buffer() = default;
  /// As Device::create_buffer: a failure comes out of the scope around this.
  Buffer(std::shared_ptr<Device> device, uint64_t bytes, uint32_t use, std::string_view label)
      : device_(std::move(device)), id_(device_->create_buffer(bytes, use, label)), bytes_(bytes) {
    device_->memory.current += bytes_;
    device_->memory.peak = std::max(device_->memory.peak, device_->memory.current);
  }
  Buffer(Buffer&& other) noexcept
      : device_(std::move(other.device_)), id_(std::exchange(other.id_, 0)), bytes_(std::exchange(other.bytes_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(id_, other.id_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Buffer() {
    if (!id_) return;
    device_->destroy_buffer(id_);
    device_->memory.current -= bytes_;
  }

  BufferId id() const { return id_; }  // 0: none
  uint64_t bytes() const { return bytes_; }

 private:
  std::shared_ptr<Device> device_;
  BufferId id_ = 0;
  uint64_t bytes_ = 0;
};

}  // namespace sinter::gpu
