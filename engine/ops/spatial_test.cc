// SPDX-License-Identifier: Apache-2.0
// Reference rows of convolutions, pools and their kin against values of ONNX Runtime 1.26, and their refusals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "engine/ops/cases.h"
#include "engine/ops/infer.h"
#include "tests/support/op_run.h"

namespace sinter::ops {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using Ints = std::vector<int64_t>;
using Floats = std::vector<float>;

Tensor tensor_of(const Shape& shape, auto value_at) {
  Tensor tensor = *Tensor::alloc(DType::f32, shape);
  for (size_t i = 0; i < tensor.numel(); ++i) set_f64(tensor, i, value_at(static_cast<int64_t>(i)));
  return tensor;
}

/// 0, 1, 2, ...
Tensor count(const Shape& shape) {
  return tensor_of(shape, [](int64_t i) { return i; });
}

/// Small integers that repeat after `period`.
Tensor mixed(const Shape& shape, int64_t period = 7) {
  return tensor_of(shape, [period](int64_t i) { return i * 5 % period - period / 2; });
}

struct Call {
  Node node;
  std::vector<TensorInfo> infos;
  std::vector<const Tensor*> operands;
};

Call call_of(std::string_view op, const Attrs& attrs, std::span<const Tensor> inputs, size_t outputs) {
  Call call;
  call.node.op = find_op("", op);
  call.node.attrs = attrs;
  for (const Tensor& input : inputs) {
    call.node.inputs.push_back(input ? static_cast<ValueId>(call.node.inputs.size()) : kNone);
    call.infos.push_back({input.dtype(), input.shape(), nullptr, static_cast<bool>(input), false});
    call.operands.push_back(input ? &input : nullptr);
  }
  for (size_t i = 0; i < outputs; ++i) call.node.outputs.push_back(static_cast<ValueId>(100 + i));
  return call;
}

Result<std::vector<Tensor>> run(const Call& call) {
  const auto outputs = infer_node(call.node, call.infos, true);
  if (!outputs) return std::unexpected(outputs.error());
  return run_reference(call.node, call.operands, *outputs);
}

Floats run(std::string_view op, const Attrs& attrs, std::vector<Tensor> inputs, const Shape& shape,
           Ints* indices = nullptr) {
  const auto outputs = run(call_of(op, attrs, inputs, indices ? 2 : 1));
  EXPECT_TRUE(outputs) << to_string(outputs.error());
  if (!outputs) return {};
  EXPECT_EQ((*outputs)[0].shape(), shape);
  if (indices) indices->assign((*outputs)[1].data<int64_t>().begin(), (*outputs)[1].data<int64_t>().end());
  return Floats((*outputs)[0].data<float>().begin(), (*outputs)[0].data<float>().end());
}

auto near(Floats values) {
  std::vector<::testing::Matcher<float>> matchers;
  for (float v : values) matchers.push_back(::testing::FloatNear(v, 1e-4f * std::max(1.0f, std::abs(v))));
  return ElementsAreArray(matchers);
}

TEST(ConvReference, SamePaddingWithStride2) {
  Attrs attrs = attrs_of({{"strides", Ints{2, 2}}, {"auto_pad", std::string("SAME_UPPER")}});
  EXPECT_THAT(run("Conv", attrs, {count({1, 1, 4, 4}), mixed({1, 1, 3, 3})}, {1, 1, 2, 2}), ElementsAre(0, -34, 23, 9));
  attrs.set("auto_pad", std::string("SAME_LOWER"));
  EXPECT_THAT(run("Conv", attrs, {count({1, 1, 4, 4}), mixed({1, 1, 3, 3})}, {1, 1, 2, 2}),
              ElementsAre(-1, -2, 31, -5));
}

TEST(ConvReference, GroupsAndMultipliers) {
  EXPECT_THAT(run("Conv", attrs_of({{"group", int64_t{2}}}), {count({1, 4, 3, 3}), mixed({4, 2, 2, 2}), count({4})},
                  {1, 4, 2, 2}),
              ElementsAre(-20, -23, -29, -32, -4, -2, 2, 4, -2, -2, -2, -2, -64, -66, -70, -72));
  EXPECT_THAT(run("Conv", attrs_of({{"group", int64_t{2}}, {"strides", Ints{2, 1}}}),
                  {count({1, 2, 3, 3}), mixed({4, 1, 2, 2})}, {1, 4, 1, 2}),
              ElementsAre(-6, -9, -14, -14, 33, 36, -11, -12));
}

TEST(ConvReference, DilationsAndAsymmetricPads) {
  const Attrs attrs = attrs_of({{"pads", Ints{0, 1, 2, 0}}, {"strides", Ints{1, 2}}, {"dilations", Ints{2, 1}}});
  EXPECT_THAT(run("Conv", attrs, {count({1, 1, 5, 5}), mixed({1, 1, 3, 2})}, {1, 1, 3, 3}),
              ElementsAre(0, 62, 64, -20, -38, -44, -20, -53, -59));
}

TEST(ConvReference, OneAndThreeAxes) {
  EXPECT_THAT(run("Conv", attrs_of({{"pads", Ints{1, 2}}, {"strides", Ints{2}}}), {count({1, 2, 7}), mixed({2, 2, 3})},
                  {1, 2, 4}),
              ElementsAre(29, 22, 24, 12, 12, 11, 9, -49));
  EXPECT_THAT(run("Conv", attrs_of({{"pads", Ints{0, 1, 0, 0, 0, 1}}, {"strides", Ints{1, 2, 1}}}),
                  {count({1, 1, 3, 3, 3}), mixed({1, 1, 2, 2, 2})}, {1, 1, 2, 2, 3}),
              ElementsAre(-41, -47, -11, -29, -32, 10, -95, -101, -20, -56, -59, 1));
}

TEST(PoolReference, MaxWithCeilMode) {
  Ints indices;
  EXPECT_THAT(
      run("MaxPool", attrs_of({{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}, {"ceil_mode", int64_t{1}}}),
          {count({1, 1, 5, 5})}, {1, 1, 3, 3}, &indices),
      ElementsAre(6, 8, 9, 16, 18, 19, 21, 23, 24));
  EXPECT_THAT(indices, ElementsAre(6, 8, 9, 16, 18, 19, 21, 23, 24));
}

TEST(PoolReference, MaxIndicesInColumnOrder) {
  Ints indices;
  EXPECT_THAT(
      run("MaxPool", attrs_of({{"kernel_shape", Ints{2, 2}}, {"dilations", Ints{2, 1}}, {"storage_order", int64_t{1}}}),
          {mixed({1, 2, 4, 4}, 11)}, {1, 2, 2, 3}, &indices),
      ElementsAre(2, 5, 5, 5, 5, 4, 5, 4, 4, 3, 2, 2));
  EXPECT_THAT(indices, ElementsAre(2, 8, 8, 7, 7, 15, 18, 26, 26, 19, 27, 27));
}

TEST(PoolReference, MaxIndicesOfVolumes) {
  Attrs attrs = attrs_of({{"kernel_shape", Ints{2, 2, 2}}, {"strides", Ints{1, 2, 1}}});
  Ints indices;
  EXPECT_THAT(run("MaxPool", attrs, {mixed({1, 1, 3, 4, 3}, 23)}, {1, 1, 2, 2, 2}, &indices),
              ElementsAre(9, 9, 11, 7, 9, 8, 10, 11));
  EXPECT_THAT(indices, ElementsAre(4, 4, 9, 22, 27, 13, 18, 32));
  attrs.set("storage_order", int64_t{1});
  run("MaxPool", attrs, {mixed({1, 1, 3, 4, 3}, 23)}, {1, 1, 2, 2, 2}, &indices);
  EXPECT_THAT(indices, ElementsAre(15, 15, 9, 22, 5, 13, 7, 32));
}

TEST(PoolReference, MaxOfOneAxis) {
  EXPECT_THAT(
      run("MaxPool", attrs_of({{"kernel_shape", Ints{3}}, {"strides", Ints{3}}}), {mixed({1, 2, 9})}, {1, 2, 3}),
      ElementsAre(2, 3, 2, 3, 1, 2));
}

// ONNX Runtime drops NaN here, by position; this engine keeps it wherever it stands in the window.
TEST(PoolReference, MaxKeepsNan) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (size_t at = 0; at < 4; ++at) {
    Tensor x = count({1, 1, 2, 2});
    set_f64(x, at, nan);
    EXPECT_TRUE(std::isnan(run("MaxPool", attrs_of({{"kernel_shape", Ints{2, 2}}}), {x}, {1, 1, 1, 1})[0])) << at;
    EXPECT_TRUE(std::isnan(run("GlobalMaxPool", {}, {x}, {1, 1, 1, 1})[0])) << at;
  }
}

