// SPDX-License-Identifier: Apache-2.0
#include "engine/diag/repro.h"

#include <algorithm>
#include <set>

#include "engine/base/str.h"
#include "engine/ops/infer.h"

namespace sinter::diag {
namespace {

constexpr int kMaxRings = 3;    // of neighbours around what was found, before the whole model is taken
constexpr int kMaxTries = 150;  // pairs of runs
constexpr double kMaxShrinkMs = 8000;

// What `sinter test` allows: the repro must fail there.
constexpr Tolerance kTestTolerance{1e-3, 1e-5};

class Reducer {
 public:
  Reducer(std::shared_ptr<Engine> engine, ModelSource source, BisectResult found, Spec good, Spec bad,
          std::vector<NamedTensor> inputs, Tolerance tolerance, KeptRuns* kept)
      : engine_(std::move(engine)),
        source_(source),
        found_(std::move(found)),
        good_(std::move(good)),
        bad_(std::move(bad)),
        inputs_(std::move(inputs)),
        tolerance_{std::max(tolerance.rtol, kTestTolerance.rtol), std::max(tolerance.atol, kTestTolerance.atol)},
        kept_(kept) {}

  Task<Repro> run() {
    const Cutter cutter = SINTER_CO_TRY(Cutter::make(source_));
    SINTER_CO_CHECK_OK(co_await cut_out(cutter));
    SINTER_CO_CHECK_OK(co_await shrink());
    SINTER_CO_CHECK_OK(describe());
    co_return std::move(repro_);
  }

 private:
  enum class Verdict : uint8_t { refused, agrees, differs };

  Task<> cut_out(const Cutter& cutter) {
    Spec plain = good_;
    plain.stop_after_patch = 0;
    Capture own;
    const Capture& values = *SINTER_CO_TRY(co_await capture_into(engine_, source_, plain, inputs_, kept_, &own));
    const std::vector<std::string> all = cutter.all_nodes();
    for (int rings = 0; rings <= kMaxRings && !found_.nodes.empty(); ++rings) {
      const std::vector<std::string> nodes = cutter.grown(found_.nodes, rings);
      if (nodes.size() >= all.size()) break;
      auto cut = cutter.cut(nodes, inputs_, values.values);
      if (!cut) continue;
      best_ = std::move(*cut);
      if (SINTER_CO_TRY(co_await attempt(best_)) == Verdict::differs) co_return Result<>{};
    }
    repro_.whole_model = true;
    best_ = SINTER_CO_TRY(cutter.cut(all, inputs_, values.values));
    if (SINTER_CO_TRY(co_await attempt(best_)) == Verdict::differs) co_return Result<>{};
    co_return fail(Code::Unsupported,
                   "the difference does not show again in a model cut out: it is at the limit of the tolerance",
                   "compare shows it in the whole model");
  }

  Task<std::shared_ptr<Session>> open(const Cut& cut, const Spec& spec) {
    const auto bytes = std::make_shared<const std::string>(cut.model());
    const ModelSource source{std::as_bytes(std::span(*bytes)), bytes, nullptr};
    return open_for(engine_, source, spec, options_for(spec));
  }

  // Runs both ways on the cut and fills in the expected outputs. What the bad way did is kept where it differs.
  Task<Verdict> attempt(Cut& cut) {
    ++repro_.tries;
    SINTER_CO_CHECK_OK(good_.cancel.check());
    const auto good = co_await open(cut, good_);
    if (!good) co_return Verdict::refused;
    auto expected = co_await (*good)->run(cut.inputs, {.cancel = good_.cancel});
    (*good)->close();
    SINTER_CO_CHECK_OK(good_.cancel.check());
    if (!expected) co_return Verdict::refused;
    cut.outputs = std::move(*expected);
    if (!splits_evenly(cut)) co_return Verdict::refused;
    const auto bad = co_await open(cut, bad_);
    if (!bad) co_return failed(bad.error());
    const auto actual = co_await (*bad)->run(cut.inputs, {.cancel = bad_.cancel});
    SINTER_CO_CHECK_OK(bad_.cancel.check());
    if (!actual) co_return failed(actual.error());
    // A smaller shape may be another kernel's, and then the report would show the wrong one.
    const bool other_kernels = !kernels_.empty() && kernel_names(**bad) != kernels_;
    const bool differs = !other_kernels && found_.failure.empty() && SINTER_CO_TRY(note_difference(cut, *actual));
    if (differs) note_kernels(**bad);
    (*bad)->close();
    co_return differs ? Verdict::differs : Verdict::agrees;
  }

