// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "engine/cpu/testing.h"
#include "engine/ops/window.h"

namespace sinter::cpu {
namespace {

using testing::Call;
using testing::everywhere;
using testing::expect_near;
using testing::random;

const OpDef kConv{.name = "Conv", .op_class = OpClass::spatial, .accepts_epilogue = true};

struct Case {
  std::string name;
  Shape in;         // [N, spatial..., C]
  int64_t out = 1;  // channels
  int64_t group = 1;
  std::vector<int64_t> kernel, strides = {}, pads = {}, dilations = {};
  std::string auto_pad = {};
  bool bias = true;
};

Node conv_node(const Case& c) {
  Node node;
  node.name = c.name;
  node.op = &kConv;
  node.attrs.set("nhwc", int64_t{1});
  node.attrs.set("group", c.group);
  if (!c.strides.empty()) node.attrs.set("strides", c.strides);
  if (!c.pads.empty()) node.attrs.set("pads", c.pads);
  if (!c.dilations.empty()) node.attrs.set("dilations", c.dilations);
  if (!c.auto_pad.empty()) node.attrs.set("auto_pad", c.auto_pad);
  node.inputs = {0, 1, 2};
  node.outputs = {3};
  return node;
}

std::vector<double> expected(const ops::Window& w, const Tensor& x, const Tensor& weight, const Tensor* bias,
                             int64_t group) {
  const int64_t batch = x.shape()[0], channels = x.shape()[x.shape().rank() - 1], out = weight.shape()[0];
  const int64_t per_group = channels / group, out_per_group = out / group;
  const auto xs = x.data<float>(), ws = weight.data<float>();
  std::vector<double> y;
  for (int64_t n = 0; n < batch; ++n) {
    for (int64_t od = 0; od < w.depth().out; ++od) {
      for (int64_t oh = 0; oh < w.height().out; ++oh) {
        for (int64_t ow = 0; ow < w.width().out; ++ow) {
          for (int64_t o = 0; o < out; ++o) {
            double sum = bias ? bias->data<float>()[o] : 0;
            for (int64_t kd = 0; kd < w.depth().kernel; ++kd) {
              for (int64_t kh = 0; kh < w.height().kernel; ++kh) {
                for (int64_t kw = 0; kw < w.width().kernel; ++kw) {
                  const int64_t d = w.depth().at(od, kd), h = w.height().at(oh, kh), v = w.width().at(ow, kw);
                  if (d < 0 || d >= w.depth().in || h < 0 || h >= w.height().in || v < 0 || v >= w.width().in) continue;
                  for (int64_t c = 0; c < per_group; ++c) {
                    const int64_t at = (((n * w.depth().in + d) * w.height().in + h) * w.width().in + v) * channels +
                                       o / out_per_group * per_group + c;
                    const int64_t wat =
                        (((o * per_group + c) * w.depth().kernel + kd) * w.height().kernel + kh) * w.width().kernel +
                        kw;
                    sum += static_cast<double>(xs[at]) * ws[wat];
                  }
                }
              }
            }
            y.push_back(sum);
          }
        }
      }
    }
  }
  return y;
}

struct Prepared {
  Call call;
  std::vector<double> plain;  // before the epilogue
};

Prepared prepare(const Case& c) {
  const int64_t channels = c.in[c.in.rank() - 1];
  Shape weight_shape{c.out, channels / c.group};
  for (int64_t k : c.kernel) weight_shape.push_back(k);
  // Sums of about 1 whatever their length, so that one tolerance fits all.
  const float scale = 2 / std::sqrt(static_cast<float>(weight_shape.numel() / c.out));
  const Tensor x = random(c.in, 1), w = random(weight_shape, 2, -scale, scale);
  const Tensor b = c.bias ? random({c.out}, 3) : Tensor();
  const Node node = conv_node(c);
  const auto window = ops::resolve_window(node, c.in, c.kernel);
  EXPECT_TRUE(window.has_value()) << c.name;
  Prepared p{{node, {x, w, b}, {false, true, true}, ops::spatial_shape(node, c.in[0], c.out, *window)}, {}};
  p.plain = expected(*window, x, w, c.bias ? &b : nullptr, c.group);
  return p;
}

std::vector<Case> cases() {
  std::vector<Case> list;
  for (int64_t in : {1, 2, 3, 5, 7, 16, 33}) {
    for (int64_t out : {1, 2, 3, 5, 7, 8, 24, 49, 64, 65}) {
      list.push_back({StrCat("1x1 ", in, " to ", out), {1, 5, 7, in}, out, 1, {1, 1}});
    }
  }
  const auto add = [&](Case c) { list.push_back(std::move(c)); };
  add({"1x1 without bias", {2, 3, 4, 8}, 12, 1, {1, 1}, {}, {}, {}, {}, false});
  add({"1x1 stride 2", {2, 7, 9, 6}, 10, 1, {1, 1}, {2, 2}});
  add({"1x1 padded", {1, 3, 3, 5}, 7, 1, {1, 1}, {}, {1, 0, 2, 1}});
  add({"1x1 so deep that it goes in slices", {1, 7, 7, 1900}, 50, 1, {1, 1}});
  add({"3x3 so deep that it goes in slices", {1, 7, 7, 300}, 50, 1, {3, 3}, {}, {1, 1, 1, 1}});
  add({"1x1 many rows", {1, 40, 41, 4}, 19, 1, {1, 1}});
  for (int64_t in : {1, 2, 3, 5, 7, 24}) {
    add({StrCat("3x3 of ", in), {1, 6, 7, in}, 9, 1, {3, 3}, {}, {1, 1, 1, 1}});
    add({StrCat("3x3 stride 2 of ", in), {2, 7, 8, in}, 17, 1, {3, 3}, {2, 2}, {0, 1, 1, 0}});
  }
  add({"first layer", {1, 31, 33, 3}, 32, 1, {3, 3}, {2, 2}, {}, {}, "SAME_UPPER"});
  add({"same lower", {1, 8, 8, 3}, 16, 1, {3, 3}, {2, 2}, {}, {}, "SAME_LOWER"});
  add({"same upper, even input, stride 2", {1, 4, 4, 1}, 1, 1, {3, 3}, {2, 2}, {}, {}, "SAME_UPPER"});
  add({"valid", {1, 8, 9, 30}, 16, 1, {3, 2}, {}, {}, {}, "VALID"});
  add({"7x7 stride 2", {1, 21, 23, 3}, 8, 1, {7, 7}, {2, 2}, {3, 3, 3, 3}});
  add({"5x3 of many channels", {1, 9, 8, 40}, 20, 1, {5, 3}, {2, 1}, {2, 1, 2, 1}});
  add({"dilated", {1, 11, 12, 4}, 6, 1, {3, 3}, {}, {2, 2, 2, 2}, {2, 2}});
  add({"dilated along the width only", {1, 5, 12, 30}, 6, 1, {3, 3}, {1, 2}, {1, 3, 1, 3}, {1, 3}});
  add({"window larger than the input", {1, 2, 2, 3}, 5, 1, {5, 5}, {}, {2, 2, 2, 2}});
  add({"padding beyond the window", {1, 2, 3, 3}, 4, 1, {2, 2}, {}, {3, 3, 3, 3}});
  add({"groups", {1, 6, 5, 12}, 8, 4, {3, 3}, {}, {1, 1, 1, 1}});
  add({"groups with odd sizes", {2, 5, 5, 15}, 21, 3, {3, 3}, {2, 2}, {1, 1, 0, 0}});
  add({"groups of many channels", {1, 4, 4, 66}, 100, 2, {1, 1}});
  add({"depthwise, multiplier 8", {1, 9, 9, 8}, 64, 8, {3, 3}, {2, 2}, {1, 1, 1, 1}});
  add({"depthwise, multiplier 2", {1, 6, 6, 7}, 14, 7, {3, 3}, {}, {1, 1, 1, 1}});
  for (int64_t channels : {2, 3, 5, 7, 16, 24, 33}) {
    add({StrCat("depthwise of ", channels), {1, 9, 12, channels}, channels, channels, {3, 3}, {}, {1, 1, 1, 1}});
  }
  add({"depthwise stride 2", {2, 9, 14, 20}, 20, 20, {3, 3}, {2, 2}, {0, 0, 1, 1}});
  add({"depthwise 5x5 dilated", {1, 13, 15, 9}, 9, 9, {5, 5}, {1, 2}, {4, 4, 4, 4}, {2, 2}});
  add({"depthwise, no bias, window larger than input", {1, 2, 2, 6}, 6, 6, {5, 5}, {}, {2, 2, 2, 2}, {}, {}, false});
  add({"depthwise, padding beyond the window", {1, 2, 3, 6}, 6, 6, {2, 2}, {}, {3, 3, 3, 3}});
  add({"1-D", {2, 17, 5}, 6, 1, {3}, {2}, {1, 1}});
  add({"1-D depthwise", {2, 17, 5}, 5, 5, {3}, {}, {1, 1}});
  add({"3-D", {1, 4, 5, 6, 3}, 7, 1, {3, 3, 3}, {1, 2, 1}, {1, 1, 1, 1, 1, 1}});
  add({"3-D depthwise", {1, 4, 5, 6, 4}, 4, 4, {2, 3, 3}, {}, {0, 1, 1, 1, 1, 1}});
  return list;
}

TEST(ConvKernel, AgreesWithPlainLoops) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const Prepared p = prepare(c);
    everywhere([&](unsigned threads) { expect_near(testing::run(p.call, threads), p.plain, 1e-5); });
    if (HasFatalFailure()) return;
  }
}