TEST(PoolReference, AverageCountsEndPadding) {
  const Attrs attrs = attrs_of(
      {{"kernel_shape", Ints{5, 1}}, {"auto_pad", std::string("SAME_LOWER")}, {"count_include_pad", int64_t{1}}});
  EXPECT_THAT(run("AveragePool", attrs, {count({1, 1, 6, 2})}, {1, 1, 6, 2}),
              near({1.2f, 1.8f, 2.4f, 3.2f, 4, 5, 6, 7, 5.6f, 6.4f, 4.8f, 5.4f}));
}

TEST(PoolReference, AverageOfPartialWindows) {
  Attrs attrs = attrs_of(
      {{"kernel_shape", Ints{3, 3}}, {"strides", Ints{2, 2}}, {"pads", Ints{1, 1, 1, 0}}, {"ceil_mode", int64_t{1}}});
  EXPECT_THAT(run("AveragePool", attrs, {count({1, 1, 5, 4})}, {1, 1, 3, 2}), near({2.5f, 4, 8.5f, 10, 14.5f, 16}));
  attrs.set("count_include_pad", int64_t{1});
  EXPECT_THAT(run("AveragePool", attrs, {count({1, 1, 5, 4})}, {1, 1, 3, 2}),
              near({1.11111f, 2.66667f, 5.66667f, 10, 6.44444f, 10.6667f}));
}

