// SPDX-License-Identifier: Apache-2.0
#include "engine/api/options.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>

#include "engine/base/str.h"

namespace sinter::api {
namespace {

std::optional<int64_t> integer(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

std::unexpected<Error> bad_value(std::string_view key, std::string_view value, std::string_view wanted) {
  return fail(Code::InvalidInput, StrCat("option ", key, " cannot be '", value, "'"), StrCat("give ", wanted));
}

Result<bool> boolean(std::string_view key, std::string_view value) {
  if (value == "true") return true;
  if (value == "false") return false;
  return bad_value(key, value, "true or false");
}

}  // namespace

Result<BackendChoice> parse_backend(std::string_view value) {
  if (value == "auto") return BackendChoice::automatic;
  if (value == "cpu") return BackendChoice::cpu;
  if (value == "webgpu") return BackendChoice::webgpu;
  if (value == "reference") return BackendChoice::reference;
  return bad_value("backend", value, "auto, cpu, webgpu or reference");
}

Result<EngineSettings> parse_engine_options(std::string_view text) {
  EngineSettings settings;
  SINTER_CHECK_OK(for_each_line(text, [&](std::string_view key, std::string_view value) -> Result<> {
    if (key == "backend") {
      settings.backend = SINTER_TRY(parse_backend(value));
    } else if (key == "threads") {
      const auto threads = integer(value);
      if (!threads || *threads < 0 || *threads > 1024)
        return bad_value(key, value, "a number of threads, or 0 for all");
      settings.engine.threads = static_cast<unsigned>(*threads);
    } else if (key == "timeout_ms") {
      const auto limit = integer(value);
      if (!limit || *limit < 0) return bad_value(key, value, "milliseconds, or 0 for no limit");
      settings.engine.timeout_ms = *limit ? static_cast<double>(*limit) : std::numeric_limits<double>::infinity();
    } else if (key == "low_power") {
      settings.engine.low_power = SINTER_TRY(boolean(key, value));
    } else if (key == "events") {
      settings.events = SINTER_TRY(boolean(key, value));
    } else {
      return fail(Code::InvalidInput, StrCat("there is no engine option '", key, "'"),
                  "backend, threads, timeout_ms, low_power, events");
    }
    return {};
  }));
  return settings;
}

Result<SessionOptions> parse_session_options(std::string_view text) {
  SessionOptions options;
  SINTER_CHECK_OK(for_each_line(text, [&](std::string_view key, std::string_view value) -> Result<> {
    if (key == "fusion") {
      options.fusion = SINTER_TRY(boolean(key, value));
    } else if (key == "plain") {
      options.force_plain = SINTER_TRY(boolean(key, value));
    } else if (key == "off") {
      options.off.emplace_back(value);
    } else if (key == "inject") {
      options.inject = SINTER_TRY(parse_fault(value));
    } else if (key == "inject_device") {
      options.inject_device = SINTER_TRY(parse_device_fault(value));
    } else if (key == "dim") {
      const size_t split = value.rfind('=');
      const auto size = split == value.npos ? std::nullopt : integer(value.substr(split + 1));
      if (!size || *size < 0) return bad_value(key, value, "NAME=N with N of at least 0");
      options.dims.emplace_back(std::string(value.substr(0, split)), *size);
    } else {
      return fail(Code::InvalidInput, StrCat("there is no load option '", key, "'"),
                  "fusion, plain, off, dim, inject, inject_device");
    }
    return {};
  }));
  return options;
}

}  // namespace sinter::api
