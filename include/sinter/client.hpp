// SPDX-License-Identifier: Apache-2.0
// The C API (sinter.h) with owners, std::function and std::expected. Header only; what holds there holds here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "include/sinter/sinter.h"

namespace sinter::client {

struct Error {
  sinter_code code = SINTER_INTERNAL;
  std::string message, hint, json;

  explicit Error(const sinter_error* error)
      : code(sinter_error_code(error)),
        message(sinter_error_message(error)),
        hint(sinter_error_hint(error)),
        json(sinter_error_json(error)) {}
};

template <class T>
using Result = std::expected<T, Error>;

struct Output {
  std::string name;
  int32_t dtype = 0;
  std::vector<int64_t> shape;
  std::vector<std::byte> data;

  explicit Output(const sinter_tensor& tensor)
      : name(tensor.name),
        dtype(tensor.dtype),
        shape(tensor.dims, tensor.dims + tensor.rank),
        data(static_cast<const std::byte*>(tensor.data), static_cast<const std::byte*>(tensor.data) + tensor.bytes) {}
};

namespace detail {

/// The error that a call has set, taken over.
template <class T>
Result<T> taken(sinter_error* error) {
  const std::unique_ptr<sinter_error, void (*)(sinter_error*)> owner(error, &sinter_error_free);
  return std::unexpected(Error(error));
}

}  // namespace detail

class Session {
 public:
  using Ran = std::function<void(Result<std::vector<Output>>)>;

  Session() = default;
  explicit Session(sinter_session handle) : handle_(handle) {}
  Session(Session&& other) noexcept : handle_(std::exchange(other.handle_, 0)) {}
  Session& operator=(Session&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Session() {
    if (handle_) sinter_session_close(handle_);
  }

  uint64_t run_async(std::span<const sinter_tensor> inputs, Ran ran) const {
    const auto answer = [](void* context, const sinter_tensor* outputs, size_t count, const sinter_error* error) {
      const std::unique_ptr<Ran> done(static_cast<Ran*>(context));
      if (error) return (*done)(std::unexpected(Error(error)));
      (*done)(std::vector<Output>(outputs, outputs + count));
    };
    return sinter_session_run(handle_, inputs.data(), inputs.size(), answer, new Ran(std::move(ran)));
  }

#ifndef __wasm__  // nothing on the web may wait
  Result<std::vector<Output>> run(std::span<const sinter_tensor> inputs) const {
    sinter_error* error = nullptr;
    const std::unique_ptr<sinter_outputs, void (*)(sinter_outputs*)> outputs(
        sinter_session_run_sync(handle_, inputs.data(), inputs.size(), &error), &sinter_outputs_free);
    if (!outputs) return detail::taken<std::vector<Output>>(error);
    size_t count = 0;
    const sinter_tensor* tensors = sinter_outputs_get(outputs.get(), &count);
    return std::vector<Output>(tensors, tensors + count);
  }
#endif

 private:
  sinter_session handle_ = 0;
};

class Engine {
 public:
  using Opened = std::function<void(Result<Session>)>;

  static Result<Engine> create(const std::string& options = {}) {
    sinter_error* error = nullptr;
    const sinter_engine handle = sinter_engine_create(options.c_str(), &error);
    if (!handle) return detail::taken<Engine>(error);
    return Engine(handle);
  }
  Engine(Engine&& other) noexcept : handle_(std::exchange(other.handle_, 0)) {}
  Engine& operator=(Engine&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Engine() {
    if (handle_) sinter_engine_close(handle_);
  }

  uint64_t open_async(std::span<const std::byte> model, const std::string& options, Opened opened) const {
    const auto answer = [](void* context, sinter_session session, const sinter_error* error) {
      const std::unique_ptr<Opened> done(static_cast<Opened*>(context));
      if (error) return (*done)(std::unexpected(Error(error)));
      (*done)(Session(session));
    };
    return sinter_session_open(handle_, model.data(), model.size(), options.c_str(), answer,
                               new Opened(std::move(opened)));
  }
  void cancel(uint64_t request) const { sinter_cancel(handle_, request); }

#ifndef __wasm__
  Result<Session> open(std::span<const std::byte> model, const std::string& options = {}) const {
    sinter_error* error = nullptr;
    const sinter_session session =
        sinter_session_open_sync(handle_, model.data(), model.size(), options.c_str(), &error);
    if (!session) return detail::taken<Session>(error);
    return Session(session);
  }
  Result<Session> open_file(const std::string& path, const std::string& options = {}) const {
    sinter_error* error = nullptr;
    const sinter_session session = sinter_session_open_file_sync(handle_, path.c_str(), options.c_str(), &error);
    if (!session) return detail::taken<Session>(error);
    return Session(session);
  }
#endif

 private:
  explicit Engine(sinter_engine handle) : handle_(handle) {}
  sinter_engine handle_ = 0;
};

}  // namespace sinter::client
