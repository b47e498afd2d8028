// SPDX-License-Identifier: Apache-2.0
#include "cli/diagnosis.h"

#include "engine/base/str.h"
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
    if (value != "float32")
      return fail(Code::Unsupported, StrCat("runs in ", value, " are not supported"), "leave dtype out");
  } else if (key != "threads") {
    return bad_spec(text, StrCat("there is no key '", key, "'"));
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
  verb.add_option("--seed", options.seed, "of the random inputs")->capture_default_str();
  add_common(verb, options.common);
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
  if (common.inject.size() > 1) return fail(Code::InvalidInput, "one fault at a time", "give --inject once");
  if (!common.inject.empty()) diagnosis.b.inject = SINTER_TRY(parse_fault(common.inject[0]));
  common.inject.clear();
  diagnosis.runner = SINTER_TRY(Runner::make(common));
  diagnosis.engine = diagnosis.runner->shared_engine();
  diagnosis.file = SINTER_TRY(open_model_file(options.model));
  const auto dims = SINTER_TRY(parse_dims(options.dims));
  SessionOptions plain;
  plain.backend = BackendChoice::reference;
  plain.dims = dims;
  const auto session =
      SINTER_TRY(diagnosis.runner->wait(open_session(diagnosis.engine, diagnosis.file.source(), plain)));
  diagnosis.inputs = SINTER_TRY(make_inputs(*session, options.inputs, dims, options.seed));
  return diagnosis;
}

}  // namespace sinter::cli
