// SPDX-License-Identifier: Apache-2.0
#include "engine/runtime/engine.h"

#include <algorithm>

#include "engine/cpu/pool.h"
#include "engine/runtime/self_check.h"

namespace sinter {
namespace {

// Sizes to ask for; the adapter's limits where those are smaller. Byte addresses within a binding fit 32 bits.
constexpr uint64_t kMaxBinding = 0xFFFFFFFC;
constexpr uint64_t kMaxBuffer = uint64_t{1} << 40;

std::unique_ptr<plan::ThreadPool> make_pool([[maybe_unused]] unsigned threads) {
#ifndef __wasm__
  if (threads != 1) return cpu::make_native_pool(threads);
#endif
  return std::make_unique<cpu::SerialPool>();
}

}  // namespace

Engine::Engine(EngineOptions options)
    : options_(options),
      trace_(options.listener),
      pool_(make_pool(options.threads)),
      watchdog_(trace_, options.timeout_ms),
      failures_(trace_) {}

Engine::~Engine() = default;

DeviceState Engine::device_state() const {
  if (opening_.in_flight()) return DeviceState::initialising;
  return device_ && !device_->lost() ? DeviceState::ready : DeviceState::uninitialised;
}

bool Engine::poll() {
  watchdog_.check();
#ifdef __wasm__
  return false;  // the host delivers by itself
#else
  bool delivered = device_ && device_->poll();
  for (const auto& lost : lost_) delivered |= lost->poll();
  std::erase_if(lost_, [](const auto& lost) { return lost.use_count() == 1; });
  return delivered;
#endif
}

Task<std::shared_ptr<gpu::Device>> Engine::device() {
  if (device_ && !device_->lost()) co_return device_;
  co_return co_await opening_.run([this]() -> Task<std::shared_ptr<gpu::Device>> {
    gpu::DeviceOptions options;
    options.prefer_low_power = options_.low_power;
    options.trace = &trace_;
    // Plans may need large buffers, and a device cannot be widened later.
    options.need_binding_bytes = kMaxBinding;
    options.need_buffer_bytes = kMaxBuffer;
    trace::Span span(&trace_, "open device");
    auto device = SINTER_CO_TRY(co_await options_.open_device(options));
    span.finish(device->adapter().description);
#ifndef __wasm__
    if (device_) lost_.push_back(device_);
#endif
    device_ = device;
    pipelines_ = std::make_shared<gpu::PipelineCache>(device);
    co_return device;
  });
}

Task<std::shared_ptr<gpu::Device>> Engine::tested_device() {
  const auto device = SINTER_CO_TRY(co_await this->device());
  if (!options_.self_test) co_return device;
  if (tested_.owner_before(device) || device.owner_before(tested_)) {
    SINTER_CO_CHECK_OK(co_await testing_.run([this, device]() -> Task<> {
      trace::Span span(&trace_, "self-test");
      Result<> result = co_await self_check(pipelines_);
      span.finish(result ? "the device computes right values" : result.error().message);
      if (!device->lost()) {
        tested_ = device;
        test_result_ = result;
      }
      co_return result;
    }));
  }
  if (!test_result_) co_return std::unexpected(test_result_.error());
  co_return device;
}

}  // namespace sinter
