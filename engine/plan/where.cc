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

}  // namespace

Failure where(const Plan& plan, size_t index) {
  if (index >= plan.steps.size() || plan.steps[index].node >= plan.graph->nodes.size()) return {};
  const Step& step = plan.steps[index];
  const Node& node = plan.graph->nodes[step.node];
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
