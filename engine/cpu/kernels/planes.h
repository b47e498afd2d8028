// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/plan/target.h"

namespace sinter::cpu {

/// Transposes each of `batch` matrices of 4-byte elements, `rows` by `columns`: images between channels first and last.
void transpose_planes(const uint32_t* in, size_t batch, size_t rows, size_t columns, uint32_t* out,
                      plan::ThreadPool& pool);

}  // namespace sinter::cpu
