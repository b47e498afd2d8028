// SPDX-License-Identifier: Apache-2.0
// Drives the engine from the command line: one engine, waiting for its tasks, Ctrl-C, the trace file.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cli/options.h"
#include "cli/trace_file.h"
#include "engine/async/cancel.h"
#include "engine/onnx/external_data.h"
#include "engine/runtime/session.h"

namespace sinter::cli {

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
/// As a stage of the log, where one is given.
Result<ModelFile> open_model_file(const std::string& path, trace::Log* log = nullptr);

/// Makes Ctrl-C ask for a cancellation; a second one ends the process.
void catch_interrupt();

}  // namespace sinter::cli
