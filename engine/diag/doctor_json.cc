// SPDX-License-Identifier: Apache-2.0
#include "engine/base/json.h"
#include "engine/diag/doctor.h"

namespace sinter::diag {
namespace {

void write_strings(Json& json, std::string_view name, const std::vector<std::string>& texts) {
  json.key(name).open('[');
  for (const std::string& text : texts) json.value(text);
  json.close(']');
}

void write_build(Json& json, const DoctorReport& report) {
  json.key("versions").open('{');
  for (const Fact& fact : report.versions) json.field(fact.name, fact.value);
  json.close('}').key("features").open('{');
  for (const Switch& feature : report.features) json.field(feature.name, feature.on);
  json.field("instruction_set", report.instruction_set);
  write_strings(json, "instruction_sets", report.instruction_sets);
  json.field("threads", report.threads).close('}');
}

void write_adapter(Json& json, const AdapterReport& adapter) {
  json.key("adapter").open('{').field("available", adapter.available);
  if (!adapter.available) {
    json.field("reason", adapter.reason).field("hint", adapter.hint).close('}');
    return;
  }
  const gpu::AdapterInfo& info = adapter.info;
  json.field("name", info.device).field("vendor", info.vendor).field("architecture", info.architecture);
  json.field("backend", info.backend).field("driver", info.description).field("software", info.software);
  write_strings(json, "features", adapter.features);
  const wgsl::Target& limits = adapter.limits;
  json.key("limits").open('{');
  json.field("maxStorageBuffersPerShaderStage", limits.max_storage_buffers);
  json.field("maxStorageBufferBindingSize", limits.max_binding_bytes);
  json.field("maxBufferSize", limits.max_buffer_bytes);
  json.field("maxUniformBufferBindingSize", limits.max_uniform_bytes);
  json.field("minStorageBufferOffsetAlignment", limits.storage_alignment);
  json.field("minUniformBufferOffsetAlignment", limits.uniform_alignment);
  json.field("maxComputeWorkgroupsPerDimension", limits.max_groups);
  json.field("maxComputeInvocationsPerWorkgroup", limits.max_invocations);
  json.field("maxComputeWorkgroupSizeX", limits.max_group_size[0]);
  json.field("maxComputeWorkgroupSizeY", limits.max_group_size[1]);
  json.field("maxComputeWorkgroupSizeZ", limits.max_group_size[2]);
  json.field("maxComputeWorkgroupStorageSize", limits.max_workgroup_bytes);
  json.close('}').key("self_test").open('{').field("right", adapter.right).field("wrong", adapter.wrong);
  json.field("first_ms", adapter.first_ms).field("warm_ms", adapter.warm_ms).close('}').close('}');
}

void write_numbers(Json& json, const CaseNumbers& numbers) {
  json.field("cases", numbers.cases).field("passed", numbers.passed).field("failed", numbers.failed);
  json.field("skipped", numbers.skipped).field("own_kernels", numbers.own_kernels);
  json.field("worst_abs", numbers.worst_abs).field("worst_of_tolerance", numbers.worst);
  json.field("worst_case", numbers.worst_case).field("ms", numbers.ms);
}

void write_self_test(Json& json, const DoctorReport& report) {
  json.key("self_test").open('{');
  for (const BackendCases& backend : report.self_test) {
    json.key(plan::name_of(backend.backend)).open('{');
    write_numbers(json, backend.total);
    json.field("stopped", backend.stopped).key("failures").open('[');
    for (const CaseFailure& failure : backend.failures) {
      json.open('{').field("op", failure.op).field("case", failure.name).field("reason", failure.reason).close('}');
    }
    json.close(']').key("operators").open('{');
    for (const OperatorNumbers& row : backend.operators) {
      json.key(row.op).open('{');
      write_numbers(json, row.numbers);
      json.close('}');
    }
    json.close('}').close('}');
  }
  json.close('}');
}

void write_model(Json& json, const ModelReport& model) {
  json.key("model").open('{').field("name", model.name).field("producer", model.producer);
  json.field("producer_version", model.producer_version).field("ir", model.ir).key("opsets").open('{');
  for (const auto& [domain, version] : model.opsets) json.field(domain, version);
  json.close('}').field("nodes", model.nodes).field("initializers", model.initializers);
  json.field("bytes", model.bytes).close('}');
}

void write_stages(Json& json, const std::vector<StageRow>& stages) {
  json.key("stages").open('[');
  for (const StageRow& row : stages) {
    json.open('{').field("backend", row.backend).field("stage", row.stage).field("node", row.node);
    json.field("detail", row.detail).field("depth", row.depth).field("ms", row.ms).field("ended", row.ended);
    json.field("error", row.error).close('}');
  }
  json.close(']');
}

void write_runs(Json& json, const std::vector<ModelRun>& runs) {
  json.key("runs").open('[');
  for (const ModelRun& run : runs) {
    json.open('{').field("backend", plan::name_of(run.backend)).field("ran", !run.error.has_value());
    json.field("agrees", run.agrees).field("difference", run.difference).field("max_abs", run.max_abs);
    json.field("load_ms", run.load_ms).field("prepare_ms", run.prepare_ms);
    json.field("first_ms", run.first_ms).field("warm_ms", run.warm_ms);
    json.field("dispatches", run.dispatches).field("pipelines", run.pipelines).field("peak_bytes", run.peak_bytes);
    json.key("cpu_steps").open('[');
    for (const auto& step : run.cpu_steps) {
      json.open('{').field("node", step.node).field("op", step.op).field("reason", step.reason).close('}');
    }
    json.close(']').key("error");
    if (run.error) {
      json.open('{').field("code", code_name(run.error->code)).field("message", run.error->message);
      write_strings(json, "chain", run.error->chain);
      json.field("hint", run.error->hint).close('}');
    } else {
      json.raw("null");
    }
    json.close('}');
  }
  json.close(']');
}

}  // namespace

std::string to_json(const DoctorReport& report) {
  Json json;
  json.open('{');
  write_build(json, report);
  write_adapter(json, report.adapter);
  write_self_test(json, report);
  if (report.model) write_model(json, *report.model);
  write_stages(json, report.stages);
  write_runs(json, report.runs);
  json.field("healthy", report.healthy).field("verdict", report.verdict).field("hint", report.hint).close('}');
  return json.text();
}

}  // namespace sinter::diag
