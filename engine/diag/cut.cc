// SPDX-License-Identifier: Apache-2.0
#include "engine/diag/cut.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "engine/base/str.h"
#include "engine/diag/proto.h"
#include "engine/onnx/parse.h"
#include "engine/ops/op_def.h"
#include "engine/plan/plan.h"

namespace sinter::diag {
namespace {

constexpr int64_t kFirstIrWithFreeInitializers = 4;  // older files list initialisers as inputs too

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string name_of(const onnx::NodeProto& node) {
  if (!node.name.empty()) return std::string(node.name);
  for (const std::string_view output : node.outputs) {
    if (!output.empty()) return std::string(output);
  }
  return {};
}

// The NodeProtos of a file, in its order.
Result<std::vector<std::span<const std::byte>>> raw_nodes(std::span<const std::byte> file) {
  std::vector<std::span<const std::byte>> nodes;
  onnx::Wire model(file, "the model");
  while (!model.done()) {
    const onnx::Field field = SINTER_TRY(model.next());
    if (field.number != 7) continue;
    onnx::Wire graph = SINTER_TRY(model.message(field, "the graph"));
    while (!graph.done()) {
      const onnx::Field inner = SINTER_TRY(graph.next());
      if (inner.number == 1) nodes.push_back(SINTER_TRY(graph.payload(inner)));
    }
  }
  return nodes;
}

Proto tensor_proto(std::string_view name, const Tensor& tensor) {
  Proto proto;
  for (const int64_t dim : tensor.shape()) proto.integer(1, dim);
  return proto.integer(2, static_cast<int64_t>(tensor.dtype())).bytes(8, name).bytes(9, as_text(tensor.bytes()));
}

Proto value_info(const NamedTensor& value) {
  Proto info;
  info.bytes(1, value.name);
  if (!value.tensor) return info;
  Proto shape;
  for (const int64_t dim : value.tensor.shape()) shape.message(1, Proto().integer(1, dim));
  const Proto tensor = Proto().integer(1, static_cast<int64_t>(value.tensor.dtype())).message(2, shape);
  return info.message(2, Proto().message(1, tensor));
}

void copy_field(Proto& out, const onnx::Field& field) {
  switch (field.type) {
    case onnx::WireType::varint:
      out.integer(field.number, static_cast<int64_t>(field.value));
      break;
    case onnx::WireType::bytes:
      out.bytes(field.number, as_text(field.bytes));
      break;
    case onnx::WireType::fixed32:
      out.fixed32(field.number, static_cast<uint32_t>(field.value));
      break;
    case onnx::WireType::fixed64:
      out.fixed64(field.number, field.value);
      break;
  }
}

// A NodeProto with another value of its attribute `group`.
Result<std::string> with_group(const std::string& bytes, int64_t group) {
  Proto out;
  onnx::Wire node(std::as_bytes(std::span(bytes)), "a node");
  while (!node.done()) {
    const onnx::Field field = SINTER_TRY(node.next());
    bool is_group = false;
    if (field.number == 5) {
      onnx::Wire attribute = SINTER_TRY(node.message(field, "an attribute"));
      while (!attribute.done()) {
        const onnx::Field inner = SINTER_TRY(attribute.next());
        is_group |= inner.number == 1 && as_text(inner.bytes) == "group";
      }
    }
    if (is_group) {
      out.message(5, Proto().bytes(1, "group").integer(3, group).integer(20, 2));
    } else {
      copy_field(out, field);
    }
  }
  return out.text();
}

// The elements [0, to) or [extent - to, extent) of one axis.
Result<Tensor> sliced(const Tensor& tensor, size_t axis, int64_t to, bool keep_last) {
  Shape shape = tensor.shape();
  const int64_t extent = shape[axis];
  shape[axis] = to;
  Tensor out = SINTER_TRY(Tensor::alloc(tensor.dtype(), shape, "a smaller input"));
  size_t outer = 1, inner = size_of(tensor.dtype());
  for (size_t i = 0; i < axis; ++i) outer *= static_cast<size_t>(shape[i]);
  for (size_t i = axis + 1; i < shape.rank(); ++i) inner *= static_cast<size_t>(shape[i]);
  const size_t skip = keep_last ? static_cast<size_t>(extent - to) * inner : 0;
  for (size_t i = 0; i < outer; ++i) {
    std::memcpy(out.mutable_bytes().data() + i * static_cast<size_t>(to) * inner,
                tensor.bytes().data() + i * static_cast<size_t>(extent) * inner + skip,
                static_cast<size_t>(to) * inner);
  }
  return out;
}

std::string attribute_value(const onnx::AttributeProto& attribute) {
  switch (attribute.kind) {
    case onnx::AttrKind::real:
      return StrCat(attribute.f);
    case onnx::AttrKind::integer:
      return StrCat(attribute.i);
    case onnx::AttrKind::text:
      return StrCat('"', attribute.s, '"');
    case onnx::AttrKind::reals:
      return StrCat("[", StrJoin(attribute.floats, ","), "]");
    case onnx::AttrKind::integers:
      return StrCat("[", StrJoin(attribute.ints, ","), "]");
    case onnx::AttrKind::texts:
      return StrCat("[", StrJoin(attribute.strings, ","), "]");
    default:
      return StrCat("(", onnx::name_of(attribute.kind), ")");
  }
}

}  // namespace

std::string tensor_bytes(std::string_view name, const Tensor& tensor) { return tensor_proto(name, tensor).text(); }

std::string Cut::model() const {
  Proto graph;
  for (const CutNode& node : nodes) graph.bytes(1, node.bytes);
  graph.bytes(2, "cut");
  for (const NamedTensor& constant : constants) graph.message(5, tensor_proto(constant.name, constant.tensor));
  for (const NamedTensor& input : inputs) graph.message(11, value_info(input));
  for (const NamedTensor& output : outputs) graph.message(12, value_info(output));
  Proto model;
  model.integer(1, ir_version).bytes(2, "sinter bisect").message(7, graph);
  for (const auto& [domain, version] : opsets) model.message(8, Proto().bytes(1, domain).integer(2, version));
  return model.text();
}

std::vector<File> Cut::files() const {
  std::vector<File> files = {{"model.onnx", model()}};
  for (const auto* list : {&inputs, &outputs}) {
    const std::string_view prefix = list == &inputs ? "input_" : "output_";
    for (size_t i = 0; i < list->size(); ++i) {
      files.push_back({StrCat("test_data_set_0/", prefix, i, ".pb"), tensor_bytes((*list)[i].name, (*list)[i].tensor)});
    }
  }
  return files;
}

Result<Cutter> Cutter::make(const ModelSource& source) {
  Cutter cutter;
  cutter.model_ = SINTER_TRY(onnx::parse(source.bytes, source.owner));
  cutter.raw_ = SINTER_TRY(raw_nodes(source.bytes));
  SessionOptions plain;
  plain.backend = BackendChoice::reference;
  cutter.graph_ = SINTER_TRY(load_graph(source, plain, nullptr));
  const Graph& graph = *cutter.graph_;
  cutter.constant_ = constant_values(graph);
  for (ValueId id = 0; id < graph.values.size(); ++id) cutter.ids_.emplace(graph.values[id].name, id);
  std::map<std::string, size_t> by_name;
  const auto& nodes = cutter.model_.graph.nodes;
  for (size_t i = 0; i < nodes.size(); ++i) by_name.emplace(name_of(nodes[i]), i);
  std::vector<bool> listed(nodes.size());
  for (NodeId id : SINTER_TRY(topological_order(graph))) {
    for (const std::string& origin : graph.nodes[id].origins) {
      const auto at = by_name.find(origin);
      if (at == by_name.end() || listed[at->second]) continue;
      listed[at->second] = true;
      cutter.order_.push_back(at->second);
    }
  }
  return cutter;
}

size_t Cutter::index_of(std::string_view node) const {
  const auto& nodes = model_.graph.nodes;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (name_of(nodes[i]) == node) return i;
  }
  return nodes.size();
}

