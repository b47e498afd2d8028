// SPDX-License-Identifier: Apache-2.0
#include "engine/ops/movement.h"

#include <array>
#include <cstring>

namespace sinter::ops {
namespace {

template <class Ctx, class Get>
IntOperands collect(const Ctx& ctx, Get get) {
  IntOperands values(ctx.inputs.size());
  for (size_t i = 0; i < values.size() && i < 32; ++i) {
    const Tensor* tensor = ctx.node.op->shape_operands >> i & 1 ? get(i) : nullptr;
    if (tensor && is_integer(tensor->dtype())) values[i] = to_ints(*tensor);
  }
  return values;
}

template <class T>
void copy_row(std::byte* to, int64_t to_stride, const std::byte* from, int64_t from_stride, int64_t n) {
  constexpr int64_t size = sizeof(T);
  for (int64_t i = 0; i < n; ++i) std::memcpy(to + i * to_stride * size, from + i * from_stride * size, sizeof(T));
}

void copy_row(std::byte* to, int64_t to_stride, const std::byte* from, int64_t from_stride, int64_t n, size_t size) {
  if (to_stride == 1 && from_stride == 1) {
    std::memcpy(to, from, static_cast<size_t>(n) * size);
    return;
  }
  switch (size) {
    case 1:
      return copy_row<uint8_t>(to, to_stride, from, from_stride, n);
    case 2:
      return copy_row<uint16_t>(to, to_stride, from, from_stride, n);
    case 4:
      return copy_row<uint32_t>(to, to_stride, from, from_stride, n);
    default:
      return copy_row<uint64_t>(to, to_stride, from, from_stride, n);
  }
}

}  // namespace

IntOperands int_operands(const InferContext& ctx) {
  return collect(ctx, [&](size_t i) { return ctx.inputs[i].constant; });
}
IntOperands int_operands(const RefContext& ctx) {
  return collect(ctx, [&](size_t i) { return ctx.inputs[i]; });
}
IntOperands int_operands(const WgslContext& ctx) {
  return collect(ctx, [&](size_t i) { return ctx.inputs[i].constant; });
}

Result<bool> shape_operands_known(const InferContext& ctx) {
  bool known = true;
  for (size_t i = 0; i < ctx.inputs.size() && i < 32; ++i) {
    if (!(ctx.node.op->shape_operands >> i & 1) || !ctx.has(i) || ctx.inputs[i].constant) continue;
    known = false;
    if (ctx.concrete) {
      return unsupported(
          ctx.node,
          StrCat("the output's shape depends on the contents of input ", i, ", which are known only while running"),
          "give that operand as a constant, or compute it from shapes and small integer inputs");
    }
  }
  return known;
}

std::optional<DimValues> dim_values(const TensorInfo& info) {
  constexpr size_t kMaxElements = 64;
  if (info.dims) return *info.dims;
  if (!info.constant || !is_integer(info.dtype) || info.constant->numel() > kMaxElements) return std::nullopt;
  DimValues values;
  for (int64_t value : to_ints(*info.constant)) values.push_back({value, true});
  return values;
}

std::optional<DimValues> same_dims(const Node&, std::span<const TensorInfo> inputs) { return dim_values(inputs[0]); }

std::optional<size_t> operand_length(const InferContext& ctx, size_t i) {
  if (!ctx.has(i) || !ctx.inputs[i].shape) return std::nullopt;
  const Shape& shape = *ctx.inputs[i].shape;
  if (shape.rank() == 0) return 1;
  if (shape.rank() > 1 || !is_known(shape[0])) return std::nullopt;
  return static_cast<size_t>(shape[0]);
}

Result<size_t> checked_axis(const Node& node, int64_t axis, size_t rank) {
  if (const auto folded = fold_axis(axis, rank)) return *folded;
  return bad(node, StrCat("axis ", axis, " is outside the ", rank, " axes of its input"));
}

Result<std::vector<size_t>> checked_axes(const Node& node, std::span<const int64_t> axes, size_t rank) {
  std::vector<size_t> folded;
  uint32_t seen = 0;
  for (int64_t axis : axes) {
    folded.push_back(SINTER_TRY(checked_axis(node, axis, rank)));
    if (seen >> folded.back() & 1) return bad(node, StrCat("axis ", axis, " is named twice"));
    seen |= 1u << folded.back();
  }
  return folded;
}

Result<> check_rank(const Node& node, size_t rank) {
  if (rank <= kMaxRank) return {};
  return unsupported(node, StrCat("a tensor of ", rank, " axes; at most ", kMaxRank, " are supported"));
}

std::optional<int64_t> fold_index(int64_t index, int64_t extent) {
  if (index < -extent || index >= extent) return std::nullopt;
  return index < 0 ? index + extent : index;
}

std::unexpected<Error> index_error(const Node& node, int64_t index, size_t element, int64_t extent, size_t axis) {
  return fail(Code::InvalidInput,
              StrCat(node.op->name, ": index ", index, " (element ", element, " of indices) is outside axis ", axis,
                     " with ", extent, " elements"),
              StrCat("indices must be in [", -extent, ",", extent - 1, "]"));
}

void strided_copy(std::byte* to, const Shape& to_strides, const std::byte* from, const Shape& from_strides,
                  const Shape& dims, size_t size) {
  if (dims.numel() == 0) return;
  const StridedLoop loop = merge_axes(dims, std::array{to_strides, from_strides});
  const size_t rank = loop.dims.rank();
  if (rank == 0) return copy_row(to, 1, from, 1, 1, size);
  const int64_t bytes = static_cast<int64_t>(size);
  std::array<int64_t, kMaxRank> at{};
  int64_t to_offset = 0, from_offset = 0;
  while (true) {
    copy_row(to + to_offset * bytes, loop.strides[0][rank - 1], from + from_offset * bytes, loop.strides[1][rank - 1],
             loop.dims[rank - 1], size);
    size_t axis = rank - 1;
    while (axis-- > 0) {
      to_offset += loop.strides[0][axis];
      from_offset += loop.strides[1][axis];
      if (++at[axis] < loop.dims[axis]) break;
      to_offset -= loop.strides[0][axis] * loop.dims[axis];
      from_offset -= loop.strides[1][axis] * loop.dims[axis];
      at[axis] = 0;
    }
    if (axis == static_cast<size_t>(-1)) return;
  }
}

void copy_all(const Tensor& from, Tensor& to) {
  if (to.nbytes()) std::memcpy(to.mutable_bytes().data(), from.bytes().data(), to.nbytes());
}

void copy_by_tables(const Tensor& in, Tensor& out, const AxisTables& tables, const std::byte* fill) {
  const size_t size = size_of(out.dtype()), n = out.numel(), rank = tables.size();
  std::array<size_t, kMaxRank> at{};
  std::byte* to = out.mutable_bytes().data();
  for (size_t i = 0; i < n; ++i, to += size) {
    int64_t offset = 0;
    bool inside = true;
    for (size_t axis = 0; axis < rank; ++axis) {
      const int64_t step = tables[axis][at[axis]];
      inside &= step >= 0;
      offset += step;
    }
    copy_row(to, 1, inside ? in.bytes().data() + offset * static_cast<int64_t>(size) : fill, 1, 1, size);
    for (size_t axis = rank; axis-- > 0;) {
      if (++at[axis] < tables[axis].size()) break;
      at[axis] = 0;
    }
  }
}

Attrs make_attrs(std::initializer_list<std::pair<std::string_view, AttrValue>> items) {
  Attrs attrs;
  for (const auto& [name, value] : items) attrs.set(name, value);
  return attrs;
}

OpCase::Input constant_ints(std::initializer_list<int64_t> values) {
  OpCase::Input input{.dtype = DType::i64, .shape = {static_cast<int64_t>(values.size())}, .constant = true};
  for (int64_t value : values) input.values.push_back(static_cast<double>(value));
  return input;
}

}  // namespace sinter::ops
