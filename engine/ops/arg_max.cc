// SPDX-License-Identifier: Apache-2.0
// ONNX ArgMax and ArgMin, opset 1 to newest: int64 positions along one axis. Attributes: axis (0), keepdims (1),
// select_last_index (0). NaN counts as the extreme, as in numpy. On the device: floats and integers up to 32 bits.
#include <cmath>

#include "engine/ops/util.h"
#include "engine/wgsl/expr_wgsl.h"

namespace sinter {

using namespace ops;

namespace {

struct Rows {
  int64_t outer, length, inner;
};

Rows rows_of(const Attrs& attrs, const Shape& shape) {
  const size_t axis = *fold_axis(attrs.i("axis", 0), shape.rank());
  return {shape.product(0, axis), shape[axis], shape.product(axis + 1, shape.rank())};
}

Result<> infer_arg(InferContext& ctx) {
  ctx.outputs[0].dtype = DType::i64;
  if (!ctx.inputs[0].shape) return {};
  Shape shape = *ctx.inputs[0].shape;
  const int64_t axis = ctx.attrs().i("axis", 0);
  const auto folded = fold_axis(axis, shape.rank());
  if (!folded) return bad(ctx.node, StrCat("axis ", axis, " is outside the rank of its input ", to_string(shape)));
  if (shape[*folded] == 0) return bad(ctx.node, StrCat("axis ", axis, " of ", to_string(shape), " has no elements"));
  if (ctx.attrs().i("keepdims", 1)) {
    shape[*folded] = 1;
  } else {
    shape.erase(*folded);
  }
  ctx.outputs[0].shape = shape;
  return {};
}

template <class T, bool largest>
int64_t best_of(const Tensor& x, size_t base, const Rows& rows, bool last, auto&& get) {
  int64_t best = 0;
  T extreme = static_cast<T>(get(x, base));
  for (int64_t i = 1; i < rows.length; ++i) {
    const T v = static_cast<T>(get(x, base + static_cast<size_t>(i * rows.inner)));
    const bool nan = v != v, had_nan = extreme != extreme;
    const bool beats = (nan && !had_nan) || (!had_nan && (largest ? v > extreme : v < extreme));
    const bool ties = (nan && had_nan) || v == extreme;
    if (!beats && !(last && ties)) continue;
    extreme = v;
    best = i;
  }
  return best;
}

template <bool largest>
Result<> reference_arg(const RefContext& ctx) {
  const Tensor& x = ctx.in(0);
  const Rows rows = rows_of(ctx.attrs(), x.shape());
  const bool last = ctx.attrs().i("select_last_index", 0);
  for (int64_t row = 0; row < rows.outer * rows.inner; ++row) {
    const auto base = static_cast<size_t>(row / rows.inner * rows.length * rows.inner + row % rows.inner);
    int64_t best = 0;
    if (is_float(x.dtype())) {
      best = best_of<double, largest>(x, base, rows, last, get_f64);
    } else if (is_signed_int(x.dtype())) {
      best = best_of<int64_t, largest>(x, base, rows, last, get_i64);
    } else {
      best = best_of<uint64_t, largest>(x, base, rows, last, get_i64);
    }
    set_i64(ctx.out(), static_cast<size_t>(row), best);
  }
  return {};
}

// Keys order the values: the position of the largest key is the answer, of equal keys the first or the last.
std::string key_function(wgsl::Writer& writer, std::string_view type, bool largest) {
  if (type == "f32") {
    const std::string nan = wgsl::declare_is_nan(writer, "f32");
    // Order-preserving bits: flipped for negatives; zeros are one value.
    return StrCat(
        "fn key(v: f32) -> u32 {\n  if (", nan, "(v)) { return 0xffffffffu; }\n  let b = bitcast<u32>(v + 0.0);\n",
        "  if ((b & 0x7fffffffu) == 0u) { return 0x80000000u; }\n",
        "  let up = select(b | 0x80000000u, ~b, b >= 0x80000000u);\n  return ", largest ? "up" : "~up", ";\n}\n");
  }
  const std::string up = type == "i32" ? "bitcast<u32>(v) ^ 0x80000000u" : "v";
  return StrCat("fn key(v: ", type, ") -> u32 { return ", largest ? "" : "~(", up, largest ? "" : ")", "; }\n");
}

template <bool largest>
Result<> wgsl_arg(WgslContext& ctx) {
  std::string_view type;
  switch (storage(ctx, ctx.inputs[0])) {
    case wgsl::Storage::f32:
    case wgsl::Storage::f16:
      type = "f32";
      break;
    case wgsl::Storage::i32:
      type = "i32";
      break;
    case wgsl::Storage::u32:
      type = "u32";
      break;
    default:
      return unsupported(ctx.node, StrCat(name_of(ctx.inputs[0].dtype), " comparisons run on the host"));
  }
  const Rows rows = rows_of(ctx.attrs(), ctx.in_shape(0));
  const auto count = static_cast<uint64_t>(rows.outer * rows.inner);
  if (count == 0) return {};
  const bool last = ctx.attrs().i("select_last_index", 0);
  const bool shared = rows.length >= 256 && count < 1024 && ctx.target.max_invocations >= 64 && !ctx.target.force_plain;
  wgsl::Writer writer(StrCat(ctx.node.op->name, shared ? "_shared" : ""), ctx.target);
  bind_input(writer, ctx, "x", 0);
  bind_output(writer, ctx, "y");
  if (shared) {
    writer.groups(count, 64);
  } else {
    writer.linear(count);
  }
  writer.u32("length", static_cast<uint32_t>(rows.length));
  writer.u32("inner", static_cast<uint32_t>(rows.inner));
  writer.declare(key_function(writer, type, largest));
  // Which of two (position, key) pairs wins; every position competes once, in any order.
  writer.declare(
      StrCat("fn better(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {\n  return select(a, b, b.y > a.y || (b.y == a.y && "
             "b.x ",
             last ? ">" : "<", " a.x));\n}\n"));
  const std::string row = shared ? "group" : "i";
  const std::string first = shared ? "lindex" : "0u";
  std::string text =
      StrCat("  let base = ", row, " / p.inner * p.length * p.inner + ", row, " % p.inner;\n",
             "  var best = vec2<u32>(", first, ", key(", type, "(x[base + ", first,
             " * p.inner])));\n  for (var k = ", first, "; k < p.length; k += ", shared ? "64u" : "1u",
             ") {\n    best = better(best, vec2<u32>(k, key(", type, "(x[base + k * p.inner]))));\n  }\n");
  if (shared) {
    writer.declare("var<workgroup> part: array<vec2<u32>, 64>;\n");
    text +=
        "  part[lindex] = best;\n  workgroupBarrier();\n  for (var half = 32u; half > 0u; half = half / 2u) {\n    if "
        "(lindex < "
        "half) { part[lindex] = better(part[lindex], part[lindex + half]); }\n    workgroupBarrier();\n  }\n"
        "  if (lindex == 0u) { y[group] = vec2<u32>(part[0].x, 0u); }\n";
  } else {
    text += "  y[i] = vec2<u32>(best.x, 0u);\n";
  }
  writer.body(text);
  return emit(ctx, writer);
}

void arg_cases(std::vector<OpCase>& out) {
  for (const int64_t last : {0, 1}) {
    const auto add = [&](std::string name, OpCase::Input x, int64_t axis, int64_t keepdims) {
      OpCase c{.name = StrCat(name, last ? ", last" : "")};
      c.inputs = {std::move(x)};
      c.attrs.set("axis", axis);
      c.attrs.set("keepdims", keepdims);
      c.attrs.set("select_last_index", last);
      out.push_back(c);
    };
    add("rows", {.shape = {3, 5}}, 1, 1);
    add("middle axis, dropped", {.shape = {2, 7, 3}}, -2, 0);
    add("ties", {.shape = {2, 6}, .values = {1, 3, 3, -2, -2, 0, 0, -0.0}}, 1, 1);
    add("NaN", {.shape = {2, 4}, .values = {1, NAN, 5, NAN, INFINITY, -INFINITY, 1, 2}}, 1, 1);
    add("long rows", {.shape = {2, 1001}}, 1, 1);
    add("long ties", {.shape = {1, 300}, .values = {0, 1, 2, 2, 1, 0, 0}}, 1, 1);
    add("i32", {.dtype = DType::i32, .shape = {2, 5}, .values = {-3, 7, 7, -9, 0, -9, 2147483647}}, 1, 1);
    add("u8", {.dtype = DType::u8, .shape = {5}, .values = {3, 200, 7, 200, 3}}, 0, 0);
    add("f16", {.dtype = DType::f16, .shape = {4, 5}}, 0, 1);
    add("empty", {.shape = {0, 5}}, 1, 1);
  }
}

}  // namespace

extern const OpDef op_arg_max{
    .name = "ArgMax", .infer = infer_arg, .reference = reference_arg<true>, .wgsl = wgsl_arg<true>, .cases = arg_cases};

extern const OpDef op_arg_min{.name = "ArgMin",
                              .infer = infer_arg,
                              .reference = reference_arg<false>,
                              .wgsl = wgsl_arg<false>,
                              .cases = arg_cases};

}  // namespace sinter
