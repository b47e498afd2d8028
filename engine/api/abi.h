// SPDX-License-Identifier: Apache-2.0
// The C ABI. Everything that can take time is asynchronous: the caller picks a request number, and the answer comes
// through `complete(request, status, data, bytes)`; status 0 is success, anything else a Code plus one, with the error as
// JSON (json.h says of what form). What `data` points at is valid during that call only.
//
// On the web the functions are exports of the module and `complete` is the import "sinter"."complete".
#pragma once

#include <stdint.h>

extern "C" {

struct sinter_tensor {
  const char* name;
  uint32_t name_bytes;
  uint32_t dtype;  // ONNX TensorProto.DataType
  const int64_t* dims;
  uint32_t rank;
  const void* data;
  uint32_t bytes;
};

/// A file that a model refers to, under the name it uses.
struct sinter_file {
  const char* name;
  uint32_t name_bytes;
  void* data;
  uint32_t bytes;
};

/// Null where there is no memory. Blocks are aligned for any element type.
void* sinter_alloc(uint32_t bytes);
void sinter_free(void* block);
const char* sinter_version();

/// The last 256 events, readable at any time, even after a trap. Words: count of all events ever, capacity, bytes of a
/// record, padding; then the records, event n in place n modulo capacity: t_ms (f64), id, phase (0 begin, 1 end, 2 point),
/// length of the text, text: stage, node and detail, parted by zero bytes.
const void* sinter_events();
/// A stage of the host's own (fetch, open adapter): begun with id 0, ended with the id it was answered with. Text: stage,
/// zero byte, detail. Engine 0 is the module's first. Answers 0 where the engine is closed.
uint32_t sinter_stage(uint32_t engine, uint32_t id, const char* text, uint32_t bytes);
/// A failure of the host's own, by its message: answers its number among those of the module's first engine.
uint32_t sinter_failure(const char* text, uint32_t bytes);

/// Options are lines KEY=VALUE. Engine: backend (auto, cpu, webgpu, reference), threads, timeout_ms, low_power, events.
/// Answer: JSON {"engine": handle}. An explicit webgpu engine begins to open its device here.
void sinter_engine_open(uint32_t request, const char* options, uint32_t option_bytes);
/// Sessions of the engine are closed with it.
void sinter_engine_close(uint32_t engine);

/// Takes over `model` and the files' data, blocks of sinter_alloc, whatever the outcome. Options: fusion (true, false), off (a pass name,
/// repeated), dim (NAME=N, repeated), inject (NODE=KIND), inject_device (lost@STEP, oom@STEP, no-adapter), plain (true: no specialised device kernels). Answer: JSON {"session","inputs","outputs"}.
void sinter_session_open(uint32_t request, uint32_t engine, void* model, uint32_t model_bytes, const sinter_file* files,
                         uint32_t file_count, const char* options, uint32_t option_bytes);
/// The tensors and what they point at stay the caller's and unchanged until the answer: an array of sinter_tensor.
void sinter_session_run(uint32_t request, uint32_t session, const sinter_tensor* inputs, uint32_t count);
/// There is no such thing on the web: answers Unsupported and names sinter_session_run.
void sinter_session_run_sync(uint32_t request, uint32_t session, const sinter_tensor* inputs, uint32_t count);
/// Answered before it returns: JSON.
void sinter_session_report(uint32_t request, uint32_t session);
void sinter_session_close(uint32_t session);

/// The request ends as Cancelled as soon as what it waits for allows; unknown numbers are ignored.
void sinter_cancel(uint32_t request);
/// To be called once, from a fresh turn of the event loop, after each `schedule_turn`.
void sinter_turn();
/// To be called now and then while requests are under way: what makes no progress ends as Timeout.
void sinter_tick();
}
