// SPDX-License-Identifier: Apache-2.0
#include "engine/api/json.h"

#include "engine/base/failure.h"

namespace sinter::api {
namespace {

void list(Json& json, std::string_view name, const std::vector<std::string>& texts) {
  json.key(name).open('[');
  for (const std::string& text : texts) json.value(text);
  json.close(']');
}

void failure_json(Json& json, const Failure& failure) {
  json.open('{').field("id", failure.id).field("code", code_name(failure.code));
  const std::pair<const char*, const std::string*> texts[] = {
      {"message", &failure.message}, {"hint", &failure.hint}, {"stage", &failure.stage},
      {"node", &failure.node},       {"op", &failure.op},     {"attributes", &failure.attributes},
      {"kernel", &failure.kernel},   {"wgsl", &failure.wgsl}, {"call", &failure.call}};
  for (const auto& [name, text] : texts) {
    if (!text->empty()) json.field(name, *text);
  }
  const std::pair<const char*, const std::vector<std::string>*> lists[] = {{"chain", &failure.chain},
                                                                           {"nodes", &failure.nodes},
                                                                           {"inputs", &failure.inputs},
                                                                           {"outputs", &failure.outputs},
                                                                           {"events", &failure.events}};
  for (const auto& [name, texts_of] : lists) {
    if (!texts_of->empty()) list(json, name, *texts_of);
  }
  json.close('}');
}

}  // namespace

std::string error_json(const Error& error) {
  Json json;
  json.open('{').field("message", error.message);
  list(json, "chain", error.chain);
  json.field("hint", error.hint);
  if (error.failure && error.failure->id) {
    json.key("firstFailure");
    failure_json(json, *error.failure);
  }
  if (error.echo_of) json.field("echoOf", error.echo_of);
  json.close('}');
  return json.text();
}

}  // namespace sinter::api
