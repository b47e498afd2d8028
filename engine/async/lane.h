// SPDX-License-Identifier: Apache-2.0
// Lane: jobs pass one at a time, in the order in which they asked. A failed job never poisons the next.
#pragma once

#include <deque>
#include <memory>
#include <utility>

#include "engine/async/cancel.h"
#include "engine/async/completion.h"
#include "engine/async/task.h"

namespace sinter {

class Lane {
  struct State {
    bool busy = false;
    std::deque<Completion<>> waiters;
  };

 public:
  Lane() : state_(std::make_shared<State>()) {}

  /// Holds the lane; giving it up (destruction) lets the next waiter in.
  class Hold {
   public:
    explicit Hold(std::shared_ptr<State> state) : state_(std::move(state)) {}
    Hold(Hold&&) = default;
    Hold& operator=(Hold&&) = delete;
    ~Hold() {
      if (!state_) return;
      while (!state_->waiters.empty()) {
        Completion<> next = std::move(state_->waiters.front());
        state_->waiters.pop_front();
        if (next.complete({})) return;  // else it was cancelled while it waited
      }
      state_->busy = false;
    }

   private:
    std::shared_ptr<State> state_;
  };

  Task<Hold> enter(CancelToken cancel = {}) {
    auto state = state_;
    if (state->busy) {
      Completion<> turn;
      state->waiters.push_back(turn);
      cancel.link(turn);
      SINTER_CO_CHECK_OK(co_await turn);
    }
    state->busy = true;
    co_return Hold(std::move(state));
  }

  size_t waiting() const { return state_->waiters.size(); }

 private:
  std::shared_ptr<State> state_;
};

}  // namespace sinter
