// SPDX-License-Identifier: Apache-2.0
// JSON of what crosses the C ABI.
#pragma once

#include <string>

#include "engine/base/json.h"
#include "engine/base/result.h"

namespace sinter::api {

using sinter::Json;

/// {"message","chain":[...],"hint"}; the code travels beside it.
std::string error_json(const Error& error);

}  // namespace sinter::api
