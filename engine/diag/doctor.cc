// SPDX-License-Identifier: Apache-2.0
#include "engine/diag/doctor.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "engine/base/str.h"
#include "engine/cpu/kernels.h"
#include "engine/cpu/version.h"
#include "engine/diag/verdict.h"
#include "engine/onnx/parse.h"
#include "engine/runtime/self_check.h"

namespace sinter::diag {
namespace {

std::string compiler() {
#if defined(__clang__)
  return StrCat("clang ", __clang_major__, ".", __clang_minor__, ".", __clang_patchlevel__);
#else
  return StrCat("compiler ", __VERSION__);
#endif
}

std::string_view architecture() {
#if defined(__wasm32__)
  return "wasm32";
#elif defined(__x86_64__)
  return "x86_64";
#elif defined(__aarch64__)
  return "aarch64";
#else
  return "unknown";
#endif
}

std::string_view system() {
#if defined(__wasi__)
  return "wasi";
#elif defined(__APPLE__)
  return "apple-darwin";
#elif defined(__GLIBC__)
  return "linux-gnu";
#elif defined(__linux__)
  return "linux";
#else
  return "unknown";
#endif
}

std::string cxx_library() {
#if defined(_LIBCPP_VERSION)
  return StrCat("libc++ ", _LIBCPP_VERSION / 10000, ".", _LIBCPP_VERSION / 100 % 100);
#elif defined(_GLIBCXX_RELEASE)
  return StrCat("libstdc++ ", _GLIBCXX_RELEASE);
#else
  return "unknown";
#endif
}

void describe_build(DoctorReport& report, const DoctorOptions& options, unsigned threads) {
  report.versions = {{"sinter", SINTER_VERSION},
                     {"compiler", compiler()},
                     {"target", StrCat(architecture(), "-", system())},
                     {"cxx_library", cxx_library()},
                     {"highway", cpu::highway_version()}};
  report.versions.insert(report.versions.end(), options.versions.begin(), options.versions.end());
#if defined(__wasm__) || SINTER_HAVE_WEBGPU
  constexpr bool kWebGpu = true;
#else
  constexpr bool kWebGpu = false;
#endif
#if defined(NDEBUG)
  constexpr bool kAssertions = false;
#else
  constexpr bool kAssertions = true;
#endif
  report.features = {{"webgpu", kWebGpu}, {"operator_cases", SINTER_CASES != 0}, {"assertions", kAssertions}};
  report.features.insert(report.features.end(), options.features.begin(), options.features.end());
  report.instruction_set = cpu::instruction_set();
  for (std::string_view set : cpu::instruction_sets()) report.instruction_sets.emplace_back(set);
  report.threads = threads;
}

// Keeps the stages of everything that happens while it lives, and passes the events on.
class StageLog final : public trace::Listener {
 public:
  StageLog(Engine& engine, std::vector<StageRow>& rows)
      : log_(engine.trace()), next_(engine.options().listener), rows_(rows) {
    log_.set_listener(this);
  }
  ~StageLog() { log_.set_listener(next_); }
  StageLog(const StageLog&) = delete;
  StageLog& operator=(const StageLog&) = delete;

  void set_backend(std::string_view backend) {
    backend_ = backend;
    open_.clear();
    unwound_ = kNowhere;
  }

  void on_event(const trace::Event& event) override {
    if (next_) next_->on_event(event);
    if (event.phase == trace::Phase::begin) {
      unwound_ = kNowhere;
      open_.push_back({event.id, rows_.size(), event.t_ms});
      rows_.push_back({.backend = backend_,
                       .stage = event.stage,
                       .node = event.node,
                       .detail = event.detail,
                       .depth = static_cast<int>(open_.size()) - 1});
    } else if (event.phase == trace::Phase::end) {
      const auto at = std::ranges::find(open_, event.id, &Open::id);
      if (at == open_.end()) return;
      StageRow& row = rows_[at->row];
      row.ms = event.t_ms - at->begin_ms;
      row.ended = true;
      if (!event.detail.empty()) row.detail += StrCat(row.detail.empty() ? "" : "; ", event.detail);
      if (unwound_ == kNowhere) unwound_ = at->row;
      open_.erase(at);
    }
  }

  /// The error's place: the stage that its failure names, else the innermost that is open, else the innermost of those that
  /// have just ended together.
  void blame(const Error& error) {
    size_t row = open_.empty() ? unwound_ : open_.back().row;
    if (error.failure && !error.failure->stage.empty()) row = row_of(error.failure->stage);
    if (row < rows_.size() && rows_[row].backend == backend_) rows_[row].error = error.message;
  }

