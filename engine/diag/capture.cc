// SPDX-License-Identifier: Apache-2.0
#include "engine/diag/capture.h"

#include <cstring>

#include "engine/base/str.h"
#include "engine/passes/passes.h"

namespace sinter::diag {
namespace {

// [N, H, W, C] to [N, C, H, W].
Result<Tensor> to_channels_first(const Tensor& last) {
  const Shape& s = last.shape();
  Tensor first = SINTER_TRY(Tensor::alloc(last.dtype(), {s[0], s[3], s[1], s[2]}, "a captured value"));
  const size_t size = size_of(last.dtype());
  const std::byte* from = last.bytes().data();
  std::byte* to = first.mutable_bytes().data();
  const int64_t pixels = s[1] * s[2], channels = s[3];
  for (int64_t n = 0; n < s[0]; ++n) {
    for (int64_t c = 0; c < channels; ++c) {
      for (int64_t p = 0; p < pixels; ++p) {
        std::memcpy(to + ((n * channels + c) * pixels + p) * size, from + ((n * pixels + p) * channels + c) * size,
                    size);
      }
    }
  }
  return first;
}

}  // namespace

std::string_view backend_name(BackendChoice choice) {
  switch (choice) {
    case BackendChoice::cpu:
      return "cpu";
    case BackendChoice::webgpu:
      return "webgpu";
    case BackendChoice::reference:
      return "reference";
    case BackendChoice::automatic:
      return "auto";
  }
  return "";
}

std::string to_text(const Spec& spec) {
  std::string text = StrCat("backend=", backend_name(spec.backend));
  if (!spec.fusion) text += ",fusion=off";
  if (!spec.off.empty()) StrAppend(text, StrCat(",off=", StrJoin(spec.off, "+")));
  if (spec.threads) StrAppend(text, StrCat(",threads=", spec.threads));
  if (spec.dtype == DType::f16) text += ",dtype=f16";
  return text;
}

SessionOptions options_for(const Spec& spec) {
  SessionOptions options;
  options.backend = spec.backend;
  options.fusion = spec.fusion;
  options.off = spec.off;
  options.inject = spec.inject;
  options.stop_after_patch = spec.stop_after_patch;
  options.pool = spec.pool;
  options.cancel = spec.cancel;
  if (spec.dtype == DType::f16) options.rewrite = &passes::to_float16;
  return options;
}

Task<std::shared_ptr<Session>> open_for(std::shared_ptr<Engine> engine, ModelSource source, Spec spec,
                                        SessionOptions options) {
  auto session = SINTER_CO_TRY(co_await open_session(engine, source, std::move(options)));
  if (spec.dtype == DType::f16 && session->report().backend == plan::Backend::webgpu) {
    const auto device = SINTER_CO_TRY(co_await engine->device());
    if (!device->target().f16) {
      co_return fail(Code::Unsupported, "this adapter has no half precision (WebGPU feature shader-f16)",
                     "take backend=cpu,dtype=f16, or another adapter");
    }
  }
  co_return session;
}

Task<Capture> capture(std::shared_ptr<Engine> engine, ModelSource source, Spec spec, std::vector<NamedTensor> inputs) {
  SessionOptions options = options_for(spec);
  options.capture = true;
  const auto session = SINTER_CO_TRY(co_await open_for(engine, source, spec, std::move(options)));
  std::vector<NamedTensor> outputs = SINTER_CO_TRY(co_await session->run(std::move(inputs), {.cancel = spec.cancel}));
  const Graph& graph = session->graph();
  Capture result;
  result.report = session->report();
  std::map<std::string, Tensor> tensors;
  for (const NamedTensor& output : outputs) tensors.emplace(output.name, output.tensor);
  for (const Node& node : graph.nodes) {
    if (node.dead || node.origins.empty()) continue;  // layout changes stand for no ONNX node
    for (ValueId id : node.outputs) {
      if (id == kNone) continue;
      const Value& value = graph.values[id];
      const auto at = tensors.find(value.name);
      if (at == tensors.end()) continue;
      CapturedValue captured{at->second, node.origins};
      if (!value.stands_for.empty()) captured.tensor = SINTER_CO_TRY(to_channels_first(captured.tensor));
      result.values.insert_or_assign(value.stands_for.empty() ? value.name : value.stands_for, std::move(captured));
    }
  }
  outputs.resize(session->model_outputs());
  result.outputs = std::move(outputs);
  session->close();
  co_return result;
}

Task<const Capture*> capture_into(std::shared_ptr<Engine> engine, ModelSource source, Spec spec,
                                  std::vector<NamedTensor> inputs, KeptRuns* kept, Capture* own) {
  if (!kept) {
    *own = SINTER_CO_TRY(co_await capture(engine, source, std::move(spec), std::move(inputs)));
    co_return own;
  }
  const std::string key = StrCat(to_text(spec), " ", spec.stop_after_patch);
  if (const auto at = kept->captures.find(key); at != kept->captures.end()) co_return &at->second;
  Capture fresh = SINTER_CO_TRY(co_await capture(engine, source, std::move(spec), std::move(inputs)));
  co_return &kept->captures.insert_or_assign(key, std::move(fresh)).first->second;
}

}  // namespace sinter::diag
