// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/kernels/matrix.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "engine/cpu/pool.h"

namespace sinter::cpu {
namespace {

constexpr size_t kAlign = 64;
constexpr size_t kMaxLanes = 16;
constexpr size_t kLineFloats = 16;
constexpr size_t kSliceFloats = 20 << 10;  // of packed weights
constexpr size_t kMinSliceTiles = 4;
constexpr size_t kBlockBytes = 128 << 10;  // rows that one pass over the panels keeps in the second-level cache
constexpr size_t kMaxBlockTiles = 32;
constexpr size_t kChunksPerThread = 4;          // so that threads of unequal speed finish together
constexpr uint64_t kMinParallelWork = 1 << 16;  // multiply-adds; below, waking a thread costs more than it brings

size_t ceil_div(size_t a, size_t b) { return (a + b - 1) / b; }
size_t align_up(size_t bytes) { return ceil_div(bytes, kAlign) * kAlign; }

// Rows go in tiles of nearly equal height, tiles in blocks; an item of work is one block by one range of panels.
struct Cut {
  size_t tiles, block_tiles, blocks, panel_parts, chunks, slot_bytes;
};

size_t panel_count(const GemmKernels& kernels, size_t columns) {
  size_t count = 0;
  for (size_t left = kernels.vectors(columns); left > 0; ++count) left -= kernels.panel_vectors(left);
  return count;
}

Cut cut(const MatrixJob& job, const GemmKernels& kernels, unsigned threads) {
  Cut c;
  c.tiles = ceil_div(job.rows, kernels.height);
  const size_t tile_bytes = kernels.height * job.row_floats * sizeof(float);
  c.block_tiles = std::clamp<size_t>(kBlockBytes / std::max<size_t>(tile_bytes, 1), 1, kMaxBlockTiles);
  c.block_tiles = std::min(c.block_tiles, c.tiles);
  c.panel_parts = 1;
  const uint64_t work = uint64_t{job.rows} * job.columns * job.groups * job.segments * job.k;
  if (work < kMinParallelWork) threads = 1;
  if (threads > 1) {
    const size_t wanted = threads * kChunksPerThread;
    const size_t panels = panel_count(kernels, job.columns);
    if (ceil_div(c.tiles, c.block_tiles) * panels < wanted) {
      c.block_tiles = std::max<size_t>(1, c.tiles * panels / wanted);
    }
    c.panel_parts = std::min(panels, ceil_div(wanted, ceil_div(c.tiles, c.block_tiles)));
  }
  c.blocks = ceil_div(c.tiles, c.block_tiles);
  c.chunks = threads == 1 ? 1 : std::min(c.blocks * c.panel_parts, size_t{threads} * kChunksPerThread);
  const size_t block_rows = c.block_tiles * kernels.height;
  c.slot_bytes = align_up(block_rows * job.segments * sizeof(const float*)) +
                 align_up(block_rows * job.patch_floats * sizeof(float));
  return c;
}

class Runner {
 public:
  Runner(const MatrixJob& job, const GemmKernels& kernels, const Cut& c, std::span<std::byte> scratch)
      : job_(job), kernels_(kernels), cut_(c), scratch_(scratch), panels_(panel_count(kernels, job.columns)) {}

  void chunk(size_t index) const {
    const size_t items = cut_.blocks * cut_.panel_parts;
    std::byte* slot = scratch_.data() + index * cut_.slot_bytes;
    for (size_t i = items * index / cut_.chunks; i < items * (index + 1) / cut_.chunks; ++i) item(i, slot);
  }

 private:
  size_t first_row(size_t tile) const { return job_.rows * tile / cut_.tiles; }

