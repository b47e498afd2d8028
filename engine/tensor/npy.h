// SPDX-License-Identifier: Apache-2.0
// numpy's .npy files, format 1 to 3: little endian, C order, all element types that a Tensor holds.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "engine/base/result.h"
#include "engine/tensor/tensor.h"

namespace sinter {

/// A view of the file's elements, which `owner` keeps alive (a copy where they are misaligned). InvalidInput where the bytes
/// are no such file.
Result<Tensor> read_npy(std::span<const std::byte> bytes, std::shared_ptr<const void> owner);

/// Everything that comes before the elements, padded to 64 bytes. bfloat16, which numpy lacks, is '<V2', as ml_dtypes does.
std::vector<std::byte> npy_header(DType dtype, const Shape& shape);

}  // namespace sinter
