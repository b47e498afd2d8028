// SPDX-License-Identifier: Apache-2.0
// Transpose of elements of 4 bytes where the innermost axis changes, in blocks that stay in the cache. Where it does not,
// the reference row copies whole rows already.
#include <algorithm>
#include <array>

#include "engine/cpu/kernels/list.h"
#include "engine/cpu/kernels/planes.h"
#include "engine/cpu/pool.h"
#include "engine/tensor/strides.h"

namespace sinter::cpu {
namespace {

constexpr int64_t kTile = 16;  // a cache line of 4-byte elements either way

struct Layout {
  Shape dims, from, to;  // merged output axes; strides of the input and of the output
  size_t unit = 0;       // the axis along which the input is dense
};

Layout layout_of(const Node& node, const Shape& in) {
  const auto perm = node.attrs.ints("perm");
  const Shape own = row_major_strides(in);
  Shape out, from;
  for (size_t i = 0; i < in.rank(); ++i) {
    const size_t axis = perm.empty() ? in.rank() - 1 - i : static_cast<size_t>(perm[i]);
    out.push_back(in[axis]);
    from.push_back(own[axis]);
  }
  const StridedLoop loop = merge_axes(out, std::array{from});
  Layout layout{loop.dims, loop.strides[0], row_major_strides(loop.dims), 0};
  for (size_t i = 0; i < layout.dims.rank(); ++i) {
    if (layout.from[i] == 1) layout.unit = i;
  }
  return layout;
}

bool accepts(const Node& node, std::span<const TensorInfo> inputs, std::span<const TensorInfo>) {
  if (size_of(inputs[0].dtype) != 4 || inputs[0].shape->numel() == 0) return false;
  const auto perm = node.attrs.ints("perm");
  if (std::any_of(perm.begin(), perm.end(), [](int64_t axis) { return axis < 0; })) return false;
  const Layout layout = layout_of(node, *inputs[0].shape);
  return layout.dims.rank() >= 2 && layout.unit != layout.dims.rank() - 1;
}

// Output rows along the last axis, for `count` neighbours along the input's dense axis.
void block(const uint32_t* in, int64_t in_step, uint32_t* out, int64_t out_step, int64_t count, int64_t length) {
  for (int64_t first = 0; first < length; first += kTile) {
    const int64_t last = std::min(first + kTile, length);
    for (int64_t u = 0; u < count; ++u) {
      for (int64_t i = first; i < last; ++i) out[u * out_step + i] = in[u + i * in_step];
    }
  }
}

void transpose(const Layout& layout, const uint32_t* in, uint32_t* out, plan::ThreadPool& pool) {
  const size_t last = layout.dims.rank() - 1;
  // All axes but the last, with the dense one in tiles.
  Shape outer = layout.dims;
  outer.erase(last);
  outer[layout.unit] = (outer[layout.unit] + kTile - 1) / kTile;
  const size_t tasks = static_cast<size_t>(outer.numel());
  const bool serial = pool.threads() == 1 || layout.dims.numel() < (16 << 10);
  const size_t chunks = serial ? 1 : std::min<size_t>(tasks, pool.threads() * 4);
  parallel_for(pool, chunks, [&](size_t chunk) {
    for (size_t task = tasks * chunk / chunks; task < tasks * (chunk + 1) / chunks; ++task) {
      int64_t from = 0, to = 0, count = 0, left = static_cast<int64_t>(task);
      for (size_t axis = outer.rank(); axis-- > 0;) {
        int64_t at = left % outer[axis];
        left /= outer[axis];
        if (axis == layout.unit) {
          at *= kTile;
          count = std::min(kTile, layout.dims[axis] - at);
        }
        from += at * layout.from[axis];
        to += at * layout.to[axis];
      }
      block(in + from, layout.from[last], out + to, layout.to[layout.unit], count, layout.dims[last]);
    }
  });
}

Result<> run(const plan::HostArgs& args) {
  transpose(layout_of(args.node, args.inputs[0]->shape()), args.inputs[0]->data<uint32_t>().data(),
            args.outputs[0].mutable_data<uint32_t>().data(), args.pool);
  return {};
}

}  // namespace

void transpose_planes(const uint32_t* in, size_t batch, size_t rows, size_t columns, uint32_t* out,
                      plan::ThreadPool& pool) {
  const int64_t n = static_cast<int64_t>(batch), r = static_cast<int64_t>(rows), c = static_cast<int64_t>(columns);
  transpose({.dims = {n, c, r}, .from = {r * c, 1, c}, .to = {r * c, r, 1}, .unit = 1}, in, out, pool);
}

const plan::HostKernel kTransposeKernel = {"transpose_4byte", "Transpose", "", &accepts, nullptr, nullptr, &run};

}  // namespace sinter::cpu
