// SPDX-License-Identifier: Apache-2.0
// doctor: does this machine compute, and if a model is given, at which stage does it fail? Versions, adapter, every
// operator's own cases on every backend, the model's stages with their times, and a verdict in one sentence.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/diag/op_cases.h"
#include "engine/runtime/session.h"
#include "engine/tensor/compare.h"

namespace sinter::diag {

struct Fact {
  std::string name, value;
};
struct Switch {
  std::string name;
  bool on = false;
};

struct DoctorOptions {
  /// What only the host knows: libraries and their paths, user agent, driver; isolation and other switches.
  std::vector<Fact> versions;
  std::vector<Switch> features;
  /// With `webgpu` or `cpu`, the other one is not looked at; `reference` looks at that alone.
  BackendChoice backend = BackendChoice::automatic;
  bool operators = true;               // run the operators' own cases
  std::vector<std::string> only;       // of these operators; empty: of all
  std::optional<ModelSource> model;    // a model to look at
  std::string model_name;              // as the user knows it, for texts
  double fetch_ms = 0;                 // how long the host took to get the bytes
  SessionOptions session;              // fusion, off, dims, inject; the backend is chosen by doctor
  Tolerance tolerance = {1e-3, 1e-4};  // of outputs against the reference backend
  /// Inputs of the model; null: seeded ones.
  std::function<Result<std::vector<NamedTensor>>(const Session&)> inputs;
  CancelToken cancel;
};

struct AdapterReport {
  bool available = false;
  std::string reason, hint;  // where it is not
  gpu::AdapterInfo info;
  wgsl::Target limits;
  std::vector<std::string> features;
  /// The self-test that decides whether `auto` uses the device (engine/runtime/self_check.h).
  bool right = false;
  std::string wrong;  // what it computed wrongly
  double first_ms = 0, warm_ms = 0;
};

struct ModelReport {
  std::string name, producer, producer_version;
  int64_t ir = 0;
  std::vector<std::pair<std::string, int64_t>> opsets;
  size_t nodes = 0, initializers = 0;
  uint64_t bytes = 0;
};

/// One stage as the trace shows it, in order of beginning. A stage that did not end well has `error`.
struct StageRow {
  std::string backend;  // "" where it serves all of them
  std::string stage, node, detail;
  int depth = 0;
  double ms = 0;
  bool ended = false;
  std::string error;
};

/// The model on one backend.
struct ModelRun {
  plan::Backend backend = plan::Backend::cpu;
  std::optional<Error> error;  // of loading or running
  bool agrees = false;         // with the reference backend
  std::string difference;      // the first output that does not
  double max_abs = 0;          // over all outputs, against the reference backend
  double load_ms = 0, prepare_ms = 0, first_ms = 0, warm_ms = 0;
  size_t dispatches = 0, pipelines = 0;
  uint64_t peak_bytes = 0;
  std::vector<SessionReport::CpuStep> cpu_steps;
};

struct DoctorReport {
  std::vector<Fact> versions;
  std::vector<Switch> features;
  std::string instruction_set;
  std::vector<std::string> instruction_sets;
  unsigned threads = 1;
  AdapterReport adapter;
  std::vector<BackendCases> self_test;
  std::optional<ModelReport> model;
  std::vector<StageRow> stages;
  std::vector<ModelRun> runs;
  bool healthy = false;  // what was asked about works
  std::string verdict;   // one sentence
  std::string hint;      // what to do; may be empty
};

/// Fails where cancelled and for options or inputs that do not fit the model; what else it finds is the report. Long; gives the host a turn between cases.
Task<DoctorReport> doctor(std::shared_ptr<Engine> engine, DoctorOptions options);

/// {"versions","features","adapter","self_test","model","stages","runs","healthy","verdict","hint"}.
std::string to_json(const DoctorReport& report);

/// The same numbers on every machine: floats in [-1, 1), integers in 0..7, symbolic dimensions from `dims`, else 1.
Result<std::vector<NamedTensor>> seeded_inputs(const Session& session,
                                               const std::vector<std::pair<std::string, int64_t>>& dims, uint64_t seed);

}  // namespace sinter::diag
