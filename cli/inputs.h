// SPDX-License-Identifier: Apache-2.0
// Inputs and outputs as files: .npy, serialised TensorProto, seeded random values.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "engine/base/result.h"
#include "engine/runtime/session.h"

namespace sinter::cli {

Result<Tensor> read_npy_file(const std::string& path);
Result<> write_npy_file(const std::string& path, const Tensor& tensor);
/// The input_0.pb of a test data set.
Result<Tensor> read_tensor_file(const std::string& path);

/// NAME.npy with everything outside A-Za-z0-9._- as '_'.
std::string file_name_of(std::string_view value_name);

/// The given inputs (name and file), and seeded random ones for the rest: floats in [-1, 1), integers in [0, 8), bool.
/// Symbolic dimensions come from `dims`, else from the given inputs, else are 1.
Result<std::vector<NamedTensor>> make_inputs(const Session& session, const std::vector<std::string>& assignments,
                                             const std::vector<std::pair<std::string, int64_t>>& dims, uint64_t seed);

struct Statistics {
  double min = 0, max = 0, mean = 0;  // of the numbers that are not NaN
  size_t nan = 0, infinite = 0;
};
Statistics statistics(const Tensor& tensor);

}  // namespace sinter::cli
