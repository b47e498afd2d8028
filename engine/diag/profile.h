// SPDX-License-Identifier: Apache-2.0
// Profile: how long each step of a plan takes, over several runs.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "engine/runtime/profile.h"

namespace sinter::diag {

/// Give the same one to several runs of a session: times are medians over them.
class Profile final : public StepProfile {
 public:
  double ms_of(size_t step) const;
  size_t runs_of(size_t step) const { return step < steps_.size() ? steps_[step].size() : 0; }
  /// How the device's steps were measured; "" where none ran on one.
  std::string_view how() const { return how_; }

  void after_step(size_t index, const plan::Step& step, std::span<const Tensor> outputs, double ms) override;
  void after_host_step(uint32_t step, double ms) override { add(step, ms); }
  Task<> run(std::shared_ptr<gpu::Device> device, std::span<const gpu::Command> commands,
             std::span<const uint32_t> steps) override;

 private:
  void add(size_t step, double ms);
  Task<> run_one_by_one(gpu::Device& device, std::span<const gpu::Command> commands, std::span<const uint32_t> steps);

  std::vector<std::vector<double>> steps_;  // milliseconds of each run
  std::string_view how_;
};

}  // namespace sinter::diag
