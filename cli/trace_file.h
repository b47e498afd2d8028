// SPDX-License-Identifier: Apache-2.0
// Writes the engine's events as a Chrome trace, which chrome://tracing and Perfetto open.
#pragma once

#include <fstream>
#include <string>
#include <vector>

#include "cli/report.h"
#include "engine/base/trace.h"

namespace sinter::cli {

/// Rows are written as they happen, "B" where a stage begins and "E" where it ends, so that the file names the last stage
/// even where the process dies (the format allows the closing bracket to be missing).
class TraceFile final : public trace::Listener {
 public:
  ~TraceFile();
  /// Nothing to do where the path is empty.
  Result<> open(const std::string& path);
  void on_event(const trace::Event& event) override;

 private:
  struct Open {
    uint64_t id = 0;
    std::string stage, detail;
    bool ended = false;
  };
  void write(const Json& row);
  void write_ends(double t_ms);

  std::ofstream file_;
  bool first_ = true;
  double last_ms_ = 0;
  std::vector<Open> open_;  // outermost first
};

}  // namespace sinter::cli
