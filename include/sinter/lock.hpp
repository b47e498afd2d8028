// SPDX-License-Identifier: Apache-2.0
// The version lock: what generated code, its weights and the library must agree on. Generated code asserts it at compile
// time against this header; weights and the library are checked when a model is created.
#pragma once

#include <cstdint>
#include <string_view>

#include "engine/base/result.h"

namespace sinter::lock {

/// The form of generated code and of .weights files. Raised where an older one can no longer be read.
inline constexpr uint32_t kFormat = 1;
inline constexpr uint32_t kOldestFormat = 1;

/// Engine versions whose generated code and weights this one takes.
inline constexpr std::string_view kCompatible[] = {"0.1.0"};

struct Lock {
  std::string_view engine;  // version of the engine that generated the code
  uint32_t format = 0;
  uint64_t operators = 0;  // hash of the operators that the model uses
  uint64_t weights = 0;    // hash of the weights
};

constexpr bool takes_engine(std::string_view version) {
  for (const std::string_view known : kCompatible) {
    if (known == version) return true;
  }
  return false;
}

constexpr bool takes_format(uint32_t format) { return format >= kOldestFormat && format <= kFormat; }

/// Ok where the library that runs is one that these headers, and the code compiled against them, can work with.
/// `header_version` and `header_format` are those of the headers.
Result<> check_library(const Lock& code, std::string_view header_version, uint32_t header_format);

}  // namespace sinter::lock
