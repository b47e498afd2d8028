// SPDX-License-Identifier: Apache-2.0
// The version of the SIMD library that the kernels are compiled with.
#pragma once

#include <string>

namespace sinter::cpu {

std::string highway_version();

}  // namespace sinter::cpu
