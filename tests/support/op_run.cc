// SPDX-License-Identifier: Apache-2.0
#include "tests/support/op_run.h"

#include <cstdlib>

#include "engine/base/check.h"
#include "engine/base/str.h"
#include "engine/ops/infer.h"

namespace sinter::testing {
namespace {

Tensor allocate(DType dtype, const Shape& shape) {
  auto tensor = Tensor::alloc(dtype, shape);
  SINTER_CHECK(tensor.has_value());
  return *std::move(tensor);
}

std::string error_text(const Error& error) { return StrCat(code_name(error.code), ": ", error.message); }

}  // namespace

Tensor tensor_of(DType dtype, const Shape& shape, std::initializer_list<double> values) {
  Tensor tensor = allocate(dtype, shape);
  SINTER_CHECK(tensor.numel() == values.size());
  size_t i = 0;
  for (double value : values) set_f64(tensor, i++, value);
  return tensor;
}

Tensor int64s(std::initializer_list<int64_t> values) {
  Tensor tensor = allocate(DType::i64, {static_cast<int64_t>(values.size())});
  size_t i = 0;
  for (int64_t value : values) set_i64(tensor, i++, value);
  return tensor;
}

Tensor counting(const Shape& shape, DType dtype) {
  Tensor tensor = allocate(dtype, shape);
  for (size_t i = 0; i < tensor.numel(); ++i) set_i64(tensor, i, static_cast<int64_t>(i));
  return tensor;
}

OpRun::OpRun(std::string_view op, std::initializer_list<std::pair<std::string_view, AttrValue>> attrs) {
  node_.name = "node";
  node_.op = find_op("", op);
  SINTER_CHECK(node_.op);
  for (const auto& [name, value] : attrs) node_.attrs.set(name, value);
  outputs(1);
}

OpRun& OpRun::constant(Tensor value) {
  input(std::move(value));
  operands_.back().constant = true;
  return *this;
}

OpRun& OpRun::input(Tensor value) {
  symbolic(value.dtype(), value.shape());
  operands_.back().value = std::move(value);
  return *this;
}

OpRun& OpRun::symbolic(DType dtype, std::optional<Shape> shape) {
  node_.inputs.push_back(static_cast<ValueId>(operands_.size()));
  operands_.push_back({.dtype = dtype, .shape = shape});
  return *this;
}

OpRun& OpRun::absent() {
  node_.inputs.push_back(kNone);
  operands_.push_back({.absent = true});
  return *this;
}

OpRun& OpRun::outputs(size_t count) {
  node_.outputs.clear();
  for (size_t i = 0; i < count; ++i) node_.outputs.push_back(static_cast<ValueId>(1000 + i));
  return *this;
}

std::vector<TensorInfo> OpRun::infos() const {
  std::vector<TensorInfo> infos;
  for (const Operand& operand : operands_) {
    infos.push_back({.dtype = operand.dtype,
                     .shape = operand.shape,
                     .constant = operand.constant ? &operand.value : nullptr,
                     .present = !operand.absent});
  }
  return infos;
}

Result<std::vector<TensorInfo>> OpRun::infer(bool concrete) const { return infer_node(node_, infos(), concrete); }

Result<std::vector<Tensor>> OpRun::run() const {
  const std::vector<TensorInfo> outputs = SINTER_TRY(infer(true));
  std::vector<const Tensor*> inputs;
  for (const Operand& operand : operands_) inputs.push_back(operand.absent ? nullptr : &operand.value);
  return run_reference(node_, inputs, outputs);
}

std::string OpRun::shape(bool concrete) const {
  const auto infos = infer(concrete);
  if (!infos) return error_text(infos.error());
  const std::string symbols[] = {"A", "B", "C", "D"};
  return (*infos)[0].shape ? to_string(*(*infos)[0].shape, symbols) : "rank ?";
}

std::string OpRun::result() const {
  const auto outputs = run();
  return outputs ? to_text((*outputs)[0]) : error_text(outputs.error());
}

std::string to_text(const Tensor& tensor) {
  std::string text = StrCat(name_of(tensor.dtype()), to_string(tensor.shape()), "{");
  for (size_t i = 0; i < tensor.numel(); ++i) {
    if (i) text += ',';
    if (is_float(tensor.dtype())) {
      StrAppend(text, get_f64(tensor, i));
    } else {
      StrAppend(text, get_i64(tensor, i));
    }
  }
  return text + "}";
}

}  // namespace sinter::testing
