// SPDX-License-Identifier: Apache-2.0
// MaxPool, AveragePool and GlobalAveragePool on [N, spatial..., C] tensors of float.
#include <algorithm>

#include "engine/cpu/kernels/epilogue.h"
#include "engine/cpu/kernels/list.h"
#include "engine/cpu/kernels/windowed.h"

namespace sinter::cpu {
namespace {

bool accepts(const Node& node, std::span<const TensorInfo> inputs, std::span<const TensorInfo> outputs) {
  // MaxPool's second output, the indices, is the reference row's business.
  const bool one_output = outputs.size() == 1 || std::all_of(node.outputs.begin() + 1, node.outputs.end(),
                                                             [](ValueId output) { return output == kNone; });
  return ops::is_nhwc(node) && one_output && inputs[0].dtype == DType::f32 && inputs[0].shape->numel() > 0 &&
         outputs[0].shape->numel() > 0 && node.expr.empty();
}

uint64_t scratch_bytes(const Node& node, std::span<const TensorInfo> inputs, std::span<const TensorInfo>,
                       unsigned threads) {
  const Shape& in = *inputs[0].shape;
  auto window = ops::resolve_window(node, in);
  return window ? WindowRuns(*window, in[0], in[in.rank() - 1]).scratch_bytes(threads) : 0;
}

template <class Visit>
Result<> each_run(const plan::HostArgs& args, Visit&& visit) {
  const Tensor& in = *args.inputs[0];
  const ops::Window window = SINTER_TRY(ops::resolve_window(args.node, in.shape()));
  const WindowRuns runs(window, in.shape()[0], in.shape()[in.shape().rank() - 1]);
  runs.each(in.data<float>().data(), args.outputs[0].mutable_data<float>().data(), args.scratch, args.pool, visit);
  return {};
}

Result<> max_run(const plan::HostArgs& args) {
  return each_run(args, [](const WindowRuns::Run& run) { spatial_kernels().max_pool(run); });
}

Result<> average_run(const plan::HostArgs& args) {
  const bool include_pad = args.node.attrs.i("count_include_pad", 0) != 0;
  return each_run(args, [=](const WindowRuns::Run& run) {
    spatial_kernels().sum_pool(run, 1.0f / static_cast<float>(include_pad ? run.counted : run.taps));
  });
}

Result<> global_average_run(const plan::HostArgs& args) {
  constexpr size_t kBlock = 64;  // channels a task
  const Tensor& in = *args.inputs[0];
  const size_t batch = static_cast<size_t>(in.shape()[0]);
  const size_t channels = static_cast<size_t>(in.shape()[in.shape().rank() - 1]);
  const size_t points = in.numel() / batch / channels;
  const size_t blocks = (channels + kBlock - 1) / kBlock;
  float* out = args.outputs[0].mutable_data<float>().data();
  const float* data = in.data<float>().data();
  const auto task = [&](size_t index) {
    const size_t n = index / blocks, first = index % blocks * kBlock;
    spatial_kernels().sum_rows(data + n * points * channels + first, points, channels,
                               std::min(kBlock, channels - first), 1.0f / static_cast<float>(points),
                               out + n * channels + first);
  };
  if (in.numel() < (64 << 10)) {
    for (size_t i = 0; i < batch * blocks; ++i) task(i);
  } else {
    parallel_for(args.pool, batch * blocks, task);
  }
  return {};
}

}  // namespace

const plan::HostKernel kMaxPoolKernel = {"max_pool_nhwc_f32", "MaxPool", "", &accepts, nullptr,
                                         &scratch_bytes,      &max_run};
const plan::HostKernel kAveragePoolKernel = {"average_pool_nhwc_f32", "AveragePool", "", &accepts, nullptr,
                                             &scratch_bytes,          &average_run};
const plan::HostKernel kGlobalAveragePoolKernel = {
    "global_average_pool_nhwc_f32", "GlobalAveragePool", "", &accepts, nullptr, nullptr, &global_average_run};

}  // namespace sinter::cpu