TEST(ConvKernel, DepthwiseHasItsOwnKernel) {
  Prepared p = prepare({"depthwise", {1, 9, 12, 24}, 24, 24, {3, 3}, {}, {1, 1, 1, 1}});
  p.call.kernel = "conv_depthwise_nhwc_f32";
  everywhere([&](unsigned threads) { testing::run(p.call, threads); });
}

struct Form {
  std::string name;
  Expr expr;
  size_t operands;
  std::function<double(double, double, double)> apply;
};

std::vector<Form> forms() {
  std::vector<Form> list;
  {
    Expr e;
    e.unary(ScalarOp::relu, e.input(0));
    list.push_back({"relu", e, 0, [](double y, double, double) { return y < 0 ? 0 : y; }});
  }
  {
    Expr e;
    const auto low = e.binary(ScalarOp::max, e.input(0), e.constant(-0.25));
    e.binary(ScalarOp::min, low, e.constant(0.5));
    list.push_back({"clamp", e, 0, [](double y, double, double) { return std::min(std::max(y, -0.25), 0.5); }});
  }
  {
    Expr e;
    const auto y = e.input(0);
    e.binary(ScalarOp::add, y, e.input(1));
    list.push_back({"add", e, 1, [](double y, double a, double) { return y + a; }});
  }
  {
    Expr e;
    const auto y = e.input(0);
    e.unary(ScalarOp::relu, e.binary(ScalarOp::add, e.input(1), y));
    list.push_back({"add relu", e, 1, [](double y, double a, double) { return std::max(y + a, 0.0); }});
  }
  {
    Expr e;
    const auto y = e.input(0);
    e.binary(ScalarOp::mul, y, e.unary(ScalarOp::sigmoid, y));
    list.push_back({"swish", e, 0, [](double y, double, double) { return y / (1 + std::exp(-y)); }});
  }
  {
    Expr e;
    const auto y = e.input(0);
    const auto sum = e.binary(ScalarOp::add, e.binary(ScalarOp::mul, y, e.input(1)), e.input(2));
    e.unary(ScalarOp::sin, e.unary(ScalarOp::tanh, sum));
    list.push_back({"two operands", e, 2, [](double y, double a, double b) { return std::sin(std::tanh(y * a + b)); }});
  }
  return list;
}

