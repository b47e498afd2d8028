// SPDX-License-Identifier: Apache-2.0
// sinter compare MODEL --a SPEC --b SPEC [--svg FILE]
#include "engine/diag/compare.h"

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>

#include "cli/diagnosis.h"
#include "cli/verbs.h"
#include "engine/base/str.h"
#include "engine/diag/plot.h"

namespace sinter::cli {
namespace {

void print_text(const diag::CompareResult& result) {
  std::printf("%-48s %-22s %12s %12s %10s\n", "node", "operator", "max abs", "max rel", "cosine");
  for (const diag::NodeRow& row : result.nodes) {
    if (!row.compared) continue;
    std::printf("%-48s %-22s %12.3g %12.3g %10.6f%s\n", row.node.c_str(), row.op.c_str(), row.max_abs, row.max_rel,
                row.cosine, row.equal ? "" : "  differs");
  }
  if (result.equal) {
    std::printf("equal: every compared node agrees\n");
    return;
  }
  const diag::Difference& first = *result.first;
  std::printf("first difference: node '%s' (%s) at [%s]: %s against %s\n", first.node.c_str(), first.op.c_str(),
              StrJoin(first.index, ",").c_str(), StrCat(first.a).c_str(), StrCat(first.b).c_str());
  for (const std::string& shape : first.shapes) std::printf("  %s\n", shape.c_str());
  if (first.nodes.size() > 1) std::printf("  the fused step of: %s\n", StrJoin(first.nodes, ", ").c_str());
}

struct Options : DiagnosisOptions {
  std::string svg;
};

Result<> write_plot(const Options& options, const diag::CompareResult& result) {
  std::ofstream file(options.svg, std::ios::binary);
  file << diag::plot_svg(result, StrCat(std::filesystem::path(options.model).filename().string(), ": ", options.a,
                                        " against ", options.b));
  file.close();
  if (file) return {};
  return fail(Code::Io, StrCat("cannot write '", options.svg, "': ", std::strerror(errno)),
              "check the folder and the free space");
}

Result<Outcome> compare(const Options& options) {
  Diagnosis diagnosis = SINTER_TRY(start_diagnosis(options));
  const auto result = SINTER_TRY(
      diagnosis.runner->wait(diag::compare(diagnosis.engine, diagnosis.file.source(), diagnosis.a, diagnosis.b,
                                           std::move(diagnosis.inputs), tolerance_for(options, diagnosis))));
  Json nodes = Json::array();
  for (const diag::NodeRow& row : result.nodes) {
    if (!row.compared) continue;
    nodes.push_back({{"node", row.node},
                     {"op", row.op},
                     {"nodes", row.nodes},
                     {"max_abs", number(row.max_abs)},
                     {"max_rel", number(row.max_rel)},
                     {"cosine", number(row.cosine)}});
  }
  if (!options.svg.empty()) SINTER_CHECK_OK(write_plot(options, result));
  if (!options.common.json) print_text(result);
  Outcome outcome{{{"equal", result.equal}, {"first", nullptr}, {"nodes", nodes}, {"runs", result.runs}},
                  result.equal ? kRight : kWrongAnswer};
  if (result.first) outcome.document["first"] = to_json(*result.first);
  add_remarks(outcome.document, result.inert, result.warnings);
  return outcome;
}

}  // namespace

Verb add_compare(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* verb = app.add_subcommand("compare", "run a model in two ways and find the first node that differs");
  verb->add_option("--a", options->a, "the first way: backend=..,fusion=..,off=P+Q")->required()->type_name("SPEC");
  verb->add_option("--b", options->b, "the second way; --inject acts here")->required()->type_name("SPEC");
  verb->add_option("--svg", options->svg, "write a plot of the error at every node")->type_name("FILE");
  add_diagnosis(*verb, *options);
  return {verb, [options] { return compare(*options); }, [options] { return options->common.json; }};
}

}  // namespace sinter::cli