 private:
  struct Open {
    uint64_t id;
    size_t row;
    double begin_ms;
  };
  // The last of the backend's rows of that stage; made where it never began, as when there was no adapter to open.
  size_t row_of(std::string_view stage) {
    for (size_t i = rows_.size(); i-- > 0 && rows_[i].backend == backend_;) {
      const bool a_pass = stage == "passes" && rows_[i].stage.starts_with("pass ");
      if (rows_[i].stage == stage || a_pass) return i;
    }
    rows_.push_back({.backend = backend_, .stage = std::string(stage), .ended = true});
    return rows_.size() - 1;
  }

  trace::Log& log_;
  trace::Listener* next_;
  std::vector<StageRow>& rows_;
  std::string backend_;
  std::vector<Open> open_;
  static constexpr size_t kNowhere = ~size_t{0};
  size_t unwound_ = kNowhere;
};

Task<> look_at_device(std::shared_ptr<Engine> engine, AdapterReport& report) {
  auto device = co_await engine->watchdog().guard(engine->executor(), engine->device());
  if (!device) {
    report.reason = device.error().message;
    report.hint = device.error().hint;
    co_return Result<>{};
  }
  report.available = true;
  report.info = (*device)->adapter();
  report.limits = (*device)->target();
  if (report.limits.f16) report.features.emplace_back("shader-f16");
  if (report.limits.subgroups) report.features.emplace_back("subgroups");
  if (report.limits.timestamps) report.features.emplace_back("timestamp-query");
  for (double* ms : {&report.first_ms, &report.warm_ms}) {
    const double start = trace::now_ms();
    trace::Span span(&engine->trace(), "self-test");
    const auto tested = co_await engine->watchdog().guard(engine->executor(), self_check(engine->pipelines()));
    *ms = trace::now_ms() - start;
    report.right = tested.has_value();
    if (!tested) report.wrong = tested.error().message;
  }
  co_return Result<>{};
}

Result<ModelReport> describe_model(const DoctorOptions& options) {
  const onnx::Model model = SINTER_TRY(onnx::parse(options.model->bytes, options.model->owner));
  ModelReport report{options.model_name, std::string(model.producer), std::string(model.producer_version),
                     model.ir_version};
  for (const onnx::Opset& opset : model.opsets) {
    report.opsets.push_back({std::string(opset.domain.empty() ? "ai.onnx" : opset.domain), opset.version});
  }
  report.nodes = model.graph.nodes.size();
  report.initializers = model.graph.initializers.size();
  report.bytes = options.model->bytes.size();
  return report;
}

struct Outputs {
  std::vector<NamedTensor> inputs;  // made for the first backend, given to all
  std::vector<NamedTensor> reference;
};

// Opens the model on one backend and runs it twice; the first run is its warm-up.
Task<std::vector<NamedTensor>> load_and_run(std::shared_ptr<Engine> engine, const DoctorOptions& options, ModelRun& run,
                                            Outputs& known) {
  SessionOptions session_options = options.session;
  session_options.backend = run.backend == plan::Backend::reference ? BackendChoice::reference
                            : run.backend == plan::Backend::cpu     ? BackendChoice::cpu
                                                                    : BackendChoice::webgpu;
  session_options.cancel = options.cancel;
  if (run.backend == plan::Backend::reference) session_options.inject.reset();  // it stays what is right
  const auto session = SINTER_CO_TRY(co_await open_session(engine, *options.model, session_options));
  if (known.inputs.empty()) {
    known.inputs =
        SINTER_CO_TRY(options.inputs ? options.inputs(*session) : seeded_inputs(*session, options.session.dims, 0));
  }
  std::vector<NamedTensor> outputs;
  for (double* ms : {&run.first_ms, &run.warm_ms}) {
    const bool first = ms == &run.first_ms;
    if (!first && run.backend == plan::Backend::reference) break;  // slow, and nothing is warm there
    const double start = trace::now_ms();
    std::optional<trace::Span> warm_up;
    if (first) warm_up.emplace(&engine->trace(), "warm-up");
    auto result = co_await session->run(known.inputs, {options.cancel});
    if (!result) co_return std::unexpected(std::move(result).error());
    outputs = std::move(*result);
    *ms = trace::now_ms() - start;
  }
  const SessionReport& report = session->report();
  run.load_ms = report.load_ms;
  run.prepare_ms = report.prepare_ms;
  run.dispatches = report.dispatches;
  run.pipelines = report.pipelines;
  run.peak_bytes = report.peak_bytes;
  run.cpu_steps = report.cpu_steps;
  session->close();
  co_return outputs;
}

void compare_outputs(ModelRun& run, const std::vector<NamedTensor>& actual, const std::vector<NamedTensor>& expected,
                     Tolerance tolerance) {
  for (size_t i = 0; i < expected.size() && i < actual.size(); ++i) {
    const auto compared = sinter::compare(actual[i].tensor, expected[i].tensor, tolerance);
    std::string text = !compared            ? to_string(compared.error())
                       : !compared->equal() ? to_string(*compared, expected[i].tensor.shape())
                                            : std::string();
    if (compared) run.max_abs = std::max(run.max_abs, compared->max_abs);
    if (!text.empty() && run.difference.empty()) run.difference = StrCat("output '", expected[i].name, "': ", text);
  }
  run.agrees = run.difference.empty();
}

std::vector<plan::Backend> backends_of(const DoctorOptions& options, bool device) {
  std::vector<plan::Backend> backends = {plan::Backend::reference};
  const BackendChoice choice = options.backend;
  if (choice == BackendChoice::automatic || choice == BackendChoice::cpu) backends.push_back(plan::Backend::cpu);
  if (device) backends.push_back(plan::Backend::webgpu);
  return backends;
}

Task<> run_model(std::shared_ptr<Engine> engine, const DoctorOptions& options, DoctorReport& report, StageLog& stages) {
  Outputs known;
  for (plan::Backend backend : backends_of(options, report.adapter.available)) {
    stages.set_backend(plan::name_of(backend));
    ModelRun run{.backend = backend};
    auto outputs = co_await load_and_run(engine, options, run, known);
    if (!outputs) {
      // What the caller did wrong says nothing about the model or the machine.
      const Code code = outputs.error().code;
      if (code == Code::Cancelled || code == Code::InvalidInput) co_return std::unexpected(std::move(outputs).error());
      stages.blame(outputs.error());
      run.error = std::move(outputs).error();
    } else if (backend == plan::Backend::reference) {
      known.reference = std::move(*outputs);
      run.agrees = true;
    } else if (known.reference.empty()) {
      run.difference = "there is nothing to compare with: the reference backend did not run the model";
    } else {
      compare_outputs(run, *outputs, known.reference, options.tolerance);
    }
    report.runs.push_back(std::move(run));
  }
  co_return Result<>{};
}

}  // namespace

Result<std::vector<NamedTensor>> seeded_inputs(const Session& session,
                                               const std::vector<std::pair<std::string, int64_t>>& dims,
                                               uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<NamedTensor> inputs;
  for (const IoInfo& info : session.inputs()) {
    Shape shape;
    for (const std::string& dim : info.shape) {
      const auto given = std::ranges::find(dims, dim, &std::pair<std::string, int64_t>::first);
      int64_t extent = given == dims.end() ? 1 : given->second;
      if (!dim.empty() && dim.find_first_not_of("0123456789") == dim.npos) {
        extent = 0;
        for (char digit : dim) extent = extent * 10 + (digit - '0');
      }
      shape.push_back(extent);
    }
    Tensor tensor = SINTER_TRY(Tensor::alloc(info.dtype, shape, StrCat("input '", info.name, "'")));
    for (size_t i = 0; i < tensor.numel(); ++i) {
      const uint64_t bits = random();
      if (is_float(info.dtype)) {
        set_f64(tensor, i, static_cast<double>(bits >> 40) / (1 << 23) - 1);
      } else {
        set_i64(tensor, i, static_cast<int64_t>(bits >> 61));
      }
    }
    inputs.push_back({info.name, std::move(tensor)});
  }
  return inputs;
}

Task<DoctorReport> doctor(std::shared_ptr<Engine> engine, DoctorOptions options) {
  DoctorReport report;
  describe_build(report, options, engine->pool().threads());
  std::optional<StageLog> stages;
  stages.emplace(*engine, report.stages);
  const bool look = options.backend == BackendChoice::automatic || options.backend == BackendChoice::webgpu;
  if (look) {
    SINTER_CO_CHECK_OK(co_await look_at_device(engine, report.adapter));
  } else {
    report.adapter.reason = "not looked at";
  }
  if (options.model) {
    report.stages.push_back({.stage = "fetch",
                             .detail = StrCat(options.model->bytes.size(), " bytes"),
                             .ms = options.fetch_ms,
                             .ended = true});
    auto model = describe_model(options);
    if (model) report.model = std::move(*model);
    SINTER_CO_CHECK_OK(co_await run_model(engine, options, report, *stages));
  }
  stages.reset();
  if (options.operators) {
    const bool cpu = options.backend == BackendChoice::automatic || options.backend == BackendChoice::cpu;
    auto cases = co_await run_cases(engine, {options.only, cpu, report.adapter.available, options.cancel});
    if (!cases) co_return std::unexpected(std::move(cases).error());
    report.self_test = std::move(*cases);
  }
  judge(report, options);
  co_return report;
}

}  // namespace sinter::diag
