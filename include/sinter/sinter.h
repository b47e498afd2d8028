/* SPDX-License-Identifier: Apache-2.0
 *
 * The C API of the native library.
 *
 * Every function may be called from any thread at any time, also from a callback. An engine has a thread of its own: calls
 * put work into its queue, runs pass one after the other in the order of their calls, and callbacks come from that thread.
 * Handles are numbers: one that was closed, or never was, is SINTER_INVALID_INPUT and no crash.
 *
 * An asynchronous call answers exactly once, through its callback, also where it fails at once. A synchronous call waits
 * for the same answer; from a callback, which would wait for itself, it fails with SINTER_INVALID_INPUT. On the web there
 * is nothing synchronous: what the module exports under these names answers Unsupported.
 *
 * Text is UTF-8 and ends with a zero byte. What a callback gets is valid until it returns.
 */
#ifndef SINTER_H
#define SINTER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef uint64_t sinter_engine;  /* 0: none */
typedef uint64_t sinter_session; /* 0: none */

typedef enum sinter_code {
  SINTER_OK = 0,
  SINTER_INVALID_MODEL = 1,
  SINTER_UNSUPPORTED = 2,
  SINTER_INVALID_INPUT = 3,
  SINTER_IO = 4,
  SINTER_OUT_OF_MEMORY = 5,
  SINTER_GPU = 6,
  SINTER_DEVICE_LOST = 7,
  SINTER_TIMEOUT = 8,
  SINTER_CANCELLED = 9,
  SINTER_INTERNAL = 10
} sinter_code;

typedef struct sinter_error sinter_error; /* a null pointer stands for success */

sinter_code sinter_error_code(const sinter_error* error);
const char* sinter_error_message(const sinter_error* error);
const char* sinter_error_hint(const sinter_error* error);
/* {"message","chain","hint"}, and "firstFailure" and "echoOf" where they apply (docs/errors.md). */
const char* sinter_error_json(const sinter_error* error);
/* For errors from synchronous calls; null is allowed. */
void sinter_error_free(sinter_error* error);

typedef struct sinter_tensor {
  const char* name;
  int32_t dtype; /* ONNX TensorProto.DataType: 1 float, 2 uint8, 3 int8, 6 int32, 7 int64, 9 bool, 10 float16, ... */
  uint32_t rank;
  const int64_t* dims;
  const void* data; /* dense, row-major */
  uint64_t bytes;
} sinter_tensor;

const char* sinter_version(void);

/* Options are lines KEY=VALUE; null for none. Of an engine: backend (auto, cpu, webgpu, reference), threads, timeout_ms,
 * low_power. Returns 0 and sets `error` (where it is not null) if an option is wrong. The device is opened with the first
 * session that wants one. */
sinter_engine sinter_engine_create(const char* options, sinter_error** error);
/* Closes its sessions; what waits ends as Cancelled. Returns when all has ended, except from a callback: then it only
 * begins to. */
void sinter_engine_close(sinter_engine engine);

typedef void (*sinter_opened)(void* context, sinter_session session, const sinter_error* error);
/* Options of a session: fusion (true, false), off (a pass, repeated), dim (NAME=N, repeated). The model's bytes are copied.
 * Returns a number for sinter_cancel. */
uint64_t sinter_session_open(sinter_engine engine, const void* model, size_t model_bytes, const char* options,
                             sinter_opened opened, void* context);
/* The file is mapped, not read; external data is looked for beside it. */
uint64_t sinter_session_open_file(sinter_engine engine, const char* path, const char* options, sinter_opened opened,
                                  void* context);
/* Runs under way end as they would or as Cancelled. */
void sinter_session_close(sinter_session session);

typedef void (*sinter_ran)(void* context, const sinter_tensor* outputs, size_t count, const sinter_error* error);
/* The inputs are copied before the call returns. Returns a number for sinter_cancel. */
uint64_t sinter_session_run(sinter_session session, const sinter_tensor* inputs, size_t count, sinter_ran ran,
                            void* context);

/* The request ends as Cancelled unless it has ended; numbers that are not known are ignored. */
void sinter_cancel(sinter_engine engine, uint64_t request);

#ifndef __wasm__

sinter_session sinter_session_open_sync(sinter_engine engine, const void* model, size_t model_bytes,
                                        const char* options, sinter_error** error);
sinter_session sinter_session_open_file_sync(sinter_engine engine, const char* path, const char* options,
                                             sinter_error** error);

typedef struct sinter_outputs sinter_outputs;
/* Null on failure. */
sinter_outputs* sinter_session_run_sync(sinter_session session, const sinter_tensor* inputs, size_t count,
                                        sinter_error** error);
const sinter_tensor* sinter_outputs_get(const sinter_outputs* outputs, size_t* count);
void sinter_outputs_free(sinter_outputs* outputs);

/* What the session does and why, as JSON: {"backend","why","losses",...}; null on failure. For sinter_text_free. */
char* sinter_session_report_sync(sinter_session session, sinter_error** error);
void sinter_text_free(char* text);

#endif /* __wasm__ */

#ifdef __cplusplus
}
#endif

#endif /* SINTER_H */
