// SPDX-License-Identifier: Apache-2.0
// Failure: all that is known about where an error arose. The copies of an error share it, so that of several awaits that
// one failure ends, the first is told of the failure and the others are told that theirs is its echo.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/result.h"

namespace sinter {

struct Failure {
  // Given by the engine when the error first reaches a caller; 0 before.
  uint32_t id = 0;
  Code code = Code::Internal;
  std::string message, hint;
  std::vector<std::string> chain;
  std::vector<std::string> events;  // the last ones before it, oldest first

  // Given by the stages the error passes, the innermost first; empty where it does not apply.
  std::string stage, node, op, attributes, kernel, call;
  std::string wgsl;                          // the kernel's text; "> " marks the line that the compiler names
  std::vector<std::string> nodes;            // the ONNX nodes that a fused node stands for
  std::vector<std::string> inputs, outputs;  // "x float32[1,3,224,224]"
};

/// The error's failure, made where it has none. To be called before an error is copied to several awaits.
Failure& failure_of(Error& error);

/// Says where it arose, as far as no stage inside this one has.
Error at(Error error, Failure where);

/// `at` with nothing but the stage.
template <class T>
Result<T> in_stage(std::string_view stage, Result<T> result) {
  if (result) return result;
  Failure& failure = failure_of(result.error());
  if (failure.stage.empty()) failure.stage = stage;
  return result;
}

/// `text` with "> " before that line (from 1) and "  " before the others; unchanged where it has no such line.
std::string mark_line(std::string_view text, uint64_t line);

}  // namespace sinter
