// SPDX-License-Identifier: Apache-2.0
// sinter test DIR...: ONNX backend test directories
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <set>

#include "cli/inputs.h"
#include "cli/runner.h"
#include "cli/verbs.h"
#include "engine/base/str.h"
#include "engine/tensor/compare.h"

namespace sinter::cli {
namespace {

namespace fs = std::filesystem;

struct Options {
  CommonOptions common;
  std::vector<std::string> folders;
  bool skip_unsupported = false;
};

constexpr int kMaxDepth = 8;

Result<> find_cases(const fs::path& folder, int depth, std::vector<fs::path>& cases) {
  std::error_code error;
  if (fs::exists(folder / "model.onnx", error)) {
    cases.push_back(folder);
    return {};
  }
  std::vector<fs::path> inner;
  for (auto it = fs::directory_iterator(folder, error); !error && it != fs::directory_iterator(); it.increment(error)) {
    if (it->is_directory(error)) inner.push_back(it->path());
  }
  if (error)
    return fail(Code::Io, StrCat("cannot read the folder '", folder.string(), "': ", error.message()),
                "check the path");
  std::sort(inner.begin(), inner.end());
  for (const fs::path& path : inner) {
    if (depth < kMaxDepth) SINTER_CHECK_OK(find_cases(path, depth + 1, cases));
  }
  return {};
}

std::vector<fs::path> data_sets(const fs::path& folder) {
  std::vector<fs::path> sets;
  std::error_code error;
  for (auto it = fs::directory_iterator(folder, error); !error && it != fs::directory_iterator(); it.increment(error)) {
    if (it->path().filename().string().starts_with("test_data_set_")) sets.push_back(it->path());
  }
  std::sort(sets.begin(), sets.end());
  return sets;
}

/// input_0.pb, input_1.pb, ... up to the first that is missing.
Result<std::vector<Tensor>> read_all(const fs::path& set, std::string_view prefix) {
  std::vector<Tensor> tensors;
  for (size_t i = 0;; ++i) {
    const fs::path path = set / StrCat(prefix, i, ".pb");
    std::error_code error;
    if (!fs::exists(path, error)) return tensors;
    tensors.push_back(SINTER_TRY(read_tensor_file(path.string())));
  }
}

/// The narrow floats round more: one unit in the last place of theirs is more than f32's tolerance.
Tolerance tolerance_for(DType dtype, const CommonOptions& common) {
  if (dtype == DType::f16) return common.tolerance({5e-3, 1e-3});
  if (dtype == DType::bf16) return common.tolerance({2e-2, 1e-2});
  return common.tolerance({1e-3, 1e-5});
}

class Tester {
 public:
  Tester(const Options& options, std::unique_ptr<Runner> runner) : options_(options), runner_(std::move(runner)) {}

  void run(const fs::path& folder) {
    const std::string name =
        folder.filename().empty() ? folder.parent_path().filename().string() : folder.filename().string();
    std::string backend;
    Json steps = Json::array();
    const Result<std::string> difference = run_sets(folder, backend, steps);
    hung = false;
    const bool passes = difference && difference->empty();
    const bool skips = !difference && difference.error().code == Code::Unsupported && options_.skip_unsupported;
    const std::string status = passes ? "passed" : skips ? "skipped" : "failed";
    std::string reason = difference ? *difference : std::string();
    if (!difference) {
      const Error& error = difference.error();
      reason = StrCat(code_name(error.code), ": ", error.message);
      for (const std::string& context : error.chain) StrAppend(reason, StrCat("; while ", context));
      if (error.code == Code::Cancelled) fatal = error;
      hung = error.code == Code::Timeout;
    }
    (passes ? passed : skips ? skipped : failed)++;
    cases.push_back(
        {{"name", name}, {"status", status}, {"reason", reason}, {"backend", backend}, {"cpu_steps", steps}});
    if (!options_.common.json && status == "failed") std::printf("FAILED %s: %s\n", name.c_str(), reason.c_str());
  }

