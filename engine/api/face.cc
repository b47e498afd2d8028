// SPDX-License-Identifier: Apache-2.0
// The C++ interface's Engine, Session and HostTensor: thin handles on the engine's own.
#include "engine/api/state.h"
#include "engine/base/str.h"
#include "include/sinter/lock.hpp"
#include "include/sinter/weights.hpp"

namespace sinter::api {
namespace internal {

#ifdef __wasm__
uint64_t library_operators() { return 0; }
#endif

BackendChoice backend_choice(Backend backend) {
  switch (backend) {
    case Backend::cpu:
      return BackendChoice::cpu;
    case Backend::webgpu:
      return BackendChoice::webgpu;
    case Backend::reference:
      return BackendChoice::reference;
    case Backend::automatic:
      break;
  }
  return BackendChoice::automatic;
}

SessionOptions session_options(const EngineOptions& engine, const LoadOptions& load) {
  SessionOptions options;
  options.backend = backend_choice(engine.backend);
  options.fusion = load.fusion;
  options.off = load.off;
  options.dims = load.dims;
  options.cancel = load.cancel;
  return options;
}

sinter::Tensor to_engine(const HostTensor& tensor) {
  return sinter::Tensor::view(tensor.dtype(), tensor.shape(), tensor.bytes(), tensor.owner());
}

HostTensor to_host(const sinter::Tensor& tensor) {
  auto owner = std::make_shared<sinter::Tensor>(tensor);
  const auto bytes = owner->bytes();
  auto host = HostTensor::view(tensor.dtype(), tensor.shape(), bytes, std::move(owner));
  return host ? *host : HostTensor();
}

}  // namespace internal

Result<HostTensor> HostTensor::zeros(DType dtype, const Shape& shape) {
  return internal::to_host(SINTER_TRY(sinter::Tensor::alloc(dtype, shape)));
}

Result<HostTensor> HostTensor::copy(DType dtype, const Shape& shape, std::span<const std::byte> bytes) {
  SINTER_CHECK_OK(view(dtype, shape, bytes, nullptr));
  HostTensor tensor = SINTER_TRY(zeros(dtype, shape));
  std::copy(bytes.begin(), bytes.end(), tensor.mutable_bytes().begin());
  return tensor;
}

Result<HostTensor> HostTensor::view(DType dtype, const Shape& shape, std::span<const std::byte> bytes,
                                    std::shared_ptr<const void> owner) {
  const auto numel = shape.is_static() ? checked_numel(shape) : std::nullopt;
  if (!numel || size_of(dtype) == 0) {
    return fail(Code::InvalidInput, StrCat("a tensor cannot be ", name_of(dtype), " ", to_string(shape)));
  }
  if (bytes.size() / size_of(dtype) != static_cast<uint64_t>(*numel) || bytes.size() % size_of(dtype) != 0) {
    return fail(Code::InvalidInput,
                StrCat("a tensor of ", name_of(dtype), " ", to_string(shape), " has ", *numel, " elements, given are ",
                       bytes.size() / size_of(dtype)),
                "give as many values as the shape has elements");
  }
  HostTensor tensor;
  tensor.dtype_ = dtype;
  tensor.shape_ = shape;
  tensor.bytes_ = bytes;
  tensor.owner_ = std::move(owner);
  return tensor;
}

namespace {

std::vector<ValueInfo> describe(const std::vector<IoInfo>& values) {
  std::vector<ValueInfo> infos;
  for (const IoInfo& value : values) infos.push_back({value.name, value.dtype, value.shape});
  return infos;
}

std::unexpected<Error> no_session() {
  return fail(Code::InvalidInput, "this is no session", "use one that Engine::load has given");
}

}  // namespace

std::vector<ValueInfo> Session::inputs() const {
  return state_ ? describe(state_->session->inputs()) : std::vector<ValueInfo>();
}

std::vector<ValueInfo> Session::outputs() const {
  return state_ ? describe(state_->session->outputs()) : std::vector<ValueInfo>();
}

Report Session::report() const {
  Report report;
  if (!state_) return report;
  const SessionReport& from = state_->session->report();
  report.backend = plan::name_of(from.backend);
  report.why = from.why;
  for (const auto& step : from.cpu_steps) report.cpu_steps.push_back({step.node, step.op, step.reason});
  report.peak_bytes = from.peak_bytes;
  report.pipelines = from.pipelines;
  report.dispatches = from.dispatches;
  return report;
}

Task<std::vector<NamedTensor>> Session::run(std::vector<NamedTensor> inputs, CancelToken cancel) const {
  const auto state = state_;
  if (!state) co_return no_session();
  std::vector<sinter::NamedTensor> given;
  for (NamedTensor& input : inputs) given.push_back({std::move(input.name), internal::to_engine(input.tensor)});
  auto outputs = SINTER_CO_TRY(co_await state->session->run(std::move(given), {.cancel = cancel}));
  std::vector<NamedTensor> named;
  for (auto& output : outputs) named.push_back({std::move(output.name), internal::to_host(output.tensor)});
  co_return named;
}

void Session::close() {
  if (state_) state_->session->close();
}

Engine::Engine(const EngineOptions& options, const lock::Headers& compiled_with)
    : state_(std::make_shared<internal::EngineState>()) {
  sinter::EngineOptions inner;
  state_->fits = lock::check_headers(compiled_with, headers().layout);
  if (state_->fits) {  // else the options are not what they seem
    state_->options = options;
    inner.threads = options.threads;
    inner.timeout_ms = options.timeout_ms;
    inner.low_power = options.low_power;
  }
  state_->engine = std::make_shared<sinter::Engine>(inner);
}

const EngineOptions& Engine::options() const { return state_->options; }
Executor& Engine::executor() const { return state_->engine->executor(); }

bool Engine::turn() const {
  Executor& executor = state_->engine->executor();
  executor.begin_turn();
  bool moved = !executor.idle();
  const bool outermost = !state_->in_turn;
  state_->in_turn = true;
  executor.drain();
  if (outermost) state_->in_turn = false;
  moved |= state_->engine->poll();
  return moved;
}

Task<Session> Engine::load(std::span<const std::byte> model, std::shared_ptr<const void> owner,
                           LoadOptions options) const {
  const auto state = state_;
  SINTER_CO_CHECK_OK(Result<>(state->fits));
  Session session;
  session.state_ = std::make_shared<internal::SessionState>();
  session.state_->engine = state;
  session.state_->session = SINTER_CO_TRY(co_await open_session(state->engine, {model, std::move(owner), nullptr},
                                                                internal::session_options(state->options, options)));
  co_return session;
}

}  // namespace sinter::api

