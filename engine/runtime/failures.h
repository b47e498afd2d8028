// SPDX-License-Identifier: Apache-2.0
// Failures: numbers the failures of an engine as they reach a caller, and keeps the first one whole.
#pragma once

#include <memory>

#include "engine/base/failure.h"
#include "engine/base/trace.h"

namespace sinter {

class Failures {
 public:
  explicit Failures(trace::Log& log) : log_(log) {}

  /// To be called with every error on its way out of the engine, once. One that has been told of before becomes an echo.
  Error record(Error error);

  /// Null where there was none.
  const std::shared_ptr<Failure>& first() const { return first_; }

 private:
  trace::Log& log_;
  uint32_t count_ = 0;
  std::shared_ptr<Failure> first_;
};

}  // namespace sinter