  void set_runner(std::unique_ptr<Runner> runner) { runner_ = std::move(runner); }

  size_t passed = 0, failed = 0, skipped = 0;
  Json cases = Json::array();
  /// A cancellation ends the whole command.
  std::optional<Error> fatal;
  /// The latest case hung: its engine may still be busy with it.
  bool hung = false;

 private:
  // What differs, with its place; empty where nothing does.
  Result<std::string> run_sets(const fs::path& folder, std::string& backend, Json& steps) {
    const std::vector<fs::path> sets = data_sets(folder);
    if (sets.empty()) return "it has no test_data_set_*";
    const auto session = SINTER_TRY(runner_->open((folder / "model.onnx").string(), options_.common.session_options()));
    for (const fs::path& set : sets) {
      auto difference = run_set(*session, set);
      backend = plan::name_of(session->report().backend);
      steps = cpu_steps(session->report());
      const std::string name = set.filename().string();
      if (!difference) return std::unexpected(std::move(difference).error().with_context(name));
      if (!difference->empty()) return StrCat(name, ": ", *difference);
    }
    return "";
  }

  Result<std::string> run_set(Session& session, const fs::path& set) {
    const std::vector<Tensor> given = SINTER_TRY(read_all(set, "input_"));
    const std::vector<Tensor> expected = SINTER_TRY(read_all(set, "output_"));
    if (given.size() != session.inputs().size() || expected.empty() || expected.size() > session.outputs().size()) {
      return StrCat("it has ", given.size(), " inputs and ", expected.size(), " outputs, the model has ",
                    session.inputs().size(), " and ", session.outputs().size());
    }
    std::vector<NamedTensor> inputs;
    for (size_t i = 0; i < given.size(); ++i) inputs.push_back({session.inputs()[i].name, given[i]});
    const auto outputs = SINTER_TRY(runner_->wait(session.run(std::move(inputs), {.cancel = runner_->cancel()})));
    for (size_t i = 0; i < expected.size(); ++i) {
      const auto& [name, actual] = outputs[i];
      const auto difference = compare(actual, expected[i], tolerance_for(actual.dtype(), options_.common));
      if (!difference) return StrCat("output '", name, "': ", difference.error().message);
      if (!difference->equal()) return StrCat("output '", name, "': ", to_string(*difference, actual.shape()));
    }
    return "";
  }

  const Options& options_;
  std::unique_ptr<Runner> runner_;
};

Result<Outcome> test(const Options& options) {
  std::vector<fs::path> cases;
  for (const std::string& folder : options.folders) SINTER_CHECK_OK(find_cases(folder, 0, cases));
  if (cases.empty()) {
    return fail(Code::InvalidInput, StrCat("no test case in ", StrJoin(options.folders, ", ")),
                "a case is a folder with model.onnx and test_data_set_*/{input,output}_*.pb");
  }
  Tester tester(options, SINTER_TRY(Runner::make(options.common)));
  for (const fs::path& folder : cases) {
    if (tester.hung) tester.set_runner(SINTER_TRY(Runner::make(options.common)));
    tester.run(folder);
    if (tester.fatal) return std::unexpected(*tester.fatal);
  }
  if (!options.common.json)
    std::printf("%zu passed, %zu failed, %zu skipped\n", tester.passed, tester.failed, tester.skipped);
  return Outcome{
      {{"passed", tester.passed}, {"failed", tester.failed}, {"skipped", tester.skipped}, {"cases", tester.cases}},
      tester.failed ? kWrongAnswer : kRight};
}

}  // namespace

Verb add_test(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* verb = app.add_subcommand("test", "run ONNX backend test directories");
  verb->add_option("DIR", options->folders, "test directories, or folders that hold them")->required();
  verb->add_flag("--skip-unsupported", options->skip_unsupported,
                 "count what is not supported as skipped, not as failed");
  add_common(*verb, options->common);
  return {verb, [options] { return test(*options); }, [options] { return options->common.json; }};
}

}  // namespace sinter::cli
