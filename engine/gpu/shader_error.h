// SPDX-License-Identifier: Apache-2.0
// One text for shader compile errors, whichever device reports them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "engine/base/result.h"

namespace sinter::gpu {

struct ShaderMessage {
  std::string text;
  uint64_t line = 0, column = 0;  // from 1; 0 where the compiler names none
};

/// "compiling kernel conv1x1: MESSAGE (line 12, column 5)" and the marked line between its neighbours. `other` is what
/// the device said where the compiler has no message, e.g. of a layout that does not match.
Error shader_error(std::string_view label, std::string_view wgsl, std::span<const ShaderMessage> messages,
                   std::string_view other);

}  // namespace sinter::gpu
