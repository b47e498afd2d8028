// SPDX-License-Identifier: Apache-2.0
// Softmax and LogSoftmax on floats along an axis behind which all extents are 1.
#include <algorithm>

#include "engine/cpu/kernels/list.h"
#include "engine/cpu/kernels/rows.h"
#include "engine/cpu/pool.h"

namespace sinter::cpu {
namespace {

constexpr size_t kMinChunk = 4 << 10;  // elements

bool accepts(const Node& node, std::span<const TensorInfo> inputs, std::span<const TensorInfo>) {
  const Shape& shape = *inputs[0].shape;
  const auto axis = fold_axis(node.attrs.i("axis", -1), shape.rank());
  return axis && inputs[0].dtype == DType::f32 && shape.numel() > 0 && shape.product(*axis + 1, shape.rank()) == 1 &&
         node.expr.empty();
}

template <bool kLog>
Result<> run(const plan::HostArgs& args) {
  const Tensor& in = *args.inputs[0];
  const size_t axis = *fold_axis(args.node.attrs.i("axis", -1), in.shape().rank());
  const size_t length = static_cast<size_t>(in.shape()[axis]), rows = in.numel() / length;
  const float* data = in.data<float>().data();
  float* out = args.outputs[0].mutable_data<float>().data();
  const size_t chunks = std::clamp<size_t>(in.numel() / kMinChunk, 1, std::min<size_t>(rows, args.pool.threads() * 4));
  parallel_for(args.pool, chunks, [&](size_t chunk) {
    for (size_t row = rows * chunk / chunks; row < rows * (chunk + 1) / chunks; ++row) {
      row_kernels().softmax(data + row * length, out + row * length, length, kLog);
    }
  });
  return {};
}

}  // namespace

const plan::HostKernel kSoftmaxKernel = {"softmax_f32", "Softmax", "", &accepts, nullptr, nullptr, &run<false>};
const plan::HostKernel kLogSoftmaxKernel = {"log_softmax_f32", "LogSoftmax", "",        &accepts,
                                            nullptr,           nullptr,      &run<true>};

}  // namespace sinter::cpu
