// SPDX-License-Identifier: Apache-2.0
// sinter bench MODEL
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>

#include "cli/inputs.h"
#include "cli/runner.h"
#include "cli/verbs.h"
#include "engine/base/memory.h"
#include "engine/base/str.h"
#include "engine/diag/profile.h"

namespace sinter::cli {
namespace {

struct Options {
  CommonOptions common;
  std::string model;
  size_t runs = 20, warmup = 3;
  int64_t batch = 0;
  bool profile = false;
};

/// The symbol that is the first dimension of the first input.
Result<std::vector<std::pair<std::string, int64_t>>> batch_dims(const Options& options) {
  std::vector<std::pair<std::string, int64_t>> dims;
  if (options.batch == 0) return dims;
  const ModelFile model = SINTER_TRY(open_model_file(options.model));
  const auto graph = SINTER_TRY(load_graph(model.source(), options.common.session_options(), nullptr));
  for (const ValueId id : graph->inputs) {
    const Value& input = graph->values[id];
    if (!input.shape || input.shape->rank() == 0) continue;
    const int64_t dim = (*input.shape)[0];
    if (is_symbol(dim)) {
      dims.push_back({graph->symbols[symbol_of(dim)], options.batch});
    } else if (dim != options.batch) {
      return fail(Code::InvalidInput,
                  StrCat("the first dimension of input '", input.name, "' is fixed to ", dim,
                         ", so the batch cannot be ", options.batch),
                  "export the model with a symbolic first dimension");
    }
    break;
  }
  return dims;
}

double quantile(const std::vector<double>& sorted, double q) {
  const double at = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(at);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (sorted[above] - sorted[below]) * (at - static_cast<double>(below));
}

Json node_rows(const Session& session, const diag::Profile& profile) {
  Json rows = Json::array();
  const auto plan = session.plan();
  if (!plan) return rows;
  for (size_t i = 0; i < plan->steps.size(); ++i) {
    const plan::Step& step = plan->steps[i];
    if (step.node == kNone) continue;
    const Node& node = session.graph().nodes[step.node];
    const bool device = step.kind == plan::Step::Kind::dispatch;
    std::string kernel = device             ? step.kernel.name
                         : step.host_kernel ? std::string(step.host_kernel->name)
                                            : std::string("reference");
    rows.push_back({{"node", node.name},
                    {"op", node.op->name},
                    {"on", device ? "webgpu" : "cpu"},
                    {"kernel", kernel},
                    {"ms", profile.ms_of(i)},
                    {"nodes", node.origins}});
  }
  return rows;
}

/// Slowest first.
void print_rows(const Json& rows, std::string_view how) {
  double sum = 0;
  std::vector<const Json*> sorted;
  for (const Json& row : rows) {
    sum += row["ms"].get<double>();
    sorted.push_back(&row);
  }
  std::ranges::sort(sorted, std::ranges::greater(), [](const Json* row) { return (*row)["ms"].get<double>(); });
  std::printf("  steps: %.3f ms together%s%s\n", sum, how.empty() ? "" : ", measured by ", std::string(how).c_str());
  for (const Json* row : sorted) {
    const double ms = (*row)["ms"].get<double>();
    std::printf("  %9.3f ms %5.1f%%  %-6s %-40s %s (%s)\n", ms, sum > 0 ? 100 * ms / sum : 0.0,
                (*row)["on"].get<std::string>().c_str(), (*row)["kernel"].get<std::string>().c_str(),
                (*row)["node"].get<std::string>().c_str(), (*row)["op"].get<std::string>().c_str());
  }
}

/// Runs of their own: measuring steps slows them down.
Result<std::shared_ptr<diag::Profile>> profile_runs(const Options& options, Runner& runner, Session& session,
                                                    const std::vector<NamedTensor>& inputs) {
  auto profile = std::make_shared<diag::Profile>();
  if (!options.profile) return profile;
  for (size_t i = 0; i < std::min<size_t>(options.runs, 20); ++i) {
    SINTER_TRY(runner.wait(session.run(inputs, {.cancel = runner.cancel(), .profile = profile})));
  }
  return profile;
}

Result<Outcome> bench(const Options& options) {
  const auto dims = SINTER_TRY(batch_dims(options));
  const auto runner = SINTER_TRY(Runner::make(options.common));
  SessionOptions session_options = options.common.session_options();
  session_options.dims = dims;
  reset_memory_peak();
  const auto session = SINTER_TRY(runner->open(options.model, std::move(session_options)));
  const std::vector<NamedTensor> inputs = SINTER_TRY(make_inputs(*session, {}, dims, 1));
  std::vector<double> times;
  double first_ms = 0;
  for (size_t i = 0; i < 1 + options.warmup + options.runs; ++i) {
    const double start = trace::now_ms();
    const trace::Span warm_up(i <= options.warmup ? &runner->engine().trace() : nullptr, "warm-up");
    SINTER_TRY(runner->wait(session->run(inputs, {.cancel = runner->cancel()})));
    const double ms = trace::now_ms() - start;
    if (i == 0) first_ms = ms;
    if (i > options.warmup) times.push_back(ms);
  }
  std::sort(times.begin(), times.end());
  const SessionReport& report = session->report();
  report_fallbacks(report);
  const double min = times.front(), median = quantile(times, 0.5), p95 = quantile(times, 0.95);
  if (!options.common.json) {
    std::printf(
        "%s on %s\n  load %.2f ms, prepare %.2f ms, first run %.2f ms\n  warm: min %.2f ms, median %.2f ms, p95 %.2f "
        "ms (%zu runs)\n"
        "  peak %.1f MB, %zu dispatches, %zu pipelines\n",
        options.model.c_str(), std::string(plan::name_of(report.backend)).c_str(), report.load_ms, report.prepare_ms,
        first_ms, min, median, p95, times.size(), static_cast<double>(report.peak_bytes) / 1e6, report.dispatches,
        report.pipelines);
  }
  const auto profile = SINTER_TRY(profile_runs(options, *runner, *session, inputs));
  Json nodes = options.profile ? node_rows(*session, *profile) : Json::array();
  if (options.profile && !options.common.json) print_rows(nodes, profile->how());
  return Outcome{{{"model", options.model},
                  {"backend", plan::name_of(report.backend)},
                  {"load_ms", report.load_ms},
                  {"prepare_ms", report.prepare_ms},
                  {"first_ms", first_ms},
                  {"warm_ms", {{"min", min}, {"median", median}, {"p95", p95}}},
                  {"peak_bytes", report.peak_bytes},
                  {"dispatches", report.dispatches},
                  {"pipelines", report.pipelines},
                  {"nodes", nodes},
                  {"profiled_by", options.profile ? Json(profile->how()) : Json()}}};
}

}  // namespace

Verb add_bench(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* verb = app.add_subcommand("bench", "time a model; every run reads its outputs back");
  verb->add_option("MODEL", options->model, "the ONNX file")->required();
  verb->add_option("--runs", options->runs, "timed runs")->check(CLI::Range(1, 1000000))->capture_default_str();
  verb->add_option("--warmup", options->warmup, "runs between the first and the timed ones")
      ->check(CLI::Range(0, 1000000))
      ->capture_default_str();
  verb->add_option("--batch", options->batch, "size of the first dimension")->check(CLI::Range(1, 1 << 20));
  verb->add_flag("--profile", options->profile, "the time of each step, from runs of their own");
  add_common(*verb, options->common);
  return {verb, [options] { return bench(*options); }, [options] { return options->common.json; }};
}

}  // namespace sinter::cli
