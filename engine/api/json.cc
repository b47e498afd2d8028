// SPDX-License-Identifier: Apache-2.0
#include "engine/api/json.h"

namespace sinter::api {

std::string error_json(const Error& error) {
  Json json;
  json.open('{').field("message", error.message).key("chain").open('[');
  for (const std::string& context : error.chain) json.value(context);
  json.close(']').field("hint", error.hint).close('}');
  return json.text();
}

}  // namespace sinter::api
