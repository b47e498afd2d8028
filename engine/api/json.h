// SPDX-License-Identifier: Apache-2.0
// JSON of what crosses the C ABI.
#pragma once

#include <string>

#include "engine/base/json.h"
#include "engine/base/result.h"

namespace sinter::api {

using sinter::Json;

/// {"message","chain":[...],"hint"}; the code travels beside it. With "firstFailure", what is known of the failure behind
/// the error: {"id","code"} and, where they apply, "message", "hint", "stage", "node", "op", "attributes", "kernel", "wgsl"
/// (a line that starts with "> " is the one to blame), "call", "chain", "nodes", "inputs", "outputs", "events"; and with
/// "echoOf", that failure's id, where another caller was told of it first.
std::string error_json(const Error& error);

}  // namespace sinter::api
