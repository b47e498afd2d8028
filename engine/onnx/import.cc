// SPDX-License-Identifier: Apache-2.0
#include "engine/onnx/import.h"

#include <algorithm>

#include "engine/base/str.h"
#include "engine/onnx/import_nodes.h"
#include "engine/onnx/import_values.h"

namespace sinter::onnx {
namespace {

Result<> check_versions(const Model& model) {
  if (model.ir_version < 3 || model.ir_version > kNewestIr) {
    return fail(Code::Unsupported,
                StrCat("the model has IR version ", model.ir_version, "; versions 3 to ", kNewestIr, " are supported"),
                model.ir_version < 3 ? "it is older than opset 7: convert it with onnx.version_converter"
                                     : "export it with an older IR version, or use a newer release of this engine");
  }
  for (const Opset& opset : model.opsets) {
    if (!opset.domain.empty()) continue;
    if (opset.version >= kOldestOpset && opset.version <= newest_opset()) return {};
    return fail(Code::Unsupported,
                StrCat("the model uses opset ", opset.version, " of ai.onnx; opsets ", kOldestOpset, " to ",
                       newest_opset(), " are supported"),
                "convert it: onnx.version_converter.convert_version(model, 13), or export it again with such an opset");
  }
  return {};
}

/// "node 'a' (Foo): why" or, for several alike, "Foo: why (nodes 'a', 'b')".
std::string describe_alike(std::span<const RefusedNode* const> alike) {
  constexpr size_t kNamed = 20;
  const RefusedNode& first = *alike[0];
  if (alike.size() == 1) {
    return first.op.empty() ? StrCat("'", first.node, "': ", first.reason)
                            : StrCat("node '", first.node, "' (", first.op, "): ", first.reason);
  }
  std::string text = StrCat(first.op, first.op.empty() ? "" : ": ", first.reason, " (", alike.size(), " of them: ");
  for (size_t i = 0; i < alike.size() && i < kNamed; ++i) StrAppend(text, StrCat(i ? ", '" : "'", alike[i]->node, "'"));
  return text + (alike.size() > kNamed ? ", ...)" : ")");
}

/// One error for all refused nodes, alike ones together.
std::unexpected<Error> unsupported(const std::vector<RefusedNode>& refused) {
  Error error{Code::Unsupported, "", {}, ""};
  if (refused.size() > 1) error.message = StrCat(refused.size(), " parts of the model are not supported: ");
  std::vector<std::vector<const RefusedNode*>> groups;
  std::vector<std::string_view> hints;
  for (const RefusedNode& r : refused) {
    const auto same = [&](const auto& group) { return group[0]->op == r.op && group[0]->reason == r.reason; };
    auto at = std::find_if(groups.begin(), groups.end(), same);
    if (at == groups.end()) at = groups.emplace(groups.end());
    at->push_back(&r);
    if (!r.hint.empty() && std::find(hints.begin(), hints.end(), r.hint) == hints.end()) hints.push_back(r.hint);
  }
  for (size_t i = 0; i < groups.size(); ++i) StrAppend(error.message, StrCat(i ? "; " : "", describe_alike(groups[i])));
  for (size_t i = 0; i < hints.size() && i < 3; ++i) StrAppend(error.hint, StrCat(i ? "; " : "", hints[i]));
  return std::unexpected(std::move(error));
}

/// What the model declares fills in what inference could not know; an element type that disagrees is an error.
Result<> declare_output(Graph& graph, ValueId id, const ValueInfoProto& info) {
  Value& value = graph.values[id];
  const DType declared = dtype_of(info.element_type);
  if (info.kind != "tensor" || declared == DType::undefined) return {};
  if (value.dtype == DType::undefined) value.dtype = declared;
  if (value.dtype != declared) {
    return fail(Code::InvalidModel, StrCat("graph output '", info.name, "' is declared ", name_of(declared),
                                           " but computed as ", name_of(value.dtype)));
  }
  if (!info.has_shape || info.dims.size() > kMaxRank || (value.shape && value.shape->rank() != info.dims.size()))
    return {};
  if (!value.shape) value.shape = Shape::filled(info.dims.size(), kUnknownDim);
  for (size_t i = 0; i < info.dims.size(); ++i) {
    int64_t& dim = (*value.shape)[i];
    if (dim != kUnknownDim) continue;
    if (info.dims[i].known) {
      dim = info.dims[i].value;
    } else if (!info.dims[i].symbol.empty()) {
      // Only a symbol that an input binds can have a value.
      const auto& symbols = graph.symbols;
      const auto at = std::find(symbols.begin(), symbols.end(), info.dims[i].symbol);
      if (at != symbols.end()) dim = symbol_dim(static_cast<uint32_t>(at - symbols.begin()));
    }
  }
  return {};
}

}  // namespace

Result<Graph> import(const Model& model, const ImportOptions& options) {
  SINTER_CHECK_OK(check_versions(model));
  Importing state{model, options};
  state.graph.name = std::string(model.graph.name);
  SINTER_CHECK_OK(import_values(state));
  SINTER_CHECK_OK(import_nodes(state));
  if (!state.refused.empty()) {
    auto error = unsupported(state.refused);
    if (options.refused) *options.refused = std::move(state.refused);
    return error;
  }
  for (size_t i = 0; i < model.graph.outputs.size(); ++i) {
    SINTER_CHECK_OK(declare_output(state.graph, state.graph.outputs[i], model.graph.outputs[i]));
  }
  SINTER_CHECK_OK(verify(state.graph));
  return std::move(state.graph);
}

}  // namespace sinter::onnx
