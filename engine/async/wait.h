// SPDX-License-Identifier: Apache-2.0
// Completions as tasks, and tasks that a cancellation leaves behind.
#pragma once

#include <utility>

#include "engine/async/cancel.h"
#include "engine/async/completion.h"
#include "engine/async/task.h"

namespace sinter {

/// For calls that start an operation at once and let the caller await it later.
template <class T>
Task<T> wait_for(Completion<T> completion) {
  co_return co_await completion;
}

/// `task`, or Cancelled as soon as the token fires: the task then goes on by itself and must own what it uses.
template <class T>
Task<T> or_cancelled(Task<T> task, CancelToken cancel) {
  if (!cancel.can_fire()) co_return co_await std::move(task);
  SINTER_CO_CHECK_OK(cancel.check());
  Completion<T> done;
  cancel.link(done);
  Executor& executor = co_await current_executor();
  spawn(executor, std::move(task), [done](Result<T> result) mutable { done.complete(std::move(result)); });
  co_return co_await done;
}

}  // namespace sinter
