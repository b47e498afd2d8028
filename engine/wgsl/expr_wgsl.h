// SPDX-License-Identifier: Apache-2.0
// Prints an Expr as WGSL.
#pragma once

#include <span>
#include <string>

#include "engine/ir/expr.h"
#include "engine/wgsl/writer.h"

namespace sinter::wgsl {

/// The WGSL expression text for `expr` over the variables named in `inputs` (expression input i is inputs[i]), all of
/// type `type` ("f32", "vec4<f32>", "i32", "u32", ...). Constants become uniforms named PREFIX0, PREFIX1, ... of
/// `writer`; helper functions that the text needs are declared there. NaN rules are those of Expr::eval. Comparisons
/// yield 0 or 1 in `type`.
std::string print_expr(Writer& writer, const Expr& expr, std::span<const std::string> inputs, std::string_view type,
                       std::string_view prefix = "k");

}  // namespace sinter::wgsl
