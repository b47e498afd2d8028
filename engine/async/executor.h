// SPDX-License-Identifier: Apache-2.0
// A FIFO ready queue of coroutines. Single-threaded: everything that touches one engine runs on one thread.
#pragma once

#include <coroutine>
#include <deque>

namespace sinter {

class Executor {
 public:
  /// Called when a coroutine asks for the next turn of the host's event loop; the host then calls `begin_turn` and
  /// `drain` from a fresh stack. Without a hook the caller of `drain` does so itself (native loops).
  using TurnHook = void (*)(void* context);

  Executor() = default;
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  void set_turn_hook(TurnHook hook, void* context) {
    hook_ = hook;
    hook_context_ = context;
  }

  /// Queues a suspended coroutine; it is resumed by `drain`, never from inside this call (constant stack).
  void post(std::coroutine_handle<> handle) { ready_.push_back(handle); }

  /// Queues a suspended coroutine for the host's next turn.
  void post_next_turn(std::coroutine_handle<> handle) {
    next_turn_.push_back(handle);
    if (hook_) hook_(hook_context_);
  }

  /// Moves the coroutines that waited for a turn to the ready queue.
  void begin_turn() {
    for (auto handle : next_turn_) ready_.push_back(handle);
    next_turn_.clear();
  }

  /// Resumes ready coroutines until none is left. Re-entrant calls return at once: the outer loop serves the queue.
  void drain() {
    if (draining_) return;
    draining_ = true;
    while (!ready_.empty()) {
      auto handle = ready_.front();
      ready_.pop_front();
      handle.resume();
    }
    draining_ = false;
  }

  bool idle() const { return ready_.empty() && next_turn_.empty(); }

  /// Spawned tasks that have not ended. Where there are some and the executor is idle, they wait for events.
  size_t tasks() const { return tasks_; }
  void task_began() { ++tasks_; }
  void task_ended() { --tasks_; }

 private:
  std::deque<std::coroutine_handle<>> ready_;
  std::deque<std::coroutine_handle<>> next_turn_;
  TurnHook hook_ = nullptr;
  void* hook_context_ = nullptr;
  bool draining_ = false;
  size_t tasks_ = 0;
};

}  // namespace sinter
