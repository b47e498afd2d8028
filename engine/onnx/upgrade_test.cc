// SPDX-License-Identifier: Apache-2.0
#include "engine/onnx/upgrade.h"

#include <gmock/gmock.h>

#include "engine/base/str.h"

namespace sinter::onnx {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string print_constant(const Tensor& tensor) {
  std::string text = StrCat(name_of(tensor.dtype()), tensor.shape().rank() ? "[" : "(");
  for (size_t i = 0; i < tensor.numel(); ++i) StrAppend(text, StrCat(i ? "," : "", get_f64(tensor, i)));
  return text + (tensor.shape().rank() ? "]" : ")");
}

/// A graph with one input "x", the node under test and its outputs "y0", "y1", ...
class Upgrade : public ::testing::Test {
 protected:
  ValueId input(DType dtype = DType::f32, std::optional<Shape> shape = Shape{2, 3, 4, 5}) {
    return graph_.add_value(StrCat("x", graph_.values.size()), dtype, shape);
  }
  ValueId constant(Tensor tensor) {
    const ValueId id = input(tensor.dtype(), tensor.shape());
    graph_.values[id].constant = std::move(tensor);
    return id;
  }
  static Attrs attrs(std::vector<std::pair<std::string, AttrValue>> items) {
    Attrs attrs;
    for (auto& [name, value] : items) attrs.set(name, std::move(value));
    return attrs;
  }

  Result<std::vector<Draft>> run(std::string op, int64_t opset, Attrs attrs, std::vector<ValueId> inputs,
                                 size_t outputs = 1) {
    Draft draft{"n", std::move(op), "", std::move(attrs), std::move(inputs), {}};
    for (size_t i = 0; i < outputs; ++i) {
      draft.outputs.push_back(graph_.add_value(StrCat("y", i), DType::undefined, std::nullopt));
    }
    std::vector<Draft> out;
    SINTER_CHECK_OK(upgrade(graph_, std::move(draft), opset, out));
    return out;
  }
  /// "Clip(x0, float32(0), _) {mode=...}", one text a node.
  std::vector<std::string> texts(std::string op, int64_t opset, Attrs attrs, std::vector<ValueId> inputs,
                                 size_t outputs = 1) {
    const auto drafts = run(std::move(op), opset, std::move(attrs), std::move(inputs), outputs);
    if (!drafts) return {std::string(code_name(drafts.error().code)) + ": " + drafts.error().message};
    std::vector<std::string> texts;
    for (const Draft& draft : *drafts) texts.push_back(print(draft));
    return texts;
  }
  std::string print(const Draft& draft) const {
    std::string text = draft.op + "(";
    for (size_t i = 0; i < draft.inputs.size(); ++i) {
      if (i) text += ", ";
      if (draft.inputs[i] == kNone) {
        text += "_";
      } else {
        const Value& value = graph_.values[draft.inputs[i]];
        text += value.constant ? print_constant(value.constant) : value.name;
      }
    }
    text += ")";
    for (const auto& [name, value] : draft.attrs) {
      text += StrCat(" ", name, "=");
      if (const auto* i = std::get_if<int64_t>(&value)) text += StrCat(*i);
      if (const auto* f = std::get_if<float>(&value)) text += StrCat(*f);
      if (const auto* s = std::get_if<std::string>(&value)) text += *s;
      if (const auto* v = std::get_if<std::vector<int64_t>>(&value)) text += StrJoin(*v, ",");
    }
    return text;
  }

