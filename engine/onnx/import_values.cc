// SPDX-License-Identifier: Apache-2.0
#include "engine/onnx/import_values.h"

#include <algorithm>

#include "engine/base/nearest.h"
#include "engine/base/str.h"
#include "engine/onnx/attributes.h"

namespace sinter::onnx {
namespace {

bool is_constant(const NodeProto& node) {
  return node.op == "Constant" && (node.domain.empty() || node.domain == "ai.onnx");
}

Result<ValueId> define(Importing& state, std::string_view name, std::string_view what) {
  if (name.empty()) return fail(Code::InvalidModel, StrCat(what, " has no name"));
  const auto id = static_cast<ValueId>(state.graph.values.size());
  const auto [at, added] = state.ids.try_emplace(name, id);
  if (!added) {
    const uint32_t producer = state.producers[at->second];
    return fail(Code::InvalidModel,
                StrCat("the name '", name, "' is given twice: to ", what, " and to ",
                       producer == kNone ? "an earlier initialiser or input"
                                         : StrCat("an output of node '", state.node_name(producer), "'")),
                "every value needs a name of its own");
  }
  state.graph.add_value(std::string(name), DType::undefined, std::nullopt);
  state.producers.push_back(kNone);
  return id;
}

void set_constant(Importing& state, ValueId id, Tensor tensor) {
  Value& value = state.graph.values[id];
  value.dtype = tensor.dtype();
  value.shape = tensor.shape();
  value.constant = std::move(tensor);
}

Result<Tensor> load_external(const Importing& state, const TensorProto& tensor) {
  const ExternalRef& ref = tensor.external;
  if (!state.options.external_data) {
    return fail(
        Code::Io,
        StrCat("initialiser '", tensor.name, "' lies in another file, '", ref.location, "', and no files were given"),
        "load the model by its path, or pass its external data");
  }
  SINTER_CHECK_OK(check_external_name(ref.location));
  const FileBytes file = SINTER_TRY(state.options.external_data->open(ref.location));
  if (ref.offset > file.bytes.size() || tensor.bytes > file.bytes.size() - ref.offset) {
    return fail(Code::InvalidModel,
                StrCat("external data '", ref.location, "' is truncated at byte ", file.bytes.size(), ": initialiser '",
                       tensor.name, "' needs ", tensor.bytes, " bytes from byte ", ref.offset),
                "fetch the file again; it must be the one that belongs to this model");
  }
  Shape shape;
  for (const int64_t dim : tensor.dims) shape.push_back(dim);
  return Tensor::view(dtype_of(tensor.data_type), shape, file.bytes.subspan(ref.offset, tensor.bytes), file.owner);
}

Result<> import_initializers(Importing& state) {
  for (const TensorProto& tensor : state.model.graph.initializers) {
    const ValueId id = SINTER_TRY(define(state, tensor.name, "an initialiser"));
    if (!tensor.refusal.empty()) {
      state.refused.push_back({std::string(tensor.name), "", tensor.refusal, "convert the tensor to a supported type"});
    } else if (tensor.is_external) {
      set_constant(state, id, SINTER_TRY(load_external(state, tensor)));
    } else {
      set_constant(state, id, tensor.tensor);
    }
  }
  for (const std::string_view name : state.model.graph.sparse_initializers) {
    SINTER_CHECK_OK(define(state, name, "a sparse initialiser"));
    state.refused.push_back({std::string(name), "", "sparse initialisers", "store the tensor densely"});
  }
  return {};
}

Result<> import_input(Importing& state, const ValueInfoProto& info) {
  const ValueId id = SINTER_TRY(define(state, info.name, "a graph input"));
  state.graph.inputs.push_back(id);
  if (info.kind.empty()) return fail(Code::InvalidModel, StrCat("graph input '", info.name, "' has no type"));
  const DType dtype = info.kind == "tensor" ? dtype_of(info.element_type) : DType::undefined;
  if (dtype == DType::undefined || dtype == DType::string || info.dims.size() > kMaxRank) {
    std::string reason = info.kind != "tensor" ? StrCat("graph input of type ", info.kind)
                         : info.dims.size() > kMaxRank
                             ? StrCat("graph input of ", info.dims.size(), " dimensions; at most ", kMaxRank)
                             : StrCat("graph input of element type ", type_name(info.element_type));
    state.refused.push_back(
        {std::string(info.name), "", std::move(reason), "inputs must be tensors of numbers with up to 8 dimensions"});
    return {};
  }
  state.graph.values[id].dtype = dtype;
  if (!info.has_shape) return {};
  Shape shape;
  for (size_t i = 0; i < info.dims.size(); ++i) {
    const DimProto& dim = info.dims[i];
    if (dim.known) {
      shape.push_back(dim.value);
    } else {
      // An unnamed dimension is free too: it gets a name, so that a caller's shape can bind it.
      shape.push_back(state.graph.symbol(dim.symbol.empty() ? StrCat(info.name, "_dim_", i) : std::string(dim.symbol)));
    }
  }
  state.graph.values[id].shape = shape;
  return {};
}

Result<> import_inputs(Importing& state) {
  const size_t initializers = state.graph.values.size();
  for (const ValueInfoProto& info : state.model.graph.inputs) {
    // Up to IR version 3 every initialiser is listed as an input too; later that makes it an optional input, which nobody
    // can pass here.
    if (const auto at = state.ids.find(info.name); at != state.ids.end() && at->second < initializers) continue;
    SINTER_CHECK_OK(import_input(state, info));
  }
  return {};
}

Result<Tensor> scalar_or_list(std::span<const float> values, const Shape& shape) {
  Tensor tensor = SINTER_TRY(Tensor::alloc(DType::f32, shape, "a constant"));
  std::copy(values.begin(), values.end(), tensor.mutable_data<float>().begin());
  return tensor;
}

Result<Tensor> constant_value(const NodeProto& node) {
  for (const AttributeProto& attribute : node.attributes) {
    if (attribute.name.starts_with("value_string") || attribute.name == "sparse_value") {
      return fail(Code::Unsupported, StrCat("a constant in attribute '", attribute.name, "'"),
                  "use a dense tensor of numbers");
    }
  }
  const Attrs attrs = SINTER_TRY(import_attributes(node));
  if (attrs.size() != 1)
    return fail(Code::InvalidModel, StrCat("a Constant has exactly one value, this one has ", attrs.size()));
  const auto& [name, value] = *attrs.begin();
  if (const Tensor* tensor = std::get_if<Tensor>(&value)) return *tensor;
  if (const float* real = std::get_if<float>(&value)) return Tensor::scalar_f32(*real);
  if (const auto* reals = std::get_if<std::vector<float>>(&value)) {
    return scalar_or_list(*reals, {static_cast<int64_t>(reals->size())});
  }
  if (const auto* integers = std::get_if<std::vector<int64_t>>(&value)) return Tensor::of_i64(*integers);
  const int64_t one[] = {std::get<int64_t>(value)};
  return SINTER_TRY(Tensor::of_i64(one)).reshaped({});
}

Result<> import_constant(Importing& state, size_t index) {
  const NodeProto& node = state.model.graph.nodes[index];
  const std::string where = StrCat("importing node '", state.node_name(index), "' (Constant)");
  if (node.outputs.size() != 1 || node.outputs[0].empty()) {
    return std::unexpected(Error{
        Code::InvalidModel, StrCat("a Constant has one output, this one has ", node.outputs.size()), {where}, ""});
  }
  const ValueId id = SINTER_TRY(define(state, node.outputs[0], StrCat("node '", state.node_name(index), "'")));
  auto value = constant_value(node);
  if (value) {
    set_constant(state, id, std::move(*value));
  } else if (value.error().code == Code::Unsupported) {
    state.refused.push_back({state.node_name(index), "Constant", value.error().message, value.error().hint});
  } else {
    return std::unexpected(std::move(value).error().with_context(where));
  }
  return {};
}

Result<> import_node_outputs(Importing& state) {
  const auto& nodes = state.model.graph.nodes;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (is_constant(nodes[i])) {
      SINTER_CHECK_OK(import_constant(state, i));
      continue;
    }
    for (const std::string_view name : nodes[i].outputs) {
      if (name.empty()) continue;
      const ValueId id =
          SINTER_TRY(define(state, name, StrCat("an output of node '", state.node_name(i), "' (", nodes[i].op, ")")));
      state.producers[id] = static_cast<uint32_t>(i);
    }
  }
  return {};
}

/// "did you mean" for a value's name.
std::string value_hint(const Importing& state, std::string_view name) {
  std::vector<std::string_view> names;
  for (const Value& value : state.graph.values) names.push_back(value.name);
  const std::string_view close = nearest(name, names);
  return close.empty() ? std::string("the model was cut or edited badly: export it again")
                       : StrCat("the closest name is '", close, "'");
}

Result<> mark_read(Importing& state) {
  state.read.assign(state.graph.values.size(), false);
  const auto& nodes = state.model.graph.nodes;
  for (size_t i = 0; i < nodes.size(); ++i) {
    for (const std::string_view name : nodes[i].inputs) {
      if (name.empty()) continue;
      const auto at = state.ids.find(name);
      if (at == state.ids.end()) {
        return fail(Code::InvalidModel,
                    StrCat("node '", state.node_name(i), "' (", nodes[i].op, ") reads '", name,
                           "', which is no input, no initialiser and no output of a node"),
                    value_hint(state, name));
      }
      state.read[at->second] = true;
    }
  }
  if (state.model.graph.outputs.empty()) return fail(Code::InvalidModel, "the graph has no outputs");
  for (const ValueInfoProto& info : state.model.graph.outputs) {
    const auto at = state.ids.find(info.name);
    if (at == state.ids.end()) {
      return fail(Code::InvalidModel, StrCat("nothing computes the graph output '", info.name, "'"),
                  value_hint(state, info.name));
    }
    auto& outputs = state.graph.outputs;
    if (std::find(outputs.begin(), outputs.end(), at->second) != outputs.end()) {
      return fail(Code::InvalidModel, StrCat("the graph output '", info.name, "' is listed twice"));
    }
    outputs.push_back(at->second);
    state.read[at->second] = true;
  }
  return {};
}

}  // namespace

std::string Importing::node_name(size_t index) const {
  const NodeProto& node = model.graph.nodes[index];
  if (!node.name.empty()) return std::string(node.name);
  for (const std::string_view output : node.outputs) {
    if (!output.empty()) return std::string(output);
  }
  return StrCat("#", index);
}

Result<> import_values(Importing& state) {
  SINTER_CHECK_OK(import_initializers(state));
  SINTER_CHECK_OK(import_inputs(state));
  SINTER_CHECK_OK(import_node_outputs(state));
  return mark_read(state);
}

}  // namespace sinter::onnx
