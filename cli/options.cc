// SPDX-License-Identifier: Apache-2.0
#include "cli/options.h"

#include <charconv>
#include <cmath>
#include <cstdlib>

#include "engine/base/str.h"
#include "engine/passes/passes.h"

namespace sinter::cli {
namespace {

BackendChoice backend_choice(const std::string& name) {
  if (name == "cpu") return BackendChoice::cpu;
  if (name == "webgpu") return BackendChoice::webgpu;
  if (name == "reference") return BackendChoice::reference;
  return BackendChoice::automatic;
}

std::string check_passes(const std::string& names) {
  std::vector<std::string_view> known;
  for (const passes::Pass& pass : passes::all_passes()) known.push_back(pass.name);
  for (const std::string& name : CLI::detail::split(names, ',')) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      return StrCat("there is no pass '", name, "'; the passes are ", StrJoin(known, ", "));
    }
  }
  return {};
}

}  // namespace

const CLI::Validator kAssignment(
    [](const std::string& text) {
      const size_t at = text.rfind('=');
      const bool good = at != std::string::npos && at > 0 && at + 1 < text.size();
      return good ? std::string() : StrCat("'", text, "' is not of the form NAME=VALUE");
    },
    "", "assignment");

namespace {

// CLI11's own would name the largest double as the other end of the range.
std::string check_number(const std::string& text, bool zero) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  const bool whole = !text.empty() && end == text.c_str() + text.size() && std::isfinite(number);
  if (whole && (number > 0 || (zero && number == 0))) return {};
  return StrCat("'", text, "' is not a number ", zero ? "of at least 0" : "above 0");
}

}  // namespace

const CLI::Validator kPositive([](const std::string& text) { return check_number(text, false); }, "above 0",
                               "positive");
const CLI::Validator kNotNegative([](const std::string& text) { return check_number(text, true); }, "from 0",
                                  "not negative");

const CLI::Validator kSeed(
    [](const std::string& text) {
      const bool digits = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
      return digits ? std::string() : StrCat("'", text, "' is not a whole number from 0");
    },
    "", "seed");

Assignment split_assignment(const std::string& text) {
  const size_t at = text.rfind('=');
  return {text.substr(0, at), text.substr(at + 1)};
}

SessionOptions CommonOptions::session_options() const {
  SessionOptions options;
  options.backend = backend_choice(backend);
  options.fusion = fusion == "on";
  options.off = off;
  if (dtype == "f16") options.rewrite = &passes::to_float16;
  // The runner has refused what is not a fault.
  if (!inject.empty()) {
    if (auto fault = parse_fault(inject[0])) options.inject = std::move(*fault);
  }
  if (!inject_device.empty()) {
    if (auto fault = parse_device_fault(inject_device)) options.inject_device = std::move(*fault);
  }
  return options;
}

Tolerance CommonOptions::tolerance(Tolerance fallback) const {
  return {rtol >= 0 ? rtol : fallback.rtol, atol >= 0 ? atol : fallback.atol};
}

void add_common(CLI::App& verb, CommonOptions& options) {
  const char* group = "Common options";
  verb.add_option("--backend", options.backend, "auto, cpu, webgpu or reference")
      ->check(CLI::IsMember({"auto", "cpu", "webgpu", "reference"}))
      ->group(group)
      ->capture_default_str();
  verb.add_option("--fusion", options.fusion, "on or off: merge operators")
      ->check(CLI::IsMember({"on", "off"}))
      ->group(group)
      ->capture_default_str();
  verb.add_option("--off", options.off, "passes not to run, joined by commas (`sinter passes` lists them)")
      ->check(CLI::Validator(check_passes, "PASS[,PASS]", "pass"))
      ->delimiter(',')
      ->group(group);
  verb.add_option("--threads", options.threads, "CPU threads; 0: one per core")->group(group)->capture_default_str();
  verb.add_option("--dtype", options.dtype, "f32 or f16: hold float32 values in half precision")
      ->check(CLI::IsMember({"f32", "f16"}))
      ->group(group)
      ->capture_default_str();
  verb.add_option("--timeout", options.timeout_ms, "milliseconds without progress after which to give up")
      ->check(kPositive)
      ->group(group)
      ->capture_default_str();
  verb.add_option("--rtol", options.rtol, "relative tolerance of comparisons")->check(kNotNegative)->group(group);
  verb.add_option("--atol", options.atol, "absolute tolerance of comparisons")->check(kNotNegative)->group(group);
  verb.add_flag("--json", options.json, "one JSON document on standard output, everything else on standard error")
      ->group(group);
  verb.add_option("--trace", options.trace, "write a Chrome trace to this file")->type_name("FILE")->group(group);
  verb.add_option("--inject", options.inject, "a fault at a node: wrong, nan, error or hang")
      ->check(kAssignment)
      ->type_name("NODE=KIND")
      ->group(group);
  verb.add_option("--inject-device", options.inject_device, "a fault of the device: lost@STEP, oom@STEP or no-adapter")
      ->type_name("EVENT")
      ->group(group);
}

Result<std::vector<std::pair<std::string, int64_t>>> parse_dims(const std::vector<std::string>& dims) {
  std::vector<std::pair<std::string, int64_t>> parsed;
  for (const std::string& text : dims) {
    const auto [name, value] = split_assignment(text);
    int64_t size = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), size);
    if (error != std::errc() || end != value.data() + value.size() || size < 0) {
      return fail(Code::InvalidInput, StrCat("dimension '", name, "' cannot be '", value, "'"),
                  "give a whole number that is not negative");
    }
    parsed.push_back({name, size});
  }
  return parsed;
}

}  // namespace sinter::cli
