// SPDX-License-Identifier: Apache-2.0
// How the error grows from node to node, as a picture.
#pragma once

#include <string>
#include <string_view>

#include "engine/diag/compare.h"

namespace sinter::diag {

/// An SVG: one row per compared node in execution order, errors on a logarithmic axis, the first difference marked.
std::string plot_svg(const CompareResult& result, std::string_view title);

}  // namespace sinter::diag
