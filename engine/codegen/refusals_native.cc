// SPDX-License-Identifier: Apache-2.0
#include "engine/codegen/refusals.h"

#include "engine/base/str.h"
#include "engine/codegen/literals.h"
#include "engine/codegen/signature.h"
#include "engine/plan/bind.h"
#include "engine/runtime/inputs.h"

namespace sinter::codegen {
namespace {

std::string why_not(const Node& node) {
  if (!node.op->domain.empty() || !find_signature(node.op->name)) return "has no function in the C++ tensor API";
  for (const auto& [name, value] : node.attrs) {
    if (!attribute_literal(value)) return StrCat("attribute '", name, "' has no form in C++");
  }
  return {};
}

void collect(const Graph& graph, const Module& module, std::vector<plan::Refusal>& refusals) {
  for (const Module::Part& part : module.parts) {
    if (part.is_child()) {
      collect(graph, module.children[part.child], refusals);
      continue;
    }
    const Node& node = graph.nodes[part.node];
    std::string reason = why_not(node);
    if (!reason.empty()) {
      refusals.push_back({node.name, std::string(node.op->name), std::move(reason),
                          "load the ONNX file at run time instead: Engine::load"});
    }
  }
}

}  // namespace

Result<> check_expressible(const Graph& graph, const Module& root) {
  std::vector<plan::Refusal> refusals;
  collect(graph, root, refusals);
  const auto bindings = default_bindings(graph, {});
  // Another error than a refusal may come from the sizes that were assumed: it shows where the real ones are known.
  if (bindings && *bindings) (void)plan::bind(graph, **bindings, refusals);
  if (refusals.empty()) return {};
  Error error{Code::Unsupported, "", {}, refusals[0].hint};
  if (refusals.size() > 1) error.message = StrCat(refusals.size(), " nodes are not supported: ");
  for (size_t i = 0; i < refusals.size(); ++i) {
    const plan::Refusal& refusal = refusals[i];
    StrAppend(error.message, StrCat(i ? "; " : "", "node '", refusal.node, "' (", refusal.op, "): ", refusal.reason));
  }
  return std::unexpected(std::move(error));
}

}  // namespace sinter::codegen
