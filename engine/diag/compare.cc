// SPDX-License-Identifier: Apache-2.0
#include "engine/diag/compare.h"

#include <algorithm>
#include <cmath>

#include "engine/base/str.h"
#include "engine/ops/op_def.h"

namespace sinter::diag {
namespace {

const CapturedValue* find_value(const Capture& capture, const std::string& name) {
  const auto at = capture.values.find(name);
  return at == capture.values.end() ? nullptr : &at->second;
}

// The value at the end of the step that `node` was fused into.
const std::string* end_of_step(const Capture& capture, const std::string& node) {
  for (const auto& [name, value] : capture.values) {
    if (std::find(value.nodes.begin(), value.nodes.end(), node) != value.nodes.end()) return &name;
  }
  return nullptr;
}

std::vector<std::string> shapes_of(const Graph& graph, const Node& node) {
  std::vector<std::string> shapes;
  for (const auto* ids : {&node.inputs, &node.outputs}) {
    for (ValueId id : *ids) {
      if (id == kNone) continue;
      const Value& value = graph.values[id];
      const std::string shape = value.shape ? to_string(*value.shape, graph.symbols) : std::string("[?]");
      shapes.push_back(StrCat(value.name, " ", shape));
    }
  }
  return shapes;
}

// The values that speak for a node: its own where both runs have it, else those at the end of the step it was fused into.
std::pair<const CapturedValue*, const CapturedValue*> values_of(const Capture& a, const Capture& b,
                                                                const std::string& node, const std::string& value) {
  const CapturedValue* left = find_value(a, value);
  const CapturedValue* right = find_value(b, value);
  if (left && right) return {left, right};
  for (const Capture* capture : {&a, &b}) {
    const std::string* end = end_of_step(*capture, node);
    if (!end) continue;
    left = find_value(a, *end);
    right = find_value(b, *end);
    if (left && right) return {left, right};
  }
  return {nullptr, nullptr};
}

}  // namespace

std::vector<int64_t> unravel(size_t flat, const Shape& shape) {
  std::vector<int64_t> index(shape.rank());
  for (size_t i = shape.rank(); i-- > 0;) {
    index[i] = static_cast<int64_t>(flat) % shape[i];
    flat /= static_cast<size_t>(shape[i]);
  }
  return index;
}

Tolerance default_tolerance(const Spec& a, const Spec& b) {
  const bool half = a.dtype == DType::f16 || b.dtype == DType::f16;
  return half ? Tolerance{2e-2, 2e-2} : Tolerance{1e-3, 1e-4};
}

std::vector<std::string> doubts_about(const std::vector<NamedTensor>& inputs) {
  std::vector<std::string> doubts;
  for (const auto& [name, tensor] : inputs) {
    if (tensor.numel() == 0) doubts.push_back(StrCat("input '", name, "' has no elements, so little is compared"));
    size_t odd = 0;
    for (size_t i = 0; is_float(tensor.dtype()) && i < tensor.numel(); ++i) odd += !std::isfinite(get_f64(tensor, i));
    if (odd) {
      doubts.push_back(StrCat(odd, " of ", tensor.numel(), " elements of input '", name,
                              "' are NaN or infinite, which spreads, and each counts as equal to itself"));
    }
  }
  return doubts;
}

std::string why_inert(const Spec& spec, const SessionReport& report) {
  if (!spec.inject) return {};
  if (!report.inert.empty()) return report.inert;
  return StrCat("what '", spec.inject->kind, "' changes at node '", spec.inject->node,
                "' survives to no compared value");
}

Result<CompareResult> compare_captures(const Graph& graph, const Capture& a, const Capture& b, Tolerance tolerance) {
  CompareResult result;
  for (NodeId id : SINTER_TRY(topological_order(graph))) {
    const Node& node = graph.nodes[id];
    if (node.outputs.empty() || node.outputs[0] == kNone) continue;
    NodeRow row;
    row.node = node.name;
    row.op = node.op->name;
    const auto [left, right] = values_of(a, b, node.name, graph.values[node.outputs[0]].name);
    if (left) {
      const bool narrow = right->tensor.dtype() != left->tensor.dtype();  // one side in half precision
      const Tensor expected = narrow ? SINTER_TRY(convert(left->tensor, DType::f32)) : left->tensor;
      const Tensor actual = narrow ? SINTER_TRY(convert(right->tensor, DType::f32)) : right->tensor;
      const Comparison comparison = SINTER_TRY(sinter::compare(actual, expected, tolerance));
      row.compared = true;
      row.equal = comparison.equal();
      row.max_abs = comparison.max_abs;
      row.max_rel = comparison.max_rel;
      row.cosine = comparison.cosine;
      row.nodes = left->nodes.size() >= right->nodes.size() ? left->nodes : right->nodes;
      if (!row.equal && !result.first) {
        result.equal = false;
        const std::vector<int64_t> index = unravel(comparison.first, left->tensor.shape());
        result.first = Difference{node.name,           row.op,           row.nodes, shapes_of(graph, node), index,
                                  comparison.expected, comparison.actual};
      }
    }
    result.nodes.push_back(std::move(row));
  }
  return result;
}

Task<CompareResult> compare(std::shared_ptr<Engine> engine, ModelSource source, Spec a, Spec b,
                            std::vector<NamedTensor> inputs, Tolerance tolerance, KeptRuns* kept) {
  SessionOptions plain;
  plain.backend = BackendChoice::reference;  // as imported
  const auto graph = SINTER_CO_TRY(load_graph(source, plain, nullptr));
  CompareResult result;
  for (int round = 0; round < 2; ++round) {
    Capture own;
    const Capture& left = *SINTER_CO_TRY(co_await capture_into(engine, source, a, inputs, kept, &own));
    const Capture right = SINTER_CO_TRY(co_await capture(engine, source, b, inputs));
    CompareResult found = SINTER_CO_TRY(compare_captures(*graph, left, right, tolerance));
    found.runs = result.runs + 2;
    if (found.equal) found.inert = why_inert(b, right.report);
    if (round == 0) {
      result = std::move(found);
    } else {
      result.runs = found.runs;
      if (found.first) result.first = std::move(found.first);
    }
    const bool fused =
        (a.fusion && a.backend != BackendChoice::reference) || (b.fusion && b.backend != BackendChoice::reference);
    if (!result.first || result.first->nodes.size() <= 1 || !fused) break;
    a.fusion = b.fusion = false;
  }
  result.warnings = doubts_about(inputs);
  co_return result;
}

}  // namespace sinter::diag
