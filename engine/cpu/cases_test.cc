// SPDX-License-Identifier: Apache-2.0
// Every case of every operator row: each fast kernel that accepts it against the reference row, on every instruction set,
// with 1 and 3 threads, activations channel-first and channel-last alike.
#include <map>

#include "engine/cpu/testing.h"
#include "engine/ops/infer.h"
#include "engine/ops/op_def.h"

namespace sinter::cpu {
namespace {

Tensor input_of(const OpCase::Input& input, uint32_t seed) {
  Tensor tensor = testing::make(input.dtype, input.shape);
  const Tensor noise = testing::random(input.shape, seed, static_cast<float>(input.lo), static_cast<float>(input.hi));
  for (size_t i = 0; i < tensor.numel(); ++i) {
    set_f64(tensor, i, input.values.empty() ? noise.data<float>()[i] : input.values[i % input.values.size()]);
  }
  return tensor;
}

Node node_of(const OpDef& op, const OpCase& c) {
  Node node;
  node.name = c.name;
  node.op = &op;
  node.attrs = c.attrs;
  node.expr = c.expr;
  node.epilogue_first = c.epilogue_first;
  for (size_t i = 0; i < c.inputs.size(); ++i)
    node.inputs.push_back(c.inputs[i].absent ? kNone : static_cast<ValueId>(i));
  for (size_t i = 0; i < c.outputs; ++i) node.outputs.push_back(static_cast<ValueId>(100 + i));
  return node;
}

std::map<std::string_view, int> g_served;

void check(const OpDef& op, const OpCase& c, bool weights) {
  const Node node = node_of(op, c);
  std::vector<Tensor> inputs(c.inputs.size());
  std::vector<const Tensor*> pointers(inputs.size());
  std::vector<TensorInfo> infos(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    infos[i].present = !c.inputs[i].absent;
    if (c.inputs[i].absent) continue;
    inputs[i] = input_of(c.inputs[i], static_cast<uint32_t>(i + 1));
    pointers[i] = &inputs[i];
    infos[i] = {inputs[i].dtype(), inputs[i].shape(), &inputs[i], true, c.inputs[i].constant || (weights && i > 0)};
  }
  const auto outputs = infer_node(node, infos, true);
  if (!outputs) return;  // a case of what the row refuses
  for (const plan::HostKernel* kernel : host_kernels()) {
    if (!kernel->op.empty() && (kernel->op != op.name || kernel->domain != op.domain)) continue;
    if (!kernel->accepts(node, infos, *outputs)) continue;
    const auto reference = run_reference(node, pointers, *outputs);
    ASSERT_TRUE(reference.has_value()) << to_string(reference.error());
    std::vector<double> expected((*reference)[0].numel());
    for (size_t i = 0; i < expected.size(); ++i) expected[i] = get_f64((*reference)[0], i);
    std::vector<bool> weight;
    for (const TensorInfo& info : infos) weight.push_back(info.weight);
    const testing::Call call{node, inputs, weight, *(*outputs)[0].shape, std::string(kernel->name)};
    testing::everywhere([&](unsigned threads) {
      testing::expect_near(testing::run(call, threads), expected, std::max(c.rtol, c.atol));
    });
    ++g_served[kernel->name];
    return;
  }
}

TEST(Cases, KernelsAgreeWithTheReferenceRows) {
  for (const OpDef* op : all_ops()) {
    std::vector<OpCase> cases;
    if (op->cases) op->cases(cases);
    for (const OpCase& c : cases) {
      SCOPED_TRACE(StrCat(op->name, ": ", c.name));
      for (const bool weights : {false, true}) check(*op, c, weights);
    }
  }
  // A kernel that no case reaches is not tested here.
  for (const plan::HostKernel* kernel : host_kernels()) {
    EXPECT_GT(g_served[kernel->name], 0) << kernel->name << " serves no case";
  }
}

}  // namespace
}  // namespace sinter::cpu
