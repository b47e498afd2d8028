// SPDX-License-Identifier: Apache-2.0
#include "engine/api/report.h"

#include "engine/api/json.h"

namespace sinter::api {

std::string report_json(const SessionReport& report) {
  Json json;
  json.open('{').field("backend", plan::name_of(report.backend)).field("why", report.why).key("fallbacks").open('[');
  for (const auto& fallback : report.fallbacks) {
    json.open('{').field("from", fallback.from).field("to", fallback.to).field("reason", fallback.reason).close('}');
  }
  json.close(']').field("peakBytes", report.peak_bytes).field("pipelines", report.pipelines);
  json.field("dispatches", report.dispatches).field("losses", report.losses).key("cpuSteps").open('[');
  for (const auto& step : report.cpu_steps) {
    json.open('{').field("node", step.node).field("op", step.op).field("reason", step.reason).close('}');
  }
  json.close(']').key("unsupported").open('[');
  for (const plan::Refusal& refusal : report.unsupported) {
    json.open('{').field("node", refusal.node).field("op", refusal.op).field("reason", refusal.reason);
    json.field("hint", refusal.hint).close('}');
  }
  json.close(']');
  if (!report.inert.empty()) json.field("inert", report.inert);
  json.field("loadMs", report.load_ms).field("prepareMs", report.prepare_ms).close('}');
  return json.text();
}

}  // namespace sinter::api