TEST(PoolReference, AverageDilated) {
  Attrs attrs = attrs_of(
      {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}, {"pads", Ints{1, 1, 1, 1}}, {"dilations", Ints{2, 2}}});
  EXPECT_THAT(run("AveragePool", attrs, {count({1, 1, 5, 5})}, {1, 1, 3, 3}),
              ElementsAre(6, 7, 8, 11, 12, 13, 16, 17, 18));
  attrs.set("count_include_pad", int64_t{1});
  EXPECT_THAT(run("AveragePool", attrs, {count({1, 1, 5, 5})}, {1, 1, 3, 3}),
              ElementsAre(1.5f, 3.5f, 2, 5.5f, 12, 6.5f, 4, 8.5f, 4.5f));
}

TEST(PoolReference, Norms) {
  EXPECT_THAT(
      run("LpPool", attrs_of({{"kernel_shape", Ints{2, 2}}, {"p", int64_t{1}}}), {mixed({1, 1, 4, 4})}, {1, 1, 3, 3}),
      ElementsAre(9, 4, 6, 6, 4, 9, 4, 6, 10));
  EXPECT_THAT(run("LpPool", attrs_of({{"kernel_shape", Ints{3}}, {"p", int64_t{3}}}), {mixed({1, 1, 5})}, {1, 1, 3}),
              near({3.27107f, 2.51984f, 3.27107f}));
  EXPECT_THAT(run("GlobalLpPool", attrs_of({{"p", int64_t{3}}}), {mixed({1, 2, 2, 3})}, {1, 2, 1, 1}),
              near({4.14082f, 4.14082f}));
}

TEST(PoolReference, GlobalAverageOverAllSpatialAxes) {
  EXPECT_THAT(run("GlobalAveragePool", {}, {count({1, 2, 2, 3, 2})}, {1, 2, 1, 1, 1}), ElementsAre(5.5f, 17.5f));
}

TEST(BatchNormReference, Rank2) {
  const Tensor mean = tensor_of({3}, [](int64_t i) { return 2 * i; });
  const Tensor var = tensor_of({3}, [](int64_t i) { return i + 0.5; });
  const Tensor scale = tensor_of({3}, [](int64_t i) { return i + 1; });
  EXPECT_THAT(
      run("BatchNormalization", attrs_of({{"epsilon", 0.5f}}), {count({2, 3}), scale, count({3}), mean, var}, {2, 3}),
      near({0, -0.414214f, -1.4641f, 3, 3.82843f, 3.73205f}));
}

