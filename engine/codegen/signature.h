// SPDX-License-Identifier: Apache-2.0
// The interface of an operator in its newest form: what generated code and the C++ tensor API call it with.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/ops/op_def.h"

namespace sinter::codegen {

struct Parameter {
  enum class Kind : uint8_t { single, optional, variadic };
  std::string name;  // in snake_case, no keyword of C++
  Kind kind = Kind::single;
};

struct AttributeKind {
  std::string name;
  char type = 'i';  // as in engine/onnx/schema.inc
};

struct Signature {
  std::string_view op;
  std::string function;  // "max_pool"
  std::vector<Parameter> inputs, outputs;
  std::vector<AttributeKind> attributes;

  bool variadic_outputs() const { return !outputs.empty() && outputs.back().kind == Parameter::Kind::variadic; }
  /// "ConvOptions"; only where there are attributes.
  std::string options_type() const;
  const AttributeKind* attribute(std::string_view name) const;
};

/// Nothing where ai.onnx has no such operator.
std::optional<Signature> find_signature(std::string_view op);

/// Changes whenever code generated for the operator could mean something else: its operands, attributes or their types.
uint64_t interface_hash(const OpDef& op);

/// Of all operators of ai.onnx, as the header operators.hpp has it.
uint64_t operators_hash();

/// FNV-1a.
constexpr uint64_t kHashSeed = 0xcbf29ce484222325;
uint64_t hash_text(uint64_t seed, std::string_view text);

/// A C++ identifier from any text, in snake_case; keywords and leading digits get an underscore.
std::string identifier(std::string_view text);

/// The headers operators.hpp (interface hashes) and ops.hpp (a function for each operator) of this engine's table.
std::string operators_header();
std::string ops_header();
/// The same functions as a page of documentation.
std::string ops_reference();

}  // namespace sinter::codegen
