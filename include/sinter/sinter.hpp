// SPDX-License-Identifier: Apache-2.0
// Sinter's C++ interface. Needs C++23; no exceptions are thrown.
#pragma once

#include "include/sinter/engine.hpp"
#include "include/sinter/host_tensor.hpp"
#include "include/sinter/lock.hpp"
#include "include/sinter/nn.hpp"
#include "include/sinter/operators.hpp"
#include "include/sinter/ops.hpp"
#include "include/sinter/task.hpp"
#include "include/sinter/tensor.hpp"
#include "include/sinter/weights.hpp"

namespace sinter {

// The engine has classes of the same names inside; these are the ones to use.
using namespace api;

}  // namespace sinter
