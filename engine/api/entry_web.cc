// SPDX-License-Identifier: Apache-2.0
// The module's entry points. Each does its work, runs what has become ready, hands the devices' records to the host and
// returns; nothing here or below it waits.
#include "engine/api/module_web.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "engine/api/json.h"
#include "engine/api/report.h"
#include "engine/base/check.h"
#include "engine/base/failure.h"
#include "engine/base/memory.h"
#include "engine/gpu/device_web.h"

#define SINTER_IMPORT(name) __attribute__((import_module("sinter"), import_name(name)))

extern "C" {
SINTER_IMPORT("complete") void sinter_complete(uint32_t request, uint32_t status, const void* data, uint32_t bytes);
SINTER_IMPORT("schedule_turn") void sinter_schedule_turn();
/// The latest event of the ring.
SINTER_IMPORT("event") void sinter_event(uint32_t engine);
/// Does not return: the host throws.
SINTER_IMPORT("panic") void sinter_panic(const char* text, uint32_t bytes);
}

namespace sinter::api {
namespace {

/// The last events as plain records at a fixed address, so that the host can read them even after a trap. A record is
/// whole before it is counted.
struct EventRing {
  struct Record {
    double t_ms;
    uint32_t id, phase, bytes;
    char text[364];  // stage, node and detail, each ended by a zero byte but the last; cut where there is no more room
  };
  uint32_t count;  // of all events ever
  uint32_t capacity, record_bytes;
  Record records[trace::Log::kRing];
};
EventRing g_events;  // all zero, so that it takes no room in the file

class Appender {
 public:
  explicit Appender(EventRing::Record& record) : record_(record) { record.bytes = 0; }
  void add(std::string_view text) {
    const size_t length = std::min(text.size(), sizeof record_.text - record_.bytes);
    std::memcpy(record_.text + record_.bytes, text.data(), length);
    record_.bytes += static_cast<uint32_t>(length);
  }

 private:
  EventRing::Record& record_;
};

}  // namespace

void EngineEntry::on_event(const trace::Event& event) {
  EventRing::Record& record = g_events.records[g_events.count % trace::Log::kRing];
  record.t_ms = event.t_ms;
  record.id = static_cast<uint32_t>(event.id);
  record.phase = static_cast<uint32_t>(event.phase);
  Appender text(record);
  text.add(event.stage);
  text.add({"", 1});
  text.add(event.node);
  text.add({"", 1});
  text.add(event.detail);
  ++g_events.count;
  if (events) sinter_event(handle);
}

Module& module() {
  static Module instance;
  return instance;
}

void complete(uint32_t request, std::string_view text) {
  sinter_complete(request, 0, text.data(), static_cast<uint32_t>(text.size()));
}

void complete(uint32_t request, const Error& error) {
  const std::string json = error_json(error);
  sinter_complete(request, static_cast<uint32_t>(error.code) + 1, json.data(), static_cast<uint32_t>(json.size()));
}

Error closed(std::string_view what) {
  return Error{Code::InvalidInput, StrCat("the ", what, " is closed"), {}, StrCat("open another ", what)};
}

// The engines by value: what runs may close one.
void serve(bool new_turn) {
  std::vector<std::shared_ptr<EngineEntry>> engines;
  for (const auto& [handle, entry] : module().engines) engines.push_back(entry);
  for (const auto& entry : engines) {
    if (new_turn) entry->engine->executor().begin_turn();
    entry->engine->executor().drain();
  }
  gpu::flush_web_devices();
}

CancelToken begin_request(uint32_t request) { return module().requests[request].token(); }

namespace {

std::shared_ptr<const void> owned(void* block) {
  return {block, [](const void* given) { std::free(const_cast<void*>(given)); }};
}

/// A model's bytes with the files it refers to: they live as long as anything of them is in use.
struct ModelFiles {
  std::shared_ptr<const void> model;
  onnx::ExternalFiles external;
};

}  // namespace

ModelSource take_model(void* model, uint32_t model_bytes, std::span<const sinter_file> files) {
  auto all = std::make_shared<ModelFiles>();
  all->model = owned(model);
  for (const sinter_file& file : files) {
    const auto owner = owned(file.data);
    all->external.add({file.name, file.name_bytes}, {{static_cast<const std::byte*>(file.data), file.bytes}, owner});
  }
  ModelSource source{{static_cast<const std::byte*>(model), model_bytes}, all};
  source.external = &all->external;
  return source;
}

namespace {

void io_json(Json& json, std::string_view name, const std::vector<IoInfo>& infos) {
  json.key(name).open('[');
  for (const IoInfo& info : infos) {
    json.open('{').field("name", info.name).field("dtype", name_of(info.dtype)).key("shape").open('[');
    for (const std::string& dim : info.shape) {
      const bool number = !dim.empty() && dim.find_first_not_of("0123456789") == dim.npos;
      number ? json.raw(dim) : json.value(dim);
    }
    json.close(']').close('}');
  }
  json.close(']');
}

void answer_run(uint32_t request, const std::vector<NamedTensor>& outputs) {
  std::vector<sinter_tensor> tensors;
  for (const NamedTensor& output : outputs) {
    const Tensor& tensor = output.tensor;
    tensors.push_back({output.name.data(), static_cast<uint32_t>(output.name.size()),
                       static_cast<uint32_t>(tensor.dtype()), tensor.shape().begin(),
                       static_cast<uint32_t>(tensor.shape().rank()), tensor.bytes().data(),
                       static_cast<uint32_t>(tensor.nbytes())});
  }
  sinter_complete(request, 0, tensors.data(), static_cast<uint32_t>(tensors.size() * sizeof(sinter_tensor)));
}

}  // namespace

Result<std::vector<NamedTensor>> read_inputs(std::span<const sinter_tensor> inputs) {
  std::vector<NamedTensor> tensors;
  for (const sinter_tensor& input : inputs) {
    std::string name(input.name, input.name_bytes);
    const auto dtype = static_cast<DType>(input.dtype);
    if (input.rank > kMaxRank) {
      return fail(Code::InvalidInput, StrCat("input '", name, "' has ", input.rank, " dimensions"),
                  StrCat("at most ", kMaxRank));
    }
    const Shape shape(std::span<const int64_t>(input.dims, input.rank));
    const auto numel = checked_numel(shape);
    if (!numel || static_cast<uint64_t>(*numel) * size_of(dtype) != input.bytes) {
      return fail(Code::InvalidInput,
                  StrCat("input '", name, "' of ", name_of(dtype), to_string(shape), " has ", input.bytes, " bytes"));
    }
    const auto* data = static_cast<const std::byte*>(input.data);
    tensors.push_back({std::move(name), Tensor::view(dtype, shape, {data, input.bytes}, nullptr)});
  }
  return tensors;
}

namespace {

/// Whoever needs the device joins this attempt, or makes another where it fails.
Task<> open_device(std::shared_ptr<EngineEntry> entry) {
  (void)co_await entry->engine->device();
  co_return Result<>{};
}

void close_sessions_of(uint32_t engine) {
  std::map<uint32_t, SessionEntry>& sessions = module().sessions;
  for (auto at = sessions.begin(); at != sessions.end();) {
    const auto current = at++;
    if (current->second.engine != engine) continue;
    const std::shared_ptr<Session> session = current->second.session;
    sessions.erase(current);
    session->close();
  }
}

[[noreturn]] void panic(const char* condition, const char* file, int line) {
  const std::string text = StrCat("check failed: ", condition, " (", file, ":", line, ")");
  sinter_panic(text.data(), static_cast<uint32_t>(text.size()));
  __builtin_trap();
}

}  // namespace
}  // namespace sinter::api

