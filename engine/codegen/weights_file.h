// SPDX-License-Identifier: Apache-2.0
// The .weights file beside generated code: tensors by name, with the version lock.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/result.h"
#include "engine/tensor/tensor.h"

namespace sinter::codegen {

struct NamedWeight {
  std::string name;
  Tensor tensor;
};

struct WeightsFile {
  std::string engine;  // version that wrote it
  uint32_t format = 0;
  uint64_t operators = 0;  // hash of the operators that the model uses
  uint64_t hash = 0;       // of names, types, shapes and contents
  std::vector<NamedWeight> weights;
};

bool is_weights_file(std::span<const std::byte> bytes);
/// Views of the file, which `owner` keeps alive. Sizes are checked, and the hash against the contents.
Result<WeightsFile> read_weights(std::span<const std::byte> bytes, std::shared_ptr<const void> owner);

uint64_t hash_weights(std::span<const NamedWeight> weights);
std::string write_weights(const WeightsFile& file);

}  // namespace sinter::codegen
