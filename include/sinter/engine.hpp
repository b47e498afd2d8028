// SPDX-License-Identifier: Apache-2.0
// Engine: what models and tensors run on. Session: one loaded model.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "include/sinter/host_tensor.hpp"
#include "include/sinter/lock.hpp"
#include "include/sinter/task.hpp"

namespace sinter::api {

/// `automatic` takes WebGPU where a hardware adapter answers, and the CPU otherwise.
enum class Backend : uint8_t { automatic, cpu, webgpu, reference };

struct EngineOptions {
  Backend backend = Backend::automatic;
  unsigned threads = 0;       // of the CPU backend; 0: one per processor
  double timeout_ms = 30000;  // no progress for that long is a Timeout
  bool low_power = false;     // prefer the GPU that saves power
};

struct LoadOptions {
  bool fusion = true;
  std::vector<std::string> off = {};                       // passes not to run
  std::vector<std::pair<std::string, int64_t>> dims = {};  // named dimensions to prepare for; 1 where not given
  CancelToken cancel = {};
};

struct ValueInfo {
  std::string name;
  DType dtype = DType::undefined;
  std::vector<std::string> shape;  // numbers as text, named dimensions by name, "?" where unknown
};

/// What a session does and why.
struct Report {
  struct CpuStep {
    std::string node, op, reason;
  };
  std::string backend;  // "webgpu", "cpu" or "reference"
  std::string why;
  std::vector<CpuStep> cpu_steps;  // of webgpu: steps that run on the CPU
  uint64_t peak_bytes = 0;
  size_t pipelines = 0, dispatches = 0;
};

namespace internal {
struct EngineState;
struct SessionState;
}  // namespace internal

/// A handle; copies share the session.
class Session {
 public:
  Session() = default;
  explicit operator bool() const { return state_ != nullptr; }

  std::vector<ValueInfo> inputs() const;
  std::vector<ValueInfo> outputs() const;
  Report report() const;
  /// Inputs by name, in any order, each exactly once. Outputs come in the model's order. Concurrent runs queue.
  Task<std::vector<NamedTensor>> run(std::vector<NamedTensor> inputs, CancelToken cancel = {}) const;
  /// Frees weights and device memory.
  void close();

 private:
  friend class Engine;
  friend class Function;
  std::shared_ptr<internal::SessionState> state_;
};

/// These headers as this program sees them. Evaluated where a program calls it, so that the linker cannot put the library's
/// answer in its place.
consteval lock::Headers headers() {
  return {lock::kVersion, lock::kFormat,
          lock::layout_of<std::string, std::vector<int>, std::shared_ptr<int>, std::optional<int>, Error, Result<>, Shape,
                          CancelToken, HostTensor, NamedTensor, EngineOptions, LoadOptions, ValueInfo, Report, Session,
                          Task<Session>>()};
}

/// A handle; copies share the engine. One engine belongs to one thread.
class Engine {
 public:
  /// Where the library is not the one of the headers, whatever is asked of the engine answers Unsupported and says so.
  explicit Engine(const EngineOptions& options = {}, const lock::Headers& compiled_with = headers());

  /// Loads a model file; its external data is looked for beside it (native builds only).
  Task<Session> load(std::string path, LoadOptions options = {}) const;
  /// Loads a model from memory, kept alive by `owner`.
  Task<Session> load(std::span<const std::byte> model, std::shared_ptr<const void> owner,
                     LoadOptions options = {}) const;

  const EngineOptions& options() const;
  /// Where tasks run: `spawn(engine.executor(), task, done)`.
  Executor& executor() const;

  /// One turn of the event loop: resumes what is ready and serves the device. A program with a loop of its own calls this
  /// in it while tasks are under way. True where something happened.
  bool turn() const;

#ifndef __wasm__
  /// Runs `task` to its end on this thread; not from within a task, which would wait for itself. On the web nothing may
  /// block: there is no such call.
  template <class T>
  Result<T> wait(Task<T> task) const {
    if (auto allowed = may_wait(); !allowed) return std::unexpected(std::move(allowed).error());
    std::optional<Result<T>> result;
    spawn(executor(), std::move(task), [&result](Result<T> value) { result.emplace(std::move(value)); });
    for (unsigned idle = 0; !result;) idle = turn() ? 0 : rest(idle);
    return std::move(*result);
  }
  template <class T>
  Result<T> wait(Task<Result<T>> task) const {
    return wait(static_cast<Task<T>&&>(task));
  }
#endif

  const std::shared_ptr<internal::EngineState>& state() const { return state_; }
  explicit Engine(std::shared_ptr<internal::EngineState> state) : state_(std::move(state)) {}

 private:
  Result<> may_wait() const;
  static unsigned rest(unsigned idle);  // gives the processor away, longer the longer nothing happens

  std::shared_ptr<internal::EngineState> state_;
};

}  // namespace sinter::api
