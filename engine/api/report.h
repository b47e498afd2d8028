// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "engine/runtime/session.h"

namespace sinter::api {

/// What crosses the C ABI of a session's report: {"backend","why","fallbacks","losses","peakBytes",...}.
std::string report_json(const SessionReport& report);

}  // namespace sinter::api
