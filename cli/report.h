// SPDX-License-Identifier: Apache-2.0
// How a verb ends: exit codes, error texts, JSON documents.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "engine/base/result.h"
#include "engine/runtime/session.h"

namespace sinter::cli {

using Json = nlohmann::ordered_json;

enum Exit : int {
  kRight = 0,
  kWrongAnswer = 1,  // ran, and the answer is a failure
  kUsage = 2,
  kRefused = 3,
  kDevice = 4,
  kMemory = 5,
  kInternal = 70,
  kCancelled = 130,
};

/// What a verb has found out: the document that --json prints, and the exit code.
struct Outcome {
  Json document;
  int exit = kRight;
};

int exit_code(Code code);
Json to_json(const Error& error);
/// Where the failure behind an error arose, a line per fact; empty where a refusal says it all.
std::string failure_text(const Error& error);
/// The whole document, without throwing on text that is not UTF-8.
std::string dump(const Json& document);
/// Bytes that are no UTF-8 become '?'.
std::string replace_bad_utf8(std::string text);

Json to_json(const SessionReport::CpuStep& step);
Json cpu_steps(const SessionReport& report);
/// A number that JSON can hold: NaN and infinities become null.
Json number(double value);
/// "[1,3,224,224]" with symbols by name.
std::string shape_text(const IoInfo& info);
Json shape_json(const IoInfo& info);
Json shape_json(const Shape& shape);

void warn(const std::string& text);
/// What a fallback to another backend was for, on standard error.
void report_fallbacks(const SessionReport& report);

}  // namespace sinter::cli
