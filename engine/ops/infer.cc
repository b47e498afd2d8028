// SPDX-License-Identifier: Apache-2.0
#include "engine/ops/infer.h"

#include "engine/base/failure.h"
#include "engine/base/str.h"
#include "engine/ops/print.h"

namespace sinter {
namespace {

std::string describe_inputs(std::span<const TensorInfo> inputs) {
  std::string text;
  for (const TensorInfo& info : inputs) {
    if (!text.empty()) text += ", ";
    if (!info.present) {
      text += "absent";
    } else {
      text += StrCat(name_of(info.dtype), info.shape ? to_string(*info.shape) : std::string("[rank ?]"));
    }
  }
  return text;
}

Result<> check_arity(const Node& node) {
  const OpDef& op = *node.op;
  const int inputs = static_cast<int>(node.inputs.size());
  const int outputs = static_cast<int>(node.outputs.size());
  const bool extra_inputs_allowed = op.max_inputs < 0 || !node.expr.empty();
  if (inputs < op.min_inputs || (!extra_inputs_allowed && inputs > op.max_inputs)) {
    return fail(Code::InvalidModel,
                StrCat(op.name, " takes ", op.min_inputs, " to ", op.max_inputs, " inputs, got ", inputs));
  }
  for (int i = 0; i < op.min_inputs; ++i) {
    if (node.inputs[i] == kNone) return fail(Code::InvalidModel, StrCat(op.name, ": required input ", i, " is absent"));
  }
  if (outputs < op.min_outputs || (op.max_outputs >= 0 && outputs > op.max_outputs)) {
    return fail(Code::InvalidModel,
                StrCat(op.name, " gives ", op.min_outputs, " to ", op.max_outputs, " outputs, got ", outputs));
  }
  return {};
}

// Known dimensions win; two different known ones are a contradiction.
bool merge_shape(std::optional<Shape>& declared, const std::optional<Shape>& inferred) {
  if (!inferred) return true;
  if (!declared) {
    declared = inferred;
    return true;
  }
  if (declared->rank() != inferred->rank()) return false;
  for (size_t i = 0; i < declared->rank(); ++i) {
    const int64_t a = (*declared)[i], b = (*inferred)[i];
    if (is_known(a) && is_known(b) && a != b) return false;
    if (is_known(b) || a == kUnknownDim) (*declared)[i] = b;
  }
  return true;
}

}  // namespace

std::string describe(const Node& node) { return StrCat("node '", node.name, "' (", node.op->name, ")"); }

bool addressable(const Shape& shape) {
  constexpr int64_t kMaxElements = int64_t{1} << 42;
  const auto numel = checked_numel(shape);
  return numel && *numel <= kMaxElements;
}

Result<std::vector<TensorInfo>> infer_node(const Node& node, std::span<const TensorInfo> inputs, bool concrete) {
  std::vector<TensorInfo> outputs(node.outputs.size());
  const auto with_context = [&](Error error) {
    Failure place;
    place.node = node.name;
    place.op = node.op->name;
    place.attributes = print(node.attrs);
    return std::unexpected(
        at(std::move(error), std::move(place))
            .with_context(StrCat("inferring shapes of ", describe(node), " from ", describe_inputs(inputs))));
  };
  if (auto arity = check_arity(node); !arity) return with_context(std::move(arity).error());
  InferContext ctx{node, inputs, outputs, concrete};
  if (auto done = node.op->infer(ctx); !done) return with_context(std::move(done).error());
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (node.outputs[i] == kNone) continue;
    if (outputs[i].dtype == DType::undefined) {
      return with_context(Error{Code::Internal, StrCat("no dtype inferred for output ", i), {}, ""});
    }
    if (concrete && (!outputs[i].shape || !outputs[i].shape->is_static())) {
      return with_context(Error{Code::Unsupported,
                                StrCat("the shape of output ", i, " depends on data that is known only while running"),
                                {},
                                "give the shape operand as a constant or as a graph input"});
    }
    if (concrete && !addressable(*outputs[i].shape)) {
      return with_context(
          Error{Code::OutOfMemory, to_string(*outputs[i].shape) + " elements are more than any memory holds", {}, ""});
    }
  }
  return outputs;
}

Result<> infer_shapes(Graph& graph) {
  for (NodeId id : SINTER_TRY(topological_order(graph))) {
    const Node& node = graph.nodes[id];
    std::vector<TensorInfo> inputs(node.inputs.size());
    std::vector<Tensor> aligned(node.inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      inputs[i].present = node.inputs[i] != kNone;
      if (!inputs[i].present) continue;
      const Value& value = graph.values[node.inputs[i]];
      inputs[i].dtype = value.dtype;
      inputs[i].shape = value.shape;
      if (value.constant && value.constant.nbytes() <= kMaxInferredConstantBytes) {
        aligned[i] = SINTER_TRY(value.constant.aligned());
        inputs[i].constant = &aligned[i];
      }
    }
    std::vector<TensorInfo> outputs = SINTER_TRY(infer_node(node, inputs, false));
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (node.outputs[i] == kNone) continue;
      Value& value = graph.values[node.outputs[i]];
      const bool dtype_agrees = value.dtype == DType::undefined || value.dtype == outputs[i].dtype;
      if (!dtype_agrees || !merge_shape(value.shape, outputs[i].shape)) {
        return fail(Code::InvalidModel, StrCat("value '", value.name, "' is declared ", name_of(value.dtype),
                                               value.shape ? to_string(*value.shape, graph.symbols) : "", " but ",
                                               describe(node), " gives ", name_of(outputs[i].dtype),
                                               outputs[i].shape ? to_string(*outputs[i].shape, graph.symbols) : ""));
      }
      value.dtype = outputs[i].dtype;
    }
  }
  return {};
}

Result<std::vector<Tensor>> run_reference(const Node& node, std::span<const Tensor* const> inputs,
                                          std::span<const TensorInfo> outputs) {
  std::vector<Tensor> results(outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (node.outputs[i] == kNone) continue;
    results[i] = SINTER_TRY(Tensor::alloc(outputs[i].dtype, *outputs[i].shape, describe(node)));
  }
  if (auto done = node.op->reference(RefContext{node, inputs, results}); !done) {
    return std::unexpected(
        std::move(done).error().with_context(StrCat("running ", describe(node), " on the reference backend")));
  }
  return results;
}

}  // namespace sinter
