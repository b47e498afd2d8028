// SPDX-License-Identifier: Apache-2.0
#include "engine/runtime/engine.h"

#include "engine/cpu/pool.h"

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

}  // namespace sinter
