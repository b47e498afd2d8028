// SPDX-License-Identifier: Apache-2.0
// sinter bisect MODEL --good SPEC --bad SPEC [--repro DIR]
#include "engine/diag/bisect.h"

#include <sys/utsname.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>

#include "cli/diagnosis.h"
#include "cli/verbs.h"
#include "engine/base/str.h"
#include "engine/cpu/kernels.h"
#include "engine/diag/report.h"

namespace sinter::cli {
namespace {

void print_text(const diag::BisectResult& result) {
  switch (result.kind) {
    case diag::BisectResult::Kind::none:
      std::printf("both ways agree at every node that has a value both ways (%d runs)\n", result.runs);
      return;
    case diag::BisectResult::Kind::patch:
      std::printf("patch #%lld, by pass %s, makes the difference (%d runs)\n", static_cast<long long>(result.patch),
                  result.pass.c_str(), result.runs);
      break;
    case diag::BisectResult::Kind::node:
      std::printf("node '%s' (%s) makes the difference (%d runs)\n", result.node.c_str(), result.op.c_str(),
                  result.runs);
      break;
  }
  if (result.by_nodes) std::printf("  the outputs agree; what differs is a value inside the model\n");
  if (!result.nodes.empty()) std::printf("  nodes: %s\n", StrJoin(result.nodes, ", ").c_str());
  if (!result.failure.empty()) std::printf("  it fails with: %s\n", result.failure.c_str());
}

struct Options : DiagnosisOptions {
  std::string repro;
};

Result<> write_file(const std::filesystem::path& path, const std::string& bytes) {
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (file) return {};
  return fail(Code::Io, StrCat("cannot write '", path.string(), "': ", std::strerror(errno)),
              "check the folder and the free space");
}

/// Refuses a folder that is not this command's own, before anything is searched for.
Result<> check_repro(const std::filesystem::path& folder) {
  std::error_code error;
  if (!std::filesystem::exists(folder, error)) return {};
  if (!std::filesystem::is_directory(folder, error)) {
    return fail(Code::Io, StrCat("'", folder.string(), "' is not a folder"), "name a new folder");
  }
  if (std::filesystem::is_empty(folder, error) || std::filesystem::exists(folder / "report.json", error)) return {};
  return fail(Code::Io, StrCat("the folder '", folder.string(), "' holds other files"), "name a new folder");
}

/// What the commands of a report need to show the same again.
std::string limits_of(const CommonOptions& common) {
  std::string text;
  if (common.rtol >= 0) StrAppend(text, StrCat(" --rtol ", common.rtol));
  if (common.atol >= 0) StrAppend(text, StrCat(" --atol ", common.atol));
  if (common.timeout_ms != CommonOptions{}.timeout_ms) StrAppend(text, StrCat(" --timeout ", common.timeout_ms));
  return text;
}

diag::ReportContext report_context(const Options& options, const Diagnosis& diagnosis) {
  diag::ReportContext context;
  context.model = std::filesystem::path(options.model).filename().string();
  utsname system{};
  uname(&system);
  context.versions = {{"sinter", SINTER_VERSION},
                      {"compiler", __VERSION__},
                      {"system", StrCat(system.sysname, " ", system.release, " ", system.machine)},
                      {"CPU kernels", std::string(cpu::instruction_set())}};
  const std::string folder = quoted(options.repro), limits = limits_of(options.common);
  std::string again = StrCat("sinter bisect ", quoted(options.model), " --good ", quoted(to_text(diagnosis.a)),
                             " --bad ", quoted(to_text(diagnosis.b)));
  if (diagnosis.b.inject) {
    StrAppend(again, StrCat(" --inject ", quoted(StrCat(diagnosis.b.inject->node, "=", diagnosis.b.inject->kind))));
  }
  for (const std::string& input : options.inputs) StrAppend(again, StrCat(" --input ", quoted(input)));
  for (const std::string& dim : options.dims) StrAppend(again, StrCat(" --dim ", quoted(dim)));
  if (options.seed) StrAppend(again, StrCat(" --seed ", options.seed));
  context.commands = {StrCat("sinter test ", folder, " ", flags_of(diagnosis.b), limits, "  # fails"),
                      StrCat("sinter test ", folder, " ", flags_of(diagnosis.a), limits, "  # passes"),
                      StrCat(again, limits)};
  return context;
}

Result<diag::Repro> write_repro(const Options& options, Diagnosis& diagnosis, const diag::BisectResult& found,
                                diag::KeptRuns& kept) {
  const std::filesystem::path folder = options.repro;
  // Data of an earlier, larger repro would count as part of the test.
  std::error_code ignored;
  std::filesystem::remove_all(folder / "test_data_set_0", ignored);
  const diag::Repro repro = SINTER_TRY(diagnosis.runner->wait(
      diag::make_repro(diagnosis.engine, diagnosis.file.source(), found, diagnosis.a, diagnosis.b, diagnosis.inputs,
                       tolerance_for(options, diagnosis), &kept)));
  const diag::ReportContext context = report_context(options, diagnosis);
  for (const diag::File& file : repro.files) SINTER_CHECK_OK(write_file(folder / file.name, file.bytes));
  SINTER_CHECK_OK(write_file(folder / "report.md", report_markdown(found, repro, diagnosis.a, diagnosis.b, context)));
  SINTER_CHECK_OK(
      write_file(folder / "report.json", report_json(found, repro, diagnosis.a, diagnosis.b, context) + "\n"));
  return repro;
}

Result<Outcome> bisect(const Options& options) {
  if (!options.repro.empty()) SINTER_CHECK_OK(check_repro(options.repro));
  Diagnosis diagnosis = SINTER_TRY(start_diagnosis(options));
  diag::KeptRuns kept;
  const auto result = SINTER_TRY(
      diagnosis.runner->wait(diag::bisect(diagnosis.engine, diagnosis.file.source(), diagnosis.a, diagnosis.b,
                                          diagnosis.inputs, tolerance_for(options, diagnosis), &kept)));
  if (!options.common.json) print_text(result);
  const bool none = result.kind == diag::BisectResult::Kind::none;
  // What was found stays found where it cannot be cut out.
  std::string no_repro;
  const bool writes = !none && !options.repro.empty();
  if (writes) {
    const auto repro = write_repro(options, diagnosis, result, kept);
    if (!repro) {
      if (repro.error().code == Code::Cancelled) return std::unexpected(repro.error());
      no_repro = to_string(repro.error());
      std::fprintf(stderr, "no repro: %s\n", no_repro.c_str());
    } else if (!options.common.json) {
      std::printf("  repro: %s (%zu nodes, %zu bytes, report.md)\n", options.repro.c_str(), repro->nodes.size(),
                  repro->files[0].bytes.size());
    }
  }
  Json document = {
      {"kind", kind_name(result.kind)}, {"pass", nullptr},     {"patch", nullptr}, {"node", nullptr}, {"op", nullptr},
      {"nodes", result.nodes},          {"runs", result.runs}, {"repro", nullptr}};
  if (!result.pass.empty()) document["pass"] = result.pass;
  if (result.patch >= 0) document["patch"] = result.patch;
  if (!result.node.empty()) document["node"] = result.node;
  if (!result.op.empty()) document["op"] = result.op;
  document["judged_by"] = result.by_nodes ? "nodes" : "outputs";
  if (result.first) document["first"] = to_json(*result.first);
  if (!result.failure.empty()) document["failure"] = result.failure;
  if (writes && no_repro.empty()) document["repro"] = options.repro;
  if (!no_repro.empty()) document["no_repro"] = no_repro;
  add_remarks(document, result.inert, result.warnings);
  return Outcome{std::move(document), none ? kRight : kWrongAnswer};
}

}  // namespace

Verb add_bisect(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* verb = app.add_subcommand("bisect", "find the pass patch or the node that makes two ways differ");
  verb->add_option("--good", options->a, "the way that is right: backend=..,fusion=..,off=P+Q")
      ->required()
      ->type_name("SPEC");
  verb->add_option("--bad", options->b, "the way that is not; --inject acts here")->required()->type_name("SPEC");
  verb->add_option("--repro", options->repro, "write the smallest model that shows the difference, and a report")
      ->check([](const std::string& folder) { return folder.empty() ? "name a folder" : ""; })
      ->type_name("DIR");
  add_diagnosis(*verb, *options);
  return {verb, [options] { return bisect(*options); }, [options] { return options->common.json; }};
}

}  // namespace sinter::cli
