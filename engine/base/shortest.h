// SPDX-License-Identifier: Apache-2.0
// Decimal text of floating point numbers without tables: std::to_chars brings 100 KB of powers of ten into the web module.
#pragma once

#include <string>

namespace sinter {

/// The shortest digits that read back as the same value, the nearest of them; fixed or scientific, whichever is shorter.
/// Finite values only.
void append_shortest(std::string& out, double value);
void append_shortest(std::string& out, float value);

}  // namespace sinter
