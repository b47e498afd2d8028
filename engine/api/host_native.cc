// SPDX-License-Identifier: Apache-2.0
#include "engine/api/host_native.h"

#include <chrono>
#include <utility>

namespace sinter::api {

struct Host::State {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Job> jobs;
  bool stopping = false;
};

Host::Host(EngineOptions options) : state_(std::make_shared<State>()), thread_(&Host::serve, state_, options) {
  id_ = thread_.get_id();  // kept: the thread object itself may not be asked while another thread joins it
}

Host::~Host() { stop(); }

bool Host::post(Job job) {
  {
    const std::lock_guard lock(state_->mutex);
    if (state_->stopping) return false;
    state_->jobs.push_back(std::move(job));
  }
  state_->changed.notify_one();
  return true;
}

void Host::stop() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopping = true;
  }
  state_->changed.notify_one();
  if (!thread_.joinable()) return;
  if (on_own_thread()) {
    thread_.detach();
  } else {
    thread_.join();
  }
}

void Host::serve(std::shared_ptr<State> state, EngineOptions options) {
  constexpr auto kSpin = std::chrono::milliseconds(2);
  constexpr auto kNap = std::chrono::microseconds(200);
  const auto engine = std::make_shared<Engine>(options);
  Executor& executor = engine->executor();
  auto progressed = std::chrono::steady_clock::now();
  while (true) {
    std::deque<Job> jobs;
    {
      std::unique_lock lock(state->mutex);
      if (executor.tasks() == 0) {
        state->changed.wait(lock, [&] { return state->stopping || !state->jobs.empty(); });
        if (state->jobs.empty()) return;
      } else if (executor.idle() && std::chrono::steady_clock::now() - progressed > kSpin) {
        state->changed.wait_for(lock, kNap);  // a device answers when it is asked: there is nothing to be woken by
      }
      jobs.swap(state->jobs);
    }
    for (const Job& job : jobs) job(engine);
    const bool working = !jobs.empty() || !executor.idle();
    executor.begin_turn();
    executor.drain();
    if (engine->poll() || working) progressed = std::chrono::steady_clock::now();
  }
}

}  // namespace sinter::api