using namespace sinter;
using namespace sinter::api;

extern "C" {

SINTER_EXPORT("sinter_alloc") void* sinter_alloc(uint32_t bytes) {
  const size_t rounded = (size_t{bytes} + kAlignment) / kAlignment * kAlignment;
  return rounded < bytes ? nullptr : std::aligned_alloc(kAlignment, rounded);
}

SINTER_EXPORT("sinter_free") void sinter_free(void* block) { std::free(block); }

SINTER_EXPORT("sinter_version") const char* sinter_version() { return SINTER_VERSION; }

SINTER_EXPORT("sinter_events") const void* sinter_events() {
  g_events.capacity = trace::Log::kRing;
  g_events.record_bytes = sizeof(EventRing::Record);
  return &g_events;
}

SINTER_EXPORT("sinter_stage") uint32_t sinter_stage(uint32_t engine, uint32_t id, const char* text, uint32_t bytes) {
  const auto at = engine ? module().engines.find(engine) : module().engines.begin();
  if (at == module().engines.end()) return 0;
  trace::Log& log = at->second->engine->trace();
  const std::string_view all(text, bytes);
  const size_t split = std::min(all.find('\0'), all.size());
  const std::string_view stage = all.substr(0, split), detail = all.substr(std::min(split + 1, all.size()));
  if (id == 0) return static_cast<uint32_t>(log.begin(stage, {}, detail));
  log.end(id, stage, detail);
  return id;
}

SINTER_EXPORT("sinter_failure") uint32_t sinter_failure(const char* text, uint32_t bytes) {
  const auto& engines = module().engines;
  if (engines.empty()) return 0;
  Failures& failures = engines.begin()->second->engine->failures();
  return failures.record({Code::Io, std::string(text, bytes), {}, {}}).failure->id;
}

SINTER_EXPORT("sinter_turn") void sinter_turn() { serve(true); }

SINTER_EXPORT("sinter_tick") void sinter_tick() {
  for (const auto& [handle, entry] : module().engines) entry->engine->poll();
  serve(false);
}

SINTER_EXPORT("sinter_gpu_done") void sinter_gpu_done(uint32_t batch) {
  gpu::finish_web_batch(batch);
  serve(false);
}

SINTER_EXPORT("sinter_cancel") void sinter_cancel(uint32_t request) {
  const auto at = module().requests.find(request);
  if (at == module().requests.end()) return;
  CancelSource source = at->second;
  source.cancel();
  serve(false);
}

SINTER_EXPORT("sinter_engine_open")
void sinter_engine_open(uint32_t request, const char* options, uint32_t option_bytes) {
  set_check_handler(&panic);
  auto settings = parse_engine_options({options, option_bytes});
  if (!settings) return complete(request, settings.error());
  auto entry = std::make_shared<EngineEntry>();
  entry->handle = module().next_handle++;
  entry->backend = settings->backend;
  entry->events = settings->events;
  settings->engine.listener = entry.get();
  entry->engine = std::make_shared<Engine>(settings->engine);
  entry->engine->executor().set_turn_hook([](void*) { sinter_schedule_turn(); }, nullptr);
  module().engines[entry->handle] = entry;
  if (entry->backend == BackendChoice::webgpu) spawn(entry->engine->executor(), open_device(entry), [](Result<>) {});
  serve(false);
  complete(request, StrCat("{\"engine\":", entry->handle, "}"));
}

SINTER_EXPORT("sinter_engine_close") void sinter_engine_close(uint32_t engine) {
  const auto at = module().engines.find(engine);
  if (at == module().engines.end()) return;
  const std::shared_ptr<EngineEntry> entry = at->second;
  close_sessions_of(engine);
  module().engines.erase(engine);
  entry->engine->executor().drain();
  gpu::flush_web_devices();
}

SINTER_EXPORT("sinter_session_open")
void sinter_session_open(uint32_t request, uint32_t engine, void* model, uint32_t model_bytes, const sinter_file* files,
                         uint32_t file_count, const char* options, uint32_t option_bytes) {
  ModelSource source = take_model(model, model_bytes, {files, file_count});
  const auto at = module().engines.find(engine);
  if (at == module().engines.end()) return complete(request, closed("engine"));
  auto parsed = parse_session_options({options, option_bytes});
  if (!parsed) return complete(request, parsed.error());
  const std::shared_ptr<EngineEntry> entry = at->second;
  parsed->backend = entry->backend;
  parsed->cancel = begin_request(request);
  const auto files_owner = std::static_pointer_cast<const ModelFiles>(source.owner);
  start(entry, request, open_session(entry->engine, std::move(source), std::move(*parsed)),
        [request, engine, files_owner](std::shared_ptr<Session> session) {
          if (!module().engines.contains(engine)) {
            session->close();
            return complete(request, closed("engine"));
          }
          const uint32_t handle = module().next_handle++;
          module().sessions[handle] = {engine, session};
          Json json;
          json.open('{').field("session", handle);
          io_json(json, "inputs", session->inputs());
          io_json(json, "outputs", session->outputs());
          json.key("unused").open('[');
          for (const std::string& name : files_owner->external.unused()) json.value(name);
          json.close(']').close('}');
          complete(request, json.text());
        });
}

SINTER_EXPORT("sinter_session_run")
void sinter_session_run(uint32_t request, uint32_t session, const sinter_tensor* inputs, uint32_t count) {
  const auto at = module().sessions.find(session);
  if (at == module().sessions.end()) return complete(request, closed("session"));
  auto tensors = read_inputs({inputs, count});
  if (!tensors) return complete(request, tensors.error());
  const std::shared_ptr<Session> opened = at->second.session;
  RunOptions options;
  options.cancel = begin_request(request);
  start(module().engines[at->second.engine], request, opened->run(std::move(*tensors), std::move(options)),
        [request, opened](const std::vector<NamedTensor>& outputs) { answer_run(request, outputs); });
}

SINTER_EXPORT("sinter_session_run_sync")
void sinter_session_run_sync(uint32_t request, uint32_t, const sinter_tensor*, uint32_t) {
  complete(request, Error{Code::Unsupported,
                          "nothing on the web may wait, and a synchronous run would",
                          {},
                          "call sinter_session_run, and go on when it answers"});
}

SINTER_EXPORT("sinter_session_report") void sinter_session_report(uint32_t request, uint32_t session) {
  const auto at = module().sessions.find(session);
  if (at == module().sessions.end()) return complete(request, closed("session"));
  complete(request, report_json(at->second.session->report()));
}

SINTER_EXPORT("sinter_session_close") void sinter_session_close(uint32_t session) {
  const auto at = module().sessions.find(session);
  if (at == module().sessions.end()) return;
  const std::shared_ptr<Session> opened = at->second.session;
  module().sessions.erase(at);
  opened->close();
  serve(false);
}

}  // extern "C"
