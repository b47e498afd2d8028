// SPDX-License-Identifier: Apache-2.0
// Completion<T>: the meeting point of one coroutine and one external event (a device callback, a host answer).
#pragma once

#include <coroutine>
#include <memory>
#include <optional>
#include <utility>

#include "engine/async/executor.h"
#include "engine/base/result.h"

namespace sinter {

/// Copyable handle; the first `complete` wins and later ones are ignored, so an event and a cancellation may race.
template <class T = void>
class Completion {
 public:
  Completion() : state_(std::make_shared<State>()) {}

  /// Returns false where a value was already there.
  bool complete(Result<T> result) {
    if (state_->value) return false;
    state_->value.emplace(std::move(result));
    if (auto waiter = std::exchange(state_->waiter, nullptr)) state_->executor->post(waiter);
    return true;
  }

  bool done() const { return state_->value.has_value(); }

  auto operator co_await() const noexcept { return Awaiter{state_}; }

 private:
  struct State {
    std::optional<Result<T>> value;
    std::coroutine_handle<> waiter;
    Executor* executor = nullptr;
  };
  struct Awaiter {
    std::shared_ptr<State> state;
    bool await_ready() noexcept { return state->value.has_value(); }
    template <class Promise>
    void await_suspend(std::coroutine_handle<Promise> self) noexcept {
      state->waiter = self;
      state->executor = self.promise().executor;
    }
    Result<T> await_resume() { return std::move(*state->value); }
  };

  std::shared_ptr<State> state_;
};

}  // namespace sinter
