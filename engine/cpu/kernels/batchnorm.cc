// SPDX-License-Identifier: Apache-2.0
// BatchNormalization in inference form on floats, channels first or last: y = x * a[c] + b[c]. Passes fold it into
// convolutions; this serves models that run without them.
#include <algorithm>
#include <cmath>

#include "engine/cpu/kernels/list.h"
#include "engine/cpu/kernels/rows.h"
#include "engine/cpu/pool.h"
#include "engine/ops/window.h"

namespace sinter::cpu {
namespace {

constexpr size_t kMinChunk = 16 << 10;  // elements

bool accepts(const Node& node, std::span<const TensorInfo> inputs, std::span<const TensorInfo> outputs) {
  const bool inference =
      node.attrs.i("training_mode", 0) == 0 && node.attrs.i("spatial", 1) != 0 &&
      std::all_of(node.outputs.begin() + 1, node.outputs.end(), [](ValueId id) { return id == kNone; });
  const bool floats = std::all_of(inputs.begin(), inputs.end(), [](const TensorInfo& info) {
    return info.present && info.dtype == DType::f32 && info.shape->numel() > 0;
  });
  return inference && floats && inputs.size() == 5 && inputs[0].shape->rank() >= 2 && outputs[0].dtype == DType::f32 &&
         node.expr.empty();
}

size_t channels_of(const Node& node, const Shape& shape) {
  return static_cast<size_t>(shape[ops::is_nhwc(node) ? shape.rank() - 1 : 1]);
}

uint64_t scratch_bytes(const Node& node, std::span<const TensorInfo> inputs, std::span<const TensorInfo>, unsigned) {
  return 2 * sizeof(float) * channels_of(node, *inputs[0].shape);
}

Result<> run(const plan::HostArgs& args) {
  const Tensor& in = *args.inputs[0];
  const size_t channels = channels_of(args.node, in.shape());
  const auto value = [&](size_t input, size_t c) { return static_cast<double>(args.inputs[input]->data<float>()[c]); };
  float* scale = reinterpret_cast<float*>(args.scratch.data());
  float* shift = scale + channels;
  const double epsilon = args.node.attrs.f("epsilon", 1e-5f);
  for (size_t c = 0; c < channels; ++c) {
    const double a = value(1, c) / std::sqrt(value(4, c) + epsilon);
    scale[c] = static_cast<float>(a);
    shift[c] = static_cast<float>(value(2, c) - value(3, c) * a);
  }
  // Rows of one channel where channels come first, of all channels where they come last.
  const bool last = ops::is_nhwc(args.node) || in.shape().rank() == 2;
  const size_t length = last ? channels : static_cast<size_t>(in.shape().product(2, in.shape().rank()));
  const size_t rows = in.numel() / length;
  const float* data = in.data<float>().data();
  float* out = args.outputs[0].mutable_data<float>().data();
  const size_t chunks = std::clamp<size_t>(in.numel() / kMinChunk, 1, std::min<size_t>(rows, args.pool.threads() * 4));
  parallel_for(args.pool, chunks, [&](size_t chunk) {
    for (size_t row = rows * chunk / chunks; row < rows * (chunk + 1) / chunks; ++row) {
      const size_t c = last ? 0 : row % channels;
      row_kernels().affine(data + row * length, scale + c, shift + c, last, out + row * length, length);
    }
  });
  return {};
}

}  // namespace

const plan::HostKernel kBatchNormKernel = {"batch_norm_f32", "BatchNormalization", "",  &accepts,
                                           nullptr,          &scratch_bytes,       &run};

}  // namespace sinter::cpu