TEST(BlocksReference, BothDirections) {
  Attrs attrs = attrs_of({{"blocksize", int64_t{2}}});
  EXPECT_THAT(run("DepthToSpace", attrs, {count({1, 8, 1, 2})}, {1, 2, 2, 4}),
              ElementsAre(0, 4, 1, 5, 8, 12, 9, 13, 2, 6, 3, 7, 10, 14, 11, 15));
  EXPECT_THAT(run("SpaceToDepth", attrs, {count({1, 2, 2, 4})}, {1, 8, 1, 2}),
              ElementsAre(0, 2, 8, 10, 1, 3, 9, 11, 4, 6, 12, 14, 5, 7, 13, 15));
  attrs.set("mode", std::string("CRD"));
  EXPECT_THAT(run("DepthToSpace", attrs, {count({1, 8, 1, 2})}, {1, 2, 2, 4}),
              ElementsAre(0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15));
}

std::string refusal(std::string_view op, const Attrs& attrs, std::vector<Tensor> inputs, Code code = Code::InvalidModel,
                    size_t outputs = 1) {
  const auto result = run(call_of(op, attrs, inputs, outputs));
  EXPECT_FALSE(result);
  if (result) return "";
  EXPECT_EQ(result.error().code, code);
  return result.error().message;
}

TEST(SpatialRefusals, ConvNamesShapes) {
  const Tensor x = count({1, 34, 5, 5});
  EXPECT_THAT(refusal("Conv", attrs_of({{"group", int64_t{32}}}), {x, count({32, 1, 3, 3})}),
              HasSubstr("the input [1,34,5,5] has 34 channels, the weight [32,1,3,3] with group = 32 needs 32"));
  EXPECT_THAT(refusal("Conv", attrs_of({{"group", int64_t{2}}}), {x, count({3, 17, 3, 3})}),
              HasSubstr("[3,17,3,3] has 3 filters, which group = 2 does not divide"));
  EXPECT_THAT(refusal("Conv", attrs_of({{"group", int64_t{0}}}), {x, count({3, 34, 3, 3})}), HasSubstr("group = 0"));
  EXPECT_THAT(refusal("Conv", {}, {x, count({3, 34, 3})}), HasSubstr("must have the rank of the input"));
  EXPECT_THAT(refusal("Conv", {}, {x, count({3, 34, 3, 3}), count({4})}),
              HasSubstr("the bias [4] must have one value per filter of the weight [3,34,3,3]"));
  EXPECT_THAT(refusal("Conv", {}, {x, *convert(count({3, 34, 3, 3}), DType::f16)}),
              HasSubstr("input 1 is float16, input 0 is float32"));
}

TEST(SpatialRefusals, OtherRows) {
  const Tensor x = count({1, 6, 3, 4});
  EXPECT_THAT(refusal("BatchNormalization", {}, {x, count({6}), count({6}), count({5}), count({6})}),
              HasSubstr("input_mean [5] must hold one value per channel of the input [1,6,3,4], which has 6"));
  EXPECT_THAT(refusal("BatchNormalization", attrs_of({{"training_mode", int64_t{1}}}),
                      {x, count({6}), count({6}), count({6}), count({6})}, Code::Unsupported),
              HasSubstr("training mode"));
  EXPECT_THAT(refusal("DepthToSpace", attrs_of({{"blocksize", int64_t{2}}}), {x}), HasSubstr("has 6 channels"));
  EXPECT_THAT(refusal("SpaceToDepth", attrs_of({{"blocksize", int64_t{2}}}), {x}), HasSubstr("[1,6,3,4]"));
  EXPECT_THAT(refusal("GlobalAveragePool", {}, {count({3})}), HasSubstr("[3]"));
  EXPECT_THAT(refusal("AveragePool", attrs_of({{"kernel_shape", Ints{2, 2}}}), {*convert(x, DType::i8)}),
              HasSubstr("int8"));
  Tensor yes = *Tensor::alloc(DType::boolean, {});
  set_i64(yes, 0, 1);
  EXPECT_THAT(refusal("Dropout", {}, {x, Tensor(), yes}, Code::Unsupported), HasSubstr("known only while running"));
  EXPECT_THAT(testing::OpRun("Dropout").input(x).absent().constant(yes).result(), HasSubstr("training_mode is true"));
}