  Graph graph_;
};

using Ints = std::vector<int64_t>;
using Floats = std::vector<float>;

TEST_F(Upgrade, NewestFormsStayAsTheyAre) {
  const ValueId x = input();
  EXPECT_THAT(texts("Clip", 13, {}, {x, kNone, kNone}), ElementsAre("Clip(x0, _, _)"));
  EXPECT_THAT(texts("Softmax", 13, attrs({{"axis", int64_t{1}}}), {x}), ElementsAre("Softmax(x0) axis=1"));
  EXPECT_THAT(texts("Relu", 7, {}, {x}), ElementsAre("Relu(x0)"));
}

TEST_F(Upgrade, ClipBoundsBecomeInputsOfTheDataType) {
  EXPECT_THAT(texts("Clip", 6, attrs({{"min", 0.f}, {"max", 6.f}}), {input()}),
              ElementsAre("Clip(x0, float32(0), float32(6))"));
  EXPECT_THAT(texts("Clip", 10, attrs({{"max", 6.f}}), {input(DType::f16)}), ElementsAre("Clip(x4, _, float16(6))"));
  EXPECT_THAT(texts("Clip", 7, {}, {input()}), ElementsAre("Clip(x7)"));
}

TEST_F(Upgrade, AxesBecomeInputs) {
  const ValueId x = input();
  EXPECT_THAT(texts("Squeeze", 11, attrs({{"axes", Ints{0, 2}}}), {x}), ElementsAre("Squeeze(x0, int64[0,2])"));
  EXPECT_THAT(texts("Squeeze", 11, {}, {x}), ElementsAre("Squeeze(x0)"));
  EXPECT_THAT(texts("Unsqueeze", 7, attrs({{"axes", Ints{-1}}}), {x}), ElementsAre("Unsqueeze(x0, int64[-1])"));
  EXPECT_THAT(texts("ReduceSum", 11, attrs({{"axes", Ints{1}}, {"keepdims", int64_t{0}}}), {x}),
              ElementsAre("ReduceSum(x0, int64[1]) keepdims=0"));
  EXPECT_THAT(texts("ReduceSum", 13, {}, {x}), ElementsAre("ReduceSum(x0)"));
  EXPECT_THAT(texts("ReduceMean", 17, attrs({{"axes", Ints{2, 3}}}), {x}), ElementsAre("ReduceMean(x0, int64[2,3])"));
  EXPECT_THAT(texts("ReduceMean", 18, {}, {x}), ElementsAre("ReduceMean(x0)"));
}

TEST_F(Upgrade, SliceAttributesBecomeInputs) {
  const ValueId x = input();
  EXPECT_THAT(texts("Slice", 9, attrs({{"starts", Ints{1}}, {"ends", Ints{3}}, {"axes", Ints{2}}}), {x}),
              ElementsAre("Slice(x0, int64[1], int64[3], int64[2])"));
  EXPECT_THAT(texts("Slice", 7, attrs({{"starts", Ints{1}}, {"ends", Ints{3}}}), {x}),
              ElementsAre("Slice(x0, int64[1], int64[3])"));
}

TEST_F(Upgrade, PadAttributesBecomeInputs) {
  EXPECT_THAT(texts("Pad", 7, attrs({{"pads", Ints{0, 1, 0, 1}}, {"mode", std::string("reflect")}}), {input()}),
              ElementsAre("Pad(x0, int64[0,1,0,1]) mode=reflect"));
  EXPECT_THAT(texts("Pad", 10, attrs({{"pads", Ints{1, 1}}, {"value", 2.f}}), {input(DType::f64)}),
              ElementsAre("Pad(x3, int64[1,1], float64(2))"));
}

TEST_F(Upgrade, SplitSizesOrTheirNumber) {
  const ValueId x = input();
  EXPECT_THAT(texts("Split", 11, attrs({{"split", Ints{1, 2}}, {"axis", int64_t{1}}}), {x}, 2),
              ElementsAre("Split(x0, int64[1,2]) axis=1"));
  EXPECT_THAT(texts("Split", 7, {}, {x}, 3), ElementsAre("Split(x0) num_outputs=3"));
  EXPECT_THAT(texts("Split", 13, {}, {x}, 2), ElementsAre("Split(x0) num_outputs=2"));
  EXPECT_THAT(texts("Split", 18, attrs({{"num_outputs", int64_t{2}}}), {x}, 2), ElementsAre("Split(x0) num_outputs=2"));
}

TEST_F(Upgrade, DropoutAndTopK) {
  const ValueId x = input();
  EXPECT_THAT(texts("Dropout", 7, attrs({{"ratio", 0.5f}}), {x}), ElementsAre("Dropout(x0, float32(0.5))"));
  EXPECT_THAT(texts("TopK", 9, attrs({{"k", int64_t{5}}, {"axis", int64_t{1}}}), {x}, 2),
              ElementsAre("TopK(x0, int64[5]) axis=1"));
}

TEST_F(Upgrade, BatchNormalizationSpatial) {
  const ValueId x = input();
  EXPECT_THAT(texts("BatchNormalization", 7, attrs({{"spatial", int64_t{1}}, {"epsilon", 0.5f}}), {x}),
              ElementsAre("BatchNormalization(x0) epsilon=0.5"));
  EXPECT_THAT(texts("BatchNormalization", 7, attrs({{"spatial", int64_t{0}}}), {x}),
              ElementsAre(HasSubstr("Unsupported: attribute 'spatial' is 0")));
  EXPECT_THAT(texts("BatchNormalization", 9, {}, {x}, 2),
              ElementsAre(HasSubstr("output 1 ('y1') exists in training only")));
}

TEST_F(Upgrade, CastTypeByName) {
  EXPECT_THAT(texts("Cast", 7, attrs({{"to", std::string("INT64")}}), {input()}), ElementsAre("Cast(x0) to=7"));
  EXPECT_THAT(texts("Cast", 7, attrs({{"to", int64_t{1}}}), {input()}), ElementsAre("Cast(x2) to=1"));
  EXPECT_THAT(texts("Cast", 7, attrs({{"to", std::string("STRING")}}), {input()}),
              ElementsAre("Unsupported: Cast to 'STRING'"));
}

TEST_F(Upgrade, OldSoftmaxFlattensFromItsAxis) {
  const ValueId x = input();
  EXPECT_THAT(texts("Softmax", 12, attrs({{"axis", int64_t{2}}}), {x}),
              ElementsAre("Flatten(x0) axis=2", "Softmax(n_flat) axis=1", "Shape(x0)", "Reshape(n_matrix, n_shape)"));
  EXPECT_THAT(texts("LogSoftmax", 7, {}, {x}), ElementsAre("Flatten(x0) axis=1", HasSubstr("LogSoftmax(n_flat"),
                                                           "Shape(x0)", HasSubstr("Reshape(n_matrix")));
}

TEST_F(Upgrade, OldSoftmaxIsTheNewOneWhereNothingFollowsItsAxis) {
  EXPECT_THAT(texts("Softmax", 11, {}, {input(DType::f32, Shape{8, 10})}), ElementsAre("Softmax(x0) axis=1"));
  EXPECT_THAT(texts("Softmax", 7, {}, {input(DType::f16, Shape{1, 1000, 1, 1})}), ElementsAre("Softmax(x2) axis=1"));
  EXPECT_THAT(texts("Softmax", 12, attrs({{"axis", int64_t{-1}}}), {input()}), ElementsAre("Softmax(x4) axis=3"));
  EXPECT_THAT(texts("Softmax", 12, attrs({{"axis", int64_t{4}}}), {input()}),
              ElementsAre(HasSubstr("InvalidModel: axis 4")));
  EXPECT_THAT(texts("Softmax", 12, {}, {input(DType::f32, std::nullopt)}),
              ElementsAre(HasSubstr("Unsupported: Softmax of opset 12")));
}

TEST_F(Upgrade, UpsampleAndOldResize) {
  EXPECT_THAT(
      texts("Upsample", 7, attrs({{"scales", Floats{1, 1, 2, 2}}, {"mode", std::string("nearest")}}), {input()}),
      ElementsAre(
          "Resize(x0, _, float32[1,1,2,2]) coordinate_transformation_mode=asymmetric mode=nearest nearest_mode=floor"));
  auto scales = Tensor::alloc(DType::f32, {2});
  scales->mutable_data<float>()[0] = 1;
  scales->mutable_data<float>()[1] = 0.5f;
  EXPECT_THAT(texts("Resize", 10, {}, {input(), constant(*scales)}),
              ElementsAre("Resize(x3, _, float32[1,0.5]) coordinate_transformation_mode=asymmetric nearest_mode=ceil"));
  EXPECT_THAT(texts("Upsample", 9, attrs({{"mode", std::string("bilinear")}}), {input(), constant(*scales)}),
              ElementsAre(HasSubstr("mode=linear")));
  EXPECT_THAT(texts("Resize", 11, {}, {input(), kNone, constant(*scales)}),
              ElementsAre("Resize(x9, _, float32[1,0.5])"));
}

TEST_F(Upgrade, RenamedOperatorsAndDefaults) {
  const ValueId x = input();
  EXPECT_THAT(texts("Scatter", 9, attrs({{"axis", int64_t{1}}}), {x}), ElementsAre("ScatterElements(x0) axis=1"));
  EXPECT_THAT(texts("RoiAlign", 10, {}, {x}),
              ElementsAre("RoiAlign(x0) coordinate_transformation_mode=output_half_pixel"));
  EXPECT_THAT(texts("GridSample", 16, {}, {x}), ElementsAre("GridSample(x0) mode=linear"));
  EXPECT_THAT(texts("GridSample", 16, attrs({{"mode", std::string("bicubic")}}), {x}),
              ElementsAre("GridSample(x0) mode=cubic"));
}

TEST_F(Upgrade, OtherDomainsKeepTheirAttributes) {
  Draft draft{"n", "Squeeze", "com.example", attrs({{"axes", Ints{0}}}), {input()}, {}};
  std::vector<Draft> out;
  ASSERT_TRUE(upgrade(graph_, draft, 1, out));
  EXPECT_EQ(print(out[0]), "Squeeze(x0) axes=0");
}

}  // namespace
}  // namespace sinter::onnx
