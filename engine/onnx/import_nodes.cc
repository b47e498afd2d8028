// SPDX-License-Identifier: Apache-2.0
#include "engine/onnx/import_nodes.h"

#include <algorithm>

#include "engine/base/nearest.h"
#include "engine/base/str.h"
#include "engine/onnx/attributes.h"
#include "engine/onnx/upgrade.h"
#include "engine/ops/annotate.h"

namespace sinter::onnx {
namespace {

class Nodes {
 public:
  explicit Nodes(Importing& state) : state_(state), graph_(state.graph), annotator_(state.graph) {}
  Result<> run();

 private:
  Result<std::vector<size_t>> order() const;
  std::unexpected<Error> cycle(std::span<const std::pair<size_t, size_t>> stack, size_t back_to) const;
  Result<> import_one(size_t index);
  Result<Draft> draft(size_t index) const;
  Result<> add(size_t index, Draft draft);
  /// Collects an Unsupported error; anything else ends the import.
  Result<> refuse(size_t index, Error error);
  Error unknown_operator(const NodeProto& node) const;

  const NodeProto& proto(size_t index) const { return state_.model.graph.nodes[index]; }
  static std::string_view domain_of(const NodeProto& node) { return node.domain == "ai.onnx" ? "" : node.domain; }

  Importing& state_;
  Graph& graph_;
  Annotator annotator_;
};

/// A walk from consumers to producers with an explicit stack, since graphs may be thousands of nodes deep. Nodes that are
/// in order already stay in that order.
Result<std::vector<size_t>> Nodes::order() const {
  enum class Mark : uint8_t { none, open, done };
  const size_t count = state_.model.graph.nodes.size();
  std::vector<Mark> marks(count, Mark::none);
  std::vector<size_t> order;
  std::vector<std::pair<size_t, size_t>> stack;  // node, next input to follow
  for (size_t root = 0; root < count; ++root) {
    if (marks[root] != Mark::none) continue;
    marks[root] = Mark::open;
    stack.push_back({root, 0});
    while (!stack.empty()) {
      auto& [index, next] = stack.back();
      const auto& inputs = proto(index).inputs;
      if (next == inputs.size()) {
        marks[index] = Mark::done;
        order.push_back(index);
        stack.pop_back();
        continue;
      }
      const std::string_view name = inputs[next++];
      if (name.empty()) continue;
      const uint32_t producer = state_.producers[state_.ids.find(name)->second];
      if (producer == kNone || marks[producer] == Mark::done) continue;
      if (marks[producer] == Mark::open) return cycle(stack, producer);
      marks[producer] = Mark::open;
      stack.push_back({producer, 0});
    }
  }
  return order;
}

std::unexpected<Error> Nodes::cycle(std::span<const std::pair<size_t, size_t>> stack, size_t back_to) const {
  constexpr size_t kNamed = 10;
  std::string path;
  size_t named = 0;
  for (size_t i = stack.size(); i-- > 0 && named < kNamed; ++named) {
    StrAppend(path, StrCat("'", state_.node_name(stack[i].first), "' -> "));
    if (stack[i].first == back_to) break;
  }
  // Read from the last node back: each one's output goes to the next.
  return fail(Code::InvalidModel,
              StrCat("the graph has a cycle: ", path, named == kNamed ? "... -> " : "", "'",
                     state_.node_name(stack.back().first), "'"),
              "a node cannot depend on its own output: export the model again");
}

Error Nodes::unknown_operator(const NodeProto& node) const {
  const std::string_view domain = domain_of(node);
  Error error{
      Code::Unsupported, "", {}, "replace the operator in the exported model, or write a row for it (CONTRIBUTING.md)"};
  for (const FunctionName& function : state_.model.functions) {
    if (function.name != node.op) continue;
    error.message = "a function that is defined in the model itself";
    error.hint = "inline the functions before loading: onnx.inliner.inline_local_functions(model)";
    return error;
  }
  if (!domain.empty()) {
    error.message = StrCat("there is no operator ", node.op, " of domain '", domain, "' in this engine");
    if (find_op("", node.op))
      error.hint = "ai.onnx has an operator of this name: export without that domain's optimisations";
    return error;
  }
  const SchemaRow* schema = find_schema(node.op);
  if (schema) {
    error.message =
        StrCat("ONNX has this operator since opset ", schema->first_opset, ", but this engine does not support it yet");
    return error;
  }
  std::vector<std::string_view> names;
  for (const OpDef* op : all_ops()) {
    if (op->domain.empty()) names.push_back(op->name);
  }
  const std::string_view close = nearest(node.op, names);
  error.message = "ONNX has no operator of this name";
  if (!close.empty()) error.hint = StrCat("did you mean ", close, "?");
  return error;
}

Result<> Nodes::refuse(size_t index, Error error) {
  if (error.code != Code::Unsupported) {
    if (error.chain.empty()) {
      error.chain.push_back(StrCat("importing node '", state_.node_name(index), "' (", proto(index).op, ")"));
    }
    return std::unexpected(std::move(error));
  }
  state_.refused.push_back(
      {state_.node_name(index), std::string(proto(index).op), std::move(error.message), std::move(error.hint)});
  return {};
}

Result<Draft> Nodes::draft(size_t index) const {
  const NodeProto& node = proto(index);
  Draft draft{state_.node_name(index),
              std::string(node.op),
              std::string(domain_of(node)),
              SINTER_TRY(import_attributes(node)),
              {},
              {}};
  for (const std::string_view name : node.inputs) {
    draft.inputs.push_back(name.empty() ? kNone : state_.ids.find(name)->second);
  }
  bool first = true;
  const OpDef* op = find_op(domain_of(node), node.op);
  const bool variadic = op && op->max_outputs < 0;  // all outputs count there, read or not
  for (const std::string_view name : node.outputs) {
    const ValueId id = name.empty() ? kNone : state_.ids.find(name)->second;
    const bool keep = id != kNone && (state_.read[id] || first || variadic);
    first &= id == kNone;
    draft.outputs.push_back(keep ? id : kNone);
  }
  while (!draft.inputs.empty() && draft.inputs.back() == kNone) draft.inputs.pop_back();
  while (!draft.outputs.empty() && draft.outputs.back() == kNone) draft.outputs.pop_back();
  return draft;
}

Result<> Nodes::import_one(size_t index) {
  const NodeProto& node = proto(index);
  const std::string_view domain = domain_of(node);
  auto drafted = draft(index);
  if (!drafted) return refuse(index, std::move(drafted).error());
  if (drafted->outputs.empty()) return {};  // it computes nothing
  const int64_t opset = state_.model.opset(domain);
  if (opset == 0 && domain.empty()) {
    return refuse(
        index,
        {Code::InvalidModel, "the model does not import an operator set of ai.onnx", {}, "export the model again"});
  }
  // After a node that is not supported, types are not known: from there on only the operators are looked up.
  bool typed = true;
  for (const ValueId id : drafted->inputs) typed &= id == kNone || graph_.values[id].dtype != DType::undefined;
  std::vector<Draft> drafts;
  auto upgraded = upgrade(graph_, std::move(*drafted), opset, drafts);
  if (!upgraded && !typed) return {};
  if (!upgraded) return refuse(index, std::move(upgraded).error());
  for (Draft& part : drafts) {
    // "sinter" is the engine's own domain; a file has no business in it.
    const OpDef* op = part.domain == "sinter" ? nullptr : find_op(part.domain, part.op);
    if (!op) return refuse(index, unknown_operator(node));
    if (opset != 0 && opset < op->first_opset) {
      return refuse(index, {Code::Unsupported,
                            StrCat("opset ", opset, "; this operator is supported from opset ", op->first_opset),
                            {},
                            "convert the model to a newer opset with onnx.version_converter"});
    }
  }
  if (!typed) return {};
  for (Draft& part : drafts) {
    if (auto added = add(index, std::move(part)); !added) return refuse(index, std::move(added).error());
  }
  return {};
}

Result<> Nodes::add(size_t index, Draft draft) {
  const auto id = static_cast<NodeId>(graph_.nodes.size());
  Node node;
  node.op = find_op(draft.domain, draft.op);
  node.name = std::move(draft.name);
  node.attrs = std::move(draft.attrs);
  node.inputs = std::move(draft.inputs);
  node.outputs = std::move(draft.outputs);
  node.origins.push_back(state_.node_name(index));
  for (const ValueId output : node.outputs) {
    if (output != kNone) graph_.values[output].producer = id;
  }
  graph_.nodes.push_back(std::move(node));
  return annotator_.infer(id);
}

Result<> Nodes::run() {
  for (const size_t index : SINTER_TRY(order())) {
    const NodeProto& node = proto(index);
    if (node.op == "Constant" && domain_of(node).empty()) continue;  // an initialiser by now
    SINTER_CHECK_OK(import_one(index));
  }
  return {};
}

}  // namespace

Result<> import_nodes(Importing& state) { return Nodes(state).run(); }

}  // namespace sinter::onnx
