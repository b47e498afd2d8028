// SPDX-License-Identifier: Apache-2.0
#include "include/sinter/sinter.h"

#include <atomic>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <map>
#include <utility>

#include "engine/api/host_native.h"
#include "engine/api/json.h"
#include "engine/api/options.h"
#include "engine/api/report.h"
#include "engine/onnx/external_data.h"

// Programs that were compiled with earlier headers hand these over: their form stays.
static_assert(sizeof(sinter_tensor) == 40 || sizeof(void*) != 8);
static_assert(offsetof(sinter_tensor, dtype) == sizeof(void*) && offsetof(sinter_tensor, rank) == sizeof(void*) + 4);
static_assert(offsetof(sinter_tensor, bytes) == offsetof(sinter_tensor, data) + sizeof(void*));
static_assert(SINTER_OK == 0 && SINTER_INVALID_MODEL == 1 && SINTER_INTERNAL == 10);

struct sinter_error {
  sinter::Error error;
  std::string json;
};

struct sinter_outputs {
  std::vector<sinter::NamedTensor> values;
  std::vector<sinter_tensor> tensors;
};

namespace sinter::api {
namespace {

using Requests = std::map<uint64_t, CancelSource>;

struct EngineEntry {
  EngineEntry(EngineSettings settings) : backend(settings.backend), host(settings.engine) {}
  BackendChoice backend;
  // Used on the engine's thread only.
  Requests requests;
  std::map<uint64_t, std::shared_ptr<Session>> sessions;
  Host host;
};

// The handles of all threads. Held for look-ups only, never while anything else happens.
struct Registry {
  std::mutex mutex;
  uint64_t next = 1;
  std::map<uint64_t, std::shared_ptr<EngineEntry>> engines;
  std::map<uint64_t, uint64_t> engine_of_session;
};

// Never destroyed: engines that a program leaves open may still be looked up while it ends.
Registry& registry() {
  static auto* const instance = new Registry;
  return *instance;
}

uint64_t next_number() {
  const std::lock_guard lock(registry().mutex);
  return registry().next++;
}

std::shared_ptr<EngineEntry> find_engine(uint64_t handle) {
  const std::lock_guard lock(registry().mutex);
  const auto at = registry().engines.find(handle);
  return at == registry().engines.end() ? nullptr : at->second;
}

std::shared_ptr<EngineEntry> engine_of_session(uint64_t session) {
  const std::lock_guard lock(registry().mutex);
  const auto at = registry().engine_of_session.find(session);
  if (at == registry().engine_of_session.end()) return nullptr;
  const auto engine = registry().engines.find(at->second);
  return engine == registry().engines.end() ? nullptr : engine->second;
}

Error closed(std::string_view what) {
  return {Code::InvalidInput, StrCat("the ", what, " is closed"), {}, StrCat("open another ", what)};
}

sinter_error* to_c(Error error) {
  std::string json = error_json(error);
  return new sinter_error{std::move(error), std::move(json)};
}

void give(sinter_error** place, Error error) {
  if (place) *place = to_c(std::move(error));
}

std::vector<sinter_tensor> to_c(const std::vector<NamedTensor>& values) {
  std::vector<sinter_tensor> tensors;
  for (const NamedTensor& value : values) {
    const Tensor& tensor = value.tensor;
    tensors.push_back({value.name.c_str(), static_cast<int32_t>(tensor.dtype()),
                       static_cast<uint32_t>(tensor.shape().rank()), tensor.shape().begin(), tensor.bytes().data(),
                       tensor.nbytes()});
  }
  return tensors;
}

Result<NamedTensor> copy_input(const sinter_tensor& input) {
  std::string name(input.name ? input.name : "");
  const auto dtype = static_cast<DType>(input.dtype);
  if (input.rank > kMaxRank) {
    return fail(Code::InvalidInput, StrCat("input '", name, "' has ", input.rank, " dimensions"),
                StrCat("at most ", kMaxRank));
  }
  const Shape shape(std::span<const int64_t>(input.dims, input.rank));
  const auto numel = checked_numel(shape);
  if (!numel || size_of(dtype) == 0 || static_cast<uint64_t>(*numel) * size_of(dtype) != input.bytes) {
    return fail(Code::InvalidInput,
                StrCat("input '", name, "' of ", name_of(dtype), to_string(shape), " has ", input.bytes, " bytes"));
  }
  Tensor copy = SINTER_TRY(Tensor::alloc(dtype, shape, StrCat("input '", name, "'")));
  if (input.bytes) std::memcpy(copy.mutable_bytes().data(), input.data, input.bytes);
  return NamedTensor{std::move(name), std::move(copy)};
}

Result<std::vector<NamedTensor>> copy_inputs(const sinter_tensor* inputs, size_t count) {
  std::vector<NamedTensor> copies;
  for (size_t i = 0; i < count; ++i) copies.push_back(SINTER_TRY(copy_input(inputs[i])));
  return copies;
}

/// A model with everything that it needs to stay readable.
struct Model {
  ModelSource source;
  std::shared_ptr<const void> owner;
  std::shared_ptr<onnx::ExternalData> external;
};

Result<Model> copy_model(const void* bytes, size_t count) {
  auto block = SINTER_TRY(allocate(count, "the model"));
  std::memcpy(block.get(), bytes, count);
  return Model{{{block.get(), count}, block, nullptr}, block, nullptr};
}

Result<Model> map_model(const char* path) {
  onnx::FileBytes file = SINTER_TRY(onnx::map_file(path));
  std::shared_ptr<onnx::ExternalData> external =
      onnx::external_data_in(std::filesystem::path(path).parent_path().string());
  return Model{{file.bytes, file.owner, external.get()}, file.owner, external};
}

using Opened = std::function<void(Result<uint64_t>)>;
using Ran = std::function<void(Result<std::vector<NamedTensor>>)>;

// On the engine's thread.
void open_there(const std::shared_ptr<EngineEntry>& entry, uint64_t engine, uint64_t request,
                const std::shared_ptr<Engine>& on, Model model, SessionOptions options, Opened opened) {
  options.cancel = entry->requests[request].token();
  auto task = open_session(on, model.source, std::move(options));
  spawn(on->executor(), std::move(task),
        [entry, engine, request, model, opened](Result<std::shared_ptr<Session>> session) {
          entry->requests.erase(request);
          if (!session) return opened(std::unexpected(std::move(session).error()));
          const uint64_t handle = next_number();
          bool open = false;
          {
            const std::lock_guard lock(registry().mutex);
            open = registry().engines.contains(engine);
            if (open) registry().engine_of_session[handle] = engine;
          }
          if (!open) {
            (*session)->close();
            return opened(std::unexpected(closed("engine")));
          }
          entry->sessions[handle] = std::move(*session);
          opened(handle);
        });
}

uint64_t open(uint64_t engine, Result<Model> model, const char* option_text, Opened opened) {
  const auto entry = find_engine(engine);
  auto options = parse_session_options(option_text ? option_text : "");
  if (!entry) {
    opened(std::unexpected(closed("engine")));
    return 0;
  }
  if (!model || !options) {
    opened(std::unexpected(model ? std::move(options).error() : std::move(model).error()));
    return 0;
  }
  options->backend = entry->backend;
  const uint64_t request = next_number();
  const bool posted =
      entry->host.post([entry, engine, request, opened, model = std::move(*model), options = std::move(*options)](
                           const auto& on) { open_there(entry, engine, request, on, model, options, opened); });
  if (!posted) opened(std::unexpected(closed("engine")));
  return request;
}

uint64_t run(uint64_t session, Result<std::vector<NamedTensor>> inputs, Ran ran) {
  const auto entry = engine_of_session(session);
  if (!entry) {
    ran(std::unexpected(closed("session")));
    return 0;
  }
  if (!inputs) {
    ran(std::unexpected(std::move(inputs).error()));
    return 0;
  }
  const uint64_t request = next_number();
  const auto start = [entry, session, request, ran, inputs = std::move(*inputs)](const std::shared_ptr<Engine>& on) {
    const auto at = entry->sessions.find(session);
    if (at == entry->sessions.end()) return ran(std::unexpected(closed("session")));
    RunOptions options{entry->requests[request].token()};
    spawn(on->executor(), at->second->run(inputs, std::move(options)),
          [entry, request, ran](Result<std::vector<NamedTensor>> outputs) {
            entry->requests.erase(request);
            ran(std::move(outputs));
          });
  };
  if (!entry->host.post(start)) ran(std::unexpected(closed("session")));
  return request;
}

/// Calls `start(done)` and waits until `done(result)` was called.
template <class T, class Start>
Result<T> wait_for_answer(const std::shared_ptr<EngineEntry>& entry, std::string_view twin, Start start) {
  if (entry && entry->host.on_own_thread()) {
    return fail(Code::InvalidInput, "a callback waits for an answer that only its own thread can give",
                StrCat("use ", twin, " there"));
  }
  struct Answer {
    std::mutex mutex;
    std::condition_variable changed;
    std::optional<Result<T>> result;
  };
  const auto answer = std::make_shared<Answer>();
  start([answer](Result<T> result) {
    {
      const std::lock_guard lock(answer->mutex);
      answer->result.emplace(std::move(result));
    }
    answer->changed.notify_one();
  });
  std::unique_lock lock(answer->mutex);
  answer->changed.wait(lock, [&] { return answer->result.has_value(); });
  return std::move(*answer->result);
}

sinter_session open_and_wait(uint64_t engine, Result<Model> model, const char* options, std::string_view twin,
                             sinter_error** error) {
  auto session = wait_for_answer<uint64_t>(
      find_engine(engine), twin, [&](Opened opened) { open(engine, std::move(model), options, std::move(opened)); });
  if (session) return *session;
  give(error, std::move(session).error());
  return 0;
}

Opened call(sinter_opened opened, void* context) {
  return [opened, context](Result<uint64_t> session) {
    if (session) return opened(context, *session, nullptr);
    const std::unique_ptr<sinter_error> error(to_c(std::move(session).error()));
    opened(context, 0, error.get());
  };
}

}  // namespace
}  // namespace sinter::api

