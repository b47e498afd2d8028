// SPDX-License-Identifier: Apache-2.0
#include "engine/onnx/parse.h"

#include "engine/base/str.h"

namespace sinter::onnx {
namespace {

/// What all parsing functions share.
struct Reading {
  StructureBudget budget;
  std::shared_ptr<const void> owner;

  /// Appends an element and counts it; a vector may hold twice what it needs.
  template <class T>
  Result<T*> push(std::vector<T>& items, const Wire& where) {
    SINTER_CHECK_OK(budget.take(2 * sizeof(T), where));
    return &items.emplace_back();
  }
};

template <class T>
Result<> append_numbers(Reading& reading, const Wire& wire, const Field& field, std::vector<T>& out) {
  SINTER_CHECK_OK(
      reading.budget.take(field.type == WireType::bytes ? field.bytes.size() * sizeof(T) : 2 * sizeof(T), wire));
  return wire.append(field, out);
}

Result<> append_text(Reading& reading, const Wire& wire, const Field& field, std::vector<std::string_view>& out) {
  *SINTER_TRY(reading.push(out, wire)) = SINTER_TRY(wire.text(field));
  return {};
}

Result<> parse_dim(Wire wire, DimProto& out) {
  while (!wire.done()) {
    const Field field = SINTER_TRY(wire.next());
    if (field.number == 1) {
      out.value = SINTER_TRY(wire.integer(field));
      out.known = out.value >= 0;  // exporters write -1 for "any"
    } else if (field.number == 2) {
      out.symbol = SINTER_TRY(wire.text(field));
    }
  }
  return {};
}

Result<> parse_tensor_type(Reading& reading, Wire wire, ValueInfoProto& out) {
  while (!wire.done()) {
    const Field field = SINTER_TRY(wire.next());
    if (field.number == 1) {
      out.element_type = SINTER_TRY(wire.integer(field));
    } else if (field.number == 2) {
      out.has_shape = true;
      Wire shape = SINTER_TRY(wire.message(field, "a shape"));
      while (!shape.done()) {
        const Field dim = SINTER_TRY(shape.next());
        if (dim.number != 1) continue;
        SINTER_CHECK_OK(
            parse_dim(SINTER_TRY(shape.message(dim, "a dimension")), *SINTER_TRY(reading.push(out.dims, shape))));
      }
    }
  }
  return {};
}

Result<> parse_value_info(Reading& reading, Wire wire, ValueInfoProto& out) {
  while (!wire.done()) {
    const Field field = SINTER_TRY(wire.next());
    if (field.number == 1) out.name = SINTER_TRY(wire.text(field));
    if (field.number != 2) continue;
    Wire type = SINTER_TRY(wire.message(field, "a type"));
    while (!type.done()) {
      const Field kind = SINTER_TRY(type.next());
      switch (kind.number) {
        case 1:
          out.kind = "tensor";
          SINTER_CHECK_OK(parse_tensor_type(reading, SINTER_TRY(type.message(kind, "a tensor type")), out));
          break;
        case 4:
          out.kind = "sequence";
          break;
        case 5:
          out.kind = "map";
          break;
        case 7:
          out.kind = "opaque";
          break;
        case 8:
          out.kind = "sparse tensor";
          break;
        case 9:
          out.kind = "optional";
          break;
        default:
          break;
      }
    }
  }
  return {};
}

/// Files older than IR 2 do not say which kind an attribute is of.
AttrKind kind_of_field(uint32_t field) {
  switch (field) {
    case 2:
      return AttrKind::real;
    case 3:
      return AttrKind::integer;
    case 4:
      return AttrKind::text;
    case 5:
      return AttrKind::tensor;
    case 6:
      return AttrKind::graph;
    case 7:
      return AttrKind::reals;
    case 8:
      return AttrKind::integers;
    case 9:
      return AttrKind::texts;
    case 10:
      return AttrKind::tensors;
    case 11:
      return AttrKind::graphs;
    default:
      return AttrKind::undefined;
  }
}

Result<> parse_attribute(Reading& reading, Wire wire, AttributeProto& out) {
  AttrKind found = AttrKind::undefined;
  while (!wire.done()) {
    const Field field = SINTER_TRY(wire.next());
    if (const AttrKind kind = kind_of_field(field.number); kind != AttrKind::undefined) found = kind;
    switch (field.number) {
      case 1:
        out.name = SINTER_TRY(wire.text(field));
        break;
      case 2:
        out.f = SINTER_TRY(wire.real(field));
        break;
      case 3:
        out.i = SINTER_TRY(wire.integer(field));
        break;
      case 4:
        out.s = SINTER_TRY(wire.text(field));
        break;
      case 5:
        out.tensor = std::make_unique<TensorProto>();
        SINTER_CHECK_OK(reading.budget.take(sizeof(TensorProto), wire));
        SINTER_CHECK_OK(parse_tensor(SINTER_TRY(wire.message(field, "a tensor attribute")), reading.budget,
                                     reading.owner, *out.tensor));
        break;
      case 7:
        SINTER_CHECK_OK(append_numbers(reading, wire, field, out.floats));
        break;
      case 8:
        SINTER_CHECK_OK(append_numbers(reading, wire, field, out.ints));
        break;
      case 9:
        SINTER_CHECK_OK(append_text(reading, wire, field, out.strings));
        break;
      case 20: {
        const int64_t kind = SINTER_TRY(wire.integer(field));
        if (kind < 0 || kind > static_cast<int64_t>(AttrKind::types))
          return wire.damaged(StrCat("attribute kind ", kind));
        out.kind = static_cast<AttrKind>(kind);
        break;
      }
      case 21:
        out.function_attribute = SINTER_TRY(wire.text(field));
        break;
      default:
        break;
    }
  }
  if (out.kind == AttrKind::undefined) out.kind = found;
  if (out.kind == AttrKind::tensor && !out.tensor)
    return wire.damaged(StrCat("attribute '", out.name, "' lacks its tensor"));
  return {};
}

Result<> parse_node(Reading& reading, Wire wire, NodeProto& out) {
  while (!wire.done()) {
    const Field field = SINTER_TRY(wire.next());
    switch (field.number) {
      case 1:
        SINTER_CHECK_OK(append_text(reading, wire, field, out.inputs));
        break;
      case 2:
        SINTER_CHECK_OK(append_text(reading, wire, field, out.outputs));
        break;
      case 3:
        out.name = SINTER_TRY(wire.text(field));
        break;
      case 4:
        out.op = SINTER_TRY(wire.text(field));
        break;
      case 5:
        SINTER_CHECK_OK(parse_attribute(reading, SINTER_TRY(wire.message(field, "an attribute")),
                                        *SINTER_TRY(reading.push(out.attributes, wire))));
        break;
      case 7:
        out.domain = SINTER_TRY(wire.text(field));
        break;
      default:
        break;
    }
  }
  if (out.op.empty()) return wire.damaged("a node without an operator type");
  return {};
}

Result<> parse_sparse_name(Wire wire, std::string_view& out) {
  while (!wire.done()) {
    const Field field = SINTER_TRY(wire.next());
    if (field.number != 1) continue;  // `values`, whose name is that of the sparse tensor
    Wire values = SINTER_TRY(wire.message(field, "a sparse tensor's values"));
    while (!values.done()) {
      const Field inner = SINTER_TRY(values.next());
      if (inner.number == 8) out = SINTER_TRY(values.text(inner));
    }
  }
  return {};
}

std::string place(std::string_view what, size_t index, std::string_view name) {
  return name.empty() ? StrCat("reading ", what, " ", index) : StrCat("reading ", what, " ", index, " ('", name, "')");
}

Result<> parse_graph_field(Reading& reading, const Wire& wire, const Field& field, GraphProto& out) {
  switch (field.number) {
    case 1: {
      NodeProto& node = *SINTER_TRY(reading.push(out.nodes, wire));
      auto done = parse_node(reading, SINTER_TRY(wire.message(field, "a node")), node);
      if (!done)
        return std::unexpected(std::move(done).error().with_context(place("node", out.nodes.size() - 1, node.name)));
      return {};
    }
    case 2:
      out.name = SINTER_TRY(wire.text(field));
      return {};
    case 5: {
      TensorProto& tensor = *SINTER_TRY(reading.push(out.initializers, wire));
      auto done =
          parse_tensor(SINTER_TRY(wire.message(field, "an initialiser")), reading.budget, reading.owner, tensor);
      if (!done) {
        return std::unexpected(
            std::move(done).error().with_context(place("initialiser", out.initializers.size() - 1, tensor.name)));
      }
      return {};
    }
    case 11:
    case 12: {
      auto& list = field.number == 11 ? out.inputs : out.outputs;
      const std::string_view what = field.number == 11 ? "graph input" : "graph output";
      ValueInfoProto& info = *SINTER_TRY(reading.push(list, wire));
      auto done = parse_value_info(reading, SINTER_TRY(wire.message(field, what)), info);
      if (!done) return std::unexpected(std::move(done).error().with_context(place(what, list.size() - 1, info.name)));
      return {};
    }
    case 15:
      return parse_sparse_name(SINTER_TRY(wire.message(field, "a sparse initialiser")),
                               *SINTER_TRY(reading.push(out.sparse_initializers, wire)));
    default:
      return {};
  }
}

Result<> parse_graph(Reading& reading, Wire wire, GraphProto& out) {
  while (!wire.done()) {
    const Field field = SINTER_TRY(wire.next());
    SINTER_CHECK_OK(parse_graph_field(reading, wire, field, out));
  }
  return {};
}

/// Two texts or a text and a number: opset imports, metadata entries, function names.
Result<> parse_pair(Wire wire, uint32_t first_field, std::string_view& first, uint32_t second_field,
                    std::string_view* second_text, int64_t* second_number) {
  while (!wire.done()) {
    const Field field = SINTER_TRY(wire.next());
    if (field.number == first_field) first = SINTER_TRY(wire.text(field));
    if (field.number != second_field) continue;
    if (second_text) *second_text = SINTER_TRY(wire.text(field));
    if (second_number) *second_number = SINTER_TRY(wire.integer(field));
  }
  return {};
}

Result<> parse_model_field(Reading& reading, const Wire& wire, const Field& field, Model& out) {
  switch (field.number) {
    case 1:
      out.ir_version = SINTER_TRY(wire.integer(field));
      return {};
    case 2:
      out.producer = SINTER_TRY(wire.text(field));
      return {};
    case 3:
      out.producer_version = SINTER_TRY(wire.text(field));
      return {};
    case 4:
      out.domain = SINTER_TRY(wire.text(field));
      return {};
    case 5:
      out.model_version = SINTER_TRY(wire.integer(field));
      return {};
    case 8: {
      Opset& opset = *SINTER_TRY(reading.push(out.opsets, wire));
      SINTER_CHECK_OK(parse_pair(SINTER_TRY(wire.message(field, "an operator set import")), 1, opset.domain, 2, nullptr,
                                 &opset.version));
      if (opset.domain == "ai.onnx") opset.domain = "";
      return {};
    }
    case 14: {
      auto& entry = *SINTER_TRY(reading.push(out.metadata, wire));
      return parse_pair(SINTER_TRY(wire.message(field, "a metadata entry")), 1, entry.first, 2, &entry.second, nullptr);
    }
    case 25: {
      FunctionName& function = *SINTER_TRY(reading.push(out.functions, wire));
      return parse_pair(SINTER_TRY(wire.message(field, "a function")), 1, function.name, 10, &function.domain, nullptr);
    }
    default:
      return {};
  }
}

}  // namespace

std::string_view name_of(AttrKind kind) {
  constexpr std::string_view kNames[] = {
      "nothing", "a float", "an integer", "a string",        "a tensor",       "a graph", "floats", "integers",
      "strings", "tensors", "graphs",     "a sparse tensor", "sparse tensors", "a type",  "types",
  };
  return kNames[static_cast<size_t>(kind)];
}

int64_t Model::opset(std::string_view wanted) const {
  for (const Opset& opset : opsets) {
    if (opset.domain == wanted) return opset.version;
  }
  return 0;
}

Result<Model> parse(std::span<const std::byte> bytes, std::shared_ptr<const void> owner) {
  SINTER_CHECK_OK(check_is_model(bytes));
  Reading reading;
  reading.owner = owner;
  Model model;
  model.file_bytes = bytes.size();
  model.owner = std::move(owner);
  bool has_graph = false;
  Wire wire(bytes, "the model");
  while (!wire.done()) {
    const Field field = SINTER_TRY(wire.next());
    if (field.number != 7) {
      SINTER_CHECK_OK(parse_model_field(reading, wire, field, model));
      continue;
    }
    if (has_graph) return wire.damaged("a second graph");
    has_graph = true;
    SINTER_CHECK_OK(parse_graph(reading, SINTER_TRY(wire.message(field, "the graph")), model.graph));
  }
  // A file cut between two fields is well-formed: what is missing gives it away.
  if (!has_graph || (model.opsets.empty() && model.ir_version >= 3)) {
    return fail(Code::InvalidModel,
                StrCat("the model ends at byte ", bytes.size(), " without ",
                       has_graph ? "its operator set imports" : "a graph"),
                "the file was cut short, or is not an ONNX model: fetch or export it again and compare its size");
  }
  return model;
}

}  // namespace sinter::onnx
