// SPDX-License-Identifier: Apache-2.0
// Which WebGPU library a native device comes from, for reports.
#pragma once

#include <string>

#include "engine/base/result.h"

namespace sinter::gpu {

/// The path of the library that was opened; why there is none.
Result<std::string> webgpu_library_path();

}  // namespace sinter::gpu