  void item(size_t index, std::byte* slot) const {
    // Consecutive items share a block.
    const size_t block = index / cut_.panel_parts, part = index % cut_.panel_parts;
    const size_t first = block * cut_.block_tiles, last = std::min(first + cut_.block_tiles, cut_.tiles);
    const size_t block_rows = cut_.block_tiles * kernels_.height;
    const float** table = reinterpret_cast<const float**>(slot);
    float* patches = reinterpret_cast<float*>(slot + align_up(block_rows * job_.segments * sizeof(const float*)));
    for (size_t t = first; t < last; ++t) {
      const size_t row = first_row(t), at = row - first_row(first);
      job_.rows_fn(job_.rows_context, row, first_row(t + 1) - row, table + at * job_.segments,
                   patches + at * job_.patch_floats);
    }
    const size_t panel_first = panels_ * part / cut_.panel_parts, panel_last = panels_ * (part + 1) / cut_.panel_parts;
    for (size_t g = 0; g < job_.groups; ++g) {
      size_t left = kernels_.vectors(job_.columns), done = 0;
      for (size_t p = 0; p < panel_last; ++p) {
        const size_t vectors = kernels_.panel_vectors(left);
        if (p >= panel_first) panel(g, done * kernels_.lanes, vectors, first, last, table);
        left -= vectors;
        done += vectors;
      }
    }
    if (job_.epilogue->general) finish(panel_first, panel_last, first, last);
  }

  void panel(size_t group, size_t column, size_t vectors, size_t first, size_t last, const float** table) const {
    alignas(kAlign) float bias[GemmKernels::kMaxVectors * kMaxLanes];
    const size_t width = vectors * kernels_.lanes, depth = job_.segments * job_.k;
    const size_t at = group * job_.columns + column;
    TileArgs tile;
    tile.packed = job_.packed + group * packed_floats(job_.columns, depth) + depth * column;
    tile.columns = std::min(width, job_.columns - column);
    tile.bias = job_.bias ? job_.bias + at : nullptr;
    if (tile.bias && tile.columns < width) {
      std::memset(bias, 0, sizeof(bias));
      std::memcpy(bias, tile.bias, tile.columns * sizeof(float));
      tile.bias = bias;
    }
    tile.out_stride = job_.out_stride;
    tile.epilogue.add_stride = job_.out_stride;
    const size_t rest = kernels_.vectors(job_.columns) - column / kernels_.lanes - vectors;
    const size_t next_width = rest > 0 ? kernels_.panel_vectors(rest) * kernels_.lanes : 0;
    const Slices slices = slices_of(width, last - first);
    for (size_t i = 0; i < slices.count; ++i) {
      const Slice slice = slices.at(job_, i);
      const bool is_last = i + 1 == slices.count;
      tile.segments = slice.segments;
      tile.k = slice.k;
      tile.row_offset = group * job_.k + slice.first_k;
      tile.epilogue.lo = is_last ? job_.epilogue->lo : -std::numeric_limits<float>::infinity();
      tile.epilogue.hi = is_last ? job_.epilogue->hi : std::numeric_limits<float>::infinity();
      // The first slice adds the epilogue's operand, each later one what the slices before have left in the output.
      const float* add = i == 0 ? job_.epilogue->add : job_.out;
      // The tiles of a slice fetch the next one, a share each, so that its first tile does not wait for memory.
      const size_t floats = slice.segments * slice.k * width;
      const float* next = tile.packed + floats;
      const size_t next_floats = is_last ? slice.segments * slice.k * next_width : floats;
      for (size_t t = first; t < last; ++t) {
        const size_t share = (t - first) * slice.segments * slice.k * kLineFloats;
        tile.ahead = share < next_floats ? next + share : tile.packed;
        const size_t row = first_row(t), height = first_row(t + 1) - row;
        tile.rows = table + (row - first_row(first)) * job_.segments + slice.first_segment * height;
        tile.out = job_.out + row * job_.out_stride + at;
        tile.epilogue.add = add ? add + row * job_.out_stride + at : nullptr;
        kernels_.tile[height - 1][vectors - 1](tile);
      }
      tile.packed = next;
      tile.bias = nullptr;
    }
  }

