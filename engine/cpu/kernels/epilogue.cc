// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/kernels/epilogue.h"

#include <algorithm>

namespace sinter::cpu {

size_t own_inputs(const Node& node) {
  return node.expr.input_count() > 1 ? std::min<size_t>(node.epilogue_first, node.inputs.size()) : node.inputs.size();
}

bool epilogue_accepted(const Node& node, std::span<const TensorInfo> inputs, const TensorInfo& output) {
  if (node.expr.empty()) return true;
  const size_t first = own_inputs(node);
  if (inputs.size() - first >= Program::kMaxInputs) return false;
  for (size_t i = first; i < inputs.size(); ++i) {
    const TensorInfo& operand = inputs[i];
    if (!operand.present || operand.dtype != DType::f32 || !(*operand.shape == *output.shape)) return false;
  }
  return recognise_epilogue(node.expr).kind == EpilogueForm::Kind::clamp || Program::make(node.expr).has_value();
}

Epilogue make_epilogue(const plan::HostArgs& args, bool as_program) {
  Epilogue epilogue;
  if (args.node.expr.empty()) return epilogue;
  const size_t first = own_inputs(args.node);
  const EpilogueForm form = recognise_epilogue(args.node.expr);
  if (form.kind == EpilogueForm::Kind::clamp && !as_program) {
    if (form.add_input) epilogue.add = args.inputs[first]->data<float>().data();
    epilogue.lo = form.lo;
    epilogue.hi = form.hi;
    return epilogue;
  }
  epilogue.general = Program::make(args.node.expr);
  for (size_t i = first; i < args.inputs.size(); ++i) {
    epilogue.operands[i - first + 1] = args.inputs[i]->data<float>().data();
  }
  return epilogue;
}

void Epilogue::apply(float* out, size_t first, size_t count) const {
  std::array<Program::Input, Program::kMaxInputs> inputs;
  for (size_t done = 0; done < count;) {
    const size_t n = std::min(general->block(), count - done), at = first + done;
    inputs[0] = {out + at, false};
    for (size_t i = 1; i < inputs.size() && operands[i]; ++i) inputs[i] = {operands[i] + at, false};
    general->run(inputs, out + at, n);
    done += n;
  }
}

}  // namespace sinter::cpu
