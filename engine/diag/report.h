// SPDX-License-Identifier: Apache-2.0
// The report of a bisection: complete in itself, to be pasted into an issue.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "engine/diag/repro.h"

namespace sinter::diag {

/// What the caller knows and the engine does not.
struct ReportContext {
  std::string model;                                          // the file's name
  std::vector<std::pair<std::string, std::string>> versions;  // "sinter" -> "0.1.0", "system" -> "Linux x86-64"
  std::vector<std::string> commands;                          // that show the difference again
};

std::string report_markdown(const BisectResult& found, const Repro& repro, const Spec& good, const Spec& bad,
                            const ReportContext& context);
std::string report_json(const BisectResult& found, const Repro& repro, const Spec& good, const Spec& bad,
                        const ReportContext& context);

}  // namespace sinter::diag
