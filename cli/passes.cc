// SPDX-License-Identifier: Apache-2.0
// sinter passes
#include "engine/passes/passes.h"

#include <cstdio>
#include <memory>

#include "cli/verbs.h"

namespace sinter::cli {
namespace {

std::string_view name_of(passes::Kind kind) {
  switch (kind) {
    case passes::Kind::simplify:
      return "simplify";
    case passes::Kind::layout:
      return "layout";
    case passes::Kind::fusion:
      return "fusion";
  }
  return "simplify";
}

Result<Outcome> list(bool json) {
  Outcome outcome{Json::array()};
  for (const passes::Pass& pass : passes::all_passes()) {
    outcome.document.push_back({{"name", pass.name}, {"kind", name_of(pass.kind)}, {"summary", pass.summary}});
    if (json) continue;
    std::printf("%-20s %-9s %s\n", std::string(pass.name).c_str(), std::string(name_of(pass.kind)).c_str(),
                std::string(pass.summary).c_str());
  }
  return outcome;
}

}  // namespace

Verb add_passes(CLI::App& app) {
  auto json = std::make_shared<bool>(false);
  CLI::App* verb = app.add_subcommand("passes", "list the passes, in the order in which they run");
  verb->add_flag("--json", *json, "one JSON document");
  return {verb, [json] { return list(*json); }, [json] { return *json; }};
}

}  // namespace sinter::cli
