// SPDX-License-Identifier: Apache-2.0
// sinter doctor [MODEL]
#include "engine/diag/doctor.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "cli/inputs.h"
#include "cli/runner.h"
#include "cli/verbs.h"
#include "engine/base/nearest.h"
#include "engine/base/str.h"
#include "engine/gpu/library_info_native.h"
#include "engine/ops/op_def.h"

namespace sinter::cli {
namespace {

struct Options {
  CommonOptions common;
  std::string model, operators = "all";
  std::vector<std::string> inputs, dims;
  uint64_t seed = 0;
};

std::string check_operators(const std::string& text) {
  if (text == "all" || text == "none") return {};
  std::vector<std::string_view> names;
  for (const OpDef* op : all_ops()) names.push_back(op->name);
  for (const std::string& name : CLI::detail::split(text, ',')) {
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    const std::string near{nearest(name, names)};
    return StrCat("there is no operator '", name, "'; ",
                  near.empty() ? std::string("`sinter ops` lists them") : StrCat("did you mean ", near, "?"));
  }
  return {};
}

diag::DoctorOptions doctor_options(const Options& options, const std::vector<std::pair<std::string, int64_t>>& dims) {
  diag::DoctorOptions doctor;
  doctor.session = options.common.session_options();
  doctor.session.dims = dims;
  doctor.backend = doctor.session.backend;
  doctor.tolerance = options.common.tolerance(doctor.tolerance);
  doctor.operators = options.operators != "none";
  if (doctor.operators && options.operators != "all") doctor.only = CLI::detail::split(options.operators, ',');
  const auto library = gpu::webgpu_library_path();
  doctor.versions.push_back({"webgpu_library", library ? *library : StrCat("none: ", library.error().message)});
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
  doctor.features.push_back({"sanitizers", true});
#else
  doctor.features.push_back({"sanitizers", false});
#endif
  doctor.inputs = [options, dims](const Session& session) {
    return make_inputs(session, options.inputs, dims, options.seed);
  };
  return doctor;
}

void print_build(const diag::DoctorReport& report) {
  for (const diag::Fact& fact : report.versions) {
    std::printf("%-16s %s\n", fact.name.c_str(), fact.value.c_str());
  }
  std::printf("%-16s", "features");
  for (const diag::Switch& feature : report.features) {
    std::printf(" %s %s,", feature.name.c_str(), feature.on ? "on" : "off");
  }
  std::printf(" %u CPU thread%s\n%-16s %s (of %s)\n", report.threads, report.threads == 1 ? "" : "s", "instructions",
              report.instruction_set.c_str(), StrJoin(report.instruction_sets, ", ").c_str());
}

void print_adapter(const diag::AdapterReport& adapter) {
  if (!adapter.available) {
    std::printf("%-16s none: %s\n", "adapter", adapter.reason.c_str());
    return;
  }
  const wgsl::Target& limits = adapter.limits;
  std::printf("%-16s %s (%s), %s, driver: %s%s\n", "adapter", adapter.info.device.c_str(), adapter.info.vendor.c_str(),
              adapter.info.backend.c_str(), adapter.info.description.c_str(),
              adapter.info.software ? ", computes in software" : "");
  std::printf("%-16s %s\n", "adapter features", StrJoin(adapter.features, ", ").c_str());
  std::printf("%-16s %u storage buffers, bindings of %.0f MiB, buffers of %.0f MiB, %u threads a group, %u groups\n",
              "adapter limits", limits.max_storage_buffers, static_cast<double>(limits.max_binding_bytes) / 1048576,
              static_cast<double>(limits.max_buffer_bytes) / 1048576, limits.max_invocations, limits.max_groups);
  std::printf("%-16s %s (%.1f ms at first, %.1f ms warm)\n", "self-test",
              adapter.right ? "the device computes right values" : adapter.wrong.c_str(), adapter.first_ms,
              adapter.warm_ms);
}

void print_cases(const std::vector<diag::BackendCases>& backends) {
  if (backends.empty()) return;
  std::printf("\n%-10s %6s %7s %7s %8s %12s %11s %9s\n", "operators", "cases", "passed", "failed", "skipped",
              "worst error", "of allowed", "ms");
  for (const diag::BackendCases& backend : backends) {
    const diag::CaseNumbers& n = backend.total;
    std::printf("%-10s %6zu %7zu %7zu %8zu %12.3g %10.0f%% %9.0f  %s\n",
                std::string(plan::name_of(backend.backend)).c_str(), n.cases, n.passed, n.failed, n.skipped,
                n.worst_abs, n.worst * 100, n.ms, n.worst_case.c_str());
  }
  for (const diag::BackendCases& backend : backends) {
    for (const diag::CaseFailure& failure : backend.failures) {
      std::printf("failed on %s: %s '%s': %s\n", std::string(plan::name_of(backend.backend)).c_str(),
                  failure.op.c_str(), failure.name.c_str(), failure.reason.c_str());
    }
    if (!backend.stopped.empty()) std::printf("stopped %s\n", backend.stopped.c_str());
  }
}

void print_model(const diag::DoctorReport& report) {
  if (!report.model) return;
  const diag::ModelReport& model = *report.model;
  std::vector<std::string> opsets;
  for (const auto& [domain, version] : model.opsets) opsets.push_back(StrCat(domain, " ", version));
  std::printf("\n%-16s %s: made by %s %s, IR %lld, opset %s, %zu nodes, %.2f MB\n", "model", model.name.c_str(),
              model.producer.empty() ? "an unnamed tool" : model.producer.c_str(), model.producer_version.c_str(),
              static_cast<long long>(model.ir), StrJoin(opsets, ", ").c_str(), model.nodes,
              static_cast<double>(model.bytes) / 1e6);
}

void print_stages(const diag::DoctorReport& report) {
  if (report.stages.empty()) return;
  std::printf("\n%-10s %-34s %10s\n", "backend", "stage", "ms");
  for (const diag::StageRow& row : report.stages) {
    const std::string stage = StrCat(std::string(2 * row.depth, ' '), row.stage);
    std::printf("%-10s %-34s %10.2f  %s%s%s\n", row.backend.empty() ? "-" : row.backend.c_str(), stage.c_str(), row.ms,
                row.detail.c_str(), row.ended ? "" : " (did not end)",
                row.error.empty() ? "" : StrCat("  FAILED: ", row.error).c_str());
  }
}

void print_runs(const diag::DoctorReport& report) {
  if (report.runs.empty()) return;
  std::printf("\n%-10s %10s %10s %12s  %s\n", "backend", "first ms", "warm ms", "max abs", "against the reference");
  for (const diag::ModelRun& run : report.runs) {
    const std::string name(plan::name_of(run.backend));
    if (run.error) {
      std::printf("%-10s failed\n%s\n", name.c_str(), to_string(*run.error).c_str());
      continue;
    }
    std::printf("%-10s %10.1f %10.1f %12.3g  %s%s\n", name.c_str(), run.first_ms, run.warm_ms, run.max_abs,
                run.agrees ? "agrees" : run.difference.c_str(),
                run.cpu_steps.empty() ? "" : StrCat("; ", run.cpu_steps.size(), " steps on the CPU").c_str());
  }
}

void print_text(const diag::DoctorReport& report) {
  print_build(report);
  print_adapter(report.adapter);
  print_cases(report.self_test);
  print_model(report);
  print_stages(report);
  print_runs(report);
  std::printf("\nverdict: %s\n", report.verdict.c_str());
  if (!report.hint.empty()) std::printf("hint: %s\n", report.hint.c_str());
}

Result<Outcome> doctor(const Options& options) {
  const auto dims = SINTER_TRY(parse_dims(options.dims));
  diag::DoctorOptions doctor = doctor_options(options, dims);
  const auto runner = SINTER_TRY(Runner::make(options.common));
  doctor.cancel = runner->cancel();
  ModelFile file;
  if (!options.model.empty()) {
    const double start = trace::now_ms();
    file = SINTER_TRY(open_model_file(options.model, &runner->engine().trace()));
    doctor.fetch_ms = trace::now_ms() - start;
    doctor.model = file.source();
    doctor.model_name = options.model;
  }
  const auto report = SINTER_TRY(runner->wait(diag::doctor(runner->shared_engine(), std::move(doctor))));
  if (!options.common.json) print_text(report);
  // A name in a model need not be UTF-8, which a document must be.
  return Outcome{Json::parse(replace_bad_utf8(diag::to_json(report))), report.healthy ? kRight : kWrongAnswer};
}

}  // namespace

Verb add_doctor(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* verb = app.add_subcommand("doctor", "test this machine, and each stage of a model on it");
  verb->add_option("MODEL", options->model, "an ONNX file to look at");
  verb->add_option("--operators", options->operators, "operators whose own cases to run: all, none, or names")
      ->check(CLI::Validator(check_operators, "all|none|NAMES", "operators"))
      ->type_name("NAME[,NAME]")
      ->capture_default_str();
  verb->add_option("--input", options->inputs, "an input from a .npy file (default: seeded random)")
      ->check(kAssignment)
      ->type_name("NAME=FILE");
  verb->add_option("--dim", options->dims, "the size of a symbolic dimension (default 1)")
      ->check(kAssignment)
      ->type_name("NAME=N");
  verb->add_option("--seed", options->seed, "of the random inputs")->check(kSeed)->capture_default_str();
  add_common(*verb, options->common);
  return {verb, [options] { return doctor(*options); }, [options] { return options->common.json; }};
}

}  // namespace sinter::cli
