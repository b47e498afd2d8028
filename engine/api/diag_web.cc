// SPDX-License-Identifier: Apache-2.0
// The entry point that the module for diagnosis has beside those of the core: compare, bisect and doctor.
#include <algorithm>
#include <cstdlib>

#include "engine/api/module_web.h"
#include "engine/base/json.h"
#include "engine/base/nearest.h"
#include "engine/diag/bisect.h"
#include "engine/diag/compare.h"
#include "engine/diag/doctor.h"
#include "engine/diag/plot.h"
#include "engine/diag/report.h"
#include "engine/ops/op_def.h"

extern "C" {
__attribute__((import_module("sinter"), import_name("complete"))) void sinter_complete(uint32_t request,
                                                                                       uint32_t status,
                                                                                       const void* data,
                                                                                       uint32_t bytes);
}

namespace sinter::api {
namespace {

/// What a request asks for, from its lines: a. and b. are options of the two ways, the rest is for both or for doctor.
struct Wish {
  std::string verb;
  diag::Spec a, b;
  Tolerance tolerance;
  uint64_t seed = 0;
  bool repro = true;                  // bisect: cut the part of the model that shows the difference
  std::vector<std::string> commands;  // for its report
  std::string code;                   // likewise, in JavaScript
  diag::DoctorOptions doctor;
};

Result<double> number_of(std::string_view key, std::string_view value) {
  const std::string text(value);
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  if (!text.empty() && end == text.c_str() + text.size() && number >= 0) return number;
  return fail(Code::InvalidInput, StrCat("option ", key, " cannot be '", value, "'"), "give a number of at least 0");
}

std::unexpected<Error> no_operator(std::string_view name) {
  std::vector<std::string_view> names;
  for (const OpDef* op : all_ops()) names.push_back(op->name);
  const std::string near{nearest(name, names)};
  return fail(Code::InvalidInput, StrCat("there is no operator '", name, "'"),
              near.empty() ? std::string("`sinter ops` lists them") : StrCat("did you mean ", near, "?"));
}

diag::Spec spec_of(BackendChoice backend, DType dtype, SessionOptions&& options) {
  diag::Spec spec;
  spec.backend = backend;
  spec.dtype = dtype;
  spec.fusion = options.fusion;
  spec.off = std::move(options.off);
  spec.inject = std::move(options.inject);
  return spec;
}

Result<Wish> parse_wish(std::string_view text) {
  Wish wish;
  BackendChoice backends[2] = {BackendChoice::cpu, BackendChoice::cpu};
  DType dtypes[2] = {DType::f32, DType::f32};
  std::string ways[2], session;
  double rtol = -1, atol = -1;
  diag::DoctorOptions& doctor = wish.doctor;
  SINTER_CHECK_OK(for_each_line(text, [&](std::string_view key, std::string_view value) -> Result<> {
    if (key.starts_with("a.") || key.starts_with("b.")) {
      const size_t side = key[0] - 'a';
      if (key.substr(2) == "backend") {
        backends[side] = SINTER_TRY(parse_backend(value));
      } else if (key.substr(2) == "dtype") {
        dtypes[side] = value == "f16" ? DType::f16 : DType::f32;
      } else {
        ways[side] += StrCat(key.substr(2), "=", value, "\n");
      }
    } else if (key == "verb") {
      wish.verb = value;
    } else if (key == "rtol" || key == "atol") {
      (key == "rtol" ? rtol : atol) = SINTER_TRY(number_of(key, value));
    } else if (key == "seed") {
      wish.seed = static_cast<uint64_t>(SINTER_TRY(number_of(key, value)));
    } else if (key == "repro") {
      wish.repro = value != "false";
    } else if (key == "command") {
      wish.commands.emplace_back(value);
    } else if (key == "code") {
      wish.code += StrCat(value, "\n");
    } else if (key == "backend") {
      doctor.backend = SINTER_TRY(parse_backend(value));
    } else if (key == "operators") {
      doctor.operators = value != "false";
    } else if (key == "only") {
      if (std::ranges::find(all_ops(), value, &OpDef::name) == all_ops().end()) return no_operator(value);
      doctor.only.emplace_back(value);
    } else if (key == "model_name") {
      doctor.model_name = value;
    } else if (key == "fetch_ms") {
      doctor.fetch_ms = SINTER_TRY(number_of(key, value));
    } else if (key.starts_with("version.")) {
      doctor.versions.push_back({std::string(key.substr(8)), std::string(value)});
    } else if (key.starts_with("feature.")) {
      doctor.features.push_back({std::string(key.substr(8)), value == "true"});
    } else {
      session += StrCat(key, "=", value, "\n");
    }
    return {};
  }));
  wish.a = spec_of(backends[0], dtypes[0], SINTER_TRY(parse_session_options(ways[0])));
  wish.b = spec_of(backends[1], dtypes[1], SINTER_TRY(parse_session_options(ways[1])));
  wish.tolerance = diag::default_tolerance(wish.a, wish.b);
  if (rtol >= 0) wish.tolerance.rtol = rtol;
  if (atol >= 0) wish.tolerance.atol = atol;
  doctor.session = SINTER_TRY(parse_session_options(session));
  return wish;
}

/// The given tensors; what a session wants besides is seeded.
Result<std::vector<NamedTensor>> all_inputs(const Session& session, std::vector<NamedTensor> given, const Wish& wish) {
  auto seeded = SINTER_TRY(diag::seeded_inputs(session, wish.doctor.session.dims, wish.seed));
  for (NamedTensor& input : seeded) {
    const bool known = std::ranges::any_of(given, [&](const auto& other) { return other.name == input.name; });
    if (!known) given.push_back(std::move(input));
  }
  return given;
}

void strings_json(Json& json, std::string_view name, const std::vector<std::string>& texts) {
  json.key(name).open('[');
  for (const std::string& text : texts) json.value(text);
  json.close(']');
}

void difference_json(Json& json, const std::optional<diag::Difference>& found) {
  json.key("first");
  if (!found) {
    json.raw("null");
    return;
  }
  json.open('{').field("node", found->node).field("op", found->op);
  strings_json(json, "nodes", found->nodes);
  strings_json(json, "shapes", found->shapes);
  json.key("index").open('[');
  for (int64_t i : found->index) json.number(static_cast<double>(i));
  json.close(']').field("a", found->a).field("b", found->b);
  // NaN and infinity are null above.
  json.field("a_text", StrCat(found->a)).field("b_text", StrCat(found->b)).close('}');
}

void remarks_json(Json& json, const std::string& inert, const std::vector<std::string>& warnings) {
  if (!inert.empty()) json.field("inert", inert);
  strings_json(json, "warnings", warnings);
}

std::string compare_json(const diag::CompareResult& result) {
  Json json;
  json.open('{').field("equal", result.equal);
  difference_json(json, result.first);
  json.key("nodes").open('[');
  for (const diag::NodeRow& row : result.nodes) {
    if (!row.compared) continue;
    json.open('{').field("node", row.node).field("op", row.op);
    strings_json(json, "nodes", row.nodes);
    json.field("max_abs", row.max_abs).field("max_rel", row.max_rel).field("cosine", row.cosine).close('}');
  }
  json.close(']').field("runs", result.runs);
  remarks_json(json, result.inert, result.warnings);
  return json.close('}').text();
}

std::string bisect_json(const diag::BisectResult& result) {
  Json json;
  const auto text_or_null = [&](std::string_view name, const std::string& text) {
    json.key(name);
    text.empty() ? json.raw("null") : json.value(text);
  };
  json.open('{').field("kind", kind_name(result.kind));
  text_or_null("pass", result.pass);
  json.key("patch");
  result.patch < 0 ? json.raw("null") : json.number(static_cast<double>(result.patch));
  text_or_null("node", result.node);
  text_or_null("op", result.op);
  strings_json(json, "nodes", result.nodes);
  difference_json(json, result.first);
  text_or_null("failure", result.failure);
  json.field("runs", result.runs).field("judged_by", result.by_nodes ? "nodes" : "outputs");
  remarks_json(json, result.inert, result.warnings);
  return json.close('}').text();
}

/// The answer of every verb: the first file, without a name, is the JSON.
struct Answer {
  std::string json;
  std::vector<diag::File> files;
};

void complete(uint32_t request, const Answer& answer) {
  std::vector<sinter_file> files;
  const auto add = [&](const std::string& name, const std::string& bytes) {
    files.push_back({name.data(), static_cast<uint32_t>(name.size()), const_cast<char*>(bytes.data()),
                     static_cast<uint32_t>(bytes.size())});
  };
  add({}, answer.json);
  for (const diag::File& file : answer.files) add(file.name, file.bytes);
  sinter_complete(request, 0, files.data(), static_cast<uint32_t>(files.size() * sizeof(sinter_file)));
}

Task<Answer> bisect_and_cut(std::shared_ptr<Engine> engine, const Wish& wish, const ModelSource& source,
                            std::vector<NamedTensor> inputs) {
  diag::KeptRuns kept;
  const auto found =
      SINTER_CO_TRY(co_await diag::bisect(engine, source, wish.a, wish.b, inputs, wish.tolerance, &kept));
  Answer answer{bisect_json(found), {}};
  if (found.kind == diag::BisectResult::Kind::none || !wish.repro) co_return answer;
  auto repro = SINTER_CO_TRY(
      co_await diag::make_repro(engine, source, found, wish.a, wish.b, std::move(inputs), wish.tolerance, &kept));
  diag::ReportContext context{wish.doctor.model_name, {{"sinter", SINTER_VERSION}}, wish.commands};
  for (const diag::Fact& fact : wish.doctor.versions) context.versions.push_back({fact.name, fact.value});
  answer.files = std::move(repro.files);
  std::string report = report_markdown(found, repro, wish.a, wish.b, context);
  if (!wish.code.empty()) report += StrCat("\nOr on a page:\n\n```js\n", wish.code, "```\n");
  answer.files.push_back({"report.md", std::move(report)});
  if (!wish.code.empty()) context.commands.push_back(wish.code);
  answer.files.push_back({"report.json", report_json(found, repro, wish.a, wish.b, context) + "\n"});
  co_return answer;
}

Task<Answer> diagnose(std::shared_ptr<Engine> engine, Wish wish, ModelSource source, std::vector<NamedTensor> given,
                      CancelToken cancel) {
  if (wish.verb == "doctor") {
    diag::DoctorOptions& doctor = wish.doctor;
    if (!source.bytes.empty()) doctor.model = source;
    doctor.tolerance = wish.tolerance;
    doctor.cancel = cancel;
    doctor.inputs = [&wish, given](const Session& session) { return all_inputs(session, given, wish); };
    const auto report = SINTER_CO_TRY(co_await diag::doctor(engine, doctor));
    co_return Answer{diag::to_json(report), {}};
  }
  SessionOptions plain;
  plain.backend = BackendChoice::reference;
  plain.dims = wish.doctor.session.dims;
  plain.cancel = cancel;
  const auto session = SINTER_CO_TRY(co_await open_session(engine, source, plain));
  auto inputs = SINTER_CO_TRY(all_inputs(*session, std::move(given), wish));
  session->close();
  wish.a.cancel = wish.b.cancel = cancel;
  if (wish.verb == "compare") {
    const auto result =
        SINTER_CO_TRY(co_await diag::compare(engine, source, wish.a, wish.b, std::move(inputs), wish.tolerance));
    const std::string title = StrCat(wish.doctor.model_name, ": ", to_text(wish.a), " against ", to_text(wish.b));
    co_return Answer{compare_json(result), {{"errors.svg", plot_svg(result, title)}}};
  }
  co_return co_await bisect_and_cut(engine, wish, source, std::move(inputs));
}

}  // namespace
}  // namespace sinter::api

