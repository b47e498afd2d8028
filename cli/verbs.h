// SPDX-License-Identifier: Apache-2.0
// The verbs: one file each. `add_*` declares a verb's flags; the function it returns runs it after parsing.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "cli/options.h"
#include "cli/report.h"

namespace sinter::cli {

/// A verb that was parsed. `json` says how to print.
struct Verb {
  CLI::App* app = nullptr;
  std::function<Result<Outcome>()> run;
  std::function<bool()> json;
};

Verb add_bench(CLI::App& app);
Verb add_bisect(CLI::App& app);
Verb add_classify(CLI::App& app);
Verb add_compare(CLI::App& app);
Verb add_compile(CLI::App& app);
Verb add_doctor(CLI::App& app);
Verb add_inspect(CLI::App& app);
Verb add_ops(CLI::App& app);
Verb add_passes(CLI::App& app);
Verb add_run(CLI::App& app);
Verb add_test(CLI::App& app);

}  // namespace sinter::cli