  // What this engine takes and others refuse is no good repro.
  static bool splits_evenly(const Cut& cut) {
    for (const CutNode& node : cut.nodes) {
      if (!node.even) continue;
      const Tensor* first = nullptr;
      for (const NamedTensor& output : cut.outputs) {
        if (std::find(node.outputs.begin(), node.outputs.end(), output.name) == node.outputs.end()) continue;
        if (first && first->shape() != output.tensor.shape()) return false;
        first = &output.tensor;
      }
    }
    return true;
  }

  Result<Verdict> failed(const Error& error) {
    if (error.code == Code::Cancelled) return std::unexpected(error);
    if (found_.failure.empty()) return Verdict::agrees;  // another failure than the one that was found
    repro_.failure = to_string(error);
    return Verdict::differs;
  }

  Result<bool> note_difference(const Cut& cut, const std::vector<NamedTensor>& actual) {
    for (size_t i = 0; i < actual.size(); ++i) {
      const Tensor& expected = cut.outputs[i].tensor;
      const auto comparison = sinter::compare(actual[i].tensor, expected, tolerance_);
      if (!comparison || comparison->equal()) continue;
      repro_.output = actual[i].name;
      repro_.index = unravel(comparison->first, expected.shape());
      repro_.expected = comparison->expected;
      repro_.actual = comparison->actual;
      repro_.max_abs = comparison->max_abs;
      repro_.max_rel = comparison->max_rel;
      repro_.differing = comparison->differing;
      repro_.elements = expected.numel();
      return true;
    }
    return false;
  }

  static std::vector<ReproKernel> kernels_of(const Session& session) {
    std::vector<ReproKernel> kernels;
    const auto plan = session.plan();
    if (!plan) return kernels;
    for (const plan::Step& step : plan->steps) {
      if (step.kind != plan::Step::Kind::dispatch && step.kind != plan::Step::Kind::host) continue;
      ReproKernel& kernel = kernels.emplace_back();
      kernel.node = plan->graph->nodes[step.node].name;
      if (step.kind == plan::Step::Kind::dispatch) {
        kernel.name = step.kernel.name;
        kernel.wgsl = step.kernel.text;
      } else {
        kernel.name = step.host_kernel ? std::string(step.host_kernel->name) : "reference row";
      }
    }
    return kernels;
  }

  static std::set<std::string> kernel_names(const Session& session) {
    std::set<std::string> names;
    for (const ReproKernel& kernel : kernels_of(session)) names.insert(kernel.name);
    return names;
  }

  void note_kernels(const Session& session) {
    repro_.kernels = kernels_of(session);
    if (session.report().backend == plan::Backend::webgpu && engine_->open_device()) {
      const gpu::AdapterInfo& adapter = engine_->open_device()->adapter();
      repro_.adapter = StrCat(adapter.description.empty() ? adapter.device : adapter.description, " (", adapter.vendor,
                              adapter.backend.empty() ? "" : ", ", adapter.backend, ")");
    }
  }

  bool may_go_on() const { return repro_.tries < kMaxTries && trace::now_ms() < until_ms_; }

