// SPDX-License-Identifier: Apache-2.0
// SingleFlight<T>: concurrent callers share one running task. A failure reaches every waiter and is then forgotten, so
// a retry starts afresh. A success is not kept either: the owner stores it.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "engine/async/completion.h"
#include "engine/async/task.h"
#include "engine/base/failure.h"

namespace sinter {

template <class T = void>
class SingleFlight {
 public:
  bool in_flight() const { return flight_ != nullptr; }

  /// `make()` returns the Task<T> to run where none is in flight. T must be copyable. This object must outlive the
  /// task.
  template <class Make>
  Task<T> run(Make make) {
    if (flight_) {
      Completion<T> waiter;
      flight_->waiters.push_back(waiter);
      co_return co_await waiter;
    }
    auto flight = std::make_shared<Flight>();
    flight_ = flight;
    Result<T> result = co_await make();
    flight_.reset();
    if (!result) failure_of(result.error());  // shared by all who are told
    for (Completion<T>& waiter : flight->waiters) waiter.complete(result);
    co_return result;
  }

 private:
  struct Flight {
    std::vector<Completion<T>> waiters;
  };
  std::shared_ptr<Flight> flight_;
};

}  // namespace sinter
