// SPDX-License-Identifier: Apache-2.0
// What the operators that move elements share on the device. Kernels move opaque units of 2 to 16 bytes, as wide as
// contiguity allows, so one text serves every dtype and bits survive exactly (NaN payloads, denormals).
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/ops/op_def.h"
#include "engine/wgsl/writer.h"

namespace sinter::ops {

/// Bytes of one element on the device; Unsupported where the dtype has no form there.
Result<uint32_t> element_bytes(const WgslContext& ctx, DType dtype);

/// How many elements of `bytes` fit a unit when each of `counts` (extents, strides and bases along a contiguous run)
/// must be a whole number of units.
uint32_t unit_elements(const WgslContext& ctx, uint32_t bytes, std::span<const int64_t> counts);
/// WGSL type of a unit: 2 "f16", 4 "u32", 8 "vec2<u32>", 16 "vec4<u32>".
std::string_view unit_type(uint32_t bytes);

/// The first operand with the same value as operand `i`. A value is bound once: two writable bindings of one range are
/// not allowed, and activations are bound writable.
uint32_t first_use(const Node& node, uint32_t i);
/// Unsupported where operands `i` and `j` are one value that a kernel would need under two types.
Result<> check_distinct(const WgslContext& ctx, uint32_t i, uint32_t j);

void bind_units(wgsl::Writer& writer, const WgslContext& ctx, std::string_view var, uint32_t operand, uint32_t bytes);
void bind_output_units(wgsl::Writer& writer, std::string_view var, uint32_t output, uint32_t bytes);

struct DeviceCopy {
  uint32_t operand = 0, output = 0;
  Shape dims;
  Shape from_strides, to_strides;  // in elements
  int64_t from_base = 0, to_base = 0;
};
/// One kernel, or none where `dims` is empty. Picks wide units, and tiles for transpositions.
Result<> emit_copy(WgslContext& ctx, std::string_view name, const DeviceCopy& copy);
/// Output 0 is operand 0, element by element.
Result<> emit_alias(WgslContext& ctx);

/// Element `i` of a tensor in device form; zero where `tensor` is null.
Result<std::vector<std::byte>> device_scalar(const WgslContext& ctx, const Tensor* tensor, size_t i, DType dtype);
/// Puts a device scalar into the uniform block and returns the WGSL expression for a unit filled with it.
std::string uniform_unit(wgsl::Writer& writer, std::string_view name, std::span<const std::byte> scalar,
                         uint32_t unit_bytes);

/// Integer operands inside kernels. `bind_index` gives them their natural type (int32, or int64 as two words);
/// `read_index` is the text that reads element `at` as i32. Indices beyond 32 bits are out of range anyway.
Result<> bind_index(wgsl::Writer& writer, const WgslContext& ctx, std::string_view var, uint32_t operand);
std::string read_index(const WgslContext& ctx, uint32_t operand, std::string_view var, std::string_view at);
/// Declares `fold_index(index: i32, extent: u32) -> u32`: negatives count from the end, the rest is clamped.
void declare_fold_index(wgsl::Writer& writer);

}  // namespace sinter::ops
