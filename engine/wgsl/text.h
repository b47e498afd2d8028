// SPDX-License-Identifier: Apache-2.0
// Small tools for kernel text.
#pragma once

#include <string>
#include <string_view>

#include "engine/base/str.h"

namespace sinter::wgsl {

/// `text` once per number in [0, count), with every '$' replaced by the number: unrolled registers "acc0", "acc1", ...
inline std::string unroll(int count, std::string_view text) {
  std::string out;
  for (int k = 0; k < count; ++k) {
    for (char c : text) {
      if (c == '$') {
        StrAppend(out, k);
      } else {
        out += c;
      }
    }
  }
  return out;
}

}  // namespace sinter::wgsl
