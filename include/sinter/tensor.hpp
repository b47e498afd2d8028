// SPDX-License-Identifier: Apache-2.0
// Tensor: a value that is not computed yet. Operators build an expression; `co_await t.data()` runs it, through the same
// graph, passes, plan and kernels as a model file. Mistakes show there too, with the line that made them.
#pragma once

#include <array>
#include <concepts>
#include <initializer_list>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "include/sinter/engine.hpp"
#include "include/sinter/host_tensor.hpp"
#include "include/sinter/task.hpp"

namespace sinter::api {

using Source = std::source_location;

namespace internal {
struct Expression;
struct AttributeList;
}  // namespace internal

/// A dimension: a number, a name ("batch") that may be any size, or "?" where nothing is known.
struct Dim {
  Dim(std::integral auto number) : value(static_cast<int64_t>(number)) {}
  Dim(const char* dim_name) : name(dim_name) {}
  Dim(std::string dim_name) : name(std::move(dim_name)) {}
  int64_t value = -1;
  std::string name;
};

/// A shape with such dimensions; `Dims::any()` leaves even the rank open.
struct Dims {
  Dims() = default;
  Dims(std::initializer_list<Dim> dims) : list(dims) {}
  static Dims any() {
    Dims dims;
    dims.ranked = false;
    return dims;
  }
  std::vector<Dim> list;
  bool ranked = true;
};

class Tensor {
 public:
  /// No tensor: an optional operand that is left out.
  Tensor() = default;
  /// A number of the type of the operand that it meets: `x * 2`, `clip(x, 0, 6)`.
  template <class Number>
    requires std::is_arithmetic_v<Number>
  Tensor(Number number, Source at = Source::current()) : Tensor(of_number(static_cast<double>(number), at)) {}
  /// A list of int64, as shapes and axes are: `reshape(x, {1, -1})`.
  Tensor(std::initializer_list<int64_t> values, Source at = Source::current());

  /// Data that may differ from run to run, on an engine.
  Tensor(const Engine& engine, HostTensor data, Source at = Source::current());
  Tensor(const Engine& engine, Result<HostTensor> data, Source at = Source::current());
  template <class T>
  Tensor(const Engine& engine, const Shape& shape, std::initializer_list<T> values, Source at = Source::current())
      : Tensor(engine, HostTensor::of<T>(shape, {values.begin(), values.size()}), at) {}
  /// Data that stays, such as a weight: packed for its kernels once.
  static Tensor constant(HostTensor data, std::string name = {}, Source at = Source::current());
  static Tensor constant(Result<HostTensor> data, std::string name = {}, Source at = Source::current());
  template <class T>
  static Tensor constant(const Shape& shape, std::initializer_list<T> values, Source at = Source::current()) {
    return constant(HostTensor::of<T>(shape, {values.begin(), values.size()}), {}, at);
  }
  /// A value to be given when a Function runs.
  static Tensor input(std::string name, DType dtype, Dims shape, Source at = Source::current());
  /// A tensor whose read fails.
  static Tensor failed(Error error, Source at = Source::current());

  explicit operator bool() const { return expression_ != nullptr; }

  /// Computes it. The engine is that of the data it is made from.
  Task<HostTensor> data() const;
  Task<HostTensor> data(Engine engine) const;
#ifndef __wasm__
  /// The same, waiting. On the web nothing may block: there is no such call.
  Result<HostTensor> to_data() const;
#endif

  const std::shared_ptr<const internal::Expression>& expression() const { return expression_; }
  uint32_t output() const { return output_; }
  Tensor(std::shared_ptr<const internal::Expression> expression, uint32_t output)
      : expression_(std::move(expression)), output_(output) {}

 private:
  static Tensor of_number(double number, Source at);

