// SPDX-License-Identifier: Apache-2.0
#include "cli/report.h"

#include <charconv>
#include <cmath>
#include <cstdio>

#include "engine/base/str.h"

namespace sinter::cli {

int exit_code(Code code) {
  switch (code) {
    case Code::InvalidModel:
    case Code::Unsupported:
    case Code::InvalidInput:
    case Code::Io:
      return kRefused;
    case Code::Gpu:
    case Code::DeviceLost:
    case Code::Timeout:
      return kDevice;
    case Code::OutOfMemory:
      return kMemory;
    case Code::Cancelled:
      return kCancelled;
    case Code::Internal:
      return kInternal;
  }
  return kInternal;
}

Json to_json(const Error& error) {
  return {{"error",
           {{"code", code_name(error.code)},
            {"message", error.message},
            {"chain", error.chain},
            {"hint", error.hint.empty() ? Json() : Json(error.hint)}}}};
}

std::string dump(const Json& document) { return document.dump(1, ' ', false, Json::error_handler_t::replace); }

std::string replace_bad_utf8(std::string text) {
  for (size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const size_t more = lead < 0x80 ? 0 : lead >= 0xf0 && lead < 0xf5 ? 3 : lead >= 0xe0 ? 2 : lead >= 0xc2 ? 1 : 4;
    size_t good = 0;
    while (good < more && i + good + 1 < text.size() && (text[i + good + 1] & 0xc0) == 0x80) ++good;
    if (more == 4 || good < more || lead >= 0xf5) {
      text[i++] = '?';
    } else {
      i += 1 + more;
    }
  }
  return text;
}

Json to_json(const SessionReport::CpuStep& step) {
  return {{"node", step.node}, {"op", step.op}, {"reason", step.reason}};
}

Json cpu_steps(const SessionReport& report) {
  Json steps = Json::array();
  for (const SessionReport::CpuStep& step : report.cpu_steps) steps.push_back(to_json(step));
  return steps;
}

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(); }

std::string shape_text(const IoInfo& info) { return StrCat("[", StrJoin(info.shape, ","), "]"); }

Json shape_json(const IoInfo& info) {
  Json shape = Json::array();
  for (const std::string& dim : info.shape) {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(dim.data(), dim.data() + dim.size(), value);
    if (error == std::errc() && end == dim.data() + dim.size()) {
      shape.push_back(value);
    } else {
      shape.push_back(dim);
    }
  }
  return shape;
}

Json shape_json(const Shape& shape) { return std::vector<int64_t>(shape.begin(), shape.end()); }

void warn(const std::string& text) { std::fprintf(stderr, "warning: %s\n", text.c_str()); }

void report_fallbacks(const SessionReport& report) {
  for (const SessionReport::Fallback& fallback : report.fallbacks) {
    warn(StrCat("running on ", fallback.to, " instead of ", fallback.from, ": ", fallback.reason));
  }
}

}  // namespace sinter::cli
