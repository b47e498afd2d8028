// SPDX-License-Identifier: Apache-2.0
// Program: a scalar expression made ready to run over blocks of floats. One vectorised loop per operation over a block
// that stays in the first-level cache: no code is generated, and any expression runs at memory speed or near it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/ir/expr.h"

namespace sinter::cpu {

class Program {
 public:
  static constexpr size_t kMaxInputs = 32;
  static constexpr size_t kMaxSlots = 64;
  static constexpr size_t kPoolFloats = 4096;  // all slots of one evaluation, on the stack
  static constexpr size_t kMaxBlock = 1024;

  /// Nothing where the expression needs more inputs or slots than a program has.
  static std::optional<Program> make(const Expr& expr);

  /// Longest block that `run` takes; a multiple of the vector length.
  size_t block() const { return block_; }
  /// True where input i is read.
  bool reads(size_t input) const { return input < kMaxInputs && (inputs_ >> input & 1); }

  struct Input {
    const float* data = nullptr;
    bool scalar = false;  // one float for the whole block
  };

  /// out[i] = expr(inputs[0][i], ...) for i < count <= block(). `out` may be one of the inputs.
  void run(std::span<const Input> inputs, float* out, size_t count) const;

 private:
  struct Operand {
    enum class Kind : uint8_t { slot, input, constant };
    Kind kind = Kind::slot;
    uint16_t index = 0;
    float value = 0;
  };
  struct Instruction {
    ScalarOp op;
    std::array<Operand, 3> operands;
    uint16_t slot;  // kOut: the output
  };
  static constexpr uint16_t kOut = 0xffff;

  std::vector<Instruction> code_;
  uint32_t inputs_ = 0;
  size_t slots_ = 0;
  size_t block_ = kMaxBlock;
};

}  // namespace sinter::cpu
