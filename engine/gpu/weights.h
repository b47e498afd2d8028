// SPDX-License-Identifier: Apache-2.0
// DeviceWeights: the weights of one session in device memory, uploaded once and shared by all its plans (N=1, N=4).
#pragma once

#include <map>
#include <memory>
#include <string_view>
#include <tuple>
#include <vector>

#include "engine/async/cancel.h"
#include "engine/async/lane.h"
#include "engine/gpu/buffer.h"
#include "engine/plan/plan.h"

namespace sinter::gpu {

/// Where one weight lies. Small ones share a buffer.
struct DeviceWeight {
  std::shared_ptr<const Buffer> buffer;  // null: a weight without elements, or one that is not on the device
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

class DeviceWeights {
 public:
  explicit DeviceWeights(std::shared_ptr<Device> device) : device_(std::move(device)) {}

  const std::shared_ptr<Device>& device() const { return device_; }

  /// One entry per Plan::weights. What is not there yet is loaded from `source` and uploaded, one weight at a time, giving
  /// the host a turn every few milliseconds. A failure leaves nothing behind. Concurrent calls pass one after the other, so
  /// no weight is uploaded twice. `this`, `plan` and `source` must outlive the task.
  Task<std::vector<DeviceWeight>> upload(const plan::Plan& plan, plan::WeightSource& source, CancelToken cancel);

  uint64_t bytes() const { return bytes_; }  // of the weights kept here
  uint64_t uploads() const { return uploads_; }

 private:
  using Key = std::tuple<ValueId, std::string_view, int64_t>;  // value, packer's name, packer's argument
  static Key key_of(const plan::WeightUse& use);
  class Uploader;

  std::shared_ptr<Device> device_;
  Lane lane_;
  std::map<Key, DeviceWeight> kept_;
  uint64_t bytes_ = 0;
  uint64_t uploads_ = 0;
};

}  // namespace sinter::gpu
