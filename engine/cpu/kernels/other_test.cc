// SPDX-License-Identifier: Apache-2.0
// Pools, softmax and transposes against plain loops.
#include <limits>

#include "engine/cpu/testing.h"
#include "engine/ops/window.h"

namespace sinter::cpu {
namespace {

using testing::Call;
using testing::everywhere;
using testing::expect_near;
using testing::random;

const OpDef kMaxPool{.name = "MaxPool", .op_class = OpClass::spatial};
const OpDef kAveragePool{.name = "AveragePool", .op_class = OpClass::spatial};
const OpDef kGlobalAveragePool{.name = "GlobalAveragePool", .op_class = OpClass::spatial};
const OpDef kSoftmax{.name = "Softmax"};
const OpDef kLogSoftmax{.name = "LogSoftmax"};
const OpDef kTranspose{.name = "Transpose", .op_class = OpClass::movement};

Node node_of(const OpDef& op) {
  Node node;
  node.name = op.name;
  node.op = &op;
  node.inputs = {0};
  node.outputs = {1};
  return node;
}

enum class Pool { max, average, average_with_pads };

struct PoolCase {
  Shape in;
  std::vector<int64_t> kernel, strides = {}, pads = {}, dilations = {};
  bool ceil = false;
  std::string auto_pad = {};
};

std::vector<double> expected_pool(const ops::Window& w, const Tensor& x, Pool kind) {
  const int64_t batch = x.shape()[0], channels = x.shape()[x.shape().rank() - 1];
  std::vector<double> y;
  for (int64_t n = 0; n < batch; ++n) {
    for (int64_t od = 0; od < w.depth().out; ++od) {
      for (int64_t oh = 0; oh < w.height().out; ++oh) {
        for (int64_t ow = 0; ow < w.width().out; ++ow) {
          for (int64_t c = 0; c < channels; ++c) {
            double most = -std::numeric_limits<double>::infinity(), sum = 0;
            int64_t inside = 0, with_pads = 0;
            for (int64_t kd = 0; kd < w.depth().kernel; ++kd) {
              for (int64_t kh = 0; kh < w.height().kernel; ++kh) {
                for (int64_t kw = 0; kw < w.width().kernel; ++kw) {
                  const int64_t d = w.depth().at(od, kd), h = w.height().at(oh, kh), v = w.width().at(ow, kw);
                  with_pads += d < w.depth().in + w.depth().pad_end && h < w.height().in + w.height().pad_end &&
                               v < w.width().in + w.width().pad_end;
                  if (d < 0 || d >= w.depth().in || h < 0 || h >= w.height().in || v < 0 || v >= w.width().in) continue;
                  const double value =
                      x.data<float>()[(((n * w.depth().in + d) * w.height().in + h) * w.width().in + v) * channels + c];
                  most = std::isnan(most) || value <= most ? most : value;
                  sum += value;
                  ++inside;
                }
              }
            }
            y.push_back(kind == Pool::max ? most
                                          : sum / static_cast<double>(kind == Pool::average ? inside : with_pads));
          }
        }
      }
    }
  }
  return y;
}

TEST(PoolKernels, AgreeWithPlainLoops) {
  std::vector<PoolCase> cases = {
      {{1, 5, 5, 1}, {2, 2}, {2, 2}, {}, {}, true},
      {{1, 6, 2, 1}, {5, 1}, {}, {}, {}, false, "SAME_LOWER"},
      {{1, 7, 7, 9}, {3, 3}, {2, 2}, {1, 1, 1, 1}},
      {{1, 7, 8, 9}, {3, 3}, {2, 2}, {1, 0, 0, 2}, {}, true},
      {{2, 9, 11, 4}, {3, 2}, {1, 3}, {}, {2, 3}},
      {{1, 9, 11, 4}, {3, 3}, {2, 2}, {1, 1, 1, 1}, {2, 2}, true},
      {{1, 6, 6, 5}, {2, 2}, {2, 2}, {}, {}, false, "SAME_UPPER"},
      {{1, 6, 6, 5}, {3, 3}, {2, 2}, {}, {}, false, "VALID"},
      {{2, 9, 3}, {3}, {3}, {}, {}},
      {{2, 10, 3}, {3}, {3}, {1, 1}, {}, true},
      {{1, 4, 5, 6, 3}, {2, 3, 2}, {2, 1, 2}, {0, 1, 1, 0, 1, 1}},
      {{1, 13, 13, 40}, {13, 13}},
  };
  for (int64_t channels : {1, 2, 3, 5, 7, 16, 33})
    cases.push_back({{1, 8, 13, channels}, {3, 3}, {2, 2}, {0, 0, 1, 1}});
  for (const PoolCase& c : cases) {
    for (const Pool kind : {Pool::max, Pool::average, Pool::average_with_pads}) {
      SCOPED_TRACE(StrCat(to_string(c.in), " kernel ", StrJoin(c.kernel, "x"), " kind ", static_cast<int>(kind)));
      Node node = node_of(kind == Pool::max ? kMaxPool : kAveragePool);
      node.attrs.set("nhwc", int64_t{1});
      node.attrs.set("kernel_shape", c.kernel);
      if (!c.strides.empty()) node.attrs.set("strides", c.strides);
      if (!c.pads.empty()) node.attrs.set("pads", c.pads);
      if (!c.dilations.empty()) node.attrs.set("dilations", c.dilations);
      if (!c.auto_pad.empty()) node.attrs.set("auto_pad", c.auto_pad);
      node.attrs.set("ceil_mode", int64_t{c.ceil});
      node.attrs.set("count_include_pad", int64_t{kind == Pool::average_with_pads});
      const auto window = ops::resolve_window(node, c.in);
      ASSERT_TRUE(window.has_value());
      const Tensor x = random(c.in, 1);
      const Shape out = ops::spatial_shape(node, c.in[0], c.in[c.in.rank() - 1], *window);
      const Call call{node, {x}, {}, out};
      const auto y = expected_pool(*window, x, kind);
      everywhere([&](unsigned threads) { expect_near(testing::run(call, threads), y, 1e-5); });
      if (HasFatalFailure()) return;
    }
  }
}

TEST(PoolKernels, NaNWinsWhereverItStands) {
  Node node = node_of(kMaxPool);
  node.attrs.set("nhwc", int64_t{1});
  node.attrs.set("kernel_shape", std::vector<int64_t>{1, 2});
  node.attrs.set("strides", std::vector<int64_t>{1, 2});
  for (const int64_t channels : {1, 5, 40}) {
    Tensor x = random({1, 1, 4, channels}, 1);
    const float nan = std::numeric_limits<float>::quiet_NaN();
    for (int64_t c = 0; c < channels; ++c) {
      x.mutable_data<float>()[c] = nan;                 // first of its window
      x.mutable_data<float>()[3 * channels + c] = nan;  // last of its window
    }
    const std::vector<double> y(2 * channels, nan);
    everywhere(
        [&](unsigned threads) { expect_near(testing::run({node, {x}, {}, {1, 1, 2, channels}}, threads), y, 0); });
  }
}

TEST(PoolKernels, GlobalAverage) {
  for (const Shape& in : {Shape{1, 7, 7, 1280}, Shape{2, 3, 5, 7}, Shape{1, 2, 7, 7, 4}, Shape{2, 9, 3},
                          Shape{1, 200, 200, 2}, Shape{1, 1, 1, 1}}) {
    SCOPED_TRACE(to_string(in));
    Node node = node_of(kGlobalAveragePool);
    node.attrs.set("nhwc", int64_t{1});
    const Tensor x = random(in, 1);
    const int64_t channels = in[in.rank() - 1], points = in.product(1, in.rank() - 1);
    Shape out = Shape::filled(in.rank(), 1);
    out[0] = in[0];
    out[in.rank() - 1] = channels;
    std::vector<double> y(in[0] * channels, 0.0);
    for (size_t i = 0; i < x.numel(); ++i) {
      const int64_t n = static_cast<int64_t>(i) / channels / points;
      y[n * channels + static_cast<int64_t>(i) % channels] += x.data<float>()[i] / static_cast<double>(points);
    }
    const Call call{node, {x}, {}, out, "global_average_pool_nhwc_f32"};
    everywhere([&](unsigned threads) { expect_near(testing::run(call, threads), y, 1e-6); });
  }
}

TEST(SoftmaxKernel, AgreesWithTheDefinition) {
  struct SoftmaxCase {
    Shape shape;
    int64_t axis;
    float scale;
  };
  for (const SoftmaxCase& c :
       {SoftmaxCase{{1, 1000}, -1, 5}, {{3, 7, 5}, 2, 1}, {{2, 11, 1, 1}, 1, 100}, {{1}, 0, 1}, {{300, 65}, -1, 300}}) {
    for (const bool log : {false, true}) {
      SCOPED_TRACE(StrCat(to_string(c.shape), " axis ", c.axis, log ? " log" : ""));
      Node node = node_of(log ? kLogSoftmax : kSoftmax);
      node.attrs.set("axis", c.axis);
      const Tensor x = random(c.shape, 1, -c.scale, c.scale);
      const int64_t length = c.shape[*fold_axis(c.axis, c.shape.rank())];
      std::vector<double> y(x.numel());
      for (size_t first = 0; first < x.numel(); first += length) {
        double most = -1e30, sum = 0;
        for (int64_t i = 0; i < length; ++i) most = std::max<double>(most, x.data<float>()[first + i]);
        for (int64_t i = 0; i < length; ++i) sum += std::exp(x.data<float>()[first + i] - most);
        for (int64_t i = 0; i < length; ++i) {
          const double shifted = x.data<float>()[first + i] - most;
          y[first + i] = log ? shifted - std::log(sum) : std::exp(shifted) / sum;
        }
      }
      const Call call{node, {x}, {}, c.shape};
      everywhere([&](unsigned threads) { expect_near(testing::run(call, threads), y, 1e-6); });
    }
  }
}

TEST(SoftmaxKernel, NaNAndInfinitySpreadOverTheRow) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  Tensor x = random({4, 37}, 1);
  x.mutable_data<float>()[5] = nan;
  x.mutable_data<float>()[37 + 36] = inf;
  for (size_t i = 0; i < 37; ++i) x.mutable_data<float>()[2 * 37 + i] = -inf;
  x.mutable_data<float>()[3 * 37 + 2] = -inf;
  const Call call{node_of(kSoftmax), {x}, {}, {4, 37}};
  everywhere([&](unsigned threads) {
    const Tensor y = testing::run(call, threads);
    EXPECT_TRUE(std::isnan(y.data<float>()[0]));
    EXPECT_TRUE(std::isnan(y.data<float>()[37]));
    EXPECT_TRUE(std::isnan(y.data<float>()[37 + 36]));
    EXPECT_TRUE(std::isnan(y.data<float>()[2 * 37]));
    EXPECT_EQ(y.data<float>()[3 * 37 + 2], 0);
    EXPECT_GT(y.data<float>()[3 * 37], 0);
  });
}

TEST(TransposeKernel, AgreesWithPlainLoops) {
  struct TransposeCase {
    Shape in;
    std::vector<int64_t> perm;
  };
  for (const TransposeCase& c : {TransposeCase{{2, 3, 17, 19}, {0, 2, 3, 1}},
                                 {{2, 17, 19, 3}, {0, 3, 1, 2}},
                                 {{33, 70}, {1, 0}},
                                 {{5, 6, 7}, {}},
                                 {{2, 3, 4, 5}, {3, 1, 0, 2}},
                                 {{3, 2, 2, 3, 2, 2, 3, 2}, {7, 0, 6, 1, 5, 2, 4, 3}},
                                 {{1, 200, 150}, {0, 2, 1}}}) {
    SCOPED_TRACE(StrCat(to_string(c.in), " by ", StrJoin(c.perm, ",")));
    Node node = node_of(kTranspose);
    std::vector<int64_t> perm = c.perm;
    if (!perm.empty()) node.attrs.set("perm", perm);
    for (size_t i = c.in.rank(); perm.size() < c.in.rank();) perm.push_back(static_cast<int64_t>(--i));
    const Tensor x = random(c.in, 1);
    const Shape strides = row_major_strides(c.in);
    Shape out;
    for (int64_t axis : perm) out.push_back(c.in[axis]);
    std::vector<double> y;
    for (int64_t i = 0; i < out.numel(); ++i) {
      int64_t left = i, at = 0;
      for (size_t axis = out.rank(); axis-- > 0;) {
        at += left % out[axis] * strides[perm[axis]];
        left /= out[axis];
      }
      y.push_back(x.data<float>()[at]);
    }
    const Call call{node, {x}, {}, out, "transpose_4byte"};
    for (unsigned threads : {1u, 3u}) expect_near(testing::run(call, threads), y, 0);
  }
}

}  // namespace
}  // namespace sinter::cpu