  std::shared_ptr<const internal::Expression> expression_;
  uint32_t output_ = 0;
};

/// Several tensors in one run.
Task<std::vector<HostTensor>> data_of(std::vector<Tensor> tensors);
Task<std::vector<HostTensor>> data_of(Engine engine, std::vector<Tensor> tensors);

// ---- operators ----

/// A list given as an attribute; not given where it was made from nothing.
template <class T>
struct List {
  List() = default;
  List(std::initializer_list<T> list) : values(list) {}
  List(std::vector<T> list) : values(std::move(list)) {}
  std::optional<std::vector<T>> values;
};

/// A tensor given as an attribute.
template <class T>
HostTensor host(const Shape& shape, std::initializer_list<T> values) {
  auto tensor = HostTensor::of<T>(shape, {values.begin(), values.size()});
  return tensor ? *tensor : HostTensor();
}

/// The attributes of one operator. What is empty is not given.
class Attributes {
 public:
  Attributes() = default;
  Attributes& set(std::string_view name, std::optional<int64_t> value);
  Attributes& set(std::string_view name, std::optional<float> value);
  Attributes& set(std::string_view name, std::optional<std::string_view> value);
  Attributes& set(std::string_view name, const List<int64_t>& value);
  Attributes& set(std::string_view name, const List<float>& value);
  Attributes& set(std::string_view name, const List<std::string>& value);
  Attributes& set(std::string_view name, const HostTensor& value);

  template <std::integral Number>
  Attributes& set(std::string_view name, Number value) {
    return set(name, std::optional<int64_t>(value));
  }
  template <std::floating_point Number>
  Attributes& set(std::string_view name, Number value) {
    return set(name, std::optional<float>(static_cast<float>(value)));
  }
  Attributes& set(std::string_view name, const char* value) { return set(name, std::optional<std::string_view>(value)); }

  const std::shared_ptr<internal::AttributeList>& list() const { return list_; }

 private:
  std::shared_ptr<internal::AttributeList> list_;
};

/// An operator by its ONNX name. ops.hpp has a function for each.
std::vector<Tensor> apply(std::string_view op, std::vector<Tensor> inputs, const Attributes& attributes, size_t outputs,
                          Source at);

/// An operand of + - * / < > with the place where it was written.
struct Operand {
  Operand(const Tensor& t, Source source = Source::current()) : tensor(t), at(source) {}
  template <class Number>
    requires std::is_arithmetic_v<Number>
  Operand(Number number, Source source = Source::current()) : tensor(number, source), at(source) {}
  Tensor tensor;
  Source at;
};
inline Tensor binary(std::string_view op, const Operand& a, const Operand& b) {
  return apply(op, {a.tensor, b.tensor}, {}, 1, b.at)[0];
}
inline Tensor operator+(const Operand& a, const Operand& b) { return binary("Add", a, b); }
inline Tensor operator-(const Operand& a, const Operand& b) { return binary("Sub", a, b); }
inline Tensor operator*(const Operand& a, const Operand& b) { return binary("Mul", a, b); }
inline Tensor operator/(const Operand& a, const Operand& b) { return binary("Div", a, b); }
inline Tensor operator<(const Operand& a, const Operand& b) { return binary("Less", a, b); }
inline Tensor operator<=(const Operand& a, const Operand& b) { return binary("LessOrEqual", a, b); }
inline Tensor operator>(const Operand& a, const Operand& b) { return binary("Greater", a, b); }
inline Tensor operator>=(const Operand& a, const Operand& b) { return binary("GreaterOrEqual", a, b); }
inline Tensor operator-(const Operand& a) { return apply("Neg", {a.tensor}, {}, 1, a.at)[0]; }

// ---- functions ----

/// A result of a Function. `shape` says what inference cannot know.
struct Output {
  std::string name;
  Tensor tensor;
  Dims shape = Dims::any();
};

/// An expression over inputs, made ready once and run many times.
class Function {
 public:
  Function() = default;
  /// `inputs` are tensors of Tensor::input. Every failure of the expression shows here.
  static Task<Function> create(Engine engine, std::vector<Tensor> inputs, std::vector<Output> outputs,
                               LoadOptions options = {});
  /// Inputs and outputs in the order of `create`.
  Task<std::vector<HostTensor>> run(std::vector<HostTensor> inputs, CancelToken cancel = {}) const;
  const Session& session() const { return session_; }

 private:
  Session session_;
  std::vector<std::string> names_;
};

}  // namespace sinter::api
