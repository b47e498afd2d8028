// SPDX-License-Identifier: Apache-2.0
// Prints an Expr as WGSL.
#pragma once

#include <span>
#include <string>

#include "engine/ir/expr.h"
#include "engine/wgsl/writer.h"

namespace sinter::wgsl {

/// Declares `fn PREFIX_expr(x0: TYPE, ...) -> TYPE` with `inputs` parameters and returns its name. `type` is "f32",
/// "vec4<f32>", "i32", "u32", ...; f16 operands are computed in f32. Constants become uniforms PREFIX0, PREFIX1, ... of
/// `writer`. NaN rules are those of Expr::eval. Comparisons yield 0 or 1 in `type`. One call per prefix and kernel.
std::string declare_expr(Writer& writer, const Expr& expr, size_t inputs, std::string_view type,
                         std::string_view prefix = "k");

/// declare_expr and a call of it: the text of `expr` over the variables named in `inputs` (expression input i is
/// inputs[i]), all of `type`. An empty expression is inputs[0].
std::string print_expr(Writer& writer, const Expr& expr, std::span<const std::string> inputs, std::string_view type,
                       std::string_view prefix = "k");

/// Declares `fn NAME(x: TYPE) -> vecN<bool>` (or bool), a NaN test that compilers cannot drop, and returns its name.
std::string declare_is_nan(Writer& writer, std::string_view type);
/// Declares min or max that returns NaN where an operand is NaN and returns its name (the builtin's for integers).
std::string declare_min(Writer& writer, std::string_view type);
std::string declare_max(Writer& writer, std::string_view type);

}  // namespace sinter::wgsl