  // Batch and space first, by their axis in the inputs; then every extent wherever it is, which takes channels with the
  // weights along.
  Task<> shrink() {
    until_ms_ = trace::now_ms() + kMaxShrinkMs;
    for (const ReproKernel& kernel : repro_.kernels) kernels_.insert(kernel.name);
    for (bool moved = true; moved && may_go_on();) {
      moved = false;
      for (int axis = 0; axis < static_cast<int>(kMaxRank); ++axis) {
        for (const int64_t extent : extents(axis)) {
          moved |= SINTER_CO_TRY(co_await shrink_extent(extent, false, axis));
        }
      }
      for (const int64_t extent : extents(-1)) moved |= SINTER_CO_TRY(co_await shrink_extent(extent, true, -1));
    }
    co_return Result<>{};
  }

  // Largest first. axis -1: of all axes of inputs and constants.
  std::vector<int64_t> extents(int axis) const {
    std::set<int64_t, std::greater<>> found;
    for (const auto* list : {&best_.inputs, &best_.constants}) {
      if (list == &best_.constants && axis >= 0) continue;
      for (const NamedTensor& value : *list) {
        for (size_t i = 0; i < value.tensor.shape().rank(); ++i) {
          if (axis < 0 || static_cast<size_t>(axis) == i) found.insert(value.tensor.shape()[i]);
        }
      }
    }
    std::vector<int64_t> result(found.begin(), found.end());
    std::erase_if(result, [](int64_t extent) { return extent < 2; });
    return result;
  }

  Task<bool> shrink_extent(int64_t from, bool constants, int axis) {
    for (int64_t to = 1; to < from; to *= 2) {
      for (const bool keep_last : {false, true}) {
        if (!may_go_on()) co_return false;
        auto smaller = resized(best_, from, to, constants, axis, keep_last);
        if (!smaller) co_return std::unexpected(std::move(smaller).error());
        const Verdict verdict = SINTER_CO_TRY(co_await attempt(*smaller));
        if (verdict == Verdict::differs) {
          best_ = std::move(*smaller);
          co_return true;
        }
        if (verdict == Verdict::refused) break;  // not a matter of which elements
      }
    }
    co_return false;
  }

  Result<> describe() {
    repro_.files = best_.files();
    // The cut, not the model: a `group` may have become smaller with its channels.
    const Cutter cut = SINTER_TRY(Cutter::make({std::as_bytes(std::span(repro_.files[0].bytes)), nullptr, nullptr}));
    const Graph& graph = cut.graph();
    const auto text = [&](const std::string& name) {
      const ValueId id = graph.find_value(name);
      if (id == kNone) return name;
      const Value& value = graph.values[id];
      return StrCat(name, " ", name_of(value.dtype), value.shape ? to_string(*value.shape, graph.symbols) : "[?]",
                    value.constant ? " constant" : "");
    };
    for (const CutNode& node : best_.nodes) {
      ReproNode row{node.name, node.op, cut.attributes_of(node.name), {}, {}};
      for (const std::string& input : node.inputs) row.inputs.push_back(input.empty() ? "absent" : text(input));
      for (const std::string& output : node.outputs) row.outputs.push_back(output.empty() ? "absent" : text(output));
      repro_.nodes.push_back(std::move(row));
    }
    return {};
  }

  std::shared_ptr<Engine> engine_;
  ModelSource source_;
  BisectResult found_;
  Spec good_, bad_;
  std::vector<NamedTensor> inputs_;
  Tolerance tolerance_;
  KeptRuns* kept_;
  Cut best_;
  Repro repro_;
  std::set<std::string> kernels_;  // that must stay the same while shapes get smaller
  double until_ms_ = 0;
};

}  // namespace

Task<Repro> make_repro(std::shared_ptr<Engine> engine, ModelSource source, BisectResult found, Spec good, Spec bad,
                       std::vector<NamedTensor> inputs, Tolerance tolerance, KeptRuns* kept) {
  if (found.kind == BisectResult::Kind::none) co_return fail(Code::InvalidInput, "both ways agree: nothing to cut out");
  Reducer reducer(std::move(engine), source, std::move(found), std::move(good), std::move(bad), std::move(inputs),
                  tolerance, kept);
  co_return co_await reducer.run();
}

}  // namespace sinter::diag
