// SPDX-License-Identifier: Apache-2.0
// What the entry points of the web modules share: handles, requests and the answer to them, and the event ring.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "engine/api/abi.h"
#include "engine/api/options.h"
#include "engine/onnx/external_data.h"
#include "engine/runtime/session.h"

#define SINTER_EXPORT(name) __attribute__((export_name(name)))

namespace sinter::api {

/// Writes the engine's events to the ring and, where the host listens, tells it of each.
struct EngineEntry final : trace::Listener {
  uint32_t handle = 0;
  BackendChoice backend = BackendChoice::automatic;
  bool events = false;
  std::shared_ptr<Engine> engine;

  void on_event(const trace::Event& event) override;
};

struct SessionEntry {
  uint32_t engine = 0;
  std::shared_ptr<Session> session;
};

struct Module {
  uint32_t next_handle = 1;
  std::map<uint32_t, std::shared_ptr<EngineEntry>> engines;
  std::map<uint32_t, SessionEntry> sessions;
  std::map<uint32_t, CancelSource> requests;
};

Module& module();

void complete(uint32_t request, std::string_view text);
void complete(uint32_t request, const Error& error);

Error closed(std::string_view what);

/// Runs what is ready and hands the devices' records to the host.
void serve(bool new_turn);

CancelToken begin_request(uint32_t request);

/// Starts a task whose end answers the request; `answer(value)` does so on success.
template <class T, class Answer>
void start(std::shared_ptr<EngineEntry> entry, uint32_t request, Task<T> task, Answer answer) {
  Executor& executor = entry->engine->executor();
  spawn(executor, std::move(task), [entry = std::move(entry), request, answer](Result<T> result) {
    module().requests.erase(request);
    if (!result) return complete(request, result.error());
    if constexpr (std::is_void_v<T>) {
      answer();
    } else {
      answer(std::move(*result));
    }
  });
  serve(false);
}

/// The model and its external files, which it takes over.
ModelSource take_model(void* model, uint32_t model_bytes, std::span<const sinter_file> files);

Result<std::vector<NamedTensor>> read_inputs(std::span<const sinter_tensor> inputs);

}  // namespace sinter::api
