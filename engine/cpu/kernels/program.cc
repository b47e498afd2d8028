// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/kernels/program.h"

#include <algorithm>

#include "engine/cpu/kernels/rows.h"

namespace sinter::cpu {
namespace {

// Operations without a vector form: exact to the scalar definition, in double.
void run_scalar(const RowOp& row) {
  Expr expr;
  const int operands = arity(row.op);
  for (int i = 0; i < operands; ++i) expr.input(static_cast<uint16_t>(i));
  if (operands == 1) expr.unary(row.op, 0);
  if (operands == 2) expr.binary(row.op, 0, 1);
  double values[2] = {0, 0};
  for (size_t i = 0; i < row.count; ++i) {
    for (int k = 0; k < operands; ++k) values[k] = row.in[k][i * row.step[k]];
    row.out[i] = static_cast<float>(expr.eval(std::span<const double>(values, operands)));
  }
}

}  // namespace

std::optional<Program> Program::make(const Expr& expr) {
  const auto nodes = expr.nodes();
  if (nodes.empty()) return std::nullopt;
  Program program;
  std::vector<size_t> last_use(nodes.size(), 0);
  for (size_t i = 0; i < nodes.size(); ++i) {
    const uint16_t used[3] = {nodes[i].a, nodes[i].b, nodes[i].c};
    for (int k = 0; k < arity(nodes[i].op); ++k) last_use[used[k]] = i;
  }
  std::vector<Operand> at(nodes.size());
  std::vector<uint16_t> free_slots;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const ExprNode& node = nodes[i];
    const bool result = i + 1 == nodes.size();
    Instruction instruction{node.op, {}, kOut};
    if (node.op == ScalarOp::input) {
      if (node.a >= kMaxInputs) return std::nullopt;
      program.inputs_ |= 1u << node.a;
      at[i] = {Operand::Kind::input, node.a, 0};
    } else if (node.op == ScalarOp::constant) {
      at[i] = {Operand::Kind::constant, 0, static_cast<float>(node.value)};
    }
    if (arity(node.op) == 0) {
      if (!result) continue;
      instruction.op = ScalarOp::input;  // a copy
      instruction.operands[0] = at[i];
    }
    const uint16_t used[3] = {node.a, node.b, node.c};
    for (int k = 0; k < arity(node.op); ++k) {
      instruction.operands[k] = at[used[k]];
      const bool ends = last_use[used[k]] == i && at[used[k]].kind == Operand::Kind::slot;
      if (ends && std::find(free_slots.begin(), free_slots.end(), at[used[k]].index) == free_slots.end()) {
        free_slots.push_back(at[used[k]].index);
      }
    }
    if (!result) {
      if (free_slots.empty()) {
        if (program.slots_ == kMaxSlots) return std::nullopt;
        free_slots.push_back(static_cast<uint16_t>(program.slots_++));
      }
      instruction.slot = free_slots.back();
      free_slots.pop_back();
      at[i] = {Operand::Kind::slot, instruction.slot, 0};
    }
    program.code_.push_back(instruction);
  }
  if (program.slots_ > 0) program.block_ = std::min(kMaxBlock, kPoolFloats / program.slots_ / 16 * 16);
  return program;
}

void Program::run(std::span<const Input> inputs, float* out, size_t count) const {
  const RowKernels& rows = row_kernels();
  alignas(64) float slots[kPoolFloats];
  alignas(64) float splats[3][RowKernels::kSplat];
  for (const Instruction& instruction : code_) {
    RowOp row{instruction.op, {}, {}, instruction.slot == kOut ? out : slots + instruction.slot * block_, count};
    for (size_t k = 0; k < 3; ++k) {
      const Operand& operand = instruction.operands[k];
      float value = operand.value;
      bool splat = operand.kind == Operand::Kind::constant;
      if (operand.kind == Operand::Kind::slot) {
        row.in[k] = slots + operand.index * block_;
      } else if (operand.kind == Operand::Kind::input) {
        row.in[k] = inputs[operand.index].data;
        splat = inputs[operand.index].scalar;
        if (splat) value = *row.in[k];
      }
      row.step[k] = splat ? 0 : 1;
      if (splat) {
        std::fill_n(splats[k], RowKernels::kSplat, value);
        row.in[k] = splats[k];
      }
    }
    if (!rows.run(row)) run_scalar(row);
  }
}

}  // namespace sinter::cpu
