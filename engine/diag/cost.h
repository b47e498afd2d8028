// SPDX-License-Identifier: Apache-2.0
// What each step of a plan has to do at least: arithmetic and traffic, from shapes alone.
#pragma once

#include <vector>

#include "engine/plan/plan.h"

namespace sinter::diag {

struct StepCost {
  double flops = 0;  // a multiplication and an addition count as two, a function such as exp as one
  double bytes = 0;  // each operand once, as the step's backend holds it
};

/// One per step of the plan. Where a node has several kernels on the device, the one with the most threads is taken for
/// the arithmetic of them all.
std::vector<StepCost> costs_of(const plan::Plan& plan);

}  // namespace sinter::diag
