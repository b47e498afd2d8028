// SPDX-License-Identifier: Apache-2.0
// sinter run MODEL
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>

#include "cli/inputs.h"
#include "cli/runner.h"
#include "cli/verbs.h"
#include "engine/base/str.h"

namespace sinter::cli {
namespace {

struct Options {
  CommonOptions common;
  std::string model, output;
  std::vector<std::string> inputs, dims;
  uint64_t seed = 0;
};

std::vector<std::string> input_warnings(const std::vector<NamedTensor>& inputs) {
  std::vector<std::string> warnings;
  for (const NamedTensor& input : inputs) {
    if (!is_float(input.tensor.dtype())) continue;
    const Statistics found = statistics(input.tensor);
    if (found.nan || found.infinite) {
      warnings.push_back(
          StrCat("input '", input.name, "' holds ", found.nan, " NaN and ", found.infinite, " infinite values"));
    }
  }
  return warnings;
}

Result<> make_folder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) return fail(Code::Io, StrCat("cannot make the folder '", path, "': ", error.message()), "check the path");
  return {};
}

/// The files of one run; two outputs whose names differ only in special characters must not overwrite each other.
std::vector<std::string> output_files(const std::vector<NamedTensor>& outputs) {
  std::vector<std::string> files;
  for (const NamedTensor& output : outputs) {
    std::string name = file_name_of(output.name);
    for (int n = 2; std::find(files.begin(), files.end(), name) != files.end(); ++n)
      name = file_name_of(StrCat(output.name, ".", n));
    files.push_back(name);
  }
  return files;
}

Result<Outcome> run(const Options& options) {
  const auto dims = SINTER_TRY(parse_dims(options.dims));
  const auto runner = SINTER_TRY(Runner::make(options.common));
  SessionOptions session_options = options.common.session_options();
  session_options.dims = dims;
  const auto session = SINTER_TRY(runner->open(options.model, std::move(session_options)));
  std::vector<NamedTensor> inputs = SINTER_TRY(make_inputs(*session, options.inputs, dims, options.seed));
  const std::vector<std::string> warnings = input_warnings(inputs);
  for (const std::string& warning : warnings) warn(warning);

  const double start = trace::now_ms();
  const auto outputs = SINTER_TRY(runner->wait(session->run(std::move(inputs), {.cancel = runner->cancel()})));
  const double run_ms = trace::now_ms() - start;
  const SessionReport& report = session->report();
  report_fallbacks(report);

  Json rows = Json::array();
  const std::vector<std::string> files = output_files(outputs);
  if (!options.output.empty()) SINTER_CHECK_OK(make_folder(options.output));
  for (size_t i = 0; i < outputs.size(); ++i) {
    const auto& [name, tensor] = outputs[i];
    const Statistics s = statistics(tensor);
    rows.push_back({{"name", name},
                    {"dtype", name_of(tensor.dtype())},
                    {"shape", shape_json(tensor.shape())},
                    {"min", number(s.min)},
                    {"max", number(s.max)},
                    {"mean", number(s.mean)},
                    {"nan", s.nan}});
    if (!options.output.empty()) SINTER_CHECK_OK(write_npy_file(options.output + "/" + files[i], tensor));
    if (options.common.json) continue;
    std::printf("%s %s%s min %s max %s mean %s nan %zu\n", name.c_str(), std::string(name_of(tensor.dtype())).c_str(),
                to_string(tensor.shape()).c_str(), StrCat(static_cast<float>(s.min)).c_str(),
                StrCat(static_cast<float>(s.max)).c_str(), StrCat(static_cast<float>(s.mean)).c_str(), s.nan);
  }
  if (!options.common.json) {
    std::printf("%s: load %.1f ms, prepare %.1f ms, run %.1f ms\n", std::string(plan::name_of(report.backend)).c_str(),
                report.load_ms, report.prepare_ms, run_ms);
    for (const SessionReport::CpuStep& step : report.cpu_steps) {
      std::printf("on the CPU: %s (%s): %s\n", step.node.c_str(), step.op.c_str(), step.reason.c_str());
    }
  }
  return Outcome{{{"backend", plan::name_of(report.backend)},
                  {"outputs", rows},
                  {"ms", {{"load", report.load_ms}, {"prepare", report.prepare_ms}, {"run", run_ms}}},
                  {"cpu_steps", cpu_steps(report)},
                  {"inert", report.inert.empty() ? Json() : Json(report.inert)},
                  {"warnings", warnings}}};
}

}  // namespace

Verb add_run(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* verb = app.add_subcommand("run", "run a model on given or random inputs");
  verb->add_option("MODEL", options->model, "the ONNX file")->required();
  verb->add_option("--input", options->inputs, "an input from a .npy file (default: seeded random)")
      ->check(kAssignment)
      ->type_name("NAME=FILE");
  verb->add_option("--dim", options->dims, "the size of a symbolic dimension (default 1)")
      ->check(kAssignment)
      ->type_name("NAME=N");
  verb->add_option("--seed", options->seed, "of the random inputs")->check(kSeed)->capture_default_str();
  verb->add_option("--output", options->output, "write each output to this folder as NAME.npy")->type_name("DIR");
  add_common(*verb, options->common);
  return {verb, [options] { return run(*options); }, [options] { return options->common.json; }};
}

}  // namespace sinter::cli
