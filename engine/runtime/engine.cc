// SPDX-License-Identifier: Apache-2.0
#include "engine/runtime/engine.h"

#include "engine/cpu/pool.h"
#include "engine/runtime/self_check.h"

namespace sinter {
namespace {

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
      watchdog_(trace_, options.timeout_ms) {}

Engine::~Engine() = default;

Task<std::shared_ptr<gpu::Device>> Engine::device() {
  if (device_ && !device_->lost()) co_return device_;
  co_return co_await opening_.run([this]() -> Task<std::shared_ptr<gpu::Device>> {
    gpu::DeviceOptions options;
    options.prefer_low_power = options_.low_power;
    options.trace = &trace_;
    trace::Span span(&trace_, "open device");
    auto device = SINTER_CO_TRY(co_await options_.open_device(options));
    span.finish(device->adapter().description);
    device_ = device;
    pipelines_ = std::make_shared<gpu::PipelineCache>(device);
    co_return device;
  });
}

Task<std::shared_ptr<gpu::Device>> Engine::tested_device() {
  const auto device = SINTER_CO_TRY(co_await this->device());
  if (!options_.self_test) co_return device;
  if (tested_.lock() != device) {
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
