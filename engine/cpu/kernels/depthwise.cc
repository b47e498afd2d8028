// SPDX-License-Identifier: Apache-2.0
// Depthwise Conv (one filter per channel) on [N, spatial..., C] tensors of float. Channel multipliers above 1 go through
// the grouped matrix product.
#include "engine/cpu/kernels/conv_weights.h"
#include "engine/cpu/kernels/epilogue.h"
#include "engine/cpu/kernels/list.h"
#include "engine/cpu/kernels/windowed.h"

namespace sinter::cpu {
namespace {

bool accepts(const Node& node, std::span<const TensorInfo> inputs, std::span<const TensorInfo> outputs) {
  const Shape &in = *inputs[0].shape, &weight = *inputs[1].shape;
  const int64_t channels = in[in.rank() - 1];
  return node.attrs.i("group", 1) == channels && channels > 1 && weight[0] == channels && weight[1] == 1 &&
         kConvKernel.accepts(node, inputs, outputs);
}

const Packer* packer(const Node& node, std::span<const TensorInfo>, size_t operand, int64_t* arg) {
  if (operand != 1) return nullptr;
  *arg = conv_pack_arg(node.attrs.i("group", 1));
  return &kDepthwisePacker;
}

uint64_t scratch_bytes(const Node& node, std::span<const TensorInfo> inputs, std::span<const TensorInfo>,
                       unsigned threads) {
  const Shape &in = *inputs[0].shape, &weight = *inputs[1].shape;
  auto window = ops::resolve_window(node, in, weight.dims().subspan(2));
  return window ? WindowRuns(*window, in[0], weight[0]).scratch_bytes(threads) : 0;
}

Result<> run(const plan::HostArgs& args) {
  const Tensor& in = *args.inputs[0];
  const ConvWeights weights(*args.inputs[1]);
  const auto kernel = weights.kernel();
  const ops::Window window = SINTER_TRY(
      ops::resolve_window(args.node, in.shape(), std::span(kernel).first(static_cast<size_t>(weights.header->rank))));
  const size_t channels = static_cast<size_t>(weights.header->out_channels);
  const size_t padded = (channels + spatial_kernels().lanes - 1) / spatial_kernels().lanes * spatial_kernels().lanes;
  const float* bias = own_inputs(args.node) > 2 && args.inputs[2] ? args.inputs[2]->data<float>().data() : nullptr;
  const Epilogue epilogue = make_epilogue(args);
  float* out = args.outputs[0].mutable_data<float>().data();

  WindowRuns runs(window, in.shape()[0], static_cast<int64_t>(channels), padded);
  if (epilogue.general) runs.keep_channels_together();
  runs.each(in.data<float>().data(), out, args.scratch, args.pool, [&](const WindowRuns::Run& run) {
    const size_t at = run.first_point * channels + run.first_channel;
    const float* add = epilogue.add ? epilogue.add + at : nullptr;
    spatial_kernels().depthwise({run, weights.data + run.first_channel, run.tap_ids,
                                 bias ? bias + run.first_channel : nullptr, add, epilogue.lo, epilogue.hi});
    if (epilogue.general) epilogue.apply(out, at, run.points * channels);
  });
  return {};
}

}  // namespace

const plan::HostKernel kDepthwiseKernel = {
    "conv_depthwise_nhwc_f32", "Conv", "", &accepts, &packer, &scratch_bytes, &run};

}  // namespace sinter::cpu