std::string Cutter::attributes_of(std::string_view node) const {
  const size_t index = index_of(node);
  if (index == model_.graph.nodes.size()) return {};
  std::vector<std::string> parts;
  for (const onnx::AttributeProto& attribute : model_.graph.nodes[index].attributes) {
    parts.push_back(StrCat(attribute.name, "=", attribute_value(attribute)));
  }
  return StrJoin(parts, " ");
}

std::vector<std::string> Cutter::all_nodes() const {
  std::vector<std::string> names;
  for (const size_t index : order_) names.push_back(name_of(model_.graph.nodes[index]));
  return names;
}

std::vector<std::string> Cutter::grown(const std::vector<std::string>& names, int rings) const {
  const auto& nodes = model_.graph.nodes;
  std::set<size_t> inside;
  for (const std::string& name : names) {
    if (const size_t index = index_of(name); index < nodes.size()) inside.insert(index);
  }
  for (int ring = 0; ring < rings; ++ring) {
    std::set<std::string_view> read, written;
    for (const size_t index : inside) {
      read.insert(nodes[index].inputs.begin(), nodes[index].inputs.end());
      written.insert(nodes[index].outputs.begin(), nodes[index].outputs.end());
    }
    const auto touches = [](const std::vector<std::string_view>& list, const std::set<std::string_view>& names_of) {
      return std::any_of(list.begin(), list.end(),
                         [&](std::string_view name) { return !name.empty() && names_of.contains(name); });
    };
    for (const size_t index : order_) {
      if (touches(nodes[index].outputs, read) || touches(nodes[index].inputs, written)) inside.insert(index);
    }
  }
  std::vector<std::string> result;
  for (const size_t index : order_) {
    if (inside.contains(index)) result.push_back(name_of(nodes[index]));
  }
  return result;
}

