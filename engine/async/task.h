// SPDX-License-Identifier: Apache-2.0
// Task<T>: a lazy, move-only coroutine with one awaiter, whose value is always a Result<T>.
//
// Both starting a child and finishing it go through the executor's queue, so the stack stays flat whatever the depth
// of the chain; no symmetric transfer, which wasm cannot do without tail calls.
#pragma once

#include <coroutine>
#include <cstdlib>
#include <new>
#include <optional>
#include <utility>

#include "engine/async/executor.h"
#include "engine/base/check.h"
#include "engine/base/result.h"

namespace sinter {

template <class T = void>
class [[nodiscard]] Task {
 public:
  struct promise_type {
    std::optional<Result<T>> value;
    std::coroutine_handle<> awaiter;
    Executor* executor = nullptr;

    static void* operator new(size_t size) noexcept { return std::malloc(size); }
    static void operator delete(void* memory) { std::free(memory); }

    Task get_return_object() { return Task(std::coroutine_handle<promise_type>::from_promise(*this)); }
    static Task get_return_object_on_allocation_failure() { return Task(nullptr); }
    std::suspend_always initial_suspend() noexcept { return {}; }
    auto final_suspend() noexcept {
      struct WakeAwaiter {
        bool await_ready() noexcept { return false; }
        void await_suspend(std::coroutine_handle<promise_type> self) noexcept {
          promise_type& promise = self.promise();
          if (promise.awaiter) promise.executor->post(promise.awaiter);
        }
        void await_resume() noexcept {}
      };
      return WakeAwaiter{};
    }
    void return_value(Result<T> result) { value.emplace(std::move(result)); }
    void unhandled_exception() { std::abort(); }
  };

  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Task& operator=(Task&& other) noexcept {
    if (this != &other) {
      destroy();
      handle_ = std::exchange(other.handle_, nullptr);
    }
    return *this;
  }
  ~Task() { destroy(); }

  auto operator co_await() && noexcept { return Awaiter{handle_}; }

 private:
  struct Awaiter {
    std::coroutine_handle<promise_type> child;
    bool await_ready() noexcept { return !child; }
    template <class Promise>
    void await_suspend(std::coroutine_handle<Promise> parent) noexcept {
      child.promise().awaiter = parent;
      child.promise().executor = parent.promise().executor;
      child.promise().executor->post(child);
    }
    Result<T> await_resume() {
      if (!child) return fail(Code::OutOfMemory, "no memory for a coroutine frame");
      return std::move(*child.promise().value);
    }
  };

  explicit Task(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
  void destroy() {
    if (handle_) handle_.destroy();
    handle_ = nullptr;
  }

  std::coroutine_handle<promise_type> handle_;
};

namespace async_internal {

// A root coroutine: owns itself and its task until the task is done. An in-flight coroutine is never destroyed.
struct Root {
  struct promise_type {
    Executor* executor = nullptr;
    Root get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
    std::suspend_always initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::abort(); }
  };
  std::coroutine_handle<promise_type> handle;
};

template <class T, class Done>
Root run_root(Executor* executor, Task<T> task, Done done) {
  done(co_await std::move(task));
  executor->task_ended();
}

struct CurrentExecutor {
  Executor* executor = nullptr;
  bool await_ready() noexcept { return false; }
  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> self) noexcept {
    executor = self.promise().executor;
    return false;
  }
  Executor& await_resume() noexcept { return *executor; }
};

struct NextTurn {
  bool await_ready() noexcept { return false; }
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> self) noexcept {
    self.promise().executor->post_next_turn(self);
  }
  void await_resume() noexcept {}
};

}  // namespace async_internal

/// Starts a task; `done(Result<T>)` is called from `executor.drain()` when it has finished.
template <class T, class Done>
void spawn(Executor& executor, Task<T> task, Done done) {
  auto root = async_internal::run_root(&executor, std::move(task), std::move(done));
  root.handle.promise().executor = &executor;
  executor.task_began();
  executor.post(root.handle);
}

/// `Executor& executor = co_await current_executor();`
inline async_internal::CurrentExecutor current_executor() { return {}; }

/// `co_await next_turn();` lets the host's event loop run once (a page paints, a signal arrives) and goes on.
inline async_internal::NextTurn next_turn() { return {}; }

}  // namespace sinter
