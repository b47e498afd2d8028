// SPDX-License-Identifier: Apache-2.0
// Concat, Split: one tensor and its parts along an axis.
// https://onnx.ai/onnx/operators/onnx__Concat.html (4+; 1 with its axis made explicit), Split (1+). Nothing is refused.
#include <algorithm>

#include "engine/ops/movement.h"
#include "engine/ops/movement_wgsl.h"

namespace sinter {
namespace {

using namespace ops;

// A part seen from the whole: rows of `length` elements at `begin` of each of `rows` rows of `pitch` elements.
struct Part {
  uint32_t index = 0;  // operand of Concat, output of Split
  int64_t begin = 0, length = 0;
};

struct Parts {
  int64_t rows = 1, pitch = 0;
  std::vector<Part> parts;  // without empty ones
};

Parts find_parts(const Shape& whole, size_t axis, std::span<const int64_t> extents) {
  Parts found{.rows = whole.product(0, axis)};
  const int64_t inner = whole.product(axis + 1, whole.rank());
  for (size_t i = 0; i < extents.size(); ++i) {
    const int64_t length = extents[i] * inner;
    if (length * found.rows > 0) found.parts.push_back({static_cast<uint32_t>(i), found.pitch, length});
    found.pitch += length;
  }
  return found;
}

// One thread a unit of the parts; a kernel takes as many parts as the device can bind next to the whole.
Result<> emit_parts(WgslContext& ctx, const Parts& all, bool join) {
  const uint32_t bytes = SINTER_TRY(element_bytes(ctx, ctx.inputs[0].dtype));
  const size_t batch = ctx.target.max_storage_buffers - 1;
  for (size_t first = 0; first < all.parts.size(); first += batch) {
    const std::span<const Part> parts(all.parts.data() + first, std::min(batch, all.parts.size() - first));
    std::vector<int64_t> counts{all.pitch};
    for (const Part& part : parts) counts.insert(counts.end(), {part.begin, part.length});
    const int64_t unit = unit_elements(ctx, bytes, counts);
    const uint32_t unit_bytes = bytes * static_cast<uint32_t>(unit);
    wgsl::Writer writer(join ? "concat" : "split", ctx.target);
    if (!join) bind_units(writer, ctx, "whole", 0, unit_bytes);
    std::vector<std::pair<uint32_t, std::string>> bound;  // operand -> variable
    int64_t items = 0;
    std::string text;
    for (const Part& part : parts) {
      const size_t k = static_cast<size_t>(&part - parts.data());
      std::string var = StrCat("part", k);
      if (join) {
        const uint32_t operand = first_use(ctx.node, part.index);
        const auto seen = std::find_if(bound.begin(), bound.end(), [&](const auto& b) { return b.first == operand; });
        if (seen != bound.end()) {
          var = seen->second;
        } else {
          bind_units(writer, ctx, var, operand, unit_bytes);
          bound.emplace_back(operand, var);
        }
      } else {
        bind_output_units(writer, var, part.index, unit_bytes);
      }
      writer.u32(wgsl::indexed("first", k), static_cast<uint32_t>(items));
      writer.u32(wgsl::indexed("length", k), static_cast<uint32_t>(part.length / unit));
      writer.u32(wgsl::indexed("begin", k), static_cast<uint32_t>(part.begin / unit));
      items += all.rows * part.length / unit;
      writer.u32(wgsl::indexed("end", k), static_cast<uint32_t>(items));
      const std::string in_part = StrCat(var, "[at]"), in_whole = "whole[row * p.pitch + column]";
      text += StrCat("  if (i < p.end", k, ") {\n    let at = i - p.first", k, ";\n    let row = at / p.length", k,
                     ";\n    let column = p.begin", k, " + at % p.length", k, ";\n    ", join ? in_whole : in_part,
                     " = ", join ? in_part : in_whole, ";\n    return;\n  }\n");
    }
    if (join) bind_output_units(writer, "whole", 0, unit_bytes);
    writer.u32("pitch", static_cast<uint32_t>(all.pitch / unit));
    writer.linear(static_cast<uint64_t>(items));
    writer.body(text);
    SINTER_CHECK_OK(emit(ctx, writer));
  }
  return {};
}

void copy_part(const Parts& all, const Part& part, Tensor& to, const Tensor& from, bool join) {
  const Shape dims{all.rows, part.length}, dense{part.length, 1}, pitched{all.pitch, 1};
  const size_t size = size_of(from.dtype());
  const size_t skip = static_cast<size_t>(part.begin) * size;
  strided_copy(to.mutable_bytes().data() + (join ? skip : 0), join ? pitched : dense,
               from.bytes().data() + (join ? 0 : skip), join ? dense : pitched, dims, size);
}

// --- Concat: attribute axis.

Result<> infer_concat(InferContext& ctx) {
  ctx.outputs[0].dtype = ctx.inputs[0].dtype;
  if (!ctx.attrs().has("axis")) return bad(ctx.node, "attribute axis is missing");
  std::optional<Shape> out;
  bool complete = true;
  for (size_t i = 0; i < ctx.inputs.size(); ++i) {
    if (!ctx.has(i)) return bad(ctx.node, StrCat("input ", i, " is absent"));
    if (ctx.inputs[i].dtype != ctx.outputs[0].dtype) {
      return bad(ctx.node, StrCat("input ", i, " is ", name_of(ctx.inputs[i].dtype), ", input 0 is ",
                                  name_of(ctx.outputs[0].dtype)));
    }
    const std::optional<Shape>& shape = ctx.inputs[i].shape;
    if (!shape) {
      complete = false;
      continue;
    }
    const size_t axis = SINTER_TRY(checked_axis(ctx.node, ctx.attrs().i("axis", 0), shape->rank()));
    if (!out) {
      out = shape;
      continue;
    }
    bool agrees = shape->rank() == out->rank();
    for (size_t d = 0; agrees && d < shape->rank(); ++d) {
      int64_t& have = (*out)[d];
      const int64_t more = (*shape)[d];
      if (d == axis) {
        // A sum of symbols has no name; an empty part adds nothing.
        have = have == 0 ? more : more == 0 ? have : is_known(have) && is_known(more) ? have + more : kUnknownDim;
      } else {
        agrees = have == more || !is_known(have) || !is_known(more);
        if (!is_known(have) && (is_known(more) || have == kUnknownDim)) have = more;
      }
    }
    if (!agrees) {
      return bad(ctx.node,
                 StrCat("input ", i, " of shape ", to_string(*shape),
                        " does not fit the inputs before it, which join to ", to_string(*out), " along axis ", axis));
    }
  }
  if (out && !complete) (*out)[*fold_axis(ctx.attrs().i("axis", 0), out->rank())] = kUnknownDim;
  ctx.outputs[0].shape = out;
  return {};
}

std::optional<DimValues> concat_dims(const Node&, std::span<const TensorInfo> inputs) {
  DimValues joined;
  for (const TensorInfo& input : inputs) {
    if (!input.shape || input.shape->rank() != 1) return std::nullopt;
    const auto part = dim_values(input);
    const int64_t length = (*input.shape)[0];
    if (!part && (!is_known(length) || length > static_cast<int64_t>(kMaxRank))) return std::nullopt;
    const DimValues unknown(part ? 0 : static_cast<size_t>(length));
    joined.insert(joined.end(), part ? part->begin() : unknown.begin(), part ? part->end() : unknown.end());
  }
  return joined;
}

template <class GetShape>
Parts concat_parts(const Node& node, const Shape& out, GetShape shape) {
  const size_t axis = *fold_axis(node.attrs.i("axis", 0), out.rank());
  std::vector<int64_t> extents;
  for (size_t i = 0; i < node.inputs.size(); ++i) extents.push_back(shape(i)[axis]);
  return find_parts(out, axis, extents);
}

Result<> reference_concat(const RefContext& ctx) {
  const Parts all = concat_parts(ctx.node, ctx.out().shape(), [&](size_t i) { return ctx.in(i).shape(); });
  for (const Part& part : all.parts) copy_part(all, part, ctx.out(), ctx.in(part.index), true);
  return {};
}

Result<> wgsl_concat(WgslContext& ctx) {
  return emit_parts(ctx, concat_parts(ctx.node, ctx.out_shape(), [&](size_t i) { return ctx.in_shape(i); }), true);
}

void concat_cases(std::vector<OpCase>& cases) {
  const auto add = [&](std::string name, DType dtype, int64_t axis, std::initializer_list<Shape> shapes) {
    OpCase item{.name = std::move(name), .attrs = make_attrs({{"axis", axis}})};
    for (const Shape& shape : shapes) item.inputs.push_back({.dtype = dtype, .shape = shape, .lo = 0, .hi = 9});
    cases.push_back(std::move(item));
  };
  add("one input", DType::f32, 0, {{5}});
  add("channels", DType::f32, 1, {{2, 3, 4, 4}, {2, 5, 4, 4}});
  add("outer axis", DType::f32, 0, {{2, 3}, {1, 3}, {3, 3}});
  add("negative axis", DType::f32, -1, {{2, 3}, {2, 1}});
  add("empty part", DType::f32, 1, {{2, 3}, {2, 0}, {2, 4}});
  add("bool", DType::boolean, 0, {{3}, {2}});
  add("int64", DType::i64, 0, {{3}, {1}});
  add("float16", DType::f16, 1, {{2, 3}, {2, 5}});
  OpCase many{.name = "20 inputs", .attrs = make_attrs({{"axis", int64_t{1}}})};
  for (int64_t i = 0; i < 20; ++i) many.inputs.push_back({.shape = {2, 1 + i % 3, 2}});
  cases.push_back(std::move(many));
}

// --- Split: attributes axis, num_outputs; operand split.

Result<std::vector<int64_t>> split_extents(const Node& node, int64_t dim,
                                           const std::optional<std::vector<int64_t>>& split) {
  const int64_t n = static_cast<int64_t>(node.outputs.size());
  std::vector<int64_t> extents;
  if (split) {
    extents = *split;
    int64_t sum = 0;
    for (int64_t extent : extents) {
      if (extent < 0) return bad(node, StrCat("split holds ", extent));
      sum += extent;
    }
    if (static_cast<int64_t>(extents.size()) != n || sum != dim) {
      return bad(node,
                 StrCat("split [", StrJoin(extents, ","), "] does not cut ", dim, " elements into ", n, " outputs"));
    }
    return extents;
  }
  if (node.attrs.i("num_outputs", n) != n) {
    return bad(node, StrCat("num_outputs is ", node.attrs.i("num_outputs", n), ", the node has ", n, " outputs"));
  }
  const int64_t chunk = (dim + n - 1) / n, last = dim - chunk * (n - 1);
  if (last < 0) return bad(node, StrCat(dim, " elements cannot be cut into ", n, " chunks of ", chunk));
  extents.assign(node.outputs.size(), chunk);
  extents.back() = last;
  return extents;
}

Result<> infer_split(InferContext& ctx) {
  for (TensorInfo& output : ctx.outputs) output.dtype = ctx.inputs[0].dtype;
  const bool known = SINTER_TRY(shape_operands_known(ctx));
  if (!ctx.inputs[0].shape) return {};
  const Shape& in = *ctx.inputs[0].shape;
  const size_t axis = SINTER_TRY(checked_axis(ctx.node, ctx.attrs().i("axis", 0), in.rank()));
  std::vector<int64_t> extents(ctx.outputs.size(), kUnknownDim);
  const auto split = known ? known_ints(ctx, 1) : std::nullopt;
  if (is_known(in[axis]) && known) {
    extents = SINTER_TRY(split_extents(ctx.node, in[axis], split));
  } else if (split) {
    if (split->size() != extents.size()) {
      return bad(ctx.node, StrCat("split has ", split->size(), " entries, the node has ", extents.size(), " outputs"));
    }
    extents = *split;
  }
  for (size_t i = 0; i < ctx.outputs.size(); ++i) {
    ctx.outputs[i].shape = in;
    (*ctx.outputs[i].shape)[axis] = extents[i];
  }
  return {};
}

Result<Parts> split_parts(const Node& node, const Shape& in, const IntOperands& ints) {
  const size_t axis = *fold_axis(node.attrs.i("axis", 0), in.rank());
  const auto split = ints.size() > 1 ? ints[1] : std::nullopt;
  Parts all = find_parts(in, axis, SINTER_TRY(split_extents(node, in[axis], split)));
  std::erase_if(all.parts, [&](const Part& part) { return node.outputs[part.index] == kNone; });
  return all;
}

Result<> reference_split(const RefContext& ctx) {
  const Parts all = SINTER_TRY(split_parts(ctx.node, ctx.in(0).shape(), int_operands(ctx)));
  for (const Part& part : all.parts) copy_part(all, part, ctx.out(part.index), ctx.in(0), false);
  return {};
}

Result<> wgsl_split(WgslContext& ctx) {
  return emit_parts(ctx, SINTER_TRY(split_parts(ctx.node, ctx.in_shape(0), int_operands(ctx))), false);
}

void split_cases(std::vector<OpCase>& cases) {
  const auto add = [&](std::string name, DType dtype, int64_t axis, Shape shape, size_t outputs) {
    cases.push_back({.name = std::move(name),
                     .attrs = make_attrs({{"axis", axis}}),
                     .inputs = {{.dtype = dtype, .shape = shape, .lo = 0, .hi = 9}},
                     .outputs = outputs});
  };
  add("equal", DType::f32, 1, {2, 6, 3}, 3);
  add("last smaller", DType::f32, 0, {7}, 4);
  add("negative axis", DType::i64, -1, {3, 4}, 2);
  add("12 outputs", DType::f32, 1, {2, 12, 4}, 12);
  cases.push_back({.name = "sizes with a 0",
                   .attrs = make_attrs({{"axis", int64_t{0}}}),
                   .inputs = {{.shape = {5, 3}}, constant_ints({2, 0, 3})},
                   .outputs = 3});
}

}  // namespace

extern const OpDef op_concat = {.name = "Concat",
                                .max_inputs = -1,
                                .op_class = OpClass::movement,
                                .infer = infer_concat,
                                .dims = concat_dims,
                                .reference = reference_concat,
                                .wgsl = wgsl_concat,
                                .cases = concat_cases};

extern const OpDef op_split = {.name = "Split",
                               .max_inputs = 2,
                               .max_outputs = -1,
                               .op_class = OpClass::movement,
                               .notes = "sizes must be computable before the run",
                               .shape_operands = 0b10,
                               .infer = infer_split,
                               .reference = reference_split,
                               .wgsl = wgsl_split,
                               .cases = split_cases};

}  // namespace sinter
