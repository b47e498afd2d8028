// SPDX-License-Identifier: Apache-2.0
// Engine: what sessions share: the executor, the trace log, the thread pool and at most one device.
#pragma once

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "engine/async/executor.h"
#include "engine/async/lane.h"
#include "engine/async/single_flight.h"
#include "engine/async/task.h"
#include "engine/base/trace.h"
#include "engine/gpu/device.h"
#include "engine/gpu/pipeline_cache.h"
#include "engine/plan/target.h"
#include "engine/runtime/failures.h"
#include "engine/runtime/watchdog.h"

namespace sinter {

/// `automatic` takes WebGPU where a hardware adapter answers, and the CPU otherwise.
enum class BackendChoice : uint8_t { automatic, cpu, webgpu, reference };

/// Of the engine's device: `ready` while it is open and alive.
enum class DeviceState : uint8_t { uninitialised, initialising, ready };

// A page must get its thread back well within a frame.
#ifdef __wasm__
constexpr double kSliceMs = 8;
#else
constexpr double kSliceMs = std::numeric_limits<double>::infinity();
#endif

struct EngineOptions {
  unsigned threads = 1;       // 0: one per processor; the web build has one
  double timeout_ms = 30000;  // no progress for that long is a Timeout
  trace::Listener* listener = nullptr;
  bool low_power = false;
  bool self_test = true;       // `automatic` tries a device's arithmetic before it uses it (self_check.h)
  double slice_ms = kSliceMs;  // a CPU run gives the event loop a turn after this long
  /// How to open a device; tests put a scripted one here.
  Task<std::shared_ptr<gpu::Device>> (*open_device)(gpu::DeviceOptions) = &gpu::open_device;
};

class Engine {
 public:
  explicit Engine(EngineOptions options);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  Executor& executor() { return executor_; }
  trace::Log& trace() { return trace_; }
  plan::ThreadPool& pool() { return *pool_; }
  const EngineOptions& options() const { return options_; }

  /// The engine's device, opened on first use. Concurrent callers share one attempt; a failure is not remembered; a lost
  /// device is opened anew.
  Task<std::shared_ptr<gpu::Device>> device();
  /// The same once its arithmetic was found right, which is tried once per device.
  Task<std::shared_ptr<gpu::Device>> tested_device();
  /// The device if it is open.
  const std::shared_ptr<gpu::Device>& open_device() const { return device_; }
  const std::shared_ptr<gpu::PipelineCache>& pipelines() const { return pipelines_; }
  /// Runs pass through here one at a time, in order.
  Lane& lane() { return lane_; }

  Watchdog& watchdog() { return watchdog_; }
  Failures& failures() { return failures_; }
  DeviceState device_state() const;

  /// Serves the devices' callbacks (native pump) and the watchdog. True if something was delivered.
  bool poll();

 private:
  EngineOptions options_;
  Executor executor_;
  trace::Log trace_;
  std::unique_ptr<plan::ThreadPool> pool_;
  std::shared_ptr<gpu::Device> device_;
  std::shared_ptr<gpu::PipelineCache> pipelines_;
#ifndef __wasm__
  std::vector<std::shared_ptr<gpu::Device>> lost_;  // work that was under way on them still has to end
#endif
  SingleFlight<std::shared_ptr<gpu::Device>> opening_;
  SingleFlight<> testing_;
  std::weak_ptr<gpu::Device> tested_;  // the device that `test_result_` is about
  Result<> test_result_;
  Lane lane_;
  Watchdog watchdog_;
  Failures failures_;
};

}  // namespace sinter
