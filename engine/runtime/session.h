// SPDX-License-Identifier: Apache-2.0
// Session: one loaded model. Read session.cc first: it is the walk from bytes to outputs.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/async/cancel.h"
#include "engine/async/task.h"
#include "engine/onnx/import.h"
#include "engine/plan/plan.h"
#include "engine/runtime/engine.h"
#include "engine/runtime/fault.h"

namespace sinter {

/// A model file in memory, kept alive by `owner`.
struct ModelSource {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
  onnx::ExternalData* external = nullptr;  // resolver of external tensor data; may be null
};

struct SessionOptions {
  BackendChoice backend = BackendChoice::automatic;
  bool fusion = true;
  std::vector<std::string> off;                       // names of passes not to run (passes::all_passes)
  std::vector<std::pair<std::string, int64_t>> dims;  // symbolic dimensions to prepare for; 1 where not given
  bool force_plain = false;                           // the plain twin of every specialised device kernel
  std::optional<Fault> inject;                        // to test the diagnosis
  std::optional<DeviceFault> inject_device;           // likewise, of WebGPU
  int64_t stop_after_patch = -1;                      // apply only so many patches of the passes; -1: all
  std::vector<std::string> outputs;                   // values to give instead of the model's outputs; empty: those
  bool capture = false;                               // every node's outputs become outputs of the session
  Result<> (*rewrite)(Graph&) = nullptr;              // done to the imported graph before the passes
  std::shared_ptr<plan::ThreadPool> pool;             // where not the engine's own
  CancelToken cancel;
};

struct IoInfo {
  std::string name;
  DType dtype = DType::undefined;
  std::vector<std::string> shape;  // integers as text, symbols by name, "?" where unknown
};

/// What a session does and why; filled while loading and kept up to date by runs.
struct SessionReport {
  struct CpuStep {
    std::string node, op, reason;
  };
  struct Fallback {
    std::string from, to, reason;
  };
  plan::Backend backend = plan::Backend::cpu;
  std::string why;
  std::vector<Fallback> fallbacks;  // from webgpu to webgpu where a lost device was replaced
  size_t losses = 0;                // devices that this session has seen lost
  std::vector<CpuStep> cpu_steps;   // webgpu only: steps that run on the CPU
  std::vector<plan::Refusal> unsupported;
  std::string inert;        // why the injected fault can change no output; "" where it can, or there is none
  uint64_t peak_bytes = 0;  // host and device, high-water mark
  size_t pipelines = 0, dispatches = 0;
  double load_ms = 0, prepare_ms = 0;
};

struct NamedTensor {
  std::string name;
  Tensor tensor;
};

class StepProfile;  // engine/runtime/profile.h

struct RunOptions {
  CancelToken cancel;
  std::shared_ptr<StepProfile> profile;  // gets the time of each step; null: nothing is measured
};

class Session {
 public:
  virtual ~Session() = default;

  virtual const std::vector<IoInfo>& inputs() const = 0;
  virtual const std::vector<IoInfo>& outputs() const = 0;
  /// How many of `outputs` are the model's own; with SessionOptions::capture more follow.
  virtual size_t model_outputs() const = 0;
  virtual const SessionReport& report() const = 0;
  /// The graph as planned (after passes).
  virtual const Graph& graph() const = 0;
  /// The plan of the latest preparation; null before the first (models whose shapes depend on input contents).
  virtual std::shared_ptr<const plan::Plan> plan() const = 0;

  /// Inputs by name, in any order, each exactly once. Outputs come in the model's order. Concurrent runs queue. Where the
  /// device is lost, the run ends as DeviceLost and the next one builds the session anew from the weights that it keeps;
  /// with the automatic choice, a second loss moves the session to the CPU.
  virtual Task<std::vector<NamedTensor>> run(std::vector<NamedTensor> inputs, RunOptions options) = 0;
  /// Frees weights and device memory; queued runs end as Cancelled, later ones as InvalidInput.
  virtual void close() = 0;
};

Task<std::shared_ptr<Session>> open_session(std::shared_ptr<Engine> engine, ModelSource source, SessionOptions options);
/// The same for a graph made in memory: annotated with shapes, as import leaves it.
Task<std::shared_ptr<Session>> open_session(std::shared_ptr<Engine> engine, Graph graph, SessionOptions options);

/// Parses, imports and runs the passes, without a backend: for `inspect` and tools.
Result<std::shared_ptr<const Graph>> load_graph(const ModelSource& source, const SessionOptions& options,
                                                trace::Log* trace);

}  // namespace sinter