using namespace sinter;
using namespace sinter::api;

extern "C" {

/// Takes over the model (null: none) and the files. Options: verb (compare, bisect, doctor), a.KEY and b.KEY (backend,
/// fusion, off, inject, dtype), rtol, atol, seed, dim, model_name; of bisect also repro, command, code; of doctor also backend, operators, only, fetch_ms, version.NAME,
/// feature.NAME, fusion, off, inject. Inputs that are not given are seeded. Answer: an array of sinter_file, of which the
/// first is the JSON.
SINTER_EXPORT("sinter_diagnose")
void sinter_diagnose(uint32_t request, uint32_t engine, void* model, uint32_t model_bytes, const sinter_file* files,
                     uint32_t file_count, const char* options, uint32_t option_bytes, const sinter_tensor* inputs,
                     uint32_t input_count) {
  ModelSource source = take_model(model, model_bytes, {files, file_count});
  const auto at = module().engines.find(engine);
  if (at == module().engines.end()) return api::complete(request, closed("engine"));
  auto wish = parse_wish({options, option_bytes});
  if (!wish) return api::complete(request, wish.error());
  auto tensors = read_inputs({inputs, input_count});
  if (!tensors) return api::complete(request, tensors.error());
  const CancelToken cancel = begin_request(request);
  start(at->second, request,
        diagnose(at->second->engine, std::move(*wish), std::move(source), std::move(*tensors), cancel),
        [request](const Answer& answer) { complete(request, answer); });
}

}  // extern "C"
