// SPDX-License-Identifier: Apache-2.0
// An engine over scripted devices: opening one is an operation like any other, and the test chooses in which order
// operations end, which of them fails, and when a device goes away. The model is y = x * w + b, two device steps.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/async/wait.h"
#include "engine/base/str.h"
#include "engine/gpu/fake_device.h"
#include "engine/runtime/session.h"
#include "tests/support/onnx_writer.h"
#include "tests/support/orders.h"

namespace sinter::scripted {

constexpr int64_t kSize = 8;

inline float x_at(int64_t i, int64_t seed) { return static_cast<float>(i * 3 + seed) - 7.0f; }
inline float w_at(int64_t i) { return static_cast<float>(i) + 0.5f; }
inline float b_at(int64_t i) { return 2.0f - static_cast<float>(i); }

inline std::string model_bytes() {
  std::vector<float> w, b;
  for (int64_t i = 0; i < kSize; ++i) {
    w.push_back(w_at(i));
    b.push_back(b_at(i));
  }
  test::ModelWriter writer;
  writer.nodes = {test::node("Mul", {"x", "w"}, {"t"}, {}, "mul"), test::node("Add", {"t", "b"}, {"y"}, {}, "add")};
  writer.initializers = {test::tensor_f32("w", {1, kSize}, w), test::tensor_f32("b", {1, kSize}, b)};
  writer.inputs = {test::value_info("x", DType::f32, {int64_t{1}, kSize})};
  writer.outputs = {test::value_info("y", DType::f32, {int64_t{1}, kSize})};
  return writer.bytes();
}

/// What the two kernels compute.
inline void emulate(std::string_view kernel, std::span<const std::span<std::byte>> bindings, const gpu::Command&) {
  auto floats = [&](size_t i) { return reinterpret_cast<float*>(bindings[i].data()); };
  for (int64_t i = 0; i < kSize; ++i) {
    if (kernel.find("'mul'") != kernel.npos) floats(2)[i] = floats(0)[i] * floats(1)[i];
    if (kernel.find("'add'") != kernel.npos) floats(2)[i] = floats(0)[i] + floats(1)[i];
  }
}

/// Devices as they are opened, for one test at a time.
struct Script {
  bool manual = false;
  std::vector<Completion<>> openings;  // that have not ended: an adapter, then its device
  std::vector<std::weak_ptr<gpu::FakeDevice>> devices;
  size_t opened = 0;                              // attempts
  std::function<void(gpu::FakeDevice&)> on_open;  // may be empty

  size_t alive() const {
    size_t count = 0;
    for (const auto& device : devices) count += !device.expired();
    return count;
  }
};
inline Script* g_script = nullptr;

inline Task<std::shared_ptr<gpu::Device>> open_scripted(gpu::DeviceOptions) {
  Script& script = *g_script;
  ++script.opened;
  for (int stage = 0; stage < 2; ++stage) {
    Completion<> answer;
    script.openings.push_back(answer);
    SINTER_CO_CHECK_OK(co_await answer);
  }
  auto device = std::make_shared<gpu::FakeDevice>();
  device->on_dispatch(emulate);
  device->set_manual(true);
  script.devices.push_back(device);
  if (script.on_open) script.on_open(*device);
  co_return device;
}

using Outputs = std::vector<NamedTensor>;

/// One engine and what was started on it.
class World {
 public:
  explicit World(BackendChoice backend = BackendChoice::webgpu, EngineOptions options = {}) : backend_(backend) {
    g_script = &script;
    options.open_device = &open_scripted;
    engine = std::make_shared<Engine>(options);
  }
  ~World() {
    loads.clear();
    runs.clear();
    finish_all();
    EXPECT_EQ(engine->executor().tasks(), 0u) << "something still waits";
    EXPECT_EQ(engine.use_count(), 1) << "somebody still holds the engine";
    engine = nullptr;
    EXPECT_EQ(script.alive(), 0u) << "somebody still holds a device";
    g_script = nullptr;
  }

