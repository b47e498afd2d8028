// SPDX-License-Identifier: Apache-2.0
// sinter bisect MODEL --good SPEC --bad SPEC
#include "engine/diag/bisect.h"

#include <cstdio>
#include <memory>

#include "cli/diagnosis.h"
#include "cli/verbs.h"
#include "engine/base/str.h"

namespace sinter::cli {
namespace {

constexpr Tolerance kDefault{1e-3, 1e-4};

std::string_view kind_name(diag::BisectResult::Kind kind) {
  switch (kind) {
    case diag::BisectResult::Kind::patch:
      return "patch";
    case diag::BisectResult::Kind::node:
      return "node";
    default:
      return "none";
  }
}

void print_text(const diag::BisectResult& result) {
  switch (result.kind) {
    case diag::BisectResult::Kind::none:
      std::printf("both ways agree (%d runs)\n", result.runs);
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
  if (!result.nodes.empty()) std::printf("  nodes: %s\n", StrJoin(result.nodes, ", ").c_str());
  if (!result.failure.empty()) std::printf("  it fails with: %s\n", result.failure.c_str());
}

Result<Outcome> bisect(const DiagnosisOptions& options) {
  Diagnosis diagnosis = SINTER_TRY(start_diagnosis(options));
  const auto result = SINTER_TRY(
      diagnosis.runner->wait(diag::bisect(diagnosis.engine, diagnosis.file.source(), diagnosis.a, diagnosis.b,
                                          std::move(diagnosis.inputs), options.common.tolerance(kDefault))));
  if (!options.common.json) print_text(result);
  const bool none = result.kind == diag::BisectResult::Kind::none;
  Json document = {
      {"kind", kind_name(result.kind)}, {"pass", nullptr},     {"patch", nullptr}, {"node", nullptr}, {"op", nullptr},
      {"nodes", result.nodes},          {"runs", result.runs}, {"repro", nullptr}};
  if (!result.pass.empty()) document["pass"] = result.pass;
  if (result.patch >= 0) document["patch"] = result.patch;
  if (!result.node.empty()) document["node"] = result.node;
  if (!result.op.empty()) document["op"] = result.op;
  return Outcome{std::move(document), none ? kRight : kWrongAnswer};
}

}  // namespace

Verb add_bisect(CLI::App& app) {
  auto options = std::make_shared<DiagnosisOptions>();
  CLI::App* verb = app.add_subcommand("bisect", "find the pass patch or the node that makes two ways differ");
  verb->add_option("--good", options->a, "the way that is right: backend=..,fusion=..,off=P+Q")
      ->required()
      ->type_name("SPEC");
  verb->add_option("--bad", options->b, "the way that is not; --inject acts here")->required()->type_name("SPEC");
  add_diagnosis(*verb, *options);
  return {verb, [options] { return bisect(*options); }, [options] { return options->common.json; }};
}

}  // namespace sinter::cli
