// SPDX-License-Identifier: Apache-2.0
// ONNX ReduceSum, Mean, Max, Min, Prod, L1, L2, LogSum, LogSumExp and SumSquare in the form of opset 18 and newer: axes are
// input 1 (import moves older attributes there). Attributes: keepdims (1), noop_with_empty_axes (0). With no axes to reduce
// the operator still does its other steps (SumSquare squares), and the shape stays, whatever keepdims says.
// Max and Min give NaN where an element is NaN. On the device: floats and, for the exact operators, 32-bit and narrower
// integers; the axes must be known when planning.
#include "engine/ops/reduce.h"

#include <cmath>
#include <limits>

#include "engine/ops/walk.h"

namespace sinter {

using namespace ops;

namespace ops {

Result<Axes> resolve_axes(const Node& node, std::span<const int64_t> given, size_t rank) {
  Axes axes{};
  if (given.empty() && !node.attrs.i("noop_with_empty_axes", 0)) {
    for (size_t i = 0; i < rank; ++i) axes[i] = true;
  }
  for (int64_t axis : given) {
    const auto folded = fold_axis(axis, rank);
    if (!folded) return bad(node, StrCat("axis ", axis, " is outside rank ", rank));
    axes[*folded] = true;
  }
  return axes;
}

Shape reduced_shape(const Shape& shape, const Axes& axes, bool keepdims) {
  Shape out;
  for (size_t i = 0; i < shape.rank(); ++i) {
    if (!axes[i]) {
      out.push_back(shape[i]);
    } else if (keepdims) {
      out.push_back(1);
    }
  }
  return out;
}

ReduceLoops reduce_loops(const Shape& shape, const Axes& axes) {
  const Shape strides = row_major_strides(shape);
  Shape kept, kept_strides, reduced, reduced_strides;
  for (size_t i = 0; i < shape.rank(); ++i) {
    (axes[i] ? reduced : kept).push_back(shape[i]);
    (axes[i] ? reduced_strides : kept_strides).push_back(strides[i]);
  }
  return {merge_axes(kept, {{kept_strides}}), merge_axes(reduced, {{reduced_strides}}), kept.numel(), reduced.numel()};
}

}  // namespace ops

namespace {

Result<> infer_reduce(InferContext& ctx) {
  ctx.outputs[0].dtype = ctx.inputs[0].dtype;
  const auto& shape = ctx.inputs[0].shape;
  if (!shape) return {};
  const bool keepdims = ctx.attrs().i("keepdims", 1);
  std::vector<int64_t> given;
  if (ctx.has(1)) {
    const auto known = known_ints(ctx, 1);
    if (!known) {
      if (keepdims) ctx.outputs[0].shape = Shape::filled(shape->rank(), kUnknownDim);
      return {};
    }
    given = *known;
  }
  const Axes axes = SINTER_TRY(resolve_axes(ctx.node, given, shape->rank()));
  ctx.outputs[0].shape = reduced_shape(*shape, axes, keepdims);
  return {};
}

// Integers wrap.
template <class T>
T add(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) return a + b;
  return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
template <class T>
T multiply(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) return a * b;
  return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

// Running totals in T; the two-pass LogSumExp has the largest element first.
template <ReduceKind kind, class T>
T reduce_one(const Tensor& x, int64_t base, Walk& walk, int64_t count, auto&& read) {
  constexpr bool floats = std::is_floating_point_v<T>;
  T total = 0;
  double shift = 0;
  if constexpr (kind == ReduceKind::prod) total = 1;
  if constexpr (kind == ReduceKind::max || kind == ReduceKind::log_sum_exp) {
    total = floats ? -std::numeric_limits<T>::infinity() : static_cast<T>(lowest_of(x.dtype()));
  }
  if constexpr (kind == ReduceKind::min)
    total = floats ? std::numeric_limits<T>::infinity() : static_cast<T>(highest_of(x.dtype()));
  walk.restart({base});
  for (int64_t i = 0; i < count; ++i, walk.next()) {
    const T v = static_cast<T>(read(x, static_cast<size_t>(walk.offset(0))));
    if constexpr (kind == ReduceKind::max || kind == ReduceKind::log_sum_exp) {
      if (v != v || v > total) total = v;
    } else if constexpr (kind == ReduceKind::min) {
      if (v != v || v < total) total = v;
    } else if constexpr (kind == ReduceKind::prod) {
      total = multiply(total, v);
    } else if constexpr (kind == ReduceKind::l1) {
      total = add(total, v < 0 ? multiply(v, static_cast<T>(-1)) : v);
    } else if constexpr (kind == ReduceKind::l2 || kind == ReduceKind::sum_square) {
      total = add(total, multiply(v, v));
    } else {
      total = add(total, v);
    }
    if (total != total) return total;
  }
  if constexpr (kind == ReduceKind::mean) return total / static_cast<T>(count);
  if constexpr (kind == ReduceKind::l2) return std::sqrt(total);
  if constexpr (kind == ReduceKind::log_sum) return std::log(total);
  if constexpr (kind == ReduceKind::log_sum_exp) {
    if (std::isfinite(total)) shift = total;
    double sum = 0;
    walk.restart({base});
    for (int64_t i = 0; i < count; ++i, walk.next())
      sum += std::exp(get_f64(x, static_cast<size_t>(walk.offset(0))) - shift);
    return shift + std::log(sum);
  }
  return total;
}

constexpr bool is_exact(ReduceKind kind) {
  return kind != ReduceKind::mean && kind != ReduceKind::l2 && kind != ReduceKind::log_sum &&
         kind != ReduceKind::log_sum_exp;
}

template <ReduceKind kind>
Result<> reference_reduce(const RefContext& ctx) {
  const Tensor& x = ctx.in(0);
  Tensor& y = ctx.out();
  const std::vector<int64_t> given = ctx.has(1) ? to_ints(ctx.in(1)) : std::vector<int64_t>{};
  const Axes axes = SINTER_TRY(resolve_axes(ctx.node, given, x.shape().rank()));
  const ReduceLoops loops = reduce_loops(x.shape(), axes);
  Walk outer(loops.kept), inner(loops.reduced);
  for (size_t i = 0; i < y.numel(); ++i, outer.next()) {
    if constexpr (is_exact(kind)) {
      if (is_signed_int(x.dtype())) {
        set_i64(y, i, reduce_one<kind, int64_t>(x, outer.offset(0), inner, loops.count, get_i64));
        continue;
      }
      if (!is_float(x.dtype())) {
        const uint64_t total = reduce_one<kind, uint64_t>(x, outer.offset(0), inner, loops.count, get_i64);
        set_i64(y, i, static_cast<int64_t>(total));
        continue;
      }
    }
    set_f64(y, i, reduce_one<kind, double>(x, outer.offset(0), inner, loops.count, get_f64));
  }
  return {};
}

template <ReduceKind kind>
Result<> wgsl_reduce_of(WgslContext& ctx) {
  if (!is_exact(kind) && !is_float(ctx.outputs[0].dtype)) {
    return unsupported(ctx.node, "integers run on the host");
  }
  return wgsl_reduce(ctx, kind);
}

OpCase reduce_case(Shape shape, std::vector<double> axes, int64_t keepdims, double lo, double hi) {
  std::string name = StrCat(to_string(shape), " axes");
  for (double axis : axes) name += StrCat(" ", axis);
  OpCase c{.name = name + (keepdims ? "" : " dropped"), .inputs = {{.shape = shape, .lo = lo, .hi = hi}}};
  const auto n = static_cast<int64_t>(axes.size());
  c.inputs.push_back({.dtype = DType::i64, .shape = {n}, .values = std::move(axes), .constant = true});
  c.attrs.set("keepdims", keepdims);
  return c;
}

void float_reduce_cases(std::vector<OpCase>& out) {
  const double lo = 0.5, hi = 1.5;
  out.push_back({.name = "all axes", .inputs = {{.shape = {3, 5, 7}, .lo = lo, .hi = hi}}});
  out.push_back(reduce_case({4, 6}, {1}, 1, lo, hi));
  out.push_back(reduce_case({4, 6}, {-2}, 0, lo, hi));
  out.push_back(reduce_case({2, 3, 14, 14}, {2, 3}, 1, lo, hi));
  out.push_back(reduce_case({2, 14, 14, 3}, {1, 2}, 0, lo, hi));
  out.push_back(reduce_case({3, 2, 4, 2, 5}, {0, 2, 4}, 1, lo, hi));
  out.push_back(reduce_case({5, 150}, {1}, 0, 0.9, 1.1));
  out.push_back(reduce_case({2, 1, 2, 1, 2, 3, 2, 2}, {1, 4, 7}, 1, lo, hi));
  out.push_back(reduce_case({3, 0}, {0}, 1, lo, hi));
  out.push_back(reduce_case({}, {}, 1, lo, hi));
  OpCase kept = reduce_case({1}, {}, 0, lo, hi);
  kept.name = "no axes, no-op, dims dropped";
  kept.attrs.set("noop_with_empty_axes", int64_t{1});
  out.push_back(kept);
  OpCase half = reduce_case({3, 70}, {1}, 1, 0.9, 1.1);
  half.name = "f16";
  half.inputs[0].dtype = DType::f16;
  half.rtol = 5e-3;
  out.push_back(half);
}

void empty_case(std::vector<OpCase>& out) { out.push_back(reduce_case({2, 0, 3}, {1}, 1, 0, 1)); }

void nan_case(std::vector<OpCase>& out) {
  OpCase c = reduce_case({6, 2}, {1}, 0, 0, 1);
  c.name = "NaN in either place, infinities";
  c.inputs[0].values = {NAN, 1, 2, NAN, INFINITY, 1, -INFINITY, 1, -INFINITY, -INFINITY, 3, 4};
  out.push_back(c);
  OpCase wide = reduce_case({1, 130}, {1}, 0, 0, 1);
  wide.name = "NaN in a long row";
  wide.inputs[0].values = std::vector<double>(130, 1.5);
  wide.inputs[0].values[77] = NAN;
  out.push_back(wide);
}

void integer_case(std::vector<OpCase>& out, DType dtype) {
  OpCase c = reduce_case({3, 5}, {1}, 1, 0, 1);
  c.name = std::string(name_of(dtype));
  c.inputs[0].dtype = dtype;
  c.inputs[0].values = {3, 1, 2, 5, 4, 1, 1};
  if (!is_unsigned_int(dtype)) c.inputs[0].values[2] = -7;
  out.push_back(c);
}

template <ReduceKind kind>
void reduce_cases(std::vector<OpCase>& out) {
  float_reduce_cases(out);
  nan_case(out);
  if (kind != ReduceKind::mean) empty_case(out);
  if (is_exact(kind)) integer_case(out, DType::i32);
  if (kind == ReduceKind::max || kind == ReduceKind::min) {
    integer_case(out, DType::i8);
    integer_case(out, DType::u8);
  }
}

}  // namespace

#define SINTER_REDUCE(symbol, onnx_name, opset, kind)            \
  extern const OpDef symbol{.name = onnx_name,                   \
                            .first_opset = opset,                \
                            .min_inputs = 1,                     \
                            .max_inputs = 2,                     \
                            .shape_operands = 0b10,              \
                            .infer = infer_reduce,               \
                            .reference = reference_reduce<kind>, \
                            .wgsl = wgsl_reduce_of<kind>,        \
                            .cases = reduce_cases<kind>};
SINTER_REDUCE(op_reduce_sum, "ReduceSum", 1, ReduceKind::sum)
SINTER_REDUCE(op_reduce_mean, "ReduceMean", 1, ReduceKind::mean)
SINTER_REDUCE(op_reduce_max, "ReduceMax", 1, ReduceKind::max)
SINTER_REDUCE(op_reduce_min, "ReduceMin", 1, ReduceKind::min)
SINTER_REDUCE(op_reduce_prod, "ReduceProd", 1, ReduceKind::prod)
SINTER_REDUCE(op_reduce_l1, "ReduceL1", 1, ReduceKind::l1)
SINTER_REDUCE(op_reduce_l2, "ReduceL2", 1, ReduceKind::l2)
SINTER_REDUCE(op_reduce_log_sum, "ReduceLogSum", 1, ReduceKind::log_sum)
SINTER_REDUCE(op_reduce_log_sum_exp, "ReduceLogSumExp", 1, ReduceKind::log_sum_exp)
SINTER_REDUCE(op_reduce_sum_square, "ReduceSumSquare", 1, ReduceKind::sum_square)
#undef SINTER_REDUCE

}  // namespace sinter
