// SPDX-License-Identifier: Apache-2.0
// Capture: one run with every node's output kept.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/runtime/session.h"

namespace sinter::diag {

/// How to run a model, as in `compare --a backend=cpu,fusion=off`.
struct Spec {
  BackendChoice backend = BackendChoice::cpu;
  bool fusion = true;
  std::vector<std::string> off;
  std::optional<Fault> inject;
  int64_t stop_after_patch = -1;
};

struct CapturedValue {
  Tensor tensor;                   // in the model's own layout
  std::vector<std::string> nodes;  // the ONNX nodes that the producing step stands for, in execution order
};

struct Capture {
  std::map<std::string, CapturedValue> values;  // by ONNX value name
  std::vector<NamedTensor> outputs;             // the model's own
  SessionReport report;
};

SessionOptions options_for(const Spec& spec);

/// Loads the model as `spec` says and runs it once. Inside fused steps there are no values.
Task<Capture> capture(std::shared_ptr<Engine> engine, ModelSource source, Spec spec, std::vector<NamedTensor> inputs);

}  // namespace sinter::diag
