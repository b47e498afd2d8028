// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "engine/tensor/tensor.h"

namespace sinter {

/// Repacks a weight for one kernel. `arg` is free for the packer, e.g. a group count. The result's shape and dtype are
/// the packer's business; device packers return the bytes to upload. One packed copy is kept per (value, name, arg).
struct Packer {
  std::string_view name;
  Result<Tensor> (*pack)(const Tensor& weight, int64_t arg) = nullptr;
};

}  // namespace sinter
