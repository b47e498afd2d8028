// SPDX-License-Identifier: Apache-2.0
// Convolutions and pools on [N, C, spatial...] tensors: the kernel for channels last between two transposes. The layout
// pass makes these rare; without it (switched off, or a single step of a device plan on the CPU) the reference row would
// be a hundred times slower.
#include <algorithm>

#include "engine/cpu/kernels/epilogue.h"
#include "engine/cpu/kernels/list.h"
#include "engine/cpu/kernels/planes.h"
#include "engine/ops/window.h"

namespace sinter::cpu {
namespace {

uint64_t align_up(uint64_t bytes) { return (bytes + 63) / 64 * 64; }

Shape channels_last(const Shape& shape) {
  Shape last = shape;
  last.erase(1);
  last.push_back(shape[1]);
  return last;
}

// The node as the inner kernel wants it. The epilogue stays outside: its operands have channels first.
Node inner_node(const Node& node) {
  Node inner = node;
  inner.attrs.set("nhwc", int64_t{1});
  inner.expr = {};
  inner.inputs.resize(own_inputs(node));
  return inner;
}

struct Infos {
  std::vector<TensorInfo> inputs;
  std::vector<TensorInfo> outputs;

  Infos(const Node& node, std::span<const TensorInfo> in, std::span<const TensorInfo> out)
      : inputs(in.begin(), in.begin() + static_cast<ptrdiff_t>(own_inputs(node))), outputs(out.begin(), out.end()) {
    inputs[0].shape = channels_last(*inputs[0].shape);
    inputs[0].constant = nullptr;
    outputs[0].shape = channels_last(*outputs[0].shape);
  }
};

uint64_t bytes_of(const TensorInfo& info) {
  return align_up(static_cast<uint64_t>(info.shape->numel()) * sizeof(float));
}

template <const plan::HostKernel& kInner>
bool accepts(const Node& node, std::span<const TensorInfo> inputs, std::span<const TensorInfo> outputs) {
  if (ops::is_nhwc(node) || inputs[0].shape->rank() < 3 || inputs[0].dtype != DType::f32) return false;
  const Infos inner(node, inputs, outputs);
  return kInner.accepts(inner_node(node), inner.inputs, inner.outputs) &&
         (node.expr.empty() || Program::make(node.expr)) && epilogue_accepted(node, inputs, outputs[0]);
}

template <const plan::HostKernel& kInner>
const Packer* packer(const Node& node, std::span<const TensorInfo> inputs, size_t operand, int64_t* arg) {
  return kInner.packer ? kInner.packer(node, inputs, operand, arg) : nullptr;
}

template <const plan::HostKernel& kInner>
uint64_t scratch_bytes(const Node& node, std::span<const TensorInfo> inputs, std::span<const TensorInfo> outputs,
                       unsigned threads) {
  const Infos inner(node, inputs, outputs);
  const uint64_t own = bytes_of(inner.inputs[0]) + bytes_of(inner.outputs[0]);
  if (!kInner.scratch_bytes) return own;
  return own + kInner.scratch_bytes(inner_node(node), inner.inputs, inner.outputs, threads);
}

Result<> run_inner(const plan::HostKernel& kernel, const plan::HostArgs& args) {
  const Tensor& in = *args.inputs[0];
  Tensor& out = args.outputs[0];
  auto take = [left = args.scratch](const Shape& shape) mutable {
    const size_t bytes = static_cast<size_t>(shape.numel()) * sizeof(float);
    const Tensor tensor = Tensor::view(DType::f32, shape, left.first(bytes), nullptr);
    left = left.subspan(align_up(bytes));
    return tensor;
  };
  const Tensor last_in = take(channels_last(in.shape()));
  std::vector<Tensor> last_out = {take(channels_last(out.shape()))};
  const auto turn = [&](const Tensor& from, Tensor to, size_t rows, size_t columns) {
    const size_t batch = static_cast<size_t>(in.shape()[0]);
    transpose_planes(from.data<uint32_t>().data(), batch, rows, columns, to.mutable_data<uint32_t>().data(), args.pool);
  };
  const auto points = [](const Shape& shape) { return static_cast<size_t>(shape.product(2, shape.rank())); };
  turn(in, last_in, static_cast<size_t>(in.shape()[1]), points(in.shape()));
  std::vector<const Tensor*> inputs(args.inputs.begin(),
                                    args.inputs.begin() + static_cast<ptrdiff_t>(own_inputs(args.node)));
  inputs[0] = &last_in;
  const Node node = inner_node(args.node);
  const size_t used = align_up(last_in.nbytes()) + align_up(last_out[0].nbytes());
  SINTER_CHECK_OK(kernel.run({node, inputs, last_out, args.scratch.subspan(used), args.pool}));
  turn(last_out[0], out, points(out.shape()), static_cast<size_t>(out.shape()[1]));
  if (!args.node.expr.empty()) {
    make_epilogue(args, true).apply(out.mutable_data<float>().data(), 0, out.numel());
  }
  return {};
}

template <const plan::HostKernel& kInner>
Result<> run(const plan::HostArgs& args) {
  return run_inner(kInner, args);
}

template <const plan::HostKernel& kInner>
constexpr plan::HostKernel adapted(std::string_view name, std::string_view op) {
  return {name, op, "", &accepts<kInner>, &packer<kInner>, &scratch_bytes<kInner>, &run<kInner>};
}

}  // namespace

const plan::HostKernel kDepthwiseFirstKernel = adapted<kDepthwiseKernel>("conv_depthwise_nchw_f32", "Conv");
const plan::HostKernel kConvFirstKernel = adapted<kConvKernel>("conv_nchw_f32", "Conv");
const plan::HostKernel kMaxPoolFirstKernel = adapted<kMaxPoolKernel>("max_pool_nchw_f32", "MaxPool");
const plan::HostKernel kAveragePoolFirstKernel = adapted<kAveragePoolKernel>("average_pool_nchw_f32", "AveragePool");
const plan::HostKernel kGlobalAveragePoolFirstKernel =
    adapted<kGlobalAveragePoolKernel>("global_average_pool_nchw_f32", "GlobalAveragePool");

}  // namespace sinter::cpu