  size_t start_load(CancelToken cancel = {}, std::optional<DeviceFault> fault = {}) {
    SessionOptions options;
    options.backend = backend_;
    options.fusion = false;
    options.cancel = std::move(cancel);
    options.inject_device = std::move(fault);
    const size_t index = loads.size();
    loads.emplace_back();
    const test::Blob blob(model_bytes());
    spawn(engine->executor(), open_session(engine, {blob.bytes(), blob.text, nullptr}, std::move(options)),
          [this, index](Result<std::shared_ptr<Session>> result) { loads[index].emplace(std::move(result)); });
    return index;
  }

  size_t start_run(const std::shared_ptr<Session>& session, int64_t seed = 0, CancelToken cancel = {}) {
    Tensor x = *Tensor::alloc(DType::f32, Shape{1, kSize});
    for (int64_t i = 0; i < kSize; ++i) x.mutable_data<float>()[i] = x_at(i, seed);
    const size_t index = runs.size();
    runs.emplace_back();
    seeds_.push_back(seed);
    spawn(engine->executor(), session->run({{"x", x}}, {std::move(cancel)}),
          [this, index](Result<Outputs> result) { runs[index].emplace(std::move(result)); });
    return index;
  }

  /// Runs what is ready, turns of the event loop included, without ending a device operation.
  void settle() {
    do {
      engine->executor().begin_turn();
      engine->executor().drain();
    } while (!engine->executor().idle());
  }

  size_t pending() const {
    size_t count = script.openings.size();
    for (const auto& device : script.devices) {
      if (const auto alive = device.lock()) count += alive->pending().size();
    }
    return count;
  }

  void finish(size_t index, std::optional<Error> error = {}) {
    if (index < script.openings.size()) {
      Completion<> opening = script.openings[index];
      script.openings.erase(script.openings.begin() + static_cast<ptrdiff_t>(index));
      opening.complete(error ? Result<>(std::unexpected(std::move(*error))) : Result<>());
      return;
    }
    index -= script.openings.size();
    for (const auto& device : script.devices) {
      const auto alive = device.lock();
      if (!alive) continue;
      if (index < alive->pending().size()) return alive->finish(index, std::move(error));
      index -= alive->pending().size();
    }
  }

  /// Ends every operation, the oldest first, until there is none.
  void finish_all() {
    for (settle(); pending() > 0; settle()) finish(0);
  }

  /// Loads and runs to the end; both must work.
  std::shared_ptr<Session> load_now() {
    const size_t load = start_load();
    finish_all();
    if (!loads[load] || !*loads[load]) {
      ADD_FAILURE() << (loads[load] ? to_string(loads[load]->error()) : "the load hangs");
      return nullptr;
    }
    return **loads[load];
  }
  void expect_run_works(const std::shared_ptr<Session>& session, int64_t seed = 5) {
    const size_t run = start_run(session, seed);
    finish_all();
    expect_right(run);
  }
  void expect_right(size_t run) {
    ASSERT_TRUE(runs[run]) << "the run hangs";
    ASSERT_TRUE(runs[run]->has_value()) << to_string(runs[run]->error());
    EXPECT_TRUE(is_right(run));
  }
  bool is_right(size_t run) const {
    const Tensor& y = (**runs[run])[0].tensor;
    for (int64_t i = 0; i < kSize; ++i) {
      if (y.data<float>()[i] != x_at(i, seeds_[run]) * w_at(i) + b_at(i)) return false;
    }
    return true;
  }
  const Error& error_of_run(size_t run) const { return runs[run]->error(); }

  gpu::FakeDevice& device() { return *script.devices.back().lock(); }

  Script script;
  std::shared_ptr<Engine> engine;
  std::vector<std::optional<Result<std::shared_ptr<Session>>>> loads;
  std::vector<std::optional<Result<Outputs>>> runs;

 private:
  BackendChoice backend_;
  std::vector<int64_t> seeds_;
};

}  // namespace sinter::scripted
