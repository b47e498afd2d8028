// SPDX-License-Identifier: Apache-2.0
// Running plans on the CPU: a resumable loop over the plan's steps, so that a page can be given back its thread between
// slices of a few milliseconds. Natively the budget is infinite.
#pragma once

#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/async/cancel.h"
#include "engine/base/result.h"
#include "engine/plan/plan.h"

namespace sinter::cpu {

/// Sees each finished step: profiles, comparisons, watchdogs.
class StepObserver {
 public:
  virtual void after_step(size_t index, const plan::Step& step, std::span<const Tensor> outputs, double ms) = 0;

 protected:
  ~StepObserver() = default;
};

/// Runs one host step: its kernel, or the operator's reference row where it has none. `inputs` as the step's, null where
/// absent, packed where the plan says so; `outputs` allocated with the planned dtype and shape, empty where absent.
/// Errors carry the node, the kernel and the operands' shapes.
Result<> run_host_step(const plan::Plan& plan, const plan::Step& step, std::span<const Tensor* const> inputs,
                       std::span<Tensor> outputs, std::span<std::byte> scratch, plan::ThreadPool& pool);
/// The same with scratch memory of its own.
Result<> run_host_step(const plan::Plan& plan, const plan::Step& step, std::span<const Tensor* const> inputs,
                       std::span<Tensor> outputs, plan::ThreadPool& pool);

/// A plan of host steps with its weights loaded and its arena allocated. One run at a time.
class Prepared {
 public:
  /// `weights` is only used during the call; `pool` must outlive the result.
  static Result<std::unique_ptr<Prepared>> make(std::shared_ptr<const plan::Plan> plan, plan::WeightSource& weights,
                                                plan::ThreadPool& pool);

  const plan::Plan& plan() const { return *plan_; }

 private:
  friend class CpuRun;

  std::shared_ptr<const plan::Plan> plan_;
  plan::ThreadPool* pool_ = nullptr;
  std::vector<Tensor> weights_;  // by index into Plan::weights
  std::vector<Tensor> values_;   // by ValueId: views of the arena, constants; empty for inputs and outputs
  Tensor scratch_;
};

/// How long run_some may go on; looked at between steps.
struct Budget {
  double until_ms = std::numeric_limits<double>::infinity();  // on the clock of trace::now_ms

  static Budget infinite() { return {}; }
  static Budget slice(double ms);
};

enum class StepStatus : uint8_t { more, done, failed };

/// One execution under way.
class CpuRun {
 public:
  /// Inputs in the graph's order; they are read in place and must not change until the run ends.
  static Result<CpuRun> start(Prepared& prepared, std::span<const Tensor> inputs, CancelToken cancel = {},
                              StepObserver* observer = nullptr);

  size_t steps_done() const { return next_; }
  /// Valid when failed.
  const Error& error() const { return *error_; }
  /// In the graph's order, the caller's own; valid when done, and once.
  std::vector<Tensor> take_outputs() { return std::move(outputs_); }

 private:
  friend StepStatus run_some(CpuRun& run, Budget budget);

  explicit CpuRun(Prepared& prepared) : prepared_(&prepared) {}
  Result<> step(const plan::Step& step);
  Result<> finish();

  Prepared* prepared_;
  CancelToken cancel_;
  StepObserver* observer_ = nullptr;
  std::vector<Tensor> values_;
  std::vector<const Tensor*> step_inputs_;
  std::vector<Tensor> step_outputs_;
  std::vector<Tensor> outputs_;
  std::optional<Error> error_;
  size_t next_ = 0;
};

/// Runs steps until the plan ends, one fails, the run is cancelled or the budget is spent; at least one step per call.
StepStatus run_some(CpuRun& run, Budget budget);

}  // namespace sinter::cpu
