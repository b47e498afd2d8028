// SPDX-License-Identifier: Apache-2.0
#include "engine/diag/profile.h"

#include <algorithm>

namespace sinter::diag {
namespace {

// Submits commands and waits for their end, which a map of what they copied last shows.
class Submits {
 public:
  explicit Submits(gpu::Device& device) : device_(device) {
    device_.push_error_scope();
    source_ = device_.create_buffer(16, gpu::kCopySrc | gpu::kCopyDst, "profile");
    staging_ = device_.create_buffer(16, gpu::kMapRead | gpu::kCopyDst, "profile");
  }
  ~Submits() {
    device_.destroy_buffer(source_);
    device_.destroy_buffer(staging_);
  }
  Task<> created() { return device_.pop_error_scope(); }

  Task<double> time(std::span<const gpu::Command> commands) {
    std::vector<gpu::Command> all(commands.begin(), commands.end());
    all.push_back({.kind = gpu::Command::kCopy, .a = source_, .b = staging_, .bytes = 16});
    gpu::Batch batch{.commands = all, .read = staging_};
    batch.out = read_;
    const double start = trace::now_ms();
    SINTER_CO_CHECK_OK(co_await device_.execute(batch));
    co_return trace::now_ms() - start;
  }

 private:
  gpu::Device& device_;
  gpu::BufferId source_ = 0, staging_ = 0;
  std::byte read_[16];
};

}  // namespace

double Profile::ms_of(size_t step) const {
  if (runs_of(step) == 0) return 0;
  std::vector<double> times = steps_[step];
  std::ranges::sort(times);
  return (times[(times.size() - 1) / 2] + times[times.size() / 2]) / 2;
}

void Profile::add(size_t step, double ms) {
  if (step == kNone) return;  // a copy that belongs to no step
  if (step >= steps_.size()) steps_.resize(step + 1);
  steps_[step].push_back(ms);
}

void Profile::after_step(size_t index, const plan::Step&, std::span<const Tensor>, double ms) { add(index, ms); }

Task<> Profile::run(std::shared_ptr<gpu::Device> device, std::span<const gpu::Command> commands,
                    std::span<const uint32_t> steps) {
  if (commands.empty()) co_return Result<>{};
  if (!device->target().timestamps) co_return co_await run_one_by_one(*device, commands, steps);
  const auto times = SINTER_CO_TRY(co_await device->time(commands));
  how_ = "timestamp queries";
  for (size_t i = 0; i < times.size(); ++i) add(steps[i], times[i]);
  co_return Result<>{};
}

Task<> Profile::run_one_by_one(gpu::Device& device, std::span<const gpu::Command> commands,
                               std::span<const uint32_t> steps) {
  how_ = "each step in a submit of its own (no timestamp queries here), less the time of an empty one";
  Submits submits(device);
  SINTER_CO_CHECK_OK(co_await submits.created());
  double floor = SINTER_CO_TRY(co_await submits.time({}));
  for (int i = 0; i < 3; ++i) floor = std::min(floor, SINTER_CO_TRY(co_await submits.time({})));
  for (size_t i = 0; i < commands.size(); ++i) {
    const double ms = SINTER_CO_TRY(co_await submits.time(commands.subspan(i, 1)));
    add(steps[i], std::max(0.0, ms - floor));
  }
  co_return Result<>{};
}

}  // namespace sinter::diag