Result<Cut> Cutter::cut(const std::vector<std::string>& names, const std::vector<NamedTensor>& given,
                        const std::map<std::string, CapturedValue>& values) const {
  Cut cut;
  cut.ir_version = std::max(model_.ir_version, kFirstIrWithFreeInitializers);
  for (const onnx::Opset& opset : model_.opsets) cut.opsets.push_back({std::string(opset.domain), opset.version});
  std::set<std::string_view> inside, written, seen;
  for (const std::string& name : names) {
    const size_t index = index_of(name);
    if (index == raw_.size()) return fail(Code::Internal, StrCat("the model has no node named '", name, "'"));
    const onnx::NodeProto& node = model_.graph.nodes[index];
    CutNode& added = cut.nodes.emplace_back();
    added.name = name;
    added.op = std::string(node.op);
    added.bytes = std::string(as_text(raw_[index]));
    added.even = node.op == "Split" && node.inputs.size() < 2 && model_.opset("") < 18;
    for (const auto& attribute : node.attributes) {
      if (attribute.name == "group") added.group = attribute.i;
      if (attribute.name == "split") added.even = false;
    }
    inside.insert(name);
    for (const std::string_view input : node.inputs) added.inputs.emplace_back(input);
    for (const std::string_view output : node.outputs) {
      added.outputs.emplace_back(output);
      written.insert(output);
    }
  }
  for (const std::string& name : names) {
    for (const std::string_view input : model_.graph.nodes[index_of(name)].inputs) {
      if (input.empty() || written.contains(input) || !seen.insert(input).second) continue;
      const auto id = ids_.find(input);
      if (id == ids_.end()) return fail(Code::Internal, StrCat("value '", input, "' was not imported"));
      NamedTensor value{std::string(input), {}};
      if (constant_[id->second]) {
        value.tensor = SINTER_TRY(plan::evaluate_weight(*graph_, id->second));
        cut.constants.push_back(std::move(value));
        continue;
      }
      const auto own = std::find_if(given.begin(), given.end(), [&](const NamedTensor& g) { return g.name == input; });
      const auto captured = values.find(value.name);
      if (own != given.end()) {
        value.tensor = own->tensor;
      } else if (captured != values.end()) {
        // A side that runs in half precision holds float32 values as float16.
        value.tensor = SINTER_TRY(convert(captured->second.tensor, graph_->values[id->second].dtype));
      } else {
        return fail(Code::Internal, StrCat("value '", input, "' was not captured"));
      }
      cut.inputs.push_back(std::move(value));
    }
  }
  // What is read outside, or nowhere: a value that only the cut's own nodes read is not an output.
  std::set<std::string_view> read_inside, read_outside;
  for (const onnx::NodeProto& node : model_.graph.nodes) {
    auto& read = inside.contains(name_of(node)) ? read_inside : read_outside;
    read.insert(node.inputs.begin(), node.inputs.end());
  }
  for (const onnx::ValueInfoProto& output : model_.graph.outputs) read_outside.insert(output.name);
  for (const CutNode& node : cut.nodes) {
    for (const std::string& output : node.outputs) {
      const auto id = ids_.find(output);
      if (output.empty() || id == ids_.end() || graph_->values[id->second].producer == kNone) continue;
      if (read_outside.contains(output) || !read_inside.contains(output)) cut.outputs.push_back({output, {}});
    }
  }
  if (cut.outputs.empty()) return fail(Code::Internal, "the cut nodes compute nothing");
  return cut;
}

Result<Cut> resized(const Cut& cut, int64_t from, int64_t to, bool constants, int axis, bool keep_last) {
  Cut out = cut;
  for (auto* list : {&out.inputs, &out.constants}) {
    if (list == &out.constants && !constants) continue;
    for (NamedTensor& value : *list) {
      for (size_t i = 0; i < value.tensor.shape().rank(); ++i) {
        const bool wanted = axis < 0 || static_cast<size_t>(axis) == i;
        if (wanted && value.tensor.shape()[i] == from)
          value.tensor = SINTER_TRY(sliced(value.tensor, i, to, keep_last));
      }
    }
  }
  if (!constants) return out;
  for (CutNode& node : out.nodes) {
    if (node.group != from) continue;
    node.bytes = SINTER_TRY(with_group(node.bytes, to));
    node.group = to;
  }
  return out;
}

}  // namespace sinter::diag
