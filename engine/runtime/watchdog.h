// SPDX-License-Identifier: Apache-2.0
// Watchdog: ends an await as Timeout where nothing has happened for a while. What was awaited goes on in the background and
// keeps what it owns.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "engine/async/cancel.h"
#include "engine/async/completion.h"
#include "engine/async/task.h"
#include "engine/base/str.h"
#include "engine/base/trace.h"

namespace sinter {

class Watchdog {
 public:
  Watchdog(const trace::Log& log, double timeout_ms) : log_(log), timeout_ms_(timeout_ms) {}

  /// Something happened that the log does not show, such as a slice of a CPU run.
  void progress() { last_ms_ = trace::now_ms(); }

  /// To be called now and then while tasks are under way.
  void check();
  bool watching() const { return !watched_.empty(); }

  /// `task`; or Timeout, and then `abandon` fires, so that the task lets go of what it holds; or Cancelled as soon as
  /// `cancel` fires. The task left behind must own what it uses.
  template <class T>
  Task<T> guard(Executor& executor, Task<T> task, CancelToken cancel = {}, CancelSource abandon = {}) {
    Completion<T> done;
    progress();
    watched_.push_back(std::make_unique<Watched<T>>(done, std::move(abandon)));
    cancel.link(done);
    spawn(executor, std::move(task), [done](Result<T> result) mutable { done.complete(std::move(result)); });
    Result<T> result = co_await done;
    std::erase_if(watched_, [](const auto& entry) { return entry->done(); });
    co_return result;
  }

 private:
  struct Entry {
    virtual ~Entry() = default;
    virtual void expire(const Error& error) = 0;
    virtual bool done() const = 0;
  };
  template <class T>
  struct Watched final : Entry {
    Watched(Completion<T> c, CancelSource source) : completion(std::move(c)), abandon(std::move(source)) {}
    void expire(const Error& error) override {
      if (completion.complete(std::unexpected(error))) abandon.cancel();
    }
    bool done() const override { return completion.done(); }
    Completion<T> completion;
    CancelSource abandon;
  };

  Error timeout_error(double waited_ms) const;

  const trace::Log& log_;
  double timeout_ms_;
  double last_ms_ = 0;
  std::vector<std::unique_ptr<Entry>> watched_;
};

}  // namespace sinter
