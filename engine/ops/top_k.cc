// SPDX-License-Identifier: Apache-2.0
// TopK: the k largest or smallest elements of an axis, in order, and where they were.
// https://onnx.ai/onnx/operators/onnx__TopK.html (1+). Of equal elements the one at the lower index comes first; NaN counts as the
// largest. sorted=0 sorts, too. Refused: a k that is known only while running.
#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "engine/ops/movement.h"
#include "engine/ops/movement_wgsl.h"

namespace sinter {
namespace {

using namespace ops;

// A thread of the device compares its element with the whole axis.
constexpr int64_t kMaxDeviceAxis = 1 << 15;

// Attributes axis, largest, sorted; operands data, k.
Result<> infer(InferContext& ctx) {
  ctx.outputs[0].dtype = ctx.inputs[0].dtype;
  if (ctx.wants(1)) ctx.outputs[1].dtype = DType::i64;
  const bool known = SINTER_TRY(shape_operands_known(ctx));
  if (!ctx.inputs[0].shape) return {};
  Shape out = *ctx.inputs[0].shape;
  const size_t axis = SINTER_TRY(checked_axis(ctx.node, ctx.attrs().i("axis", -1), out.rank()));
  int64_t k = kUnknownDim;
  if (known) {
    if (ctx.inputs[1].constant->numel() != 1) return bad(ctx.node, "k is not one element");
    k = get_i64(*ctx.inputs[1].constant, 0);
    if (k < 0 || (is_known(out[axis]) && k > out[axis])) {
      return bad(ctx.node, StrCat("k is ", k, ", axis ", axis, " of ", to_string(out), " is the one to pick from"));
    }
  }
  out[axis] = k;
  ctx.outputs[0].shape = out;
  if (ctx.wants(1)) ctx.outputs[1].shape = out;
  return {};
}

bool precedes(const Tensor& data, size_t a, size_t b, bool largest) {
  if (is_float(data.dtype())) {
    const double x = get_f64(data, a), y = get_f64(data, b);
    const bool x_first = std::isnan(y) ? false : std::isnan(x) || x > y;
    const bool y_first = std::isnan(x) ? false : std::isnan(y) || y > x;
    if (x_first != y_first) return x_first == largest;
    return a < b;
  }
  if (data.dtype() == DType::u64) {
    const uint64_t x = data.data<uint64_t>()[a], y = data.data<uint64_t>()[b];
    return x != y ? (x > y) == largest : a < b;
  }
  const int64_t x = get_i64(data, a), y = get_i64(data, b);
  return x != y ? (x > y) == largest : a < b;
}

Result<> reference(const RefContext& ctx) {
  const Shape &in = ctx.in(0).shape(),
              &out = ctx.outputs[0].dtype() != DType::undefined ? ctx.out(0).shape() : ctx.out(1).shape();
  const size_t axis = *fold_axis(ctx.attrs().i("axis", -1), in.rank());
  const size_t inner = static_cast<size_t>(in.product(axis + 1, in.rank())),
               outer = static_cast<size_t>(in.product(0, axis));
  const size_t n = static_cast<size_t>(in[axis]), k = static_cast<size_t>(out[axis]), size = size_of(ctx.in(0).dtype());
  const bool largest = ctx.attrs().i("largest", 1) != 0;
  std::vector<size_t> order(n);
  for (size_t row = 0; row < outer * inner; ++row) {
    const size_t base = row / inner * n * inner + row % inner;
    std::iota(order.begin(), order.end(), 0);
    std::partial_sort(order.begin(), order.begin() + static_cast<ptrdiff_t>(k), order.end(), [&](size_t a, size_t b) {
      return precedes(ctx.in(0), base + a * inner, base + b * inner, largest);
    });
    for (size_t i = 0; i < k; ++i) {
      const size_t at = (row / inner * k + i) * inner + row % inner;
      if (ctx.outputs[0]) {
        strided_copy(ctx.out(0).mutable_bytes().data() + at * size, {},
                     ctx.in(0).bytes().data() + (base + order[i] * inner) * size, {}, {}, size);
      }
      if (ctx.outputs.size() > 1 && ctx.outputs[1])
        ctx.out(1).mutable_data<int64_t>()[at] = static_cast<int64_t>(order[i]);
    }
  }
  return {};
}

// WGSL `key(x) -> vec2<u32>`, high word first: larger elements have larger keys. Floats go by their bits, which NaN cannot
// upset.
Result<std::string> key_text(const WgslContext& ctx) {
  const std::string_view type = wgsl::element_type(storage(ctx, ctx.inputs[0]));
  std::string_view result;
  switch (storage(ctx, ctx.inputs[0])) {
    case wgsl::Storage::f32:
    case wgsl::Storage::f16:
      result =
          "  let b = bitcast<u32>(f32(x));\n  let magnitude = b & 0x7fffffffu;\n"
          "  if (magnitude > 0x7f800000u) { return vec2<u32>(0xffffffffu); }\n"
          "  if (magnitude == 0u) { return vec2<u32>(0x80000000u); }\n"
          "  return vec2<u32>(select(b | 0x80000000u, ~b, b >= 0x80000000u));\n";
      break;
    case wgsl::Storage::i32:
      result = "  return vec2<u32>(bitcast<u32>(x) ^ 0x80000000u);\n";
      break;
    case wgsl::Storage::u32:
      result = "  return vec2<u32>(x);\n";
      break;
    case wgsl::Storage::words2:
      result = ctx.inputs[0].dtype == DType::i64 ? "  return vec2<u32>(x.y ^ 0x80000000u, x.x);\n" : "  return x.yx;\n";
      break;
    case wgsl::Storage::none:
      return unsupported(ctx.node, StrCat("elements of ", name_of(ctx.inputs[0].dtype), " on the device"));
  }
  return StrCat("fn key(x: ", type, ") -> vec2<u32> {\n", result,
                "}\nfn less(a: vec2<u32>, b: vec2<u32>) -> bool { return a.x < b.x || (a.x == b.x && a.y < b.y); }\n");
}

// One thread an element: its rank is the number of elements that come before it.
Result<> device(WgslContext& ctx) {
  const Shape &in = ctx.in_shape(0), &out = ctx.outputs[0].shape ? *ctx.outputs[0].shape : *ctx.outputs[1].shape;
  const std::string key = SINTER_TRY(key_text(ctx));
  const size_t axis = *fold_axis(ctx.attrs().i("axis", -1), in.rank());
  if (in[axis] > kMaxDeviceAxis) {
    return unsupported(ctx.node,
                       StrCat("an axis of ", in[axis], " elements; at most ", kMaxDeviceAxis, " on the device"));
  }
  if (out.numel() == 0) return {};
  wgsl::Writer writer("top_k", ctx.target);
  bind_input(writer, ctx, "a", 0);
  const bool values = ctx.node.outputs[0] != kNone,
             places = ctx.node.outputs.size() > 1 && ctx.node.outputs[1] != kNone;
  if (values) bind_output(writer, ctx, "values", 0);
  if (places) bind_output(writer, ctx, "places", 1);
  writer.declare(key);
  writer.u32("n", static_cast<uint32_t>(in[axis]));
  writer.u32("k", static_cast<uint32_t>(out[axis]));
  writer.u32("inner", static_cast<uint32_t>(in.product(axis + 1, in.rank())));
  writer.linear(static_cast<uint64_t>(in.numel()));
  writer.body(
      StrCat("  let column = i % p.inner;\n  let place = i / p.inner % p.n;\n  let row = i / p.inner / p.n;\n"
             "  let mine = key(a[i]);\n  var rank = 0u;\n  for (var j = 0u; j < p.n; j++) {\n"
             "    let other = key(a[(row * p.n + j) * p.inner + column]);\n    let first = ",
             ctx.attrs().i("largest", 1) ? "less(mine, other)" : "less(other, mine)",
             ";\n    rank += u32(first || (all(other == mine) && j < place));\n  }\n  if (rank >= p.k) { return; }\n"
             "  let at = (row * p.k + rank) * p.inner + column;\n",
             values ? "  values[at] = a[i];\n" : "", places ? "  places[at] = vec2<u32>(place, 0u);\n" : ""));
  return emit(ctx, writer);
}

void cases(std::vector<OpCase>& cases) {
  const auto add = [&](std::string name, DType dtype, Shape shape, int64_t axis, int64_t k, int64_t largest) {
    cases.push_back({.name = std::move(name),
                     .attrs = make_attrs({{"axis", axis}, {"largest", largest}}),
                     .inputs = {{.dtype = dtype, .shape = shape, .lo = -5, .hi = 5}, constant_ints({k})},
                     .outputs = 2});
  };
  add("largest of the last axis", DType::f32, {3, 70}, -1, 5, 1);
  add("smallest of axis 1", DType::f32, {2, 9, 3}, 1, 4, 0);
  add("equal int32", DType::i32, {2, 40}, -1, 40, 1);
  add("int64", DType::i64, {2, 20}, 1, 7, 1);
  add("uint64 smallest", DType::u64, {20}, 0, 7, 0);
  add("uint8 smallest", DType::u8, {30}, 0, 3, 0);
  add("float16", DType::f16, {2, 11}, 1, 2, 1);
  add("none", DType::f32, {2, 3}, 1, 0, 1);
}

}  // namespace

extern const OpDef op_top_k = {.name = "TopK",
                               .min_inputs = 2,
                               .max_inputs = 2,
                               .max_outputs = 2,
                               .notes = "k must be computable before the run; on webgpu at most 32768 elements an axis",
                               .shape_operands = 0b10,
                               .infer = infer,
                               .reference = reference,
                               .wgsl = device,
                               .cases = cases};

}  // namespace sinter
