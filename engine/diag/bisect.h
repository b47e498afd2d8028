// SPDX-License-Identifier: Apache-2.0
// bisect: the smallest rewrite of the passes, or else the node, that makes two ways of running a model differ.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/diag/compare.h"

namespace sinter::diag {

struct BisectResult {
  enum class Kind : uint8_t { none, patch, node };
  Kind kind = Kind::none;
  std::string pass;                 // patch: the pass that applied it
  int64_t patch = -1;               // patch: its number over all passes, from 1
  std::string node, op;             // where the first difference or failure is; patch: the node that it changed
  std::vector<std::string> nodes;   // the ONNX nodes concerned, in execution order
  std::optional<Difference> first;  // at that node, or at the model's output where only that was looked at
  std::string failure;              // the error, where the bad way fails rather than differs
  int runs = 0;
  bool by_nodes = false;              // the outputs agree: it is the values inside that differ, or were found to agree
  std::string inert;                  // why the injected fault makes no difference; "" where it makes one
  std::vector<std::string> warnings;  // doubts_about the inputs
};

std::string_view kind_name(BisectResult::Kind kind);

/// `good` must run. Where the outputs agree, the output of every node that exists both ways is compared instead, here and in
/// what follows. Where the bad way is right with no patch applied, a binary search finds the first patch with which it is
/// not; otherwise the nodes are compared, or, where it fails or is right when every node is looked at, searched.
/// Runs: at most 6 + log2(nodes), or 6 + log2(patches). `kept` (may be null) holds runs of the good side between calls.
Task<BisectResult> bisect(std::shared_ptr<Engine> engine, ModelSource source, Spec good, Spec bad,
                          std::vector<NamedTensor> inputs, Tolerance tolerance, KeptRuns* kept = nullptr);

}  // namespace sinter::diag
