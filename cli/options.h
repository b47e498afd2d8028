// SPDX-License-Identifier: Apache-2.0
// The flags that verbs share, and the parsing of their values.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/result.h"
#include "engine/runtime/session.h"
#include "engine/tensor/compare.h"

namespace sinter::cli {

struct CommonOptions {
  std::string backend = "auto";
  std::string fusion = "on";
  std::vector<std::string> off;
  unsigned threads = 0;
  std::string dtype = "f32";
  double timeout_ms = 30000;
  double rtol = -1, atol = -1;  // negative: the verb's own
  bool json = false;
  std::string trace;
  std::vector<std::string> inject;
  std::string inject_device;

  SessionOptions session_options() const;
  Tolerance tolerance(Tolerance fallback) const;
};

/// Adds the common flags to a verb.
void add_common(CLI::App& verb, CommonOptions& options);

/// "NAME=VALUE" split at its last '=': ONNX names may hold any character.
struct Assignment {
  std::string name, value;
};
/// Accepts only values with a name, an '=' and something after it.
extern const CLI::Validator kAssignment;
/// Accepts whole numbers from 0.
extern const CLI::Validator kSeed;
/// Accept numbers above 0, and numbers of at least 0.
extern const CLI::Validator kPositive, kNotNegative;
Assignment split_assignment(const std::string& text);

/// `--dim NAME=N`.
Result<std::vector<std::pair<std::string, int64_t>>> parse_dims(const std::vector<std::string>& dims);

}  // namespace sinter::cli
