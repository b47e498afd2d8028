// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/where.h"

#include "engine/base/str.h"
#include "engine/ops/where.h"

namespace sinter::plan {
namespace {

void set_planned_shapes(const Plan& plan, const std::vector<ValueId>& ids, std::vector<std::string>& texts) {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= plan.values.size()) continue;
    const PlannedValue& value = plan.values[ids[i]];
    texts[i] = StrCat(plan.graph->values[ids[i]].name, " ", name_of(value.dtype), to_string(value.shape));
  }
}

// An injected fault acts behind a node: the step that computes that node is what it is about.
size_t step_before_barrier(const Plan& plan, const Step& step) {
  const Node& node = plan.graph->nodes[step.node];
  if (!node.op || node.op->domain != "sinter" || node.op->name != "Inject") return plan.steps.size();
  NodeId producer = plan.graph->values[node.inputs[0]].producer;
  while (producer != kNone && plan.graph->nodes[producer].origins.empty()) {  // a change of layout in between
    producer = plan.graph->values[plan.graph->nodes[producer].inputs[0]].producer;
  }
  for (size_t i = plan.steps.size(); i-- > 0;) {
    const Step::Kind kind = plan.steps[i].kind;
    if (plan.steps[i].node == producer && (kind == Step::Kind::host || kind == Step::Kind::dispatch)) return i;
  }
  return plan.steps.size();
}

}  // namespace

Failure where(const Plan& plan, size_t index) {
  if (index >= plan.steps.size() || plan.steps[index].node >= plan.graph->nodes.size()) return {};
  const Step& step = plan.steps[index];
  const Node& node = plan.graph->nodes[step.node];
  if (const size_t before = step_before_barrier(plan, step); before < plan.steps.size()) {
    Failure failure = where(plan, before);
    failure.node = node.name;
    return failure;
  }
  Failure failure = sinter::where(*plan.graph, node);
  set_planned_shapes(plan, node.inputs, failure.inputs);
  set_planned_shapes(plan, node.outputs, failure.outputs);
  if (step.kind == Step::Kind::dispatch) {
    failure.kernel = step.kernel.name;
    failure.wgsl = step.kernel.text;
  } else {
    failure.kernel = step.host_kernel ? std::string(step.host_kernel->name) : "the reference row";
  }
  return failure;
}

}  // namespace sinter::plan