/// [N, spatial..., C] as [N, C, spatial...] or back.
Tensor moved(const Tensor& tensor, bool to_last) {
  const Shape& shape = tensor.shape();
  const Shape other = to_last ? channels_last(shape) : [&] {
    Shape s{shape[0], shape[shape.rank() - 1]};
    for (size_t i = 1; i + 1 < shape.rank(); ++i) s.push_back(shape[i]);
    return s;
  }();
  const int64_t channels = to_last ? shape[1] : shape[shape.rank() - 1];
  const int64_t points = channels && shape[0] ? shape.numel() / channels / shape[0] : 0;
  Tensor out = *Tensor::alloc(tensor.dtype(), other);
  for (int64_t n = 0; n < shape[0]; ++n) {
    for (int64_t c = 0; c < channels; ++c) {
      for (int64_t i = 0; i < points; ++i) {
        const auto first = static_cast<size_t>((n * channels + c) * points + i);
        const auto last = static_cast<size_t>((n * points + i) * channels + c);
        set_f64(out, to_last ? last : first, get_f64(tensor, to_last ? first : last));
      }
    }
  }
  return out;
}

// Device tests compare a row with its own reference, so the reference of one layout must be the other's.
TEST(SpatialReference, LayoutsAgreeOnEveryCase) {
  size_t compared = 0;
  for (const OpDef* op : all_ops()) {
    if (op->op_class != OpClass::spatial) continue;
    std::vector<OpCase> cases;
    op->cases(cases);
    for (const OpCase& c : cases) {
      if (c.attrs.has("nhwc") || c.inputs[0].shape.rank() < 3) continue;
      std::vector<Tensor> inputs;
      for (const OpCase::Input& input : c.inputs) {
        inputs.push_back(input.absent ? Tensor() : *convert(mixed(input.shape, 31), input.dtype));
        for (size_t i = 0; i < input.values.size() && i < inputs.back().numel(); ++i)
          set_f64(inputs.back(), i, input.values[i]);
      }
      const auto set_constants = [&](Call& call) {
        for (size_t i = 1; i < inputs.size(); ++i) call.infos[i].constant = call.operands[i];
      };
      Call call = call_of(op->name, c.attrs, inputs, c.outputs);
      set_constants(call);
      call.node.expr = c.expr;
      call.node.epilogue_first = c.epilogue_first;
      const auto first = run(call);
      std::vector<Tensor> last_inputs = inputs;
      for (size_t i = 0; i < inputs.size(); ++i) {
        const bool image = i == 0 || (!c.expr.empty() && i >= c.epilogue_first);
        if (image) last_inputs[i] = moved(inputs[i], true);
      }
      Call last_call = call_of(op->name, c.attrs, last_inputs, c.outputs);
      set_constants(last_call);
      last_call.node.attrs.set("nhwc", int64_t{1});
      last_call.node.expr = c.expr;
      last_call.node.epilogue_first = c.epilogue_first;
      const auto last = run(last_call);
      ASSERT_TRUE(first && last) << op->name << " " << c.name;
      const Tensor back = moved((*last)[0], false);
      ASSERT_EQ(back.shape(), (*first)[0].shape()) << op->name << " " << c.name;
      for (size_t i = 0; i < back.numel(); ++i) {
        const double a = get_f64(back, i), b = get_f64((*first)[0], i);
        ASSERT_TRUE(a == b || (std::isnan(a) && std::isnan(b))) << op->name << " " << c.name << " at " << i;
      }
      if (c.outputs > 1) {
        ASSERT_EQ((*first)[1].shape(), (*last)[1].shape());
        for (size_t i = 0; i < (*first)[1].numel(); ++i) ASSERT_EQ(get_i64((*first)[1], i), get_i64((*last)[1], i));
      }
      ++compared;
    }
  }
  EXPECT_GT(compared, 100u);
}

}  // namespace
}  // namespace sinter::ops
