// SPDX-License-Identifier: Apache-2.0
// Everything that takes time is a Task: a coroutine that `co_await` starts and that gives a Result.
#pragma once

#include <utility>

#include "engine/async/cancel.h"
#include "engine/async/task.h"
#include "engine/base/result.h"

namespace sinter {

/// A task's value is always a Result, so Task<Result<T>> is a Task<T> written in full.
template <class T>
class [[nodiscard]] Task<Result<T>> : public Task<T> {
 public:
  Task(Task<T>&& task) noexcept : Task<T>(std::move(task)) {}
};

template <class T, class Done>
void spawn(Executor& executor, Task<Result<T>> task, Done done) {
  spawn(executor, static_cast<Task<T>&&>(task), std::move(done));
}

}  // namespace sinter