  // Part of the depth: some segments, or part of a single one.
  struct Slice {
    size_t first_segment, segments, first_k, k;
  };
  struct Slices {
    size_t count;
    Slice at(const MatrixJob& job, size_t i) const {
      if (job.segments == 1) {
        const size_t first = job.k * i / count;
        return {0, 1, first, job.k * (i + 1) / count - first};
      }
      const size_t first = job.segments * i / count;
      return {first, job.segments * (i + 1) / count - first, 0, job.k};
    }
  };
  // A deep panel goes in slices that stay close to the core while all tiles of the block pass over them.
  Slices slices_of(size_t width, size_t tiles) const {
    const size_t count = job_.segments * job_.k * width / kSliceFloats;
    if (tiles < kMinSliceTiles || count < 2) return {1};
    return {std::min(count, job_.segments == 1 ? job_.k : job_.segments)};
  }

  // An expression that the micro-kernels do not know runs over the finished part of the output while it is in the cache.
  void finish(size_t panel_first, size_t panel_last, size_t first, size_t last) const {
    const auto column_of = [&](size_t panel) {
      size_t left = kernels_.vectors(job_.columns), done = 0;
      for (size_t p = 0; p < panel && left > 0; ++p) {
        const size_t vectors = kernels_.panel_vectors(left);
        left -= vectors;
        done += vectors;
      }
      return std::min(done * kernels_.lanes, job_.columns);
    };
    const size_t begin = column_of(panel_first), end = column_of(panel_last);
    const size_t row_first = first_row(first), row_last = first_row(last);
    if (cut_.panel_parts == 1 && job_.out_stride == job_.groups * job_.columns) {
      job_.epilogue->apply(job_.out, row_first * job_.out_stride, (row_last - row_first) * job_.out_stride);
      return;
    }
    for (size_t row = row_first; row < row_last; ++row) {
      for (size_t g = 0; g < job_.groups; ++g) {
        job_.epilogue->apply(job_.out, row * job_.out_stride + g * job_.columns + begin, end - begin);
      }
    }
  }

  const MatrixJob& job_;
  const GemmKernels& kernels_;
  const Cut& cut_;
  std::span<std::byte> scratch_;
  size_t panels_;
};

}  // namespace

void matrix_rows(const void* context, size_t first, size_t height, const float** table, float*) {
  const auto& rows = *static_cast<const MatrixRows*>(context);
  for (size_t i = 0; i < height; ++i) table[i] = rows.data + (first + i) * rows.stride;
}

size_t packed_floats(size_t columns, size_t depth) { return gemm_kernels().padded(columns) * depth; }

void pack_matrix(const PackSource& source, float scale, float* packed) {
  const GemmKernels& kernels = gemm_kernels();
  size_t left = kernels.vectors(source.columns), column = 0;
  while (left > 0) {
    const size_t vectors = kernels.panel_vectors(left), width = vectors * kernels.lanes;
    const size_t valid = std::min(width, source.columns - column);
    for (size_t s = 0; s < source.segments; ++s) {
      for (size_t k = 0; k < source.k; ++k, packed += width) {
        const float* from =
            source.data + s * source.segment_stride + k * source.k_stride + column * source.column_stride;
        for (size_t c = 0; c < valid; ++c) packed[c] = from[c * source.column_stride] * scale;
        for (size_t c = valid; c < width; ++c) packed[c] = 0;
      }
    }
    left -= vectors;
    column += width;
  }
}

uint64_t matrix_scratch(const MatrixJob& job, unsigned threads) {
  const Cut one = cut(job, gemm_kernels(), 1), all = cut(job, gemm_kernels(), threads);
  return std::max(uint64_t{one.chunks} * one.slot_bytes, uint64_t{all.chunks} * all.slot_bytes);
}

void run_matrix(const MatrixJob& job, std::span<std::byte> scratch, plan::ThreadPool& pool) {
  const GemmKernels& kernels = gemm_kernels();
  Cut c = cut(job, kernels, pool.threads());
  // Planned for fewer threads than the pool has.
  if (uint64_t{c.chunks} * c.slot_bytes > scratch.size()) c = cut(job, kernels, 1);
  const Runner runner(job, kernels, c, scratch);
  parallel_for(pool, c.chunks, [&](size_t index) { runner.chunk(index); });
}

}  // namespace sinter::cpu
