// SPDX-License-Identifier: Apache-2.0
// Options as they cross the C ABI: lines KEY=VALUE.
#pragma once

#include <string_view>

#include "engine/runtime/session.h"

namespace sinter::api {

struct EngineSettings {
  EngineOptions engine;
  BackendChoice backend = BackendChoice::automatic;
  bool events = false;  // trace events go to the host
};

/// An unknown key or value is InvalidInput and names what would be accepted.
Result<EngineSettings> parse_engine_options(std::string_view text);
Result<SessionOptions> parse_session_options(std::string_view text);

}  // namespace sinter::api
