// SPDX-License-Identifier: Apache-2.0
// What the C++ interface can do natively only: open files, and wait.
#include <algorithm>
#include <chrono>
#include <thread>

#include "engine/api/expression.h"
#include "engine/api/state.h"
#include "engine/base/str.h"
#include "engine/codegen/signature.h"
#include "engine/onnx/external_data.h"
#include "include/sinter/weights.hpp"

namespace sinter::api {

uint64_t internal::library_operators() { return codegen::operators_hash(); }

namespace {

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? std::string(".") : path.substr(0, slash + 1);
}

}  // namespace

Result<> Engine::may_wait() const {
  if (!state_->in_turn) return {};
  return fail(
      Code::InvalidInput, "a task of this engine waits for another, which cannot go on before it returns",
      "in a task use co_await: co_await tensor.data() for tensor.to_data(), co_await task for engine.wait(task)");
}

unsigned Engine::rest(unsigned idle) {
  // A short spin first: most device work ends within microseconds.
  if (idle > 100) std::this_thread::sleep_for(std::chrono::microseconds(idle > 1000 ? 1000 : 50));
  return std::min(idle + 1, 1001u);
}

Task<Session> Engine::load(std::string path, LoadOptions options) const {
  const auto state = state_;
  SINTER_CO_CHECK_OK(Result<>(state->fits));
  const auto where = [&](Error error) {
    return std::unexpected(std::move(error).with_context(StrCat("loading '", path, "'")));
  };
  auto file = onnx::map_file(path);
  if (!file) co_return where(std::move(file).error());
  const auto external = onnx::external_data_in(folder_of(path));
  Session session;
  session.state_ = std::make_shared<internal::SessionState>();
  session.state_->engine = state;
  auto opened = co_await open_session(state->engine, {file->bytes, file->owner, external.get()},
                                      internal::session_options(state->options, options));
  if (!opened) co_return where(std::move(opened).error());
  session.state_->session = std::move(*opened);
  co_return session;
}

Result<HostTensor> Tensor::to_data() const {
  auto engine = internal::engine_of({*this});
  if (!engine) return std::unexpected(std::move(engine).error());
  return engine->wait(data(*engine));
}

Result<Weights> Weights::open(const std::string& path) {
  auto file = onnx::map_file(path);
  const auto where = [&](Error error) {
    return std::unexpected(std::move(error).with_context(StrCat("opening the weights '", path, "'")));
  };
  if (!file) return where(std::move(file).error());
  const auto external = onnx::external_data_in(folder_of(path));
  auto weights = read(file->bytes, file->owner, external.get());
  if (!weights) return where(std::move(weights).error());
  return weights;
}

}  // namespace sinter::api