TEST(ConvKernel, EpilogueForms) {
  const std::vector<Case> shapes = {
      {"1x1", {1, 9, 10, 12}, 50, 1, {1, 1}},
      {"1x1 of one row", {1, 1, 1, 40}, 83, 1, {1, 1}},
      {"1x1 in slices", {1, 7, 7, 1900}, 50, 1, {1, 1}},
      {"3x3 grouped", {1, 9, 10, 12}, 10, 2, {3, 3}, {}, {1, 1, 1, 1}},
      {"depthwise", {1, 9, 10, 21}, 21, 21, {3, 3}, {}, {1, 1, 1, 1}},
  };
  for (const Case& shape : shapes) {
    for (const Form& form : forms()) {
      for (const bool bias : {true, false}) {
        SCOPED_TRACE(StrCat(shape.name, ", ", form.name, bias ? "" : ", no bias input"));
        Case c = shape;
        c.bias = bias;
        Prepared p = prepare(c);
        // Without a bias the operands may follow the weight directly.
        if (!bias) p.call.inputs.resize(2);
        p.call.node.expr = form.expr;
        p.call.node.epilogue_first = static_cast<uint32_t>(p.call.inputs.size());
        const Tensor a = random(p.call.output, 5), b = random(p.call.output, 6);
        if (form.operands > 0) p.call.inputs.push_back(a);
        if (form.operands > 1) p.call.inputs.push_back(b);
        p.call.node.inputs.resize(p.call.inputs.size());
        std::vector<double> y(p.plain.size());
        for (size_t i = 0; i < y.size(); ++i) y[i] = form.apply(p.plain[i], a.data<float>()[i], b.data<float>()[i]);
        everywhere([&](unsigned threads) { expect_near(testing::run(p.call, threads), y, 2e-5); });
        if (HasFatalFailure()) return;
      }
    }
  }
}

