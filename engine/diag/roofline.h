// SPDX-License-Identifier: Apache-2.0
// Roofline: every step of a model by its arithmetic intensity and the speed it reached, under the hardware's ceilings.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "engine/diag/ceilings.h"

namespace sinter::diag {

struct RooflineStep {
  std::string node, op, on, kernel;  // on: "cpu", "webgpu"
  double ms = 0;
  StepCost cost;
  std::vector<std::string> nodes;  // the model's own that it stands for
};

/// An SVG. A step without arithmetic or time has no place in it.
std::string roofline_svg(std::span<const RooflineStep> steps, const Ceilings& ceilings, std::string_view title);

}  // namespace sinter::diag
