// SPDX-License-Identifier: Apache-2.0
#include "engine/base/str.h"
#include "engine/codegen/signature.h"
#include "include/sinter/lock.hpp"

namespace sinter::codegen {
namespace {

using Kind = Parameter::Kind;

std::string hex(uint64_t value) {
  std::string out = "0x";
  for (int shift = 60; shift >= 0; shift -= 4) out += "0123456789abcdef"[(value >> shift) & 15];
  return out;
}

std::string_view field_type(char type) {
  switch (type) {
    case 'i':
      return "std::optional<int64_t>";
    case 'f':
      return "std::optional<float>";
    case 's':
      return "std::optional<std::string_view>";
    case 'I':
      return "List<int64_t>";
    case 'F':
      return "List<float>";
    case 'S':
      return "List<std::string>";
    case 't':
      return "HostTensor";
    default:
      return {};
  }
}

std::string options_struct(const Signature& signature) {
  std::string out = StrCat("struct ", signature.options_type(), " {\n");
  std::string sets;
  for (const AttributeKind& attribute : signature.attributes) {
    const std::string name = identifier(attribute.name);
    StrAppend(out, StrCat("  ", field_type(attribute.type), " ", name, " = {};\n"));
    StrAppend(sets, StrCat("    list.set(\"", attribute.name, "\", ", name, ");\n"));
  }
  StrAppend(out, StrCat("  Attributes list() const {\n    Attributes list;\n", sets, "    return list;\n  }\n};\n"));
  return out;
}

struct Call {
  std::string parameters, inputs;  // declared parameters, and the list that they make
};

Call call_of(const Signature& signature) {
  Call call;
  const bool variadic = !signature.inputs.empty() && signature.inputs.back().kind == Kind::variadic;
  bool optional = false;  // C++ wants defaults for all parameters after the first that has one
  for (const Parameter& input : signature.inputs) {
    if (input.kind == Kind::variadic) {
      StrAppend(call.parameters, StrCat("std::vector<Tensor> ", input.name, ", "));
    } else {
      optional |= input.kind == Kind::optional;
      StrAppend(call.parameters, StrCat("const Tensor& ", input.name, optional ? " = {}, " : ", "));
      StrAppend(call.inputs, StrCat(call.inputs.empty() ? "" : ", ", input.name));
    }
  }
  if (variadic) {
    call.inputs = StrCat("std::move(", signature.inputs.back().name, ")");
  } else {
    call.inputs = StrCat("{", call.inputs, "}");
  }
  return call;
}

std::string functions(const Signature& signature) {
  Call call = call_of(signature);
  const bool options = !signature.attributes.empty();
  if (options) StrAppend(call.parameters, StrCat("const ", signature.options_type(), "& options = {}, "));
  const std::string attributes = options ? "options.list()" : "{}";
  const auto apply = [&](std::string_view count) {
    return StrCat("apply(\"", signature.op, "\", ", call.inputs, ", ", attributes, ", ", count, ", at)");
  };
  const std::string source = "Source at = Source::current()";
  if (signature.variadic_outputs()) {
    return StrCat("inline std::vector<Tensor> ", signature.function, "(size_t outputs, ", call.parameters, source,
                  ") {\n  return ", apply("outputs"), ";\n}\n");
  }
  std::string out;
  const size_t count = signature.outputs.size();
  const bool several = count > 1 && signature.outputs[1].kind == Kind::single;
  if (!several) {
    StrAppend(out, StrCat("inline Tensor ", signature.function, "(", call.parameters, source, ") {\n  return ",
                          apply("1"), "[0];\n}\n"));
  }
  if (count < 2) return out;
  // All outputs, to be taken apart with a structured binding; those that nobody uses cost nothing.
  std::string names, items;
  for (size_t i = 0; i < count; ++i) {
    StrAppend(names, StrCat(i ? ", " : "", signature.outputs[i].name));
    StrAppend(items, StrCat(i ? ", all[" : "all[", i, "]"));
  }
  return StrCat(out, "/// ", names, "\ninline std::array<Tensor, ", count, "> ", signature.function,
                several ? "" : "_all", "(", call.parameters, source,
                ") {\n  const std::vector<Tensor> all = ", apply(StrCat(count)), ";\n  return {", items, "};\n}\n");
}

bool expressible(const Signature& signature) {
  for (const AttributeKind& attribute : signature.attributes) {
    if (field_type(attribute.type).empty()) return false;
  }
  return true;
}

}  // namespace

std::string operators_header() {
  std::string out = StrCat(
      "// SPDX-License-Identifier: Apache-2.0\n"
      "// Generated from the engine's table of operators.\n#pragma once\n\n#include <cstdint>\n#include "
      "<string_view>\n\n"
      "#include \"include/sinter/weights.hpp\"\n\nnamespace sinter::lock {\n\n"
      "struct OperatorHash {\n  std::string_view name;\n  uint64_t hash;\n};\n\n"
      "inline constexpr OperatorHash kOperators[] = {\n");
  for (const OpDef* op : all_ops()) {
    if (op->domain.empty()) StrAppend(out, StrCat("    {\"", op->name, "\", ", hex(interface_hash(*op)), "},\n"));
  }
  return StrCat(
      out,
      "};\n\n/// The hash of an operator's interface: its inputs, outputs and attributes. 0 where this engine has no "
      "such operator.\n"
      "constexpr uint64_t operator_hash(std::string_view name) {\n  for (const OperatorHash& row : kOperators) {\n"
      "    if (row.name == name) return row.hash;\n  }\n  return 0;\n}\n\n"
      "/// Of all operators.\n"
      "constexpr uint64_t operators_hash() {\n  uint64_t hash = 0xcbf29ce484222325;\n"
      "  for (const OperatorHash& row : kOperators) hash = hash_word(hash, row.hash);\n  return hash;\n}\n\n"
      "/// The library that runs against the headers that this program was compiled with.\n"
      "inline Result<> check_library(const Lock& code) {\n  Headers headers = api::code_headers();\n"
      "  headers.operators = operators_hash();\n  return check_library(code, headers);\n}\n\n"
      "}  // namespace sinter::lock\n");
}

uint64_t operators_hash() {
  uint64_t hash = kHashSeed;
  for (const OpDef* op : all_ops()) {
    if (op->domain.empty()) hash = lock::hash_word(hash, interface_hash(*op));
  }
  return hash;
}

std::string ops_header() {
  std::string out =
      "// SPDX-License-Identifier: Apache-2.0\n"
      "// Generated from the engine's table of operators: a function for each, in its newest form. The meaning of "
      "operands and\n"
      "// attributes is ONNX's: https://onnx.ai/onnx/operators/\n#pragma once\n\n#include "
      "\"include/sinter/tensor.hpp\"\n\n"
      "namespace sinter::api {\n";
  for (const OpDef* op : all_ops()) {
    if (!op->domain.empty()) continue;
    const auto signature = find_signature(op->name);
    if (!signature || !expressible(*signature)) continue;
    StrAppend(out, StrCat("\n// ", op->name, "\n"));
    if (!signature->attributes.empty()) StrAppend(out, options_struct(*signature));
    StrAppend(out, functions(*signature));
  }
  return StrCat(out,
                "\n/// To another element type.\n"
                "inline Tensor cast(const Tensor& input, DType to, Source at = Source::current()) {\n"
                "  return cast(input, {.to = static_cast<int64_t>(to)}, at);\n}\n\n}  // namespace sinter::api\n");
}

std::string ops_reference() {
  std::string out =
      "# The functions of the tensor API\n\nWritten from the engine's table of operators. Operands and attributes mean "
      "what ONNX "
      "says: each name links to its page.\nOperands marked `?` may be left out, `*` takes a list.\n\n"
      "| function | operands | attributes | gives | not supported |\n|---|---|---|---|---|\n";
  const auto list = [](const std::vector<Parameter>& parameters) {
    std::string text;
    for (const Parameter& parameter : parameters) {
      StrAppend(text, StrCat(text.empty() ? "" : ", ", parameter.name,
                             parameter.kind == Kind::optional   ? "?"
                             : parameter.kind == Kind::variadic ? "*"
                                                                : ""));
    }
    return text;
  };
  for (const OpDef* op : all_ops()) {
    const auto signature = op->domain.empty() ? find_signature(op->name) : std::nullopt;
    if (!signature || !expressible(*signature)) continue;
    std::string attributes;
    for (const AttributeKind& attribute : signature->attributes) {
      StrAppend(attributes, StrCat(attributes.empty() ? "" : ", ", identifier(attribute.name)));
    }
    StrAppend(out, StrCat("| [`", signature->function, "`](https://onnx.ai/onnx/operators/onnx__", op->name,
                          ".html) | ", list(signature->inputs), " | ", attributes, " | ", list(signature->outputs),
                          " | ", op->notes, " |\n"));
  }
  return out;
}

}  // namespace sinter::codegen
