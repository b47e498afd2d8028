// SPDX-License-Identifier: Apache-2.0
// Runs one operator row by hand: inference with symbols or concrete, and the reference, on literal operands.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/ops/op_def.h"

namespace sinter::testing {

Tensor tensor_of(DType dtype, const Shape& shape, std::initializer_list<double> values);
inline Tensor floats(const Shape& shape, std::initializer_list<double> values) {
  return tensor_of(DType::f32, shape, values);
}
inline Tensor int64s(const Shape& shape, std::initializer_list<double> values) {
  return tensor_of(DType::i64, shape, values);
}
/// Exact values, rank 1.
Tensor int64s(std::initializer_list<int64_t> values);
/// `shape` filled with 0, 1, 2, ...
Tensor counting(const Shape& shape, DType dtype = DType::f32);

class OpRun {
 public:
  explicit OpRun(std::string_view op, std::initializer_list<std::pair<std::string_view, AttrValue>> attrs = {});

  OpRun& constant(Tensor value);  // known at load
  OpRun& input(Tensor value);     // known only while running
  OpRun& symbolic(DType dtype, std::optional<Shape> shape);
  OpRun& absent();
  OpRun& outputs(size_t count);

  Result<std::vector<TensorInfo>> infer(bool concrete = false) const;
  /// Inference at plan time, then the reference.
  Result<std::vector<Tensor>> run() const;

  // For single-output operators, as text: "[2,?]", "int64[3]{1,2,3}", or the error's code and message.
  std::string shape(bool concrete = false) const;
  std::string result() const;

 private:
  struct Operand {
    DType dtype = DType::undefined;
    std::optional<Shape> shape;
    Tensor value;
    bool constant = false, absent = false;
  };
  std::vector<TensorInfo> infos() const;

  Node node_;
  std::vector<Operand> operands_;
};

/// "float32[2,2]{0,1,2,3}".
std::string to_text(const Tensor& tensor);

}  // namespace sinter::testing