// Channels first: the same numbers through the adapter, with an epilogue whose operand has channels first too.
TEST(ConvKernel, ChannelsFirst) {
  const std::vector<Case> shapes = {
      {"3x3", {2, 6, 7, 5}, 9, 1, {3, 3}, {2, 1}, {1, 1, 1, 1}},
      {"depthwise", {2, 6, 7, 5}, 5, 5, {3, 3}, {}, {1, 1, 1, 1}},
      {"1-D", {2, 17, 5}, 6, 1, {3}, {2}, {1, 1}},
      {"3-D", {1, 4, 5, 6, 3}, 7, 1, {3, 3, 3}, {1, 2, 1}, {1, 1, 1, 1, 1, 1}},
  };
  // [N, points, C] to [N, C, points].
  const auto turned = [](const Shape& shape, auto&& values, auto&& out) {
    const int64_t channels = shape[shape.rank() - 1], points = shape.product(1, shape.rank() - 1);
    for (int64_t i = 0; i < shape.numel(); ++i) {
      const int64_t n = i / channels / points, p = i / channels % points, c = i % channels;
      out[(n * channels + c) * points + p] = values[i];
    }
  };
  const auto first = [](const Shape& shape) {
    Shape planar = shape;
    planar.erase(shape.rank() - 1);
    planar.insert(1, shape[shape.rank() - 1]);
    return planar;
  };
  for (const Case& c : shapes) {
    for (const bool epilogue : {false, true}) {
      SCOPED_TRACE(StrCat(c.name, epilogue ? " with epilogue" : ""));
      Prepared p = prepare(c);
      Call call = p.call;
      call.node.attrs.erase("nhwc");
      call.inputs[0] = testing::make(DType::f32, first(c.in));
      turned(c.in, p.call.inputs[0].data<float>(), call.inputs[0].mutable_data<float>());
      call.output = first(p.call.output);
      std::vector<double> y(p.plain.size());
      turned(p.call.output, p.plain, y);
      if (epilogue) {
        const Tensor add = random(call.output, 7);
        call.inputs.push_back(add);
        call.node.inputs.push_back(4);
        call.node.epilogue_first = 3;
        const auto x = call.node.expr.input(0);
        call.node.expr.unary(ScalarOp::relu, call.node.expr.binary(ScalarOp::add, x, call.node.expr.input(1)));
        for (size_t i = 0; i < y.size(); ++i) y[i] = std::max(0.0, y[i] + add.data<float>()[i]);
      }
      everywhere([&](unsigned threads) { expect_near(testing::run(call, threads), y, 1e-5); });
    }
  }
}

TEST(ConvKernel, NaNPassesThroughClamps) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const int64_t group : {1, 6}) {
    for (const Form& form : forms()) {
      if (form.operands > 0) continue;
      SCOPED_TRACE(StrCat(form.name, ", groups ", group));
      Prepared p = prepare({"nan", {1, 4, 5, 6}, 6, group, {1, 1}});
      p.call.node.expr = form.expr;
      p.call.inputs[0].mutable_data<float>()[6 * 7 + 2] = nan;
      std::vector<double> y(p.plain.size());
      for (size_t i = 0; i < y.size(); ++i) {
        const bool hit = i / 6 == 7 && (group == 1 || i % 6 == 2);
        y[i] = hit ? nan : form.apply(p.plain[i], 0, 0);
      }
      everywhere([&](unsigned threads) { expect_near(testing::run(p.call, threads), y, 1e-5); });
    }
  }
}

TEST(ConvKernel, RefusesWhatItCannotServe) {
  const Prepared p = prepare({"plain", {1, 4, 5, 6}, 6, 1, {1, 1}});
  std::vector<TensorInfo> infos(3);
  for (size_t i = 0; i < 3; ++i) {
    infos[i] = {DType::f32, p.call.inputs[i].shape(), nullptr, true, i > 0};
  }
  const TensorInfo out{DType::f32, p.call.output, nullptr, true, false};
  const auto accepted = [&](const Node& node, const std::vector<TensorInfo>& operands) {
    for (const plan::HostKernel* kernel : host_kernels()) {
      if (kernel->op == "Conv" && kernel->accepts(node, operands, {&out, 1})) return true;
    }
    return false;
  };
  EXPECT_TRUE(accepted(p.call.node, infos));
  auto dynamic = infos;
  dynamic[1].weight = false;
  EXPECT_FALSE(accepted(p.call.node, dynamic));
  auto half = infos;
  half[0].dtype = DType::f16;
  EXPECT_FALSE(accepted(p.call.node, half));
  Node joined = p.call.node;
  joined.expr.binary(ScalarOp::add, joined.expr.input(0), joined.expr.input(1));
  joined.epilogue_first = 3;
  joined.inputs.push_back(4);
  auto broadcast = infos;
  broadcast.push_back({DType::f32, Shape{1, 1, 1, 6}, nullptr, true, false});
  EXPECT_FALSE(accepted(joined, broadcast));
}

}  // namespace
}  // namespace sinter::cpu
