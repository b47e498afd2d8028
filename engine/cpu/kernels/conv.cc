// SPDX-License-Identifier: Apache-2.0
// Conv on [N, spatial..., C] tensors of float, by the packed matrix product: every output point is a row, given by
// pointers into the input. No patch is copied, but for the border of convolutions with very few channels.
#include <algorithm>
#include <cstring>

#include "engine/cpu/kernels/conv_weights.h"
#include "engine/cpu/kernels/list.h"
#include "engine/cpu/kernels/matrix.h"
#include "engine/ops/window.h"

namespace sinter::cpu {
namespace {

using ops::Window;
using ops::WindowAxis;

// Up to that many floats per row of the filter, the taps along the width count as one segment: with 3 channels, segments
// of 3 floats would spend their time between segments.
constexpr int64_t kMaxFusedRow = 64;

struct ConvShape {
  Window window;
  int64_t channels = 0;
  bool fused_width = false;  // one segment per (depth, height) tap

  size_t segments() const { return static_cast<size_t>(window.taps() / (fused_width ? window.width().kernel : 1)); }
  size_t segment_floats() const { return static_cast<size_t>(channels * (fused_width ? window.width().kernel : 1)); }
};

ConvShape conv_shape(Window window, int64_t channels, int64_t groups) {
  ConvShape conv{std::move(window), channels, false};
  const WindowAxis& width = conv.window.width();
  conv.fused_width = groups == 1 && width.kernel > 1 && width.dilation == 1 && width.kernel * channels <= kMaxFusedRow;
  return conv;
}

struct ConvRows {
  const ConvShape& conv;
  const float* in;
  const float* zeros;  // segment_floats of them
};

// The segment of one output point under filter tap (d, h): inside the input, partly outside (copied), or all padding.
const float* fused_segment(const ConvRows& rows, const float* line, int64_t x, float* patch) {
  const WindowAxis& width = rows.conv.window.width();
  const int64_t channels = rows.conv.channels;
  const int64_t start = width.at(x, 0);
  if (start >= 0 && start + width.kernel <= width.in) return line + start * channels;
  const int64_t first = std::max<int64_t>(start, 0), last = std::min(start + width.kernel, width.in);
  if (first >= last) return rows.zeros;
  std::fill_n(patch, width.kernel * channels, 0.0f);
  std::copy(line + first * channels, line + last * channels, patch + (first - start) * channels);
  return patch;
}

// Points [x, x + count) of one output row. Segments outermost: a tile has as many points as an inner loop here has rounds.
struct PointRun {
  int64_t n, z, y, x;
  size_t count;
};

void fill_line(const ConvRows& rows, const float* line, const PointRun& run, const float** table, size_t height) {
  const WindowAxis& width = rows.conv.window.width();
  const int64_t channels = rows.conv.channels;
  for (int64_t kw = 0; kw < width.kernel; ++kw, table += height) {
    int64_t x = width.at(run.x, kw);
    for (size_t i = 0; i < run.count; ++i, x += width.stride) {
      table[i] = line && x >= 0 && x < width.in ? line + x * channels : rows.zeros;
    }
  }
}

void fill_run(const ConvRows& rows, const PointRun& run, const float** table, size_t height, float* patches,
              size_t patch_floats) {
  const Window& window = rows.conv.window;
  const WindowAxis &depth = window.depth(), &tall = window.height(), &width = window.width();
  for (int64_t kd = 0; kd < depth.kernel; ++kd) {
    const int64_t z = depth.at(run.z, kd);
    for (int64_t kh = 0; kh < tall.kernel; ++kh) {
      const int64_t y = tall.at(run.y, kh);
      const bool padding = z < 0 || z >= depth.in || y < 0 || y >= tall.in;
      const float* line =
          padding ? nullptr : rows.in + ((run.n * depth.in + z) * tall.in + y) * width.in * rows.conv.channels;
      if (!rows.conv.fused_width) {
        fill_line(rows, line, run, table, height);
        table += static_cast<size_t>(width.kernel) * height;
        continue;
      }
      for (size_t i = 0; i < run.count; ++i) {
        const int64_t x = run.x + static_cast<int64_t>(i);
        table[i] = line ? fused_segment(rows, line, x, patches + i * patch_floats) : rows.zeros;
      }
      table += height;
      patches += rows.conv.segment_floats();
    }
  }
}

void conv_rows(const void* context, size_t first, size_t height, const float** table, float* patches) {
  const ConvRows& rows = *static_cast<const ConvRows*>(context);
  const WindowAxis &depth = rows.conv.window.depth(), &tall = rows.conv.window.height();
  const int64_t width = rows.conv.window.width().out;
  const size_t patch_floats = rows.conv.fused_width ? rows.conv.segments() * rows.conv.segment_floats() : 0;
  for (size_t done = 0; done < height;) {
    const int64_t point = static_cast<int64_t>(first + done), row = point / width;
    PointRun run{row / tall.out / depth.out, row / tall.out % depth.out, row % tall.out, point % width, 0};
    run.count = std::min(height - done, static_cast<size_t>(width - run.x));
    fill_run(rows, run, table + done, height, patches + done * patch_floats, patch_floats);
    done += run.count;
  }
}

bool direct(const ConvShape& conv) {
  const auto unit = [](const WindowAxis& axis) { return axis.stride == 1; };
  return conv.window.pointwise() && std::all_of(conv.window.axes.begin(), conv.window.axes.end(), unit);
}

MatrixJob conv_job(const ConvShape& conv, int64_t batch, int64_t out_channels, int64_t groups) {
  MatrixJob job;
  job.rows = static_cast<size_t>(batch * conv.window.out_points());
  job.columns = static_cast<size_t>(out_channels / groups);
  job.groups = static_cast<size_t>(groups);
  job.segments = conv.segments();
  job.k = conv.segment_floats() / job.groups;
  // Neighbouring windows overlap: a point adds stride^2 of its window.
  int64_t added = 1;
  for (const WindowAxis& axis : conv.window.axes) added *= std::min(axis.kernel, axis.stride);
  job.row_floats = static_cast<size_t>(conv.channels * added);
  job.patch_floats = conv.fused_width && conv.window.padded() ? job.segments * job.k : 0;
  job.out_stride = static_cast<size_t>(out_channels);
  return job;
}

size_t zero_bytes(const ConvShape& conv) {
  return conv.window.padded() ? (conv.segment_floats() * sizeof(float) + 63) / 64 * 64 : 0;
}

bool accepts(const Node& node, std::span<const TensorInfo> inputs, std::span<const TensorInfo> outputs) {
  if (!ops::is_nhwc(node) || !inputs[1].weight) return false;
  for (const TensorInfo& input : inputs.first(own_inputs(node))) {
    if (input.present && input.dtype != DType::f32) return false;
  }
  const Shape& weight = *inputs[1].shape;
  if (weight.numel() == 0 || outputs[0].shape->numel() == 0 || weight.numel() > INT32_MAX) return false;
  return epilogue_accepted(node, inputs, outputs[0]);
}

const Packer* packer(const Node& node, std::span<const TensorInfo>, size_t operand, int64_t* arg) {
  if (operand != 1) return nullptr;
  *arg = conv_pack_arg(node.attrs.i("group", 1));
  return &kConvPacker;
}

uint64_t scratch_bytes(const Node& node, std::span<const TensorInfo> inputs, std::span<const TensorInfo>,
                       unsigned threads) {
  const Shape &in = *inputs[0].shape, &weight = *inputs[1].shape;
  auto window = ops::resolve_window(node, in, weight.dims().subspan(2));
  if (!window) return 0;
  const int64_t groups = node.attrs.i("group", 1);
  const ConvShape conv = conv_shape(*window, in[in.rank() - 1], groups);
  return zero_bytes(conv) + matrix_scratch(conv_job(conv, in[0], weight[0], groups), threads);
}

Result<> run(const plan::HostArgs& args) {
  const Tensor& in = *args.inputs[0];
  const ConvWeights weights(*args.inputs[1]);
  const auto kernel = weights.kernel();
  const Window window = SINTER_TRY(
      ops::resolve_window(args.node, in.shape(), std::span(kernel).first(static_cast<size_t>(weights.header->rank))));
  const int64_t groups = weights.header->groups;
  const ConvShape conv = conv_shape(window, in.shape()[in.shape().rank() - 1], groups);
  const size_t zeros = zero_bytes(conv);
  std::memset(args.scratch.data(), 0, zeros);
  const ConvRows rows{conv, in.data<float>().data(), reinterpret_cast<const float*>(args.scratch.data())};
  const MatrixRows plain{rows.in, static_cast<size_t>(conv.channels)};
  const Epilogue epilogue = make_epilogue(args);

  MatrixJob job = conv_job(conv, in.shape()[0], weights.header->out_channels, groups);
  const bool is_direct = direct(conv);
  job.rows_fn = is_direct ? &matrix_rows : &conv_rows;
  job.rows_context = is_direct ? static_cast<const void*>(&plain) : &rows;
  job.packed = weights.data;
  if (own_inputs(args.node) > 2 && args.inputs[2]) job.bias = args.inputs[2]->data<float>().data();
  job.out = args.outputs[0].mutable_data<float>().data();
  job.epilogue = &epilogue;
  run_matrix(job, args.scratch.subspan(zeros), args.pool);
  return {};
}

}  // namespace

const plan::HostKernel kConvKernel = {"conv_nhwc_f32", "Conv", "", &accepts, &packer, &scratch_bytes, &run};

}  // namespace sinter::cpu
