// SPDX-License-Identifier: Apache-2.0
// Values as C++ source text.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "engine/ir/attrs.h"

namespace sinter::codegen {

/// A string literal.
std::string quoted(std::string_view text);
/// Text that cannot end a comment: no line breaks, no backslash at the end.
std::string one_line(std::string_view text);
/// "sinter::DType::f32".
std::string dtype_literal(DType dtype);

/// A small constant as an operand: `{1, -1}`, `sinter::Tensor::constant<float>({}, {6.0f})`. Nothing where it belongs into
/// the weights file.
std::optional<std::string> inline_constant(const Tensor& tensor);

/// A float32 of one element as a number: "6.0f".
std::string number_literal(const Tensor& tensor);

/// For the options of an operator's function; nothing for a tensor whose element type C++ does not have.
std::optional<std::string> attribute_literal(const AttrValue& value);
/// The same with its type, for Attributes::set.
std::string typed_attribute(const AttrValue& value);

}  // namespace sinter::codegen
