// SPDX-License-Identifier: Apache-2.0
// bisect: the smallest rewrite of the passes, or else the node, that makes two ways of running a model differ.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/diag/compare.h"

namespace sinter::diag {

struct BisectResult {
  enum class Kind : uint8_t { none, patch, node };
  Kind kind = Kind::none;
  std::string pass;                // patch: the pass that applied it
  int64_t patch = -1;              // patch: its number over all passes, from 1
  std::string node, op;            // node: where the first difference or failure is
  std::vector<std::string> nodes;  // the ONNX nodes concerned
  std::string failure;             // the error, where the bad way fails rather than differs
  int runs = 0;
};

/// `good` must run. Where the bad way is right with no patch applied, a binary search finds the first patch with which it is
/// not; otherwise the nodes are compared, or, where it fails, searched for the first one that does.
/// Runs: 3, then log2(patches) or log2(nodes) + 1.
Task<BisectResult> bisect(std::shared_ptr<Engine> engine, ModelSource source, Spec good, Spec bad,
                          std::vector<NamedTensor> inputs, Tolerance tolerance);

}  // namespace sinter::diag
