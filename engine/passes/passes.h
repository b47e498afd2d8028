// SPDX-License-Identifier: Apache-2.0
// Passes rewrite a graph into an equal, cheaper one. pipeline.cc lists them in order; each is one file. They know
// shapes and operators, never backends. An error inside a pass falls back to the graph as it was before that pass.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/trace.h"
#include "engine/ir/patch.h"

namespace sinter::passes {

/// Given to a running pass: applies its rewrites one by one.
class Rewriter {
 public:
  Rewriter(Graph& graph, int64_t limit) : graph_(graph), limit_(limit) {}

  Graph& graph() { return graph_; }
  /// False once the driver wants no further patch: the pass must return.
  bool open() const { return limit_ < 0 || count_ < limit_; }
  /// Applies the patch and counts it.
  void apply(Patch& patch) {
    patch.apply();
    ++count_;
  }
  int64_t count() const { return count_; }

 private:
  Graph& graph_;
  int64_t limit_;
  int64_t count_ = 0;
};

enum class Kind : uint8_t {
  simplify,  // removes work without changing arithmetic
  layout,    // reorders memory
  fusion,    // merges operators; off with `--fusion off`
};

struct Pass {
  std::string_view name;
  Kind kind;
  std::string_view summary;
  Result<> (*run)(Rewriter&);
};

/// In the order in which they run.
std::span<const Pass> all_passes();

struct Options {
  bool fusion = true;
  std::vector<std::string> off;
  int64_t stop_after_patch = -1;  // patches over all passes; -1: no limit
  trace::Log* trace = nullptr;
};

struct Report {
  struct Row {
    std::string pass;
    int64_t patches = 0;
    std::string failure;  // why the pass was rolled back; empty where it worked
  };
  std::vector<Row> rows;
};

/// Unknown names in `off` are InvalidInput, listing the known ones.
Result<Report> run(Graph& graph, const Options& options);

/// Makes every float32 value of an imported graph float16, with casts at the graph's inputs and outputs. Operators that
/// do not take float16 keep float32, with casts around them. Changes numbers, so it is no pass: diagnosis asks for it.
Result<> to_float16(Graph& graph);

}  // namespace sinter::passes