namespace sinter::lock {

static_assert(kVersion == std::string_view(SINTER_VERSION), "lock.hpp names another version than the project");

Result<> check_headers(const Headers& headers, uint64_t library_layout) {
  constexpr std::string_view kHint = "compile it again with the headers of the library that is installed";
  if (headers.version != kVersion || headers.format != kFormat) {
    return fail(Code::Unsupported,
                StrCat("this program was compiled with the headers of sinter ", headers.version, " (format ",
                       headers.format, ") and runs with the library ", kVersion, " (format ", kFormat, ")"),
                std::string(kHint));
  }
  if (headers.layout != library_layout) {
    return fail(Code::Unsupported,
                StrCat("this program lays out the types of sinter ", kVersion,
                       " in another way than the library: other headers, or another C++ library"),
                std::string(kHint));
  }
  return {};
}

Result<> check_library(const Lock& code, const Headers& headers) {
  SINTER_CHECK_OK(check_headers(headers, api::code_headers().layout));
  const uint64_t operators = api::internal::library_operators();
  if (headers.operators && operators && headers.operators != operators) {
    return fail(Code::Unsupported,
                StrCat("this program was compiled with headers of sinter ", kVersion,
                       " whose operators are not those of the library"),
                "compile it again with the headers of the library that is installed");
  }
  if (!takes_engine(code.engine) || !takes_format(code.format)) {
    return fail(Code::Unsupported,
                StrCat("this code was generated by sinter ", code.engine, " (format ", code.format,
                       "); the library is sinter ", kVersion, " (formats ", kOldestFormat, " to ", kFormat, ")"),
                "generate it again: sinter compile MODEL.onnx -o DIR");
  }
  return {};
}

}  // namespace sinter::lock
