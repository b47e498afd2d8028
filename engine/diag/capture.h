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
  unsigned threads = 0;                    // for the text; `pool` has them
  std::shared_ptr<plan::ThreadPool> pool;  // null: the engine's
  DType dtype = DType::f32;                // f16: float32 values are held in half precision
  std::optional<Fault> inject;
  int64_t stop_after_patch = -1;
  CancelToken cancel;  // of loads and runs this way
};

std::string_view backend_name(BackendChoice choice);

/// "backend=webgpu,fusion=off,off=P+Q", without what is as by default.
std::string to_text(const Spec& spec);

struct CapturedValue {
  Tensor tensor;                   // in the model's own layout and element type
  std::vector<std::string> nodes;  // the ONNX nodes that the producing step stands for, in execution order
};

struct Capture {
  std::map<std::string, CapturedValue> values;  // by ONNX value name
  std::vector<NamedTensor> outputs;             // the model's own
  SessionReport report;
};

/// Runs of one side that are needed again: a sweep compares many faults with the same good side. Belongs to one spec, one
/// model and one set of inputs.
struct KeptRuns {
  std::optional<std::vector<NamedTensor>> outputs;
  std::map<std::string, Capture> captures;  // by text of the spec and its patch limit
};

SessionOptions options_for(const Spec& spec);

/// The session, refused where the device cannot compute in the spec's dtype.
Task<std::shared_ptr<Session>> open_for(std::shared_ptr<Engine> engine, ModelSource source, Spec spec,
                                        SessionOptions options);

/// Loads the model as `spec` says and runs it once. Inside fused steps there are no values.
Task<Capture> capture(std::shared_ptr<Engine> engine, ModelSource source, Spec spec, std::vector<NamedTensor> inputs);

/// The same, out of `kept` where it is there; otherwise it is there afterwards. Without `kept` it lives in `own`.
Task<const Capture*> capture_into(std::shared_ptr<Engine> engine, ModelSource source, Spec spec,
                                  std::vector<NamedTensor> inputs, KeptRuns* kept, Capture* own);

}  // namespace sinter::diag
