// SPDX-License-Identifier: Apache-2.0
#include "cli/runner.h"

#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <thread>

#include "cli/report.h"
#include "engine/base/str.h"
#include "engine/diag/capture.h"

namespace sinter::cli {
namespace {

std::atomic<bool> g_interrupted{false};

void on_interrupt(int) {
  g_interrupted = true;
  std::signal(SIGINT, SIG_DFL);
}

}  // namespace

void catch_interrupt() { std::signal(SIGINT, on_interrupt); }

namespace {

Result<> check_faults(const CommonOptions& options) {
  if (options.inject.size() > 1) return fail(Code::InvalidInput, "one fault at a time", "give --inject once");
  if (!options.inject.empty()) SINTER_CHECK_OK(parse_fault(options.inject[0]));
  if (!options.inject_device.empty()) SINTER_CHECK_OK(parse_device_fault(options.inject_device));
  if (!options.inject_device.empty() && (options.backend == "cpu" || options.backend == "reference")) {
    warn(StrCat("the injected fault is inert: ", options.inject_device, " happens to a device, and the ",
                options.backend, " backend uses none"));
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Runner>> Runner::make(const CommonOptions& options) {
  SINTER_CHECK_OK(check_faults(options));
  std::unique_ptr<Runner> runner(new Runner(options));
  SINTER_CHECK_OK(runner->trace_.open(options.trace));
  EngineOptions engine;
  engine.threads = options.threads;
  engine.timeout_ms = options.timeout_ms;
  engine.listener = &runner->trace_;
  runner->engine_ = std::make_shared<Engine>(engine);
  return runner;
}

bool Runner::turn() {
  Executor& executor = engine_->executor();
  if (g_interrupted && !cancel_.token().cancelled()) cancel_.cancel();
  executor.begin_turn();
  bool moved = !executor.idle();
  executor.drain();
  moved |= engine_->poll();
  if (moved) {
    idle_turns_ = 0;
    return true;
  }
  // A short spin first: most device work ends within microseconds.
  if (++idle_turns_ > 100) std::this_thread::sleep_for(std::chrono::microseconds(idle_turns_ > 1000 ? 1000 : 50));
  return false;
}

Result<ModelFile> open_model_file(const std::string& path, trace::Log* log) {
  trace::Span span(log, "fetch", {}, path);
  ModelFile model;
  model.file = SINTER_TRY(onnx::map_file(path));
  model.external = onnx::external_data_in(std::filesystem::path(path).parent_path().string());
  span.finish(StrCat(model.file.bytes.size(), " bytes"));
  return model;
}

Result<std::shared_ptr<Session>> Runner::open(const std::string& path, SessionOptions options) {
  const ModelFile model = SINTER_TRY(open_model_file(path, &engine_->trace()));
  options.cancel = cancel();
  const diag::Spec spec{.dtype = options_.dtype == "f16" ? DType::f16 : DType::f32};
  auto session = wait(diag::open_for(engine_, model.source(), spec, std::move(options)));
  if (!session) return std::unexpected(std::move(session).error().with_context(StrCat("loading '", path, "'")));
  return std::move(*session);
}

}  // namespace sinter::cli
