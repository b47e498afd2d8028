// SPDX-License-Identifier: Apache-2.0
// Host: an engine on a thread of its own. Other threads hand it jobs; everything that touches the engine runs there.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "engine/runtime/session.h"

namespace sinter::api {

class Host {
 public:
  using Job = std::function<void(const std::shared_ptr<Engine>&)>;

  explicit Host(EngineOptions options);
  /// After `stop`; from the engine's thread too.
  ~Host();
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  /// Runs `job` on the engine's thread, after those posted before. False where the host has been stopped: the job will
  /// never run.
  bool post(Job job);
  bool on_own_thread() const { return std::this_thread::get_id() == id_; }

  /// Accepts no more jobs; the thread ends when the engine's tasks have. Waits for that, except on that thread.
  void stop();

 private:
  struct State;
  static void serve(std::shared_ptr<State> state, EngineOptions options);

  std::shared_ptr<State> state_;  // outlives this where the thread is left to itself
  std::thread thread_;
  std::thread::id id_;
};

}  // namespace sinter::api
