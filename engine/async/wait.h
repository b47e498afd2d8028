// SPDX-License-Identifier: Apache-2.0
// Turns a Completion into a Task, for calls that start an operation at once and let the caller await it later.
#pragma once

#include <utility>

#include "engine/async/completion.h"
#include "engine/async/task.h"

namespace sinter {

template <class T>
Task<T> wait_for(Completion<T> completion) {
  co_return co_await completion;
}

}  // namespace sinter
