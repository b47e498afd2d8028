// SPDX-License-Identifier: Apache-2.0
// OpDef: all that the engine knows about one operator. One file per operator (or family) in this folder defines the
// rows; ops.inc lists them. Import has already brought every node to the newest form of its operator
// (engine/onnx/upgrade), so a row describes that form only.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/result.h"
#include "engine/ir/graph.h"
#include "engine/wgsl/kernel.h"

namespace sinter {

/// One element of a small integer tensor as far as shapes tell at load: a number, or a dimension that is a symbol or unknown.
struct DimValue {
  int64_t value = kUnknownDim;
  bool number = false;
  friend bool operator==(const DimValue&, const DimValue&) = default;
};
using DimValues = std::vector<DimValue>;

/// What is known of one operand at load or at plan time.
struct TensorInfo {
  DType dtype = DType::undefined;
  std::optional<Shape> shape;        // nothing: rank unknown
  const Tensor* constant = nullptr;  // the value, where it is known (aligned)
  bool present = true;               // false for an absent optional input
  bool weight = false;               // computed from initialisers alone: bound read-only, may be packed
  const DimValues* dims = nullptr;   // at load: the elements of a tensor that was computed from shapes
};

/// Shape and dtype inference. Runs at load with symbolic dimensions (unknown is allowed, guessing is not) and at plan
/// time with concrete ones, where every output must become known.
struct InferContext {
  const Node& node;
  std::span<const TensorInfo> inputs;
  std::span<TensorInfo> outputs;  // one per node.outputs entry, to be filled; shape stays empty where unknown
  bool concrete = false;          // plan time: all input shapes are static

  bool has(size_t i) const { return i < inputs.size() && inputs[i].present; }
  const Attrs& attrs() const { return node.attrs; }
  bool wants(size_t output) const { return output < outputs.size() && node.outputs[output] != kNone; }
};

/// Reference execution on the host: plain loops, double accumulation. Inputs are aligned; outputs are allocated with
/// the inferred dtype and shape and zero-filled, often in an arena: rows write elements and never assign the handle.
struct RefContext {
  const Node& node;
  std::span<const Tensor* const> inputs;  // null for absent optional inputs
  std::span<Tensor> outputs;

  bool has(size_t i) const { return i < inputs.size() && inputs[i] != nullptr; }
  const Tensor& in(size_t i) const { return *inputs[i]; }
  Tensor& out(size_t i = 0) const { return outputs[i]; }
  const Attrs& attrs() const { return node.attrs; }
};

/// One operator on the device: shapes are concrete. The row fills `kernels` (usually one), or refuses with Unsupported:
/// then the step runs on the CPU and the message becomes its reason.
struct WgslContext {
  const Node& node;
  const wgsl::Target& target;
  std::span<const TensorInfo> inputs;
  std::span<const TensorInfo> outputs;
  std::vector<wgsl::Kernel> kernels;
  std::vector<wgsl::Scratch> scratch;  // intermediate buffers between this node's kernels

  bool has(size_t i) const { return i < inputs.size() && inputs[i].present; }
  const Attrs& attrs() const { return node.attrs; }
  const Shape& in_shape(size_t i) const { return *inputs[i].shape; }
  const Shape& out_shape(size_t i = 0) const { return *outputs[i].shape; }
};

/// One self-test: the operator on seeded random inputs, device against reference. Tests, fuzzers, `doctor` and the
/// coverage table derive from these.
struct OpCase {
  struct Input {
    DType dtype = DType::f32;
    Shape shape;
    double lo = -1, hi = 1;      // uniform range
    std::vector<double> values;  // or exact values (repeated to fill)
    bool constant = false;       // an initialiser rather than a graph input
    bool absent = false;
  };
  std::string name;  // "k3 s2 same_upper"
  Attrs attrs;
  std::vector<Input> inputs;
  Expr expr;  // epilogue over inputs[epilogue_first...], for operators that accept one
  uint32_t epilogue_first = 0;
  size_t outputs = 1;
  double rtol = 1e-4, atol = 1e-5;
};

/// How layout and fusion passes may treat an operator.
enum class OpClass : uint8_t {
  other,
  elementwise,  // `scalar` is set: y = expr(x0, x1, ...) with numpy broadcasting
  spatial,      // input 0 and output 0 are [N, C, spatial...]; with attribute nhwc=1 they are [N, spatial..., C]
  movement,     // moves elements without arithmetic; any dtype
};

/// A row's self-tests. The core of the web package leaves them out (SINTER_CASES=0): they are an eighth of its code, and
/// only diagnosis asks for them.
#ifndef SINTER_CASES
#define SINTER_CASES 1
#endif
struct CasesFn {
  using Fn = void (*)(std::vector<OpCase>&);
  constexpr CasesFn() = default;
  constexpr CasesFn(Fn given) : fn(SINTER_CASES ? given : nullptr) {}
  explicit constexpr operator bool() const { return fn != nullptr; }
  void operator()(std::vector<OpCase>& cases) const { fn(cases); }
  Fn fn = nullptr;
};

struct OpDef {
  std::string_view name;
  std::string_view domain = "";        // "" is ai.onnx; "sinter" is internal (made by passes)
  int first_opset = 1;                 // oldest opset whose nodes import brings to this form
  int min_inputs = 1, max_inputs = 1;  // -1: variadic
  int min_outputs = 1, max_outputs = 1;
  OpClass op_class = OpClass::other;
  std::string_view notes = "";    // what is refused, for the coverage table
  bool shape_only = false;        // outputs depend on the inputs' shapes and dtypes alone (Shape, Size)
  bool accepts_epilogue = false;  // reference, CPU and WGSL rows honour node.expr as an epilogue
  uint32_t shape_operands = 0;    // bit i: output shapes depend on the value of operand i, so a plan must know it
  bool alias = false;             // output 0 is input 0's elements in order: a planner may drop the copy

  Result<> (*infer)(InferContext&) = nullptr;
  /// Output 0's elements in terms of dimensions, for the operators that models compute shapes with.
  std::optional<DimValues> (*dims)(const Node&, std::span<const TensorInfo>) = nullptr;
  Result<> (*reference)(const RefContext&) = nullptr;
  Result<> (*wgsl)(WgslContext&) = nullptr;  // null: CPU only
  Result<Expr> (*scalar)(const Node&) = nullptr;
  CasesFn cases;
};

/// All rows, sorted by domain and name.
std::span<const OpDef* const> all_ops();
/// Null where the operator is not known.
const OpDef* find_op(std::string_view domain, std::string_view name);

}  // namespace sinter
