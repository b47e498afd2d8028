/* SPDX-License-Identifier: Apache-2.0 */
/* capi MODEL: the C interface from a C program, by waiting and by a callback, and its errors. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sinter/sinter.h>

static int fail(const char* what, sinter_error* error) {
  fprintf(stderr, "%s: %s\n", what, error ? sinter_error_message(error) : "no error");
  sinter_error_free(error);
  return 1;
}

static void on_opened(void* context, sinter_session session, const sinter_error* error) {
  (void)session;
  *(sinter_code*)context = error ? sinter_error_code(error) : SINTER_OK;
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  sinter_error* error = NULL;
  const sinter_engine engine = sinter_engine_create("backend=cpu\n", &error);
  if (!engine) return fail("engine", error);
  const sinter_session session = sinter_session_open_file_sync(engine, argv[1], NULL, &error);
  if (!session) return fail("session", error);

  const int64_t dims[4] = {1, 3, 224, 224};
  const uint64_t bytes = sizeof(float) * 3 * 224 * 224;
  float* pixels = calloc(1, bytes);
  const sinter_tensor input = {"input", 1, 4, dims, pixels, bytes};
  sinter_outputs* outputs = sinter_session_run_sync(session, &input, 1, &error);
  if (!outputs) return fail("run", error);
  size_t count = 0;
  const sinter_tensor* output = sinter_outputs_get(outputs, &count);
  float top = -1e30f;
  for (size_t i = 0; i < output->bytes / sizeof(float); ++i) {
    const float logit = ((const float*)output->data)[i];
    if (logit > top) top = logit;
  }
  printf("outputs %zu, %s, top %.6f\n", count, output->name, (double)top);
  sinter_outputs_free(outputs);

  const sinter_tensor wrong = {"image", 1, 4, dims, pixels, bytes};
  if (sinter_session_run_sync(session, &wrong, 1, &error)) return fail("a wrong name", NULL);
  printf("%s\n", sinter_error_message(error));
  sinter_error_free(error);
  free(pixels);

  /* Closing the engine waits for what is under way: the callback has come by then. */
  sinter_code code = SINTER_INTERNAL;
  sinter_session_open_file(engine, "no such file.onnx", NULL, on_opened, &code);
  sinter_session_close(session);
  sinter_engine_close(engine);
  printf("missing file: %d, version %s\n", code, sinter_version());
  return 0;
}
