// SPDX-License-Identifier: Apache-2.0
#include "engine/diag/report.h"

#include "engine/base/json.h"
#include "engine/base/str.h"

namespace sinter::diag {
namespace {

using Kind = BisectResult::Kind;

std::string place(const std::vector<int64_t>& index) { return StrCat("[", StrJoin(index, ","), "]"); }

std::string headline(const BisectResult& found) {
  if (found.kind == Kind::patch) {
    return StrCat("pass ", found.pass, ", patch #", found.patch, ", ",
                  found.failure.empty() ? "changes the result" : "makes the model fail", " of ",
                  StrJoin(found.nodes, ", "));
  }
  return StrCat("node '", found.node, "' (", found.op, ") ", found.failure.empty() ? "gives another result" : "fails");
}

// Text for a cell of a table, where a bar would end it.
std::string cell(std::string_view text) {
  std::string out;
  for (const char c : text) out += c == '|' ? std::string("\\|") : c == '\n' ? std::string(" ") : std::string(1, c);
  return out;
}

std::string code_block(std::string_view language, std::string_view text) {
  return StrCat("```", language, "\n", text, text.ends_with('\n') ? "" : "\n", "```\n");
}

std::string difference_text(const BisectResult& found, const Repro& repro) {
  std::string text;
  if (!repro.failure.empty()) {
    text = StrCat("The bad way fails:\n\n", code_block("", repro.failure));
  } else {
    text =
        StrCat("In the cut-out model, output `", repro.output, "` differs in ", repro.differing, " of ", repro.elements,
               " elements, first at ", place(repro.index), ": **", repro.actual, "**, expected **", repro.expected,
               "** (largest difference ", repro.max_abs, " absolute, ", repro.max_rel, " relative).\n");
  }
  if (found.by_nodes) text += "\nThe outputs of the whole model agree: what differs is a value inside it.\n";
  if (found.first) {
    StrAppend(text, StrCat("\nIn the whole model, the output of `", found.first->node, "` differs first at ",
                           place(found.first->index), ": ", found.first->b, ", expected ", found.first->a, ".\n"));
  }
  return text;
}

std::string kernels_text(const Repro& repro) {
  std::string text;
  for (const ReproKernel& kernel : repro.kernels) {
    StrAppend(text, StrCat("* `", kernel.name, "` for `", kernel.node, "`\n"));
  }
  for (const ReproKernel& kernel : repro.kernels) {
    if (kernel.wgsl.empty()) continue;
    StrAppend(text, StrCat("\n<details><summary>WGSL of ", kernel.name, "</summary>\n\n",
                           code_block("wgsl", kernel.wgsl), "\n</details>\n"));
  }
  return text;
}

void json_list(Json& json, std::string_view name, const std::vector<std::string>& items) {
  json.key(name).open('[');
  for (const std::string& item : items) json.value(item);
  json.close(']');
}

void json_text_or_null(Json& json, std::string_view name, const std::string& text) {
  json.key(name);
  if (text.empty()) {
    json.raw("null");
  } else {
    json.value(text);
  }
}

void json_difference(Json& json, std::string_view name, std::string_view where, const std::vector<int64_t>& index,
                     double expected, double actual) {
  json.key(name).open('{').field("at", where).key("index").open('[');
  for (const int64_t i : index) json.number(static_cast<double>(i));
  json.close(']').field("expected", expected).field("actual", actual);
  // NaN and infinity are null above.
  json.field("expected_text", StrCat(expected)).field("actual_text", StrCat(actual)).close('}');
}

}  // namespace

std::string report_markdown(const BisectResult& found, const Repro& repro, const Spec& good, const Spec& bad,
                            const ReportContext& context) {
  std::string text = StrCat("# ", context.model, ": ", headline(found), "\n\n", difference_text(found, repro));
  StrAppend(text, "\n## Where\n\n");
  if (found.kind == Kind::patch) {
    StrAppend(text,
              StrCat("Without patch #", found.patch, " of the passes (applied by `", found.pass,
                     "`) both ways agree, with it they do not. It concerns ", StrJoin(found.nodes, ", "), ".\n\n"));
  } else {
    StrAppend(text,
              StrCat("The difference is there with no pass applied, so the node itself ",
                     found.failure.empty() ? "is computed wrongly: " : "fails: ", StrJoin(found.nodes, ", "), ".\n\n"));
  }
  StrAppend(text,
            StrCat(repro.whole_model ? "The repro is the whole model:\n\n" : "The repro is cut out of the model:\n\n",
                   "| node | operator | attributes | inputs | outputs |\n|---|---|---|---|---|\n"));
  for (const ReproNode& node : repro.nodes) {
    StrAppend(text, StrCat("| `", cell(node.name), "` | ", node.op, " | ", cell(node.attributes), " | ",
                           cell(StrJoin(node.inputs, "<br>")), " | ", cell(StrJoin(node.outputs, "<br>")), " |\n"));
  }
  if (!repro.kernels.empty()) StrAppend(text, StrCat("\n## Kernels of the bad way\n\n", kernels_text(repro)));
  StrAppend(text, StrCat("\n## Configuration\n\n| | |\n|---|---|\n| good | `", to_text(good), "` |\n| bad | `",
                         to_text(bad), "` |\n"));
  if (bad.inject) StrAppend(text, StrCat("| injected | `", cell(bad.inject->node), "=", bad.inject->kind, "` |\n"));
  for (const auto& [name, version] : context.versions) {
    StrAppend(text, StrCat("| ", cell(name), " | ", cell(version), " |\n"));
  }
  for (const std::string& warning : found.warnings) StrAppend(text, StrCat("| warning | ", cell(warning), " |\n"));
  if (!repro.adapter.empty()) StrAppend(text, StrCat("| adapter | ", repro.adapter, " |\n"));
  StrAppend(text, StrCat("| runs | ", found.runs, " to find it, ", repro.tries, " pairs to cut it out |\n"));
  StrAppend(text, "\n## To see it again\n\n");
  StrAppend(text, code_block("sh", StrJoin(context.commands, "\n")));
  return text;
}

std::string report_json(const BisectResult& found, const Repro& repro, const Spec& good, const Spec& bad,
                        const ReportContext& context) {
  Json json;
  json.open('{').field("model", context.model).field("kind", kind_name(found.kind));
  json_text_or_null(json, "pass", found.pass);
  json.key("patch");
  if (found.patch < 0) {
    json.raw("null");
  } else {
    json.number(static_cast<double>(found.patch));
  }
  json_text_or_null(json, "node", found.node);
  json_text_or_null(json, "op", found.op);
  json_list(json, "nodes", found.nodes);
  json.field("runs", found.runs).field("tries", repro.tries).field("judged_by", found.by_nodes ? "nodes" : "outputs");
  json_text_or_null(json, "failure", repro.failure);
  if (found.first) {
    json_difference(json, "in_model", found.first->node, found.first->index, found.first->a, found.first->b);
  }
  if (repro.failure.empty()) {
    json_difference(json, "in_repro", repro.output, repro.index, repro.expected, repro.actual);
    json.field("max_abs", repro.max_abs).field("max_rel", repro.max_rel).field("differing", repro.differing);
  }
  json.key("whole_model").raw(repro.whole_model ? "true" : "false").key("repro").open('[');
  for (const ReproNode& node : repro.nodes) {
    json.open('{').field("node", node.name).field("op", node.op).field("attributes", node.attributes);
    json_list(json, "inputs", node.inputs);
    json_list(json, "outputs", node.outputs);
    json.close('}');
  }
  json.close(']').key("kernels").open('[');
  for (const ReproKernel& kernel : repro.kernels) {
    json.open('{').field("node", kernel.node).field("name", kernel.name);
    json_text_or_null(json, "wgsl", kernel.wgsl);
    json.close('}');
  }
  json.close(']').field("good", to_text(good)).field("bad", to_text(bad));
  json_text_or_null(json, "inject", bad.inject ? StrCat(bad.inject->node, "=", bad.inject->kind) : std::string());
  json.key("versions").open('{');
  for (const auto& [name, version] : context.versions) json.field(name, version);
  json.close('}');
  json_text_or_null(json, "adapter", repro.adapter);
  json_list(json, "commands", context.commands);
  return json.close('}').text();
}

}  // namespace sinter::diag
