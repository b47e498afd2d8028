// SPDX-License-Identifier: Apache-2.0
// A step of a plan as the place of a failure.
#pragma once

#include "engine/base/failure.h"
#include "engine/plan/plan.h"

namespace sinter::plan {

/// The step's node with the shapes of this plan, and its kernel with its text; empty for a step that has no node.
Failure where(const Plan& plan, size_t step);

}  // namespace sinter::plan
