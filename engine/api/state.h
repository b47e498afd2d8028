// SPDX-License-Identifier: Apache-2.0
// What is behind the handles of the C++ interface (include/sinter).
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "engine/runtime/session.h"
#include "include/sinter/engine.hpp"

namespace sinter::api::internal {

struct SessionState {
  std::shared_ptr<EngineState> engine;
  std::shared_ptr<sinter::Session> session;
};

struct EngineState {
  EngineOptions options;
  Result<> fits;  // the program's headers and this library
  std::shared_ptr<sinter::Engine> engine;
  bool in_turn = false;  // tasks are being resumed
  // Sessions of expressions that were read before, most recently used first: the key is the expression's structure.
  struct Known {
    std::string key;
    std::vector<std::shared_ptr<const void>> constants;  // keeps alive what the key names by address
    std::shared_ptr<sinter::Session> session;
  };
  std::deque<Known> known;
};

/// The hash of the library's operators; 0 on the web, where a program is linked once, with all it needs.
uint64_t library_operators();

BackendChoice backend_choice(Backend backend);
SessionOptions session_options(const EngineOptions& engine, const LoadOptions& load);

/// Host data across the border, without a copy.
sinter::Tensor to_engine(const HostTensor& tensor);
HostTensor to_host(const sinter::Tensor& tensor);

}  // namespace sinter::api::internal
