// SPDX-License-Identifier: Apache-2.0
// MobileNetV2 written by hand. Its weights come by name from the ONNX file, where the exporter has numbered the convolutions
// (with their normalisation folded in) onnx::Conv_538, 541, ...
#pragma once

#include <string>
#include <vector>

#include <sinter/sinter.hpp>

namespace by_hand {

class MobileNetV2 {
 public:
  explicit MobileNetV2(const sinter::Weights& weights) : weights_(weights), classifier_(weights, "classifier.1") {
    stem_ = conv({.stride = 2, .padding = 1});
    struct Stage {
      int64_t expand, channels, blocks, stride;
    };
    int64_t in = 32;
    for (const Stage& stage : {Stage{1, 16, 1, 1}, Stage{6, 24, 2, 2}, Stage{6, 32, 3, 2}, Stage{6, 64, 4, 2},
                               Stage{6, 96, 3, 1}, Stage{6, 160, 3, 2}, Stage{6, 320, 1, 1}}) {
      for (int64_t i = 0; i < stage.blocks; ++i) {
        block(in, stage.expand, stage.channels, i == 0 ? stage.stride : 1);
        in = stage.channels;
      }
    }
    head_ = conv({});
  }

  /// float32[batch,3,224,224] -> float32[batch,10]
  sinter::Tensor forward(const sinter::Tensor& images) const {
    sinter::Tensor x = relu6_(stem_[0](images));
    for (const Block& block : blocks_) {
      sinter::Tensor y = x;
      for (size_t i = 0; i < block.convs.size(); ++i) {
        y = block.convs[i](y);
        if (i + 1 < block.convs.size()) y = relu6_(y);
      }
      x = block.residual ? x + y : y;
    }
    x = relu6_(head_[0](x));
    return classifier_(sinter::nn::Flatten()(sinter::nn::GlobalAvgPool()(x)));
  }

 private:
  using Convs = std::vector<sinter::nn::Conv2d>;
  struct Block {
    Convs convs;
    bool residual;
  };

  Convs conv(sinter::nn::Conv2dOptions options) {
    const std::string weight = "onnx::Conv_" + std::to_string(next_), bias = "onnx::Conv_" + std::to_string(next_ + 1);
    next_ += 3;
    return {sinter::nn::Conv2d(weights_.at(weight), weights_.at(bias), options)};
  }

  void block(int64_t in, int64_t expand, int64_t channels, int64_t stride) {
    Block made{{}, stride == 1 && in == channels};
    if (expand != 1) made.convs = conv({});
    made.convs.push_back(conv({.stride = stride, .padding = 1, .groups = in * expand})[0]);
    made.convs.push_back(conv({})[0]);
    blocks_.push_back(made);
  }

  const sinter::Weights& weights_;
  int next_ = 538;
  Convs stem_, head_;
  std::vector<Block> blocks_;
  sinter::nn::ReLU6 relu6_;
  sinter::nn::Linear classifier_;
};

}  // namespace by_hand
