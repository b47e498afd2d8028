// SPDX-License-Identifier: Apache-2.0
// Layers for models written by hand, in inference form. Each takes its weights by name from a Weights: Conv2d(weights, "conv1")
// reads conv1.weight and, where there is one, conv1.bias.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "include/sinter/ops.hpp"
#include "include/sinter/weights.hpp"

namespace sinter::api::nn {

/// weights.at(name), or no tensor where there is none of that name.
inline Tensor optional(const Weights& weights, const std::string& name) {
  return weights.get(name) ? weights.at(name) : Tensor();
}

/// y = x * weight^T + bias over the last dimension; weight is [out, in].
struct Linear {
  Tensor weight, bias;
  Linear(Tensor w, Tensor b) : weight(std::move(w)), bias(std::move(b)) {}
  Linear(const Weights& weights, const std::string& name, Source at = Source::current())
      : weight(weights.at(name + ".weight", at)), bias(optional(weights, name + ".bias")) {}
  Tensor operator()(const Tensor& x, Source at = Source::current()) const {
    const Tensor y = matmul(x, transpose(weight, {.perm = {1, 0}}, at), at);
    return bias ? add(y, bias, at) : y;
  }
};

struct Conv2dOptions {
  int64_t stride = 1, padding = 0, dilation = 1, groups = 1;
};

/// weight is [out, in / groups, kernel, kernel].
struct Conv2d {
  Tensor weight, bias;
  Conv2dOptions options;
  Conv2d(Tensor w, Tensor b, Conv2dOptions o = {}) : weight(std::move(w)), bias(std::move(b)), options(o) {}
  Conv2d(const Weights& weights, const std::string& name, Conv2dOptions o = {}, Source at = Source::current())
      : weight(weights.at(name + ".weight", at)), bias(optional(weights, name + ".bias")), options(o) {}
  Tensor operator()(const Tensor& x, Source at = Source::current()) const {
    const int64_t s = options.stride, p = options.padding, d = options.dilation;
    return conv(x, weight, bias, {.dilations = {d, d}, .group = options.groups, .pads = {p, p, p, p}, .strides = {s, s}},
                at);
  }
};

/// (x - mean) / sqrt(var + epsilon) * weight + bias per channel, with the statistics of training.
struct BatchNorm {
  Tensor weight, bias, mean, var;
  float epsilon;
  BatchNorm(const Weights& weights, const std::string& name, float e = 1e-5f, Source at = Source::current())
      : weight(weights.at(name + ".weight", at)),
        bias(weights.at(name + ".bias", at)),
        mean(weights.at(name + ".running_mean", at)),
        var(weights.at(name + ".running_var", at)),
        epsilon(e) {}
  Tensor operator()(const Tensor& x, Source at = Source::current()) const {
    return batch_normalization(x, weight, bias, mean, var, {.epsilon = epsilon}, at);
  }
};

struct MaxPool2d {
  int64_t kernel, stride, padding = 0;
  Tensor operator()(const Tensor& x, Source at = Source::current()) const {
    const int64_t p = padding;
    return max_pool(x, {.kernel_shape = {kernel, kernel}, .pads = {p, p, p, p}, .strides = {stride, stride}}, at);
  }
};

struct AvgPool2d {
  int64_t kernel, stride, padding = 0;
  Tensor operator()(const Tensor& x, Source at = Source::current()) const {
    const int64_t p = padding;
    return average_pool(x, {.kernel_shape = {kernel, kernel}, .pads = {p, p, p, p}, .strides = {stride, stride}}, at);
  }
};

struct GlobalAvgPool {
  Tensor operator()(const Tensor& x, Source at = Source::current()) const { return global_average_pool(x, at); }
};

struct ReLU {
  Tensor operator()(const Tensor& x, Source at = Source::current()) const { return relu(x, at); }
};

struct ReLU6 {
  Tensor operator()(const Tensor& x, Source at = Source::current()) const { return clip(x, 0, 6, at); }
};

struct Sigmoid {
  Tensor operator()(const Tensor& x, Source at = Source::current()) const { return sigmoid(x, at); }
};

struct GELU {
  Tensor operator()(const Tensor& x, Source at = Source::current()) const { return gelu(x, {}, at); }
};

struct Softmax {
  int64_t axis = -1;
  Tensor operator()(const Tensor& x, Source at = Source::current()) const { return softmax(x, {.axis = axis}, at); }
};

struct Flatten {
  int64_t axis = 1;
  Tensor operator()(const Tensor& x, Source at = Source::current()) const { return flatten(x, {.axis = axis}, at); }
};

/// One after the other.
class Sequential {
 public:
  using Layer = std::function<Tensor(const Tensor&)>;
  Sequential() = default;
  Sequential(std::initializer_list<Layer> layers) : layers_(layers) {}
  void add(Layer layer) { layers_.push_back(std::move(layer)); }
  Tensor operator()(Tensor x) const {
    for (const Layer& layer : layers_) x = layer(x);
    return x;
  }

 private:
  std::vector<Layer> layers_;
};

}  // namespace sinter::api::nn
