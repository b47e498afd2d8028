// SPDX-License-Identifier: Apache-2.0
// Options as they cross the C ABI: lines KEY=VALUE.
#pragma once

#include <algorithm>
#include <string_view>

#include "engine/base/str.h"
#include "engine/runtime/session.h"

namespace sinter::api {

struct EngineSettings {
  EngineOptions engine;
  BackendChoice backend = BackendChoice::automatic;
  bool events = false;  // trace events go to the host
};

Result<BackendChoice> parse_backend(std::string_view value);

/// Calls set(key, value) for each line.
template <class Set>
Result<> for_each_line(std::string_view text, Set set) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty()) continue;
    const size_t split = line.find('=');
    if (split == line.npos) return fail(Code::InvalidInput, StrCat("option line '", line, "' has no '='"));
    SINTER_CHECK_OK(set(line.substr(0, split), line.substr(split + 1)));
  }
  return {};
}

/// An unknown key or value is InvalidInput and names what would be accepted.
Result<EngineSettings> parse_engine_options(std::string_view text);
Result<SessionOptions> parse_session_options(std::string_view text);

}  // namespace sinter::api
