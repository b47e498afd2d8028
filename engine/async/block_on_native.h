// SPDX-License-Identifier: Apache-2.0
// The synchronous driver of native programs and tests. It does not exist on the web, where nothing may wait.
#pragma once

#ifdef __wasm__
#error "for the web nothing may wait: spawn the task and go on in its callback"
#endif

#include <sched.h>

#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "engine/async/executor.h"
#include "engine/async/task.h"

namespace sinter {

/// Runs `task` to its end on this thread. `poll()` serves the devices (`device->poll()`) and returns true where it
/// delivered something. A GPU run is often over within a millisecond, so this spins that long before it sleeps.
template <class T, class Poll>
Result<T> block_on(Executor& executor, Task<T> task, Poll poll) {
  using Clock = std::chrono::steady_clock;
  constexpr auto kSpin = std::chrono::milliseconds(2);
  std::optional<Result<T>> result;
  spawn(executor, std::move(task), [&result](Result<T> value) { result.emplace(std::move(value)); });
  auto progressed_at = Clock::now();
  while (true) {
    executor.drain();
    if (result) return std::move(*result);
    const bool progressed = poll();
    executor.begin_turn();
    if (progressed || !executor.idle()) {
      progressed_at = Clock::now();
    } else if (Clock::now() - progressed_at < kSpin) {
      sched_yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  }
}

template <class T>
Result<T> block_on(Executor& executor, Task<T> task) {
  return block_on(executor, std::move(task), [] { return false; });
}

}  // namespace sinter
