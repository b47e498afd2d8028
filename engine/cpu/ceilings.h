// SPDX-License-Identifier: Apache-2.0
// What this machine's cores can do at most, in the instruction set that the kernels use: loops that do nothing else. For
// profiles.
#pragma once

#include <cstddef>
#include <span>

#include "engine/plan/target.h"

namespace sinter::cpu {

/// Multiply-adds in registers, `rounds` times on each of the pool's threads. Gives the floating-point operations done.
double multiply_add(plan::ThreadPool& pool, size_t rounds);
/// Reads `values` `rounds` times, a part on each thread. Gives the bytes read.
double read_all(plan::ThreadPool& pool, std::span<const float> values, size_t rounds);

}  // namespace sinter::cpu
