// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "engine/base/str.h"
#include "engine/passes/passes.h"

namespace sinter::passes {
namespace {

Result<> check_names(const std::vector<std::string>& off) {
  for (const std::string& name : off) {
    const auto passes = all_passes();
    if (std::any_of(passes.begin(), passes.end(), [&](const Pass& pass) { return pass.name == name; })) continue;
    std::string known;
    for (const Pass& pass : passes) known += StrCat(known.empty() ? "" : ", ", pass.name);
    return fail(Code::InvalidInput, StrCat("there is no pass named '", name, "'"), StrCat("the passes are: ", known));
  }
  return {};
}

bool enabled(const Pass& pass, const Options& options) {
  if (pass.kind == Kind::fusion && !options.fusion) return false;
  return std::find(options.off.begin(), options.off.end(), pass.name) == options.off.end();
}

// Nodes whose outputs nobody reads any more.
void remove_dead(Graph& graph) {
  const auto order = topological_order(graph);
  if (!order) return;
  std::vector<bool> wanted(graph.values.size());
  for (ValueId output : graph.outputs) wanted[output] = true;
  Patch patch(graph);
  for (size_t i = order->size(); i-- > 0;) {
    const Node& node = graph.nodes[(*order)[i]];
    const bool used = std::any_of(node.outputs.begin(), node.outputs.end(),
                                  [&](ValueId output) { return output != kNone && wanted[output]; });
    if (!used) {
      patch.remove((*order)[i]);
      continue;
    }
    for (ValueId input : node.inputs) {
      if (input != kNone) wanted[input] = true;
    }
  }
  patch.apply();
}

}  // namespace

Result<Report> run(Graph& graph, const Options& options) {
  SINTER_CHECK_OK(check_names(options.off));
  Report report;
  int64_t left = options.stop_after_patch;
  for (const Pass& pass : all_passes()) {
    if (!enabled(pass, options)) continue;
    trace::Span span(options.trace, StrCat("pass ", pass.name));
    Graph before = graph;
    Rewriter rewriter(graph, left);
    auto done = pass.run(rewriter);
    remove_dead(graph);  // a dead reader would keep the next pass from fusing
    if (done) done = verify(graph);
    Report::Row row{std::string(pass.name), rewriter.count(), ""};
    if (!done) {
      // The model still runs without this pass; the report says what happened.
      row.failure = StrCat(done.error().message, " after patch #", rewriter.count());
      graph = std::move(before);
    } else if (left >= 0) {
      left -= rewriter.count();
    }
    span.finish(row.failure.empty() ? StrCat(row.patches, " patches") : row.failure);
    report.rows.push_back(std::move(row));
  }
  return report;
}

}  // namespace sinter::passes
