// SPDX-License-Identifier: Apache-2.0
// compare: the first node at which two ways of running a model disagree, and how the error grows from there.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/diag/capture.h"
#include "engine/tensor/compare.h"

namespace sinter::diag {

struct NodeRow {
  std::string node, op;
  std::vector<std::string> nodes;  // all of the fused step, where the node has no value of its own in one of the two
  bool compared = false;           // false: the value exists in neither (eliminated, or computed from constants)
  bool equal = true;
  double max_abs = 0, max_rel = 0, cosine = 1;
};

struct Difference {
  std::string node, op;
  std::vector<std::string> nodes;   // one, or the fused step that could not be narrowed further
  std::vector<std::string> shapes;  // of the node's inputs and output: "x [1,3,224,224]"
  std::vector<int64_t> index;
  double a = 0, b = 0;
};

/// Two correct float32 backends differ by rounding that grows along the network; half precision rounds more.
Tolerance default_tolerance(const Spec& a, const Spec& b);

/// What makes "equal" mean less than it says: NaN equals NaN, and tensors without elements agree on nothing.
std::vector<std::string> doubts_about(const std::vector<NamedTensor>& inputs);

struct CompareResult {
  bool equal = true;
  std::optional<Difference> first;
  std::vector<NodeRow> nodes;  // in execution order
  int runs = 0;
  std::string inert;                  // why the injected fault makes no difference; "" where it makes one
  std::vector<std::string> warnings;  // doubts_about the inputs
};

/// Why a fault that was injected into `spec`, and made no compared value differ, is inert; "" where none was. `report` is of
/// a session with it.
std::string why_inert(const Spec& spec, const SessionReport& report);

/// Runs both and compares every node's output. Where the first difference lies inside a fused step, both run again without
/// fusion to name the node; if they agree there, the fused step itself is what differs. `kept` (may be null) holds runs of
/// side `a` between calls.
Task<CompareResult> compare(std::shared_ptr<Engine> engine, ModelSource source, Spec a, Spec b,
                            std::vector<NamedTensor> inputs, Tolerance tolerance, KeptRuns* kept = nullptr);

/// A flat index as one per axis.
std::vector<int64_t> unravel(size_t flat, const Shape& shape);

/// Compares what was captured; `graph` is the model as imported.
Result<CompareResult> compare_captures(const Graph& graph, const Capture& a, const Capture& b, Tolerance tolerance);

}  // namespace sinter::diag
