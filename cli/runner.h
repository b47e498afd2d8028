// SPDX-License-Identifier: Apache-2.0
// Drives the engine from the command line: one engine, waiting for its tasks, Ctrl-C, the trace file.
#pragma once

#include <fstream>
#include <memory>
#include <optional>
#include <string>

#include "cli/options.h"
#include "engine/async/cancel.h"
#include "engine/onnx/external_data.h"
#include "engine/runtime/session.h"

namespace sinter::cli {

/// Collects events and writes them as a Chrome trace (chrome://tracing, Perfetto) when it goes.
class TraceFile final : public trace::Listener {
 public:
  ~TraceFile();
  /// Nothing to do where the path is empty.
  Result<> open(const std::string& path);
  void on_event(const trace::Event& event) override;

 private:
  struct Open {
    trace::Event begin;
  };
  void write(const trace::Event& event, double start_ms, std::optional<double> duration_ms);

  std::ofstream file_;
  bool first_ = true;
  std::vector<Open> open_;
};

class Runner {
 public:
  /// Refuses what this build cannot do, opens the trace file and makes the engine.
  static Result<std::unique_ptr<Runner>> make(const CommonOptions& options);

  Engine& engine() { return *engine_; }
  const std::shared_ptr<Engine>& shared_engine() const { return engine_; }
  CancelToken cancel() { return cancel_.token(); }

  /// Runs the event loop until the task is done; Ctrl-C and the engine's watchdog end it early.
  template <class T>
  Result<T> wait(Task<T> task) {
    auto result = std::make_shared<std::optional<Result<T>>>();
    spawn(engine_->executor(), std::move(task), [result](Result<T> value) { result->emplace(std::move(value)); });
    while (!result->has_value()) turn();
    return std::move(**result);
  }

  /// Opens a model file with its external data.
  Result<std::shared_ptr<Session>> open(const std::string& path, SessionOptions options);

 private:
  explicit Runner(const CommonOptions& options) : options_(options) {}

  bool turn();  // true where something happened

  CommonOptions options_;
  TraceFile trace_;
  CancelSource cancel_;
  std::shared_ptr<Engine> engine_;
  unsigned idle_turns_ = 0;
};

/// A file's bytes and the resolver of its external data.
struct ModelFile {
  onnx::FileBytes file;
  std::unique_ptr<onnx::ExternalData> external;

  ModelSource source() const { return {file.bytes, file.owner, external.get()}; }
};
Result<ModelFile> open_model_file(const std::string& path);

/// Makes Ctrl-C ask for a cancellation; a second one ends the process.
void catch_interrupt();

}  // namespace sinter::cli
