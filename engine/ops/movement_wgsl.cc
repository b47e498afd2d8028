// SPDX-License-Identifier: Apache-2.0
#include "engine/ops/movement_wgsl.h"

#include <array>
#include <cstring>

#include "engine/ops/util.h"

namespace sinter::ops {
namespace {

constexpr uint32_t kTile = 16;  // tiles of 16x16: the 256 threads that every device has

// Splits a merged loop into the axis that is contiguous in the source and the one that is contiguous in the target.
struct Transposition {
  bool found = false;
  size_t from_axis = 0, to_axis = 0;
  StridedLoop batch;
};

Transposition find_transposition(const StridedLoop& loop, const wgsl::Target& target) {
  Transposition found;
  const size_t rank = loop.dims.rank();
  // Workgroup memory is slow where a CPU plays the device.
  if (rank < 2 || target.force_plain || target.software || target.max_invocations < kTile * kTile) return found;
  found.to_axis = rank - 1;
  const Shape &to = loop.strides[0], &from = loop.strides[1];
  if (to[rank - 1] != 1 || from[rank - 1] == 1) return found;
  found.batch.strides.resize(2);
  for (size_t axis = 0; axis + 1 < rank; ++axis) {
    if (from[axis] == 1 && !found.found) {
      found.found = true;
      found.from_axis = axis;
      continue;
    }
    found.batch.dims.push_back(loop.dims[axis]);
    found.batch.strides[0].push_back(to[axis]);
    found.batch.strides[1].push_back(from[axis]);
  }
  const int64_t rows = loop.dims[found.from_axis], columns = loop.dims[rank - 1];
  found.found &= rows >= kTile && columns >= kTile && rows <= kTile * int64_t{target.max_groups} &&
                 columns <= kTile * int64_t{target.max_groups} &&
                 found.batch.dims.numel() <= int64_t{target.max_groups};
  return found;
}

void write_tiles(wgsl::Writer& writer, const StridedLoop& loop, const Transposition& t, std::string_view type) {
  const int64_t rows = loop.dims[t.from_axis], columns = loop.dims[t.to_axis];
  const auto groups = [](int64_t n) { return static_cast<uint32_t>((n + kTile - 1) / kTile); };
  writer.grid({groups(rows), groups(columns), static_cast<uint32_t>(t.batch.dims.numel())}, {kTile, kTile, 1});
  writer.u32("rows", static_cast<uint32_t>(rows));
  writer.u32("columns", static_cast<uint32_t>(columns));
  writer.u32("to_row", static_cast<uint32_t>(loop.strides[0][t.from_axis]));
  writer.u32("from_column", static_cast<uint32_t>(loop.strides[1][t.to_axis]));
  writer.declare(StrCat("var<workgroup> tile: array<array<", type, ", 17>, 16>;\n"));  // 17: no bank conflicts
  writer.offsets("wid.z", t.batch, {"dst", "src"});
  writer.body(
      "  let r = wid.x * 16u + lid.x;\n  let c = wid.y * 16u + lid.y;\n"
      "  if (r < p.rows && c < p.columns) { tile[lid.y][lid.x] = a[src + p.from_base + r + c * p.from_column]; }\n"
      "  workgroupBarrier();\n"
      "  let row = wid.x * 16u + lid.y;\n  let column = wid.y * 16u + lid.x;\n"
      "  if (row < p.rows && column < p.columns) { o[dst + p.to_base + row * p.to_row + column] = tile[lid.x][lid.y]; "
      "}\n");
}

bool is_dense(const StridedLoop& loop, size_t k) { return loop.strides[k] == row_major_strides(loop.dims); }

}  // namespace

Result<uint32_t> element_bytes(const WgslContext& ctx, DType dtype) {
  const uint32_t bytes = wgsl::device_size(wgsl::storage_of(dtype, ctx.target));
  if (bytes == 0) return unsupported(ctx.node, StrCat("dtype ", name_of(dtype), " has no form on the device"));
  return bytes;
}

uint32_t unit_elements(const WgslContext& ctx, uint32_t bytes, std::span<const int64_t> counts) {
  uint32_t elements = ctx.target.force_plain ? 1 : 16 / bytes;
  for (int64_t count : counts) {
    while (count % elements != 0) elements /= 2;
  }
  return elements;
}

std::string_view unit_type(uint32_t bytes) {
  switch (bytes) {
    case 2:
      return "f16";
    case 4:
      return "u32";
    case 8:
      return "vec2<u32>";
    default:
      return "vec4<u32>";
  }
}

uint32_t first_use(const Node& node, uint32_t i) {
  uint32_t first = 0;
  while (node.inputs[first] != node.inputs[i]) ++first;
  return first;
}

Result<> check_distinct(const WgslContext& ctx, uint32_t i, uint32_t j) {
  if (first_use(ctx.node, i) != first_use(ctx.node, j)) return {};
  return unsupported(ctx.node, StrCat("inputs ", i, " and ", j, " are the same value"));
}

void bind_units(wgsl::Writer& writer, const WgslContext& ctx, std::string_view var, uint32_t operand, uint32_t bytes) {
  writer.input(var, operand, unit_type(bytes), ctx.inputs[operand].weight);
}

void bind_output_units(wgsl::Writer& writer, std::string_view var, uint32_t output, uint32_t bytes) {
  writer.output(var, output, unit_type(bytes));
}

Result<> emit_copy(WgslContext& ctx, std::string_view name, const DeviceCopy& copy) {
  const uint32_t bytes = SINTER_TRY(element_bytes(ctx, ctx.inputs[copy.operand].dtype));
  const int64_t numel = copy.dims.numel();
  if (numel == 0) return {};
  StridedLoop loop = merge_axes(copy.dims, std::array{copy.to_strides, copy.from_strides});
  const size_t rank = loop.dims.rank();
  int64_t from_base = copy.from_base, to_base = copy.to_base;
  uint32_t unit = 1;
  if (rank > 0 && loop.strides[0][rank - 1] == 1 && loop.strides[1][rank - 1] == 1) {
    std::vector<int64_t> counts{loop.dims[rank - 1], from_base, to_base};
    for (const Shape& strides : loop.strides) counts.insert(counts.end(), strides.begin(), strides.end() - 1);
    unit = unit_elements(ctx, bytes, counts);
    loop.dims[rank - 1] /= unit;
    from_base /= unit;
    to_base /= unit;
    for (Shape& strides : loop.strides) {
      for (size_t axis = 0; axis + 1 < rank; ++axis) strides[axis] /= unit;
    }
  }
  wgsl::Writer writer(name, ctx.target);
  bind_units(writer, ctx, "a", copy.operand, bytes * unit);
  bind_output_units(writer, "o", copy.output, bytes * unit);
  writer.u32("from_base", static_cast<uint32_t>(from_base));
  writer.u32("to_base", static_cast<uint32_t>(to_base));
  if (const Transposition tiles = find_transposition(loop, ctx.target); tiles.found) {
    write_tiles(writer, loop, tiles, unit_type(bytes * unit));
    return emit(ctx, writer);
  }
  writer.linear(static_cast<uint64_t>(numel / unit));
  const bool dense = is_dense(loop, 0);
  if (!dense) {
    writer.offsets("i", loop, {"dst", "src"});
  } else if (!is_dense(loop, 1)) {
    writer.offsets("i", {loop.dims, {loop.strides[1]}}, {"src"});
  } else {
    writer.body("  let src = i;\n");
  }
  writer.body(StrCat("  o[", dense ? "i" : "dst", " + p.to_base] = a[src + p.from_base];\n"));
  return emit(ctx, writer);
}

Result<> emit_alias(WgslContext& ctx) {
  const Shape flat{ctx.in_shape(0).numel()};
  return emit_copy(ctx, "copy", {.dims = flat, .from_strides = {1}, .to_strides = {1}});
}

Result<std::vector<std::byte>> device_scalar(const WgslContext& ctx, const Tensor* tensor, size_t i, DType dtype) {
  std::vector<std::byte> bytes(SINTER_TRY(element_bytes(ctx, dtype)));
  if (!tensor) return bytes;
  Tensor scalar = SINTER_TRY(Tensor::alloc(dtype, {}));
  const size_t size = size_of(dtype);
  std::memcpy(scalar.mutable_bytes().data(), tensor->bytes().data() + i * size, size);
  const Tensor device = SINTER_TRY(wgsl::to_device(scalar, ctx.target));
  std::memcpy(bytes.data(), device.bytes().data(), bytes.size());
  return bytes;
}

std::string uniform_unit(wgsl::Writer& writer, std::string_view name, std::span<const std::byte> scalar,
                         uint32_t unit_bytes) {
  // Doubled until it fills at least one word; the unit then repeats the words.
  std::array<uint32_t, 2> words{};
  std::memcpy(words.data(), scalar.data(), scalar.size());
  if (scalar.size() == 2) words[0] |= words[0] << 16;
  writer.u32(StrCat(name, "_0"), words[0]);
  std::string low = StrCat("p.", name, "_0");
  if (unit_bytes == 2) {
    writer.use_f16();
    return StrCat("bitcast<vec2<f16>>(", low, ").x");
  }
  if (scalar.size() < 8) return unit_bytes == 4 ? low : StrCat(unit_type(unit_bytes), "(", low, ")");
  writer.u32(StrCat(name, "_1"), words[1]);
  const std::string pair = StrCat(low, ", p.", name, "_1");
  return unit_bytes == 8 ? StrCat("vec2<u32>(", pair, ")") : StrCat("vec4<u32>(", pair, ", ", pair, ")");
}

Result<> bind_index(wgsl::Writer& writer, const WgslContext& ctx, std::string_view var, uint32_t operand) {
  const wgsl::Storage form = storage(ctx, ctx.inputs[operand]);
  if (form != wgsl::Storage::i32 && form != wgsl::Storage::words2) {
    return unsupported(ctx.node, StrCat("indices of dtype ", name_of(ctx.inputs[operand].dtype), " on the device"));
  }
  writer.input(var, operand, wgsl::element_type(form), ctx.inputs[operand].weight);
  return {};
}

std::string read_index(const WgslContext& ctx, uint32_t operand, std::string_view var, std::string_view at) {
  const bool wide = storage(ctx, ctx.inputs[operand]) == wgsl::Storage::words2;
  return StrCat("i32(", var, "[", at, "]", wide ? ".x)" : ")");
}

void declare_fold_index(wgsl::Writer& writer) {
  writer.declare(
      "fn fold_index(index: i32, extent: u32) -> u32 {\n"
      "  let n = i32(extent);\n"
      "  return u32(clamp(select(index, index + n, index < 0), 0, n - 1));\n}\n");
}

}  // namespace sinter::ops
