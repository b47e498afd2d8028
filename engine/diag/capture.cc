// SPDX-License-Identifier: Apache-2.0
#include "engine/diag/capture.h"

#include <cstring>

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

SessionOptions options_for(const Spec& spec) {
  SessionOptions options;
  options.backend = spec.backend;
  options.fusion = spec.fusion;
  options.off = spec.off;
  options.inject = spec.inject;
  options.stop_after_patch = spec.stop_after_patch;
  return options;
}

Task<Capture> capture(std::shared_ptr<Engine> engine, ModelSource source, Spec spec, std::vector<NamedTensor> inputs) {
  SessionOptions options = options_for(spec);
  options.capture = true;
  const auto session = SINTER_CO_TRY(co_await open_session(engine, source, options));
  std::vector<NamedTensor> outputs = SINTER_CO_TRY(co_await session->run(std::move(inputs), {}));
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

}  // namespace sinter::diag