using namespace sinter;
using namespace sinter::api;

extern "C" {

sinter_code sinter_error_code(const sinter_error* error) {
  return error ? static_cast<sinter_code>(static_cast<int>(error->error.code) + 1) : SINTER_OK;
}
const char* sinter_error_message(const sinter_error* error) { return error ? error->error.message.c_str() : ""; }
const char* sinter_error_hint(const sinter_error* error) { return error ? error->error.hint.c_str() : ""; }
const char* sinter_error_json(const sinter_error* error) { return error ? error->json.c_str() : ""; }
void sinter_error_free(sinter_error* error) { delete error; }

const char* sinter_version(void) { return SINTER_VERSION; }

sinter_engine sinter_engine_create(const char* options, sinter_error** error) {
  const auto settings = parse_engine_options(options ? options : "");
  if (!settings) {
    give(error, settings.error());
    return 0;
  }
  const auto entry = std::make_shared<EngineEntry>(*settings);
  const std::lock_guard lock(registry().mutex);
  const uint64_t handle = registry().next++;
  registry().engines[handle] = entry;
  return handle;
}

void sinter_engine_close(sinter_engine engine) {
  std::shared_ptr<EngineEntry> entry;
  {
    const std::lock_guard lock(registry().mutex);
    const auto at = registry().engines.find(engine);
    if (at == registry().engines.end()) return;
    entry = std::move(at->second);
    registry().engines.erase(at);
    std::erase_if(registry().engine_of_session, [&](const auto& session) { return session.second == engine; });
  }
  entry->host.post([entry](const auto&) {
    for (auto& [handle, session] : entry->sessions) session->close();
    entry->sessions.clear();
    // By value: what a cancellation ends may erase its request.
    const Requests requests = entry->requests;
    for (auto [request, source] : requests) source.cancel();
  });
  entry->host.stop();
}

uint64_t sinter_session_open(sinter_engine engine, const void* model, size_t model_bytes, const char* options,
                             sinter_opened opened, void* context) {
  return open(engine, copy_model(model, model_bytes), options, call(opened, context));
}

uint64_t sinter_session_open_file(sinter_engine engine, const char* path, const char* options, sinter_opened opened,
                                  void* context) {
  return open(engine, map_model(path), options, call(opened, context));
}

void sinter_session_close(sinter_session session) {
  const auto entry = engine_of_session(session);
  if (!entry) return;
  {
    const std::lock_guard lock(registry().mutex);
    registry().engine_of_session.erase(session);
  }
  entry->host.post([entry, session](const auto&) {
    const auto at = entry->sessions.find(session);
    if (at == entry->sessions.end()) return;
    at->second->close();
    entry->sessions.erase(at);
  });
}

uint64_t sinter_session_run(sinter_session session, const sinter_tensor* inputs, size_t count, sinter_ran ran,
                            void* context) {
  return run(session, copy_inputs(inputs, count), [ran, context](Result<std::vector<NamedTensor>> outputs) {
    if (!outputs) {
      const std::unique_ptr<sinter_error> error(to_c(std::move(outputs).error()));
      return ran(context, nullptr, 0, error.get());
    }
    const std::vector<sinter_tensor> tensors = to_c(*outputs);
    ran(context, tensors.data(), tensors.size(), nullptr);
  });
}

void sinter_cancel(sinter_engine engine, uint64_t request) {
  const auto entry = find_engine(engine);
  if (!entry) return;
  entry->host.post([entry, request](const auto&) {
    const auto at = entry->requests.find(request);
    if (at == entry->requests.end()) return;
    CancelSource source = at->second;
    source.cancel();
  });
}

sinter_session sinter_session_open_sync(sinter_engine engine, const void* model, size_t model_bytes,
                                        const char* options, sinter_error** error) {
  return open_and_wait(engine, copy_model(model, model_bytes), options, "sinter_session_open", error);
}

sinter_session sinter_session_open_file_sync(sinter_engine engine, const char* path, const char* options,
                                             sinter_error** error) {
  return open_and_wait(engine, map_model(path), options, "sinter_session_open_file", error);
}

sinter_outputs* sinter_session_run_sync(sinter_session session, const sinter_tensor* inputs, size_t count,
                                        sinter_error** error) {
  auto outputs = wait_for_answer<std::vector<NamedTensor>>(
      engine_of_session(session), "sinter_session_run",
      [&](Ran ran) { run(session, copy_inputs(inputs, count), std::move(ran)); });
  if (!outputs) {
    give(error, std::move(outputs).error());
    return nullptr;
  }
  auto result = std::make_unique<sinter_outputs>();
  result->values = std::move(*outputs);
  result->tensors = to_c(result->values);
  return result.release();
}

const sinter_tensor* sinter_outputs_get(const sinter_outputs* outputs, size_t* count) {
  *count = outputs->tensors.size();
  return outputs->tensors.data();
}

void sinter_outputs_free(sinter_outputs* outputs) { delete outputs; }

char* sinter_session_report_sync(sinter_session session, sinter_error** error) {
  const auto entry = engine_of_session(session);
  auto text = wait_for_answer<std::string>(entry, "the report before the callback", [&](auto done) {
    const bool posted = entry && entry->host.post([entry, session, done](const auto&) {
      const auto at = entry->sessions.find(session);
      if (at == entry->sessions.end()) return done(std::unexpected(closed("session")));
      done(report_json(at->second->report()));
    });
    if (!posted) done(std::unexpected(closed("session")));
  });
  if (!text) {
    give(error, std::move(text).error());
    return nullptr;
  }
  return strdup(text->c_str());
}

void sinter_text_free(char* text) { free(text); }

}  // extern "C"
