// SPDX-License-Identifier: Apache-2.0
// The version lock: what generated code, its weights and the library must agree on. Generated code asserts it at compile
// time against this header; weights and the library are checked when a model is created.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "engine/base/result.h"

namespace sinter::lock {

/// The version of the engine that these headers belong to.
inline constexpr std::string_view kVersion = "0.1.0";

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

/// What a program was compiled with. The library compares it with what it was itself compiled with: where a type has another
/// size in the two, passing one across would go wrong silently.
struct Headers {
  std::string_view version;
  uint32_t format = 0;
  uint64_t layout = 0;
  uint64_t operators = 0;  // hash of all operators' interfaces; 0: not looked at
};

/// Continues a hash (FNV-1a) over the eight bytes of a word, lowest first.
constexpr uint64_t hash_word(uint64_t hash, uint64_t word) {
  for (int shift = 0; shift < 64; shift += 8) hash = (hash ^ ((word >> shift) & 255)) * 0x100000001b3;
  return hash;
}

/// A hash of the sizes and alignments of types.
template <class... Types>
consteval uint64_t layout_of(uint64_t hash = 0xcbf29ce484222325) {
  for (const size_t part : {sizeof(Types)..., alignof(Types)...}) hash = hash_word(hash, part);
  return hash;
}

/// Ok where the library is the one of these headers.
Result<> check_headers(const Headers& headers, uint64_t library_layout);

/// Ok where the library is also one that can work with the generated code. `headers` are api::code_headers().
Result<> check_library(const Lock& code, const Headers& headers);

}  // namespace sinter::lock
