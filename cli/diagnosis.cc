// SPDX-License-Identifier: Apache-2.0
#include "cli/diagnosis.h"

#include <algorithm>
#include <charconv>

#include "engine/base/str.h"
#include "engine/cpu/pool.h"
#include "engine/runtime/fault.h"

namespace sinter::cli {
namespace {

std::unexpected<Error> bad_spec(const std::string& text, const std::string& why) {
  return fail(Code::InvalidInput, StrCat("'", text, "' is not a SPEC: ", why),
              "write key=value joined by commas, e.g. backend=cpu,fusion=off,off=fuse_epilogue+to_channels_last");
}

Result<> set_key(diag::Spec& spec, const std::string& text, const std::string& key, const std::string& value) {
  if (key == "backend") {
    if (value == "cpu")
      spec.backend = BackendChoice::cpu;
    else if (value == "webgpu")
      spec.backend = BackendChoice::webgpu;
    else if (value == "reference")
      spec.backend = BackendChoice::reference;
    else if (value == "auto")
      spec.backend = BackendChoice::automatic;
    else
      return bad_spec(text, StrCat("there is no backend '", value, "'"));
  } else if (key == "fusion") {
    if (value != "on" && value != "off") return bad_spec(text, "fusion is on or off");
    spec.fusion = value == "on";
  } else if (key == "off") {
    spec.off = CLI::detail::split(value, '+');
  } else if (key == "dtype") {
    if (value != "f32" && value != "f16") return bad_spec(text, "dtype is f32 or f16");
    spec.dtype = value == "f16" ? DType::f16 : DType::f32;
  } else if (key == "threads") {
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), spec.threads);
    if (error != std::errc() || end != value.data() + value.size() || spec.threads < 1 || spec.threads > 1024)
      return bad_spec(text, "threads is a number from 1 to 1024");
    spec.pool = cpu::make_native_pool(spec.threads);
  } else {
    return bad_spec(text, StrCat("there is no key '", key, "'; the keys are backend, fusion, off, threads, dtype"));
  }
  return {};
}

}  // namespace

void add_diagnosis(CLI::App& verb, DiagnosisOptions& options) {
  verb.add_option("MODEL", options.model, "the ONNX file")->required();
  verb.add_option("--input", options.inputs, "an input from a .npy file (default: seeded random)")
      ->check(kAssignment)
      ->type_name("NAME=FILE");
  verb.add_option("--dim", options.dims, "the size of a symbolic dimension (default 1)")
      ->check(kAssignment)
      ->type_name("NAME=N");
  verb.add_option("--seed", options.seed, "of the random inputs")->check(kSeed)->capture_default_str();
  add_common(verb, options.common);
  const auto text = [](Tolerance at) { return StrCat("--rtol ", at.rtol, " --atol ", at.atol); };
  diag::Spec half;
  half.dtype = DType::f16;
  verb.footer(
      StrCat("SPEC: key=value joined by commas, of backend (auto, cpu, webgpu, reference; default cpu), fusion (on, "
             "off), off (passes joined by +), threads, dtype (f32, f16). What a SPEC leaves out is as by default: "
             "--backend, --fusion, --off and --threads beside it say nothing about the two ways.\n"
             "Values agree within ",
             text(diag::default_tolerance({}, {})), ", with dtype=f16 within ",
             text(diag::default_tolerance(half, half)), ", unless given."));
}

Result<diag::Spec> parse_spec(const std::string& text) {
  diag::Spec spec;
  for (const std::string& part : CLI::detail::split(text, ',')) {
    const size_t at = part.find('=');
    if (at == std::string::npos) return bad_spec(text, StrCat("'", part, "' has no '='"));
    SINTER_CHECK_OK(set_key(spec, text, part.substr(0, at), part.substr(at + 1)));
  }
  return spec;
}

Result<Diagnosis> start_diagnosis(const DiagnosisOptions& options) {
  Diagnosis diagnosis;
  diagnosis.a = SINTER_TRY(parse_spec(options.a));
  diagnosis.b = SINTER_TRY(parse_spec(options.b));
  CommonOptions common = options.common;
  if (!common.inject_device.empty()) {
    return fail(Code::InvalidInput,
                "--inject-device ends a run and makes no values differ: there is nothing to compare",
                "see what it does with run, bench or doctor");
  }
  if (common.inject.size() > 1) return fail(Code::InvalidInput, "one fault at a time", "give --inject once");
  if (!common.inject.empty()) diagnosis.b.inject = SINTER_TRY(parse_fault(common.inject[0]));
  common.inject.clear();
  diagnosis.runner = SINTER_TRY(Runner::make(common));
  diagnosis.engine = diagnosis.runner->shared_engine();
  diagnosis.a.cancel = diagnosis.b.cancel = diagnosis.runner->cancel();
  diagnosis.file = SINTER_TRY(open_model_file(options.model, &diagnosis.engine->trace()));
  const auto dims = SINTER_TRY(parse_dims(options.dims));
  SessionOptions plain;
  plain.backend = BackendChoice::reference;
  plain.dims = dims;
  plain.cancel = diagnosis.runner->cancel();
  const auto session =
      SINTER_TRY(diagnosis.runner->wait(open_session(diagnosis.engine, diagnosis.file.source(), plain)));
  diagnosis.inputs = SINTER_TRY(make_inputs(*session, options.inputs, dims, options.seed));
  return diagnosis;
}

Tolerance tolerance_for(const DiagnosisOptions& options, const Diagnosis& diagnosis) {
  return options.common.tolerance(diag::default_tolerance(diagnosis.a, diagnosis.b));
}

void add_remarks(Json& document, const std::string& inert, const std::vector<std::string>& warnings) {
  if (!inert.empty()) {
    document["inert"] = inert;
    warn(StrCat("the injected fault is inert: ", inert));
  }
  document["warnings"] = warnings;
  for (const std::string& warning : warnings) warn(warning);
}

Json to_json(const diag::Difference& first) {
  return {{"node", first.node},
          {"op", first.op},
          {"nodes", first.nodes},
          {"shapes", first.shapes},
          {"index", first.index},
          {"a", number(first.a)},
          {"b", number(first.b)},
          // NaN and infinity are null above.
          {"a_text", StrCat(first.a)},
          {"b_text", StrCat(first.b)}};
}

std::string quoted(const std::string& argument) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("-_./=,+:").contains(c);
  };
  if (!argument.empty() && std::all_of(argument.begin(), argument.end(), plain)) return argument;
  std::string text = "'";
  for (const char c : argument) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

std::string flags_of(const diag::Spec& spec) {
  std::string text = StrCat("--backend ", diag::backend_name(spec.backend));
  if (!spec.fusion) text += " --fusion off";
  if (!spec.off.empty()) StrAppend(text, StrCat(" --off ", StrJoin(spec.off, ",")));
  if (spec.threads) StrAppend(text, StrCat(" --threads ", spec.threads));
  if (spec.dtype == DType::f16) text += " --dtype f16";
  if (spec.inject) StrAppend(text, StrCat(" --inject ", quoted(StrCat(spec.inject->node, "=", spec.inject->kind))));
  return text;
}

}  // namespace sinter::cli
