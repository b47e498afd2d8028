// SPDX-License-Identifier: Apache-2.0
#include "engine/onnx/attributes.h"

#include "engine/base/str.h"
#include "engine/onnx/import.h"

namespace sinter::onnx {
namespace {

#define ONNX_OP(name, first_opset, attributes) {name, first_opset, attributes},
constexpr SchemaRow kSchema[] = {
#include "engine/onnx/schema.inc"
};
#undef ONNX_OP

char letter_of(AttrKind kind) {
  constexpr std::string_view kLetters = "?fistgFISTGpPyY";
  return kLetters[static_cast<size_t>(kind)];
}

/// The type letters of an attribute; empty where the operator has no such attribute.
std::string_view letters(std::string_view attributes, std::string_view name) {
  for (size_t at = 0; at < attributes.size();) {
    const size_t end = std::min(attributes.find(' ', at), attributes.size());
    const std::string_view entry = attributes.substr(at, end - at);
    if (entry.size() > name.size() && entry[name.size()] == ':' && entry.starts_with(name)) {
      return entry.substr(name.size() + 1);
    }
    at = end + 1;
  }
  return {};
}

std::string_view name_of_letter(char letter) {
  for (size_t kind = 1; kind <= static_cast<size_t>(AttrKind::types); ++kind) {
    if (letter_of(static_cast<AttrKind>(kind)) == letter) return name_of(static_cast<AttrKind>(kind));
  }
  return "nothing";
}

std::string names_only(std::string_view attributes) {
  std::string names;
  for (size_t at = 0; at < attributes.size();) {
    const size_t end = std::min(attributes.find(' ', at), attributes.size());
    if (!names.empty()) names += ", ";
    names += attributes.substr(at, attributes.find(':', at) - at);
    at = end + 1;
  }
  return names.empty() ? "none" : names;
}

Result<> check(const NodeProto& node, const SchemaRow& row, const AttributeProto& attribute) {
  const std::string_view allowed = letters(row.attributes, attribute.name);
  if (allowed.empty()) {
    return fail(Code::InvalidModel, StrCat("attribute '", attribute.name, "' is not one that ", node.op, " has"),
                StrCat("its attributes are: ", names_only(row.attributes)));
  }
  if (allowed.find(letter_of(attribute.kind)) == std::string_view::npos) {
    return fail(Code::InvalidModel, StrCat("attribute '", attribute.name, "' is ", name_of(attribute.kind), " where ",
                                           node.op, " takes ", name_of_letter(allowed.front())));
  }
  return {};
}

Result<AttrValue> convert(const AttributeProto& attribute) {
  switch (attribute.kind) {
    case AttrKind::real:
      return AttrValue(attribute.f);
    case AttrKind::integer:
      return AttrValue(attribute.i);
    case AttrKind::text:
      return AttrValue(std::string(attribute.s));
    case AttrKind::reals:
      return AttrValue(attribute.floats);
    case AttrKind::integers:
      return AttrValue(attribute.ints);
    case AttrKind::texts:
      return AttrValue(std::vector<std::string>(attribute.strings.begin(), attribute.strings.end()));
    case AttrKind::tensor: {
      const TensorProto& tensor = *attribute.tensor;
      if (!tensor.refusal.empty()) return fail(Code::Unsupported, tensor.refusal);
      if (tensor.is_external)
        return fail(Code::Unsupported, StrCat("attribute '", attribute.name, "' keeps its data in another file"));
      return AttrValue(SINTER_TRY(tensor.tensor.aligned()));
    }
    case AttrKind::graph:
    case AttrKind::graphs:
      return fail(Code::Unsupported, StrCat("control flow: attribute '", attribute.name, "' holds a sub-graph"),
                  "export the model with the branch or loop resolved, for example by tracing it with fixed options");
    default:
      return fail(Code::Unsupported, StrCat("attribute '", attribute.name, "' is ", name_of(attribute.kind)));
  }
}

}  // namespace

int64_t newest_opset() { return ONNX_NEWEST_OPSET; }

const SchemaRow* find_schema(std::string_view op) {
  for (const SchemaRow& row : kSchema) {
    if (row.op == op) return &row;
  }
  return nullptr;
}

Result<Attrs> import_attributes(const NodeProto& node) {
  const SchemaRow* row = node.domain.empty() || node.domain == "ai.onnx" ? find_schema(node.op) : nullptr;
  Attrs attrs;
  for (const AttributeProto& attribute : node.attributes) {
    if (!attribute.function_attribute.empty()) {
      return fail(Code::InvalidModel, StrCat("attribute '", attribute.name,
                                             "' refers to an attribute of a function, but the node is in none"));
    }
    if (attrs.has(attribute.name))
      return fail(Code::InvalidModel, StrCat("attribute '", attribute.name, "' is given twice"));
    if (row) SINTER_CHECK_OK(check(node, *row, attribute));
    attrs.set(attribute.name, SINTER_TRY(convert(attribute)));
  }
  return attrs;
}

}  // namespace sinter::onnx
