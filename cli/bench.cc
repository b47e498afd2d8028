// SPDX-License-Identifier: Apache-2.0
// sinter bench MODEL
#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>

#include "cli/inputs.h"
#include "cli/runner.h"
#include "cli/verbs.h"
#include "engine/base/memory.h"
#include "engine/base/str.h"
#include "engine/diag/profile.h"
#include "engine/diag/roofline.h"

namespace sinter::cli {
namespace {

struct Options {
  CommonOptions common;
  std::string model;
  size_t runs = 20, warmup = 3;
  int64_t batch = 0;
  bool profile = false;
  std::string svg;
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

/// The steps that stand for nodes, with their times.
std::vector<diag::RooflineStep> rows_of(const Session& session, const diag::Profile& profile) {
  std::vector<diag::RooflineStep> rows;
  const auto plan = session.plan();
  if (!plan) return rows;
  const std::vector<diag::StepCost> costs = diag::costs_of(*plan);
  for (size_t i = 0; i < plan->steps.size(); ++i) {
    const plan::Step& step = plan->steps[i];
    if (step.node == kNone) continue;
    const Node& node = session.graph().nodes[step.node];
    diag::RooflineStep row{
        .node = node.name, .op = std::string(node.op->name), .ms = profile.ms_of(i), .cost = costs[i]};
    row.on = step.kind == plan::Step::Kind::dispatch ? "webgpu" : "cpu";
    row.kernel = step.kind == plan::Step::Kind::dispatch ? step.kernel.name
                 : step.host_kernel                      ? std::string(step.host_kernel->name)
                                                         : std::string("reference");
    row.nodes = node.origins;
    rows.push_back(std::move(row));
  }
  return rows;
}

// Amount per millisecond in units of 1e9 per second; 0 where no time was measured.
double per_second(double amount, double ms) { return ms > 0 ? amount / ms * 1e-6 : 0; }
double percent(const diag::Ceilings& ceilings, const diag::RooflineStep& row) {
  return row.ms > 0 ? 100 * ceilings.best_ms(row.cost) / row.ms : 0;
}

Json to_json(const diag::Ceilings& ceilings) {
  Json sets = Json::array();
  for (const auto& at : ceilings.bandwidth) sets.push_back({{"bytes", at.bytes}, {"gb_per_s", at.gb_per_s}});
  return {{"of", ceilings.of},
          {"gflop_per_s", ceilings.gflop_per_s},
          {"bandwidth", sets},
          {"dispatch_ms", ceilings.dispatch_ms}};
}

Json to_json(const std::vector<diag::RooflineStep>& rows, const diag::Ceilings& ceilings) {
  Json nodes = Json::array();
  for (const diag::RooflineStep& row : rows) {
    nodes.push_back({{"node", row.node},
                     {"op", row.op},
                     {"on", row.on},
                     {"kernel", row.kernel},
                     {"ms", row.ms},
                     {"flops", row.cost.flops},
                     {"bytes", row.cost.bytes},
                     {"gflop_per_s", per_second(row.cost.flops, row.ms)},
                     {"gb_per_s", per_second(row.cost.bytes, row.ms)},
                     {"percent_of_ceiling", percent(ceilings, row)},
                     {"nodes", row.nodes}});
  }
  return nodes;
}

/// Slowest first.
void print_rows(std::vector<diag::RooflineStep> rows, const diag::Ceilings& ceilings, std::string_view how) {
  double sum = 0, best = 0;
  for (const diag::RooflineStep& row : rows) {
    sum += row.ms;
    best += ceilings.best_ms(row.cost);
  }
  std::ranges::sort(rows, std::ranges::greater(), &diag::RooflineStep::ms);
  std::printf("  steps: %.3f ms together%s%s\n", sum, how.empty() ? "" : ", measured by ", std::string(how).c_str());
  std::printf("  ceilings of %s: %.1f GFLOP/s", ceilings.of.c_str(), ceilings.gflop_per_s);
  for (const auto& at : ceilings.bandwidth) std::printf("; %.1f GB/s from %g MiB", at.gb_per_s, at.bytes / (1 << 20));
  if (ceilings.dispatch_ms > 0) std::printf("; an empty dispatch %.1f us", ceilings.dispatch_ms * 1000);
  std::printf("\n  at these ceilings the steps would take %.3f ms (%.0f %%)\n", best, sum > 0 ? 100 * best / sum : 0.0);
  std::printf("  %12s %6s %9s %9s %8s\n", "time", "share", "GFLOP/s", "GB/s", "ceiling");
  for (const diag::RooflineStep& row : rows) {
    std::printf("  %9.3f ms %5.1f%% %9.1f %9.1f %7.0f%%  %-6s %-40s %s (%s)\n", row.ms,
                sum > 0 ? 100 * row.ms / sum : 0.0, per_second(row.cost.flops, row.ms),
                per_second(row.cost.bytes, row.ms), percent(ceilings, row), row.on.c_str(), row.kernel.c_str(),
                row.node.c_str(), row.op.c_str());
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

/// Of the device where the plan has steps on one, otherwise of the cores.
Result<diag::Ceilings> measure_ceilings(const Options& options, Runner& runner, const Session& session) {
  if (!options.profile) return diag::Ceilings();
  const auto plan = session.plan();
  const auto& pipelines = runner.engine().pipelines();
  if (!plan || plan->dispatches() == 0 || !pipelines) return diag::cpu_ceilings(runner.engine().pool());
  return runner.wait(diag::device_ceilings(pipelines));
}

Result<> write_roofline(const Options& options, const std::vector<diag::RooflineStep>& rows,
                        const diag::Ceilings& ceilings) {
  if (options.svg.empty()) return {};
  std::ofstream file(options.svg, std::ios::binary);
  file << diag::roofline_svg(rows, ceilings, std::filesystem::path(options.model).filename().string());
  file.close();
  if (file) return {};
  return fail(Code::Io, StrCat("cannot write '", options.svg, "': ", std::strerror(errno)),
              "check the folder and the free space");
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
  const diag::Ceilings ceilings = SINTER_TRY(measure_ceilings(options, *runner, *session));
  const auto rows = options.profile ? rows_of(*session, *profile) : std::vector<diag::RooflineStep>();
  SINTER_CHECK_OK(write_roofline(options, rows, ceilings));
  if (options.profile && !options.common.json) print_rows(rows, ceilings, profile->how());
  return Outcome{{{"model", options.model},
                  {"backend", plan::name_of(report.backend)},
                  {"load_ms", report.load_ms},
                  {"prepare_ms", report.prepare_ms},
                  {"first_ms", first_ms},
                  {"warm_ms", {{"min", min}, {"median", median}, {"p95", p95}}},
                  {"peak_bytes", report.peak_bytes},
                  {"dispatches", report.dispatches},
                  {"pipelines", report.pipelines},
                  {"nodes", to_json(rows, ceilings)},
                  {"ceilings", options.profile ? to_json(ceilings) : Json()},
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
  CLI::Option* profile = verb->add_flag("--profile", options->profile,
                                        "the time of each step, from runs of their own, beside the machine's ceilings");
  verb->add_option("--svg", options->svg, "write a roofline plot of the steps")->type_name("FILE")->needs(profile);
  add_common(*verb, options->common);
  return {verb, [options] { return bench(*options); }, [options] { return options->common.json; }};
}

}  // namespace sinter::cli
