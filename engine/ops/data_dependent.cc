// SPDX-License-Identifier: Apache-2.0
// NonZero, Compress, Unique: operators whose output shape follows from their data.
// https://onnx.ai/onnx/operators/onnx__NonZero.html (9+), Compress (9+), Unique (11+). Refused: data (Compress: a condition) that are
// known only while running, as the plan must know every shape.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "engine/base/sort.h"

#include "engine/ops/movement.h"
#include "engine/ops/movement_wgsl.h"

namespace sinter {
namespace {

using namespace ops;

// --- NonZero.

std::vector<size_t> non_zero(const Tensor& data) {
  std::vector<size_t> found;
  const size_t n = data.numel();
  for (size_t i = 0; i < n; ++i) {
    if (is_float(data.dtype()) ? get_f64(data, i) != 0 : get_i64(data, i) != 0) found.push_back(i);
  }
  return found;
}

Result<> infer_non_zero(InferContext& ctx) {
  ctx.outputs[0].dtype = DType::i64;
  const bool known = SINTER_TRY(shape_operands_known(ctx));
  const auto& in = ctx.inputs[0].shape;
  ctx.outputs[0].shape = Shape{in ? static_cast<int64_t>(in->rank()) : kUnknownDim, kUnknownDim};
  if (known) (*ctx.outputs[0].shape)[1] = static_cast<int64_t>(non_zero(*ctx.inputs[0].constant).size());
  return {};
}

Result<> reference_non_zero(const RefContext& ctx) {
  const Shape& shape = ctx.in(0).shape();
  const std::vector<size_t> found = non_zero(ctx.in(0));
  int64_t* out = ctx.out().mutable_data<int64_t>().data();
  for (size_t i = 0; i < found.size(); ++i) {
    int64_t rest = static_cast<int64_t>(found[i]);
    for (size_t d = shape.rank(); d-- > 0; rest /= shape[d]) out[d * found.size() + i] = rest % shape[d];
  }
  return {};
}

void non_zero_cases(std::vector<OpCase>& cases) {
  cases.push_back({.name = "float", .inputs = {{.shape = {2, 3}, .values = {1, 0, -2, 0, 0, 3}, .constant = true}}});
  cases.push_back(
      {.name = "bool", .inputs = {{.dtype = DType::boolean, .shape = {4}, .values = {0, 1}, .constant = true}}});
}

// --- Compress: attribute axis (flattened where absent); operands data, condition.

std::vector<int64_t> selected(const Tensor& condition) {
  std::vector<int64_t> picked;
  for (size_t i = 0; i < condition.numel(); ++i) {
    if (get_i64(condition, i)) picked.push_back(static_cast<int64_t>(i));
  }
  return picked;
}

// The data as [outer, extent, inner] around the axis.
struct Around {
  int64_t outer, extent, inner;
};

Around around(const Node& node, const Shape& data) {
  if (!node.attrs.has("axis")) return {1, data.numel(), 1};
  const size_t axis = *fold_axis(node.attrs.i("axis", 0), data.rank());
  return {data.product(0, axis), data[axis], data.product(axis + 1, data.rank())};
}

Result<> infer_compress(InferContext& ctx) {
  ctx.outputs[0].dtype = ctx.inputs[0].dtype;
  const bool known = SINTER_TRY(shape_operands_known(ctx));
  const std::optional<Shape>& in = ctx.inputs[0].shape;
  const bool flat = !ctx.attrs().has("axis");
  size_t axis = 0;
  if (in && !flat) axis = SINTER_TRY(checked_axis(ctx.node, ctx.attrs().i("axis", 0), in->rank()));
  int64_t count = kUnknownDim;
  if (known) {
    const std::vector<int64_t> picked = selected(*ctx.inputs[1].constant);
    count = static_cast<int64_t>(picked.size());
    const int64_t extent = !in ? kUnknownDim : !flat ? (*in)[axis] : in->is_static() ? in->numel() : kUnknownDim;
    if (!picked.empty() && is_known(extent) && picked.back() >= extent) {
      return bad(ctx.node, StrCat("condition picks element ", picked.back(), " of ", extent));
    }
  }
  if (flat) {
    ctx.outputs[0].shape = Shape{count};
  } else if (in) {
    ctx.outputs[0].shape = *in;
    (*ctx.outputs[0].shape)[axis] = count;
  }
  return {};
}

Result<> reference_compress(const RefContext& ctx) {
  const std::vector<int64_t> picked = selected(ctx.in(1));
  const Around a = around(ctx.node, ctx.in(0).shape());
  const int64_t size = static_cast<int64_t>(size_of(ctx.out().dtype())), n = static_cast<int64_t>(picked.size());
  for (int64_t i = 0; i < n; ++i) {
    strided_copy(ctx.out().mutable_bytes().data() + i * a.inner * size, {n * a.inner, 1},
                 ctx.in(0).bytes().data() + picked[static_cast<size_t>(i)] * a.inner * size, {a.extent * a.inner, 1},
                 {a.outer, a.inner}, static_cast<size_t>(size));
  }
  return {};
}

// A copy for each run of picked elements.
Result<> device_compress(WgslContext& ctx) {
  constexpr size_t kMaxRuns = 64;
  const std::vector<int64_t> picked = selected(*ctx.inputs[1].constant);
  const Around a = around(ctx.node, ctx.in_shape(0));
  const int64_t n = static_cast<int64_t>(picked.size());
  for (size_t first = 0, last = 0; first < picked.size(); first = last) {
    while (last < picked.size() && picked[last] - picked[first] == static_cast<int64_t>(last - first)) ++last;
    if (ctx.kernels.size() == kMaxRuns)
      return unsupported(ctx.node, StrCat("a condition of more than ", kMaxRuns, " runs on the device"));
    const int64_t length = static_cast<int64_t>(last - first) * a.inner;
    SINTER_CHECK_OK(emit_copy(ctx, "compress",
                              {.dims = {a.outer, length},
                               .from_strides = {a.extent * a.inner, 1},
                               .to_strides = {n * a.inner, 1},
                               .from_base = picked[first] * a.inner,
                               .to_base = static_cast<int64_t>(first) * a.inner}));
  }
  return {};
}

void compress_cases(std::vector<OpCase>& cases) {
  const OpCase::Input condition{.dtype = DType::boolean, .shape = {5}, .values = {0, 1, 1, 0, 1}, .constant = true};
  cases.push_back({.name = "flat", .inputs = {{.shape = {2, 3}}, condition}});
  for (int64_t axis : {0, 1, -1}) {
    cases.push_back({.name = StrCat("axis ", axis),
                     .attrs = make_attrs({{"axis", axis}}),
                     .inputs = {{.shape = {5, 6, 7}}, condition}});
  }
}

// --- Unique: attributes axis (flattened where absent), sorted; outputs values, first places, inverse, counts.

struct Groups {
  std::vector<size_t> first;    // index of each distinct slice's first occurrence, in output order
  std::vector<size_t> inverse;  // per slice its group
  std::vector<size_t> count;
};

int compare(const Tensor& data, size_t a, size_t b) {
  if (is_float(data.dtype())) {
    const double x = get_f64(data, a), y = get_f64(data, b);
    return x < y ? -1 : x > y ? 1 : static_cast<int>(std::isnan(x)) - static_cast<int>(std::isnan(y));
  }
  const int64_t x = get_i64(data, a), y = get_i64(data, b);
  if (data.dtype() == DType::u64) return static_cast<uint64_t>(x) < static_cast<uint64_t>(y) ? -1 : x != y;
  return x < y ? -1 : x > y;
}

Groups group(const Node& node, const Tensor& data) {
  const Around a = around(node, data.shape());
  const size_t n = static_cast<size_t>(a.extent), inner = static_cast<size_t>(a.inner),
               outer = static_cast<size_t>(a.outer);
  const auto order = [&](size_t s, size_t t) {
    int sign = 0;
    for (size_t i = 0; sign == 0 && i < outer * inner; ++i) {
      const size_t base = i / inner * n * inner + i % inner;
      sign = compare(data, base + s * inner, base + t * inner);
    }
    return sign;
  };
  std::vector<size_t> slices(n);
  for (size_t i = 0; i < n; ++i) slices[i] = i;
  heap_sort(slices, [&](size_t s, size_t t) {
    const int sign = order(s, t);
    return sign ? sign < 0 : s < t;
  });
  Groups groups;
  groups.inverse.resize(n);
  for (size_t i = 0; i < n; ++i) {
    if (i == 0 || order(slices[i - 1], slices[i]) != 0) {
      groups.first.push_back(slices[i]);
      groups.count.push_back(0);
    }
    groups.inverse[slices[i]] = groups.first.size() - 1;
    ++groups.count.back();
  }
  if (node.attrs.i("sorted", 1)) return groups;
  // By first occurrence.
  std::vector<size_t> place(groups.first.size()), rank(place.size());
  for (size_t i = 0; i < place.size(); ++i) place[i] = i;
  heap_sort(place, [&](size_t s, size_t t) { return groups.first[s] < groups.first[t]; });
  Groups by_place{std::vector<size_t>(place.size()), std::move(groups.inverse), std::vector<size_t>(place.size())};
  for (size_t i = 0; i < place.size(); ++i) {
    rank[place[i]] = i;
    by_place.first[i] = groups.first[place[i]];
    by_place.count[i] = groups.count[place[i]];
  }
  for (size_t& index : by_place.inverse) index = rank[index];
  return by_place;
}

Result<> infer_unique(InferContext& ctx) {
  ctx.outputs[0].dtype = ctx.inputs[0].dtype;
  for (size_t i = 1; i < ctx.outputs.size(); ++i) {
    ctx.outputs[i].dtype = DType::i64;
    ctx.outputs[i].shape = Shape{kUnknownDim};
  }
  const bool known = SINTER_TRY(shape_operands_known(ctx));
  const std::optional<Shape>& in = ctx.inputs[0].shape;
  const bool flat = !ctx.attrs().has("axis");
  if (!in) return {};
  size_t axis = 0;
  if (!flat) axis = SINTER_TRY(checked_axis(ctx.node, ctx.attrs().i("axis", 0), in->rank()));
  Shape values = flat ? Shape{kUnknownDim} : *in;
  values[axis] = kUnknownDim;
  if (known) {
    const Groups groups = group(ctx.node, *ctx.inputs[0].constant);
    const int64_t count = static_cast<int64_t>(groups.first.size());
    values[axis] = count;
    for (size_t i = 1; i < ctx.outputs.size(); ++i) {
      ctx.outputs[i].shape = Shape{i == 2 ? static_cast<int64_t>(groups.inverse.size()) : count};
    }
  }
  ctx.outputs[0].shape = values;
  return {};
}

Result<> reference_unique(const RefContext& ctx) {
  const Tensor& data = ctx.in(0);
  const Groups groups = group(ctx.node, data);
  const Around a = around(ctx.node, data.shape());
  const int64_t size = static_cast<int64_t>(size_of(data.dtype())), n = static_cast<int64_t>(groups.first.size());
  for (int64_t i = 0; ctx.outputs[0] && i < n; ++i) {
    strided_copy(ctx.out().mutable_bytes().data() + i * a.inner * size, {n * a.inner, 1},
                 data.bytes().data() + static_cast<int64_t>(groups.first[static_cast<size_t>(i)]) * a.inner * size,
                 {a.extent * a.inner, 1}, {a.outer, a.inner}, static_cast<size_t>(size));
  }
  const std::vector<size_t>* const lists[] = {nullptr, &groups.first, &groups.inverse, &groups.count};
  for (size_t k = 1; k < ctx.outputs.size(); ++k) {
    for (size_t i = 0; ctx.outputs[k] && i < lists[k]->size(); ++i) {
      ctx.out(k).mutable_data<int64_t>()[i] = static_cast<int64_t>((*lists[k])[i]);
    }
  }
  return {};
}

void unique_cases(std::vector<OpCase>& cases) {
  cases.push_back(
      {.name = "flat", .inputs = {{.shape = {6}, .values = {2, 1, 1, 3, 4, 3}, .constant = true}}, .outputs = 4});
  cases.push_back({.name = "rows by place",
                   .attrs = make_attrs({{"axis", int64_t{0}}, {"sorted", int64_t{0}}}),
                   .inputs = {{.dtype = DType::i64, .shape = {3, 2}, .values = {2, 0, 1, 0, 2, 0}, .constant = true}},
                   .outputs = 4});
}

}  // namespace

extern const OpDef op_compress = {.name = "Compress",
                                  .first_opset = 9,
                                  .min_inputs = 2,
                                  .max_inputs = 2,
                                  .op_class = OpClass::movement,
                                  .notes = "the condition must be computable before the run",
                                  .shape_operands = 0b10,
                                  .infer = infer_compress,
                                  .reference = reference_compress,
                                  .wgsl = device_compress,
                                  .cases = compress_cases};

extern const OpDef op_non_zero = {.name = "NonZero",
                                  .first_opset = 9,
                                  .notes = "the data must be computable before the run",
                                  .shape_operands = 0b1,
                                  .infer = infer_non_zero,
                                  .reference = reference_non_zero,
                                  .cases = non_zero_cases};

extern const OpDef op_unique = {.name = "Unique",
                                .first_opset = 11,
                                .max_outputs = 4,
                                .notes = "the data must be computable before the run",
                                .shape_operands = 0b1,
                                .infer = infer_unique,
                                .reference = reference_unique,
                                .cases = unique_cases};

}  // namespace sinter
