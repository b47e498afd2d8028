// SPDX-License-Identifier: Apache-2.0
// Model to Graph: names resolved, operators found, every node in the newest form of its operator, shapes inferred. What a
// Graph says about opsets is nothing: those differences end here.
#pragma once

#include <string>
#include <vector>

#include "engine/base/result.h"
#include "engine/ir/graph.h"
#include "engine/onnx/external_data.h"
#include "engine/onnx/model.h"

namespace sinter::onnx {

constexpr int64_t kOldestOpset = 7;
int64_t newest_opset();
constexpr int64_t kNewestIr = 13;

/// A node that cannot be imported, and what would work.
struct RefusedNode {
  std::string node, op, reason, hint;
};

struct ImportOptions {
  ExternalData* external_data = nullptr;        // null: a model with external data is refused
  std::vector<RefusedNode>* refused = nullptr;  // gets every refused node as data
};

/// All nodes that are not supported are in the one Unsupported error, not just the first. Anything wrong with the model
/// itself is InvalidModel and names the node, value or attribute.
Result<Graph> import(const Model& model, const ImportOptions& options = {});

}  // namespace sinter::onnx
