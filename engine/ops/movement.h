// SPDX-License-Identifier: Apache-2.0
// What the operators that move elements share on the host: operands that decide shapes, axes, indices, strided copies.
// Elements are opaque: copies go by their size. The device's part is movement_wgsl.h.
#pragma once

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/ops/op_def.h"
#include "engine/ops/util.h"

namespace sinter::ops {

/// Values of the row's `shape_operands`, by operand: nothing where absent or not known.
using IntOperands = std::vector<std::optional<std::vector<int64_t>>>;
IntOperands int_operands(const InferContext& ctx);
IntOperands int_operands(const RefContext& ctx);
IntOperands int_operands(const WgslContext& ctx);

/// Whether all present operands of the row's `shape_operands` are known by value. At plan time they must be:
/// Unsupported, naming the operand, where one is not.
Result<bool> shape_operands_known(const InferContext& ctx);

/// The elements of a small integer operand as far as they are known at load; nothing where it was not computed from shapes.
std::optional<DimValues> dim_values(const TensorInfo& info);
/// Row function for operators that keep the elements in order.
std::optional<DimValues> same_dims(const Node& node, std::span<const TensorInfo> inputs);

/// Number of elements of a rank-0 or rank-1 operand where its shape is known.
std::optional<size_t> operand_length(const InferContext& ctx, size_t i);

/// InvalidModel where the axis is outside [-rank, rank).
Result<size_t> checked_axis(const Node& node, int64_t axis, size_t rank);
/// The same for a list, which must not name an axis twice.
Result<std::vector<size_t>> checked_axes(const Node& node, std::span<const int64_t> axes, size_t rank);
/// Unsupported where a shape has more axes than the engine handles.
Result<> check_rank(const Node& node, size_t rank);

/// An index folded into [0, extent); nothing where it is outside [-extent, extent).
std::optional<int64_t> fold_index(int64_t index, int64_t extent);
/// InvalidInput: "index 7 (element 3 of indices) is outside [-4,3], axis 1 has 4 elements".
std::unexpected<Error> index_error(const Node& node, int64_t index, size_t element, int64_t extent, size_t axis);

/// Copies elements of `size` bytes over `dims`; strides count elements and may be negative or 0.
void strided_copy(std::byte* to, const Shape& to_strides, const std::byte* from, const Shape& from_strides,
                  const Shape& dims, size_t size);
/// All elements in order.
void copy_all(const Tensor& from, Tensor& to);

/// Where coordinate c of each output axis reads: an offset in elements, or -1 for the fill value.
using AxisTables = std::vector<std::vector<int64_t>>;
/// out[c0, c1, ...] = in[tables[0][c0] + tables[1][c1] + ...], or `fill` where one of them is -1.
void copy_by_tables(const Tensor& in, Tensor& out, const AxisTables& tables, const std::byte* fill = nullptr);

// Self-test cases.
Attrs make_attrs(std::initializer_list<std::pair<std::string_view, AttrValue>> items);
inline AttrValue ints_attr(std::initializer_list<int64_t> values) { return std::vector<int64_t>(values); }
/// A constant int64 operand of rank 1.
OpCase::Input constant_ints(std::initializer_list<int64_t> values);

}  // namespace sinter::ops
