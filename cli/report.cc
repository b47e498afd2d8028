// SPDX-License-Identifier: Apache-2.0
#include "cli/report.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <sstream>

#include "engine/base/failure.h"
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

namespace {

Json failure_json(const Failure& failure) {
  Json json = {{"id", failure.id}, {"code", code_name(failure.code)}, {"message", failure.message}};
  const std::pair<const char*, const std::string&> texts[] = {{"hint", failure.hint},
                                                              {"stage", failure.stage},
                                                              {"node", failure.node},
                                                              {"op", failure.op},
                                                              {"attributes", failure.attributes},
                                                              {"kernel", failure.kernel},
                                                              {"wgsl", failure.wgsl},
                                                              {"call", failure.call}};
  for (const auto& [name, text] : texts) {
    if (!text.empty()) json[name] = text;
  }
  const std::pair<const char*, const std::vector<std::string>&> lists[] = {{"chain", failure.chain},
                                                                           {"nodes", failure.nodes},
                                                                           {"inputs", failure.inputs},
                                                                           {"outputs", failure.outputs},
                                                                           {"events", failure.events}};
  for (const auto& [name, list] : lists) {
    if (!list.empty()) json[name] = list;
  }
  return json;
}

/// The marked line of a kernel and its neighbours.
std::string marked_excerpt(const std::string& wgsl) {
  std::vector<std::string> lines;
  size_t marked = std::string::npos;
  std::istringstream text(wgsl);
  for (std::string line; std::getline(text, line);) {
    if (line.starts_with("> ")) marked = lines.size();
    lines.push_back(line);
  }
  std::string excerpt;
  for (size_t i = 0; marked != std::string::npos && i < lines.size(); ++i) {
    if (i + 3 > marked && i < marked + 3) excerpt += StrCat("    ", i + 1, " ", lines[i], "\n");
  }
  return excerpt;
}

}  // namespace

Json to_json(const Error& error) {
  Json json = {{"code", code_name(error.code)},
               {"message", error.message},
               {"chain", error.chain},
               {"hint", error.hint.empty() ? Json() : Json(error.hint)}};
  if (error.failure && error.failure->id) json["first_failure"] = failure_json(*error.failure);
  if (error.echo_of) json["echo_of"] = error.echo_of;
  return {{"error", json}};
}

std::string failure_text(const Error& error) {
  const bool refused = exit_code(error.code) == kRefused;
  if (!error.failure || !error.failure->id || refused) return {};
  const Failure& failure = *error.failure;
  if (error.echo_of) return StrCat("  echo of #", error.echo_of, ": ", failure.message, "\n");
  std::string text;
  const auto line = [&](std::string_view name, const std::string& value) {
    if (!value.empty()) text += StrCat("  ", name, ": ", value, "\n");
  };
  line("stage", failure.stage);
  if (!failure.node.empty()) line("node", StrCat("'", failure.node, "' (", failure.op, ")"));
  if (failure.nodes.size() > 1) line("stands for", StrJoin(failure.nodes, ", "));
  line("attributes", failure.attributes);
  line("inputs", StrJoin(failure.inputs, ", "));
  line("outputs", StrJoin(failure.outputs, ", "));
  line("kernel", failure.kernel);
  text += marked_excerpt(failure.wgsl);
  line("device call", failure.call);
  text += "  last events:\n";
  const size_t shown = std::min<size_t>(failure.events.size(), 6);
  for (size_t i = failure.events.size() - shown; i < failure.events.size(); ++i) {
    text += StrCat("    ", failure.events[i], "\n");
  }
  return text;
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
    if (fallback.to == fallback.from) {
      warn(StrCat(fallback.reason, "; it was opened again"));
    } else {
      warn(StrCat("running on ", fallback.to, " instead of ", fallback.from, ": ", fallback.reason));
    }
  }
  if (!report.inert.empty()) warn(StrCat("the injected fault is inert: ", report.inert));
}

}  // namespace sinter::cli
