// SPDX-License-Identifier: Apache-2.0
#include "engine/onnx/import.h"

#include <gmock/gmock.h>

#include <random>

#include "engine/base/str.h"
#include "engine/onnx/external_data.h"
#include "engine/onnx/parse.h"
#include "engine/ops/print.h"
#include "tests/support/onnx_writer.h"

namespace sinter::onnx {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
namespace t = ::sinter::test;

Result<Graph> load(const std::string& bytes, const ImportOptions& options = {}) {
  const t::Blob blob(bytes);
  const Model model = SINTER_TRY(parse(blob.bytes(), blob.text));
  return import(model, options);
}

Error error_of(const t::ModelWriter& writer) {
  const auto graph = load(writer.bytes());
  return graph ? Error{Code::Internal, "imported without an error", {}, ""} : graph.error();
}

/// x[N,4] -> nodes -> y
t::ModelWriter model(std::vector<t::Message> nodes) {
  t::ModelWriter writer;
  writer.nodes = std::move(nodes);
  writer.inputs = {t::value_info("x", DType::f32, {"N", int64_t{4}})};
  writer.outputs = {t::value_info("y", DType::f32, {"N", int64_t{4}})};
  return writer;
}

std::string printed(const t::ModelWriter& writer) {
  const auto graph = load(writer.bytes());
  return graph ? print(*graph) : to_string(graph.error());
}

TEST(Import, BuildsTheGraph) {
  t::ModelWriter writer = model({t::node("Add", {"x", "w"}, {"sum"}, {}, "add"), t::node("Relu", {"sum"}, {"y"})});
  writer.initializers = {t::tensor_f32("w", {4}, {1, 2, 3, 4})};
  const auto graph = load(writer.bytes());
  ASSERT_TRUE(graph) << to_string(graph.error());
  EXPECT_EQ(graph->nodes[0].name, "add");
  EXPECT_EQ(graph->nodes[1].name, "y");  // its first output's name
  EXPECT_THAT(graph->nodes[1].origins, ElementsAre("y"));
  EXPECT_THAT(graph->symbols, ElementsAre("N"));
  EXPECT_THAT(print(*graph), HasSubstr("%y:float32[N,4] = Relu(%sum)"));
  EXPECT_EQ(get_f64(*graph->values[graph->find_value("w")].constant.aligned(), 3), 4);
}

TEST(Import, InitializersListedAsInputsAreNoInputs) {
  for (const int64_t ir : {3, 8}) {
    t::ModelWriter writer = model({t::node("Add", {"x", "w"}, {"y"})});
    writer.ir_version = ir;
    writer.initializers = {t::tensor_f32("w", {4}, {1, 2, 3, 4})};
    writer.inputs.push_back(t::value_info("w", DType::f32, {int64_t{4}}));
    const auto graph = load(writer.bytes());
    ASSERT_TRUE(graph) << to_string(graph.error());
    ASSERT_EQ(graph->inputs.size(), 1u);
    EXPECT_EQ(graph->values[graph->inputs[0]].name, "x");
  }
}

TEST(Import, UnsortedNodesAreSorted) {
  const auto graph =
      load(model({t::node("Relu", {"b"}, {"y"}), t::node("Abs", {"a"}, {"b"}), t::node("Neg", {"x"}, {"a"})}).bytes());
  ASSERT_TRUE(graph) << to_string(graph.error());
  std::vector<std::string_view> ops;
  for (const Node& node : graph->nodes) ops.push_back(node.op->name);
  EXPECT_THAT(ops, ElementsAre("Neg", "Abs", "Relu"));
}

TEST(Import, ConstantNodesInEveryForm) {
  struct Form {
    t::Message attribute;
    DType dtype;
    Shape shape;
    double last;
  };
  const Form forms[] = {
      {t::attr_tensor("value", t::tensor_i64("", {2}, {3, 4})), DType::i64, {2}, 4},
      {t::attr_float("value_float", 1.5f), DType::f32, {}, 1.5},
      {t::attr_floats("value_floats", {1, 2.5f}), DType::f32, {2}, 2.5},
      {t::attr_int("value_int", -7), DType::i64, {}, -7},
      {t::attr_ints("value_ints", {1, 9}), DType::i64, {2}, 9},
  };
  for (const Form& form : forms) {
    t::ModelWriter writer = model({t::node("Constant", {}, {"y"}, {form.attribute})});
    writer.outputs = {t::value_info("y", form.dtype, {})};
    const auto graph = load(writer.bytes());
    ASSERT_TRUE(graph) << to_string(graph.error());
    const Tensor& constant = graph->values[graph->outputs[0]].constant;
    EXPECT_EQ(constant.dtype(), form.dtype);
    EXPECT_EQ(constant.shape(), form.shape);
    EXPECT_EQ(get_f64(constant, constant.numel() - 1), form.last);
    EXPECT_THAT(graph->nodes, IsEmpty());
  }
  EXPECT_THAT(error_of(model({t::node("Constant", {}, {"y"})})).message,
              HasSubstr("exactly one value, this one has 0"));
  EXPECT_EQ(error_of(model({t::node("Constant", {}, {"y"}, {t::attr_text("value_string", "s")})})).code,
            Code::Unsupported);
}

TEST(Import, AbsentOptionalInputsAndUnreadOutputs) {
  t::ModelWriter writer = model({t::node("Clip", {"x", "", "hi"}, {"y"}), t::node("Relu", {"x"}, {""})});
  writer.initializers = {t::tensor_f32("hi", {}, {6})};
  const auto graph = load(writer.bytes());
  ASSERT_TRUE(graph) << to_string(graph.error());
  ASSERT_EQ(graph->nodes.size(), 1u);
  EXPECT_EQ(graph->nodes[0].inputs[1], kNone);
}

TEST(Import, UnnamedDimensionsGetNames) {
  t::ModelWriter writer = model({t::node("Relu", {"x"}, {"y"})});
  writer.inputs = {t::value_info("x", DType::f32, {"", int64_t{-1}, int64_t{4}})};
  writer.outputs = {t::value_info("y", DType::f32, {"", "", ""})};
  const auto graph = load(writer.bytes());
  ASSERT_TRUE(graph) << to_string(graph.error());
  EXPECT_THAT(graph->symbols, ElementsAre("x_dim_0", "x_dim_1"));
}

TEST(Import, DuplicateNamesAreNamed) {
  EXPECT_THAT(
      error_of(model({t::node("Relu", {"x"}, {"y"}, {}, "first"), t::node("Abs", {"x"}, {"y"}, {}, "second")})).message,
      HasSubstr("the name 'y' is given twice: to an output of node 'second' (Abs) and to an output of node 'first'"));
  EXPECT_THAT(error_of(model({t::node("Relu", {"x"}, {"x"}, {}, "n")})).message,
              HasSubstr("the name 'x' is given twice"));
  t::ModelWriter writer = model({t::node("Relu", {"x"}, {"y"})});
  writer.initializers = {t::tensor_f32("w", {1}, {1}), t::tensor_f32("w", {1}, {1})};
  EXPECT_THAT(error_of(writer).message, HasSubstr("the name 'w' is given twice"));
}

TEST(Import, MissingValuesAreNamedWithTheNearestName) {
  Error error = error_of(model({t::node("Relu", {"inptu"}, {"y"}, {}, "n"), t::node("Relu", {"x"}, {"input"})}));
  EXPECT_EQ(error.code, Code::InvalidModel);
  EXPECT_THAT(error.message, HasSubstr("node 'n' (Relu) reads 'inptu', which is no input"));
  EXPECT_THAT(error.hint, HasSubstr("'input'"));
  EXPECT_THAT(error_of(model({t::node("Relu", {"x"}, {"z"})})).message,
              HasSubstr("nothing computes the graph output 'y'"));
  t::ModelWriter writer = model({t::node("Relu", {"x"}, {"y"})});
  writer.outputs.clear();
  EXPECT_THAT(error_of(writer).message, HasSubstr("no outputs"));
}

TEST(Import, CyclesAreNamed) {
  const Error error =
      error_of(model({t::node("Add", {"x", "c"}, {"b"}, {}, "one"), t::node("Relu", {"b"}, {"c"}, {}, "two"),
                      t::node("Relu", {"c"}, {"y"}, {}, "out")}));
  EXPECT_EQ(error.code, Code::InvalidModel);
  EXPECT_THAT(error.message, HasSubstr("'two'"));
  EXPECT_THAT(error.message, HasSubstr("'one'"));
  EXPECT_THAT(error.message, HasSubstr("cycle"));
}

TEST(Import, DeepGraphsNeedNoStack) {
  std::vector<t::Message> nodes;
  constexpr int kDepth = 20000;
  for (int i = kDepth; i-- > 0;) {
    nodes.push_back(t::node("Relu", {i ? StrCat("v", i) : "x"}, {i == kDepth - 1 ? "y" : StrCat("v", i + 1)}));
  }
  const auto graph = load(model(std::move(nodes)).bytes());
  ASSERT_TRUE(graph) << to_string(graph.error());
  EXPECT_EQ(graph->nodes.size(), size_t{kDepth});
}

TEST(Import, AllUnsupportedNodesAtOnce) {
  std::vector<RefusedNode> refused;
  t::ModelWriter writer = model(
      {t::node("Relux", {"x"}, {"a"}, {}, "typo"), t::node("Frobnicate", {"a"}, {"b"}, {}, "unknown"),
       t::node("Relu", {"b"}, {"c"}, {}, "fine"), t::node("FusedConv", {"c"}, {"y"}, {}, "foreign", "com.microsoft")});
  const auto graph = load(writer.bytes(), {.refused = &refused});
  ASSERT_FALSE(graph);
  EXPECT_EQ(graph.error().code, Code::Unsupported);
  EXPECT_THAT(graph.error().message, HasSubstr("3 parts of the model are not supported"));
  EXPECT_THAT(graph.error().message, HasSubstr("node 'typo' (Relux): ONNX has no operator of this name"));
  EXPECT_THAT(graph.error().message,
              HasSubstr("'foreign' (FusedConv): there is no operator FusedConv of domain 'com.microsoft'"));
  EXPECT_THAT(graph.error().hint, HasSubstr("did you mean Relu?"));
  ASSERT_EQ(refused.size(), 3u);
  EXPECT_EQ(refused[1].node, "unknown");
  EXPECT_EQ(refused[1].op, "Frobnicate");
}

TEST(Import, UnsupportedNodesThatAreAlikeAreToldTogether) {
  const Error error =
      error_of(model({t::node("Frobnicate", {"x"}, {"a"}, {}, "one"), t::node("Frobnicate", {"a"}, {"b"}, {}, "two"),
                      t::node("Relux", {"b"}, {"y"}, {}, "three")}));
  EXPECT_EQ(error.message,
            "3 parts of the model are not supported: Frobnicate: ONNX has no operator of this name (2 of them: 'one', "
            "'two'); "
            "node 'three' (Relux): ONNX has no operator of this name");
}

TEST(Import, WhatItRefusesSaysWhatWouldWork) {
  Error error = error_of(model({t::node("If", {"x"}, {"y"}, {t::attr_graph("then_branch", t::Message())}, "branch")}));
  EXPECT_EQ(error.code, Code::Unsupported);
  EXPECT_THAT(error.message, HasSubstr("'branch' (If): control flow: attribute 'then_branch' holds a sub-graph"));

  t::ModelWriter writer = model({t::node("MyLayer", {"x"}, {"y"}, {}, "call", "local")});
  writer.extra_model_fields.message(25, t::Message().text(1, "MyLayer").text(10, "local"));
  error = error_of(writer);
  EXPECT_THAT(error.message, HasSubstr("a function that is defined in the model itself"));
  EXPECT_THAT(error.hint, HasSubstr("inline_local_functions"));

  writer = model({t::node("Relu", {"x"}, {"y"})});
  writer.initializers = {t::Message().varint(1, 1).varint(2, 8).text(6, "hello").text(8, "words")};
  EXPECT_THAT(error_of(writer).message, HasSubstr("'words' has element type string"));

  writer = model({t::node("Map", {"x"}, {"y"}, {}, "internal", "sinter")});
  EXPECT_EQ(error_of(writer).code, Code::Unsupported);
}

TEST(Import, AttributesAreCheckedAgainstTheSchema) {
  Error error = error_of(model({t::node("LeakyRelu", {"x"}, {"y"}, {t::attr_float("alhpa", 1)}, "n")}));
  EXPECT_EQ(error.code, Code::InvalidModel);
  EXPECT_THAT(error.message, HasSubstr("attribute 'alhpa' is not one that LeakyRelu has"));
  EXPECT_THAT(error.hint, HasSubstr("alpha"));
  EXPECT_THAT(error.chain, ElementsAre("importing node 'n' (LeakyRelu)"));
  error = error_of(model({t::node("LeakyRelu", {"x"}, {"y"}, {t::attr_int("alpha", 1)})}));
  EXPECT_THAT(error.message, HasSubstr("attribute 'alpha' is an integer where LeakyRelu takes a float"));
  error = error_of(model({t::node("LeakyRelu", {"x"}, {"y"}, {t::attr_float("alpha", 1), t::attr_float("alpha", 2)})}));
  EXPECT_THAT(error.message, HasSubstr("given twice"));
}

TEST(Import, OpsetAndIrRanges) {
  t::ModelWriter writer = model({t::node("Relu", {"x"}, {"y"})});
  for (const int64_t opset : {6, 28, 100}) {
    writer.opsets = {{"", opset}};
    const Error error = error_of(writer);
    EXPECT_EQ(error.code, Code::Unsupported);
    EXPECT_THAT(error.message, HasSubstr(StrCat("opset ", opset, " of ai.onnx; opsets 7 to ", newest_opset())));
    EXPECT_THAT(error.hint, HasSubstr("convert_version"));
  }
  for (const int64_t opset : {7, 13, 27}) {
    writer.opsets = {{"ai.onnx", opset}};
    EXPECT_TRUE(load(writer.bytes())) << opset;
  }
  writer.opsets = {{"ai.onnx.ml", 2}};
  EXPECT_THAT(error_of(writer).message, HasSubstr("does not import an operator set of ai.onnx"));
  writer.opsets = {{"", 13}};
  writer.ir_version = 99;
  EXPECT_THAT(error_of(writer).message, HasSubstr("IR version 99; versions 3 to 13"));
}

TEST(Import, InputsMustBeTensorsOfNumbers) {
  t::ModelWriter writer = model({t::node("Relu", {"x"}, {"y"})});
  writer.inputs = {t::Message().text(1, "x").message(2, t::Message().message(4, t::Message()))};
  EXPECT_THAT(error_of(writer).message, HasSubstr("'x': graph input of type sequence"));
  writer.inputs = {t::value_info("x", DType::string, {})};
  EXPECT_THAT(error_of(writer).message, HasSubstr("graph input of element type string"));
  writer.inputs = {t::Message().text(1, "x")};
  EXPECT_THAT(error_of(writer).message, HasSubstr("graph input 'x' has no type"));
  writer.inputs = {t::value_info("x", DType::f32, std::vector<t::Dim>(9, int64_t{1}))};
  EXPECT_THAT(error_of(writer).message, HasSubstr("9 dimensions"));
}

TEST(Import, ShapeErrorsNameNodeAndShapes) {
  t::ModelWriter writer = model({t::node("Add", {"x", "w"}, {"y"}, {}, "add")});
  writer.initializers = {t::tensor_f32("w", {3}, {1, 2, 3})};
  const Error error = error_of(writer);
  EXPECT_EQ(error.code, Code::InvalidModel);
  EXPECT_THAT(to_string(error), HasSubstr("'add' (Add)"));
  EXPECT_THAT(to_string(error), HasSubstr("[3]"));
}

TEST(Import, DeclaredOutputTypesMustAgree) {
  t::ModelWriter writer = model({t::node("Relu", {"x"}, {"y"})});
  writer.outputs = {t::value_info("y", DType::i64, {})};
  EXPECT_THAT(error_of(writer).message, HasSubstr("graph output 'y' is declared int64 but computed as float32"));
}

TEST(Import, OldFormsBecomeNewOnes) {
  t::ModelWriter writer = model({t::node("Clip", {"x"}, {"y"}, {t::attr_float("min", 0), t::attr_float("max", 6)})});
  writer.opsets = {{"", 7}};
  EXPECT_THAT(printed(writer), HasSubstr("%y:float32[N,4] = Clip(%x, %y_min, %y_max)"));
}

// Files cut short, with a real model.

struct Outcome {
  bool loaded = false;
  std::string text;  // the graph, or the error
};

Outcome outcome(std::span<const std::byte> bytes) {
  const auto model = parse(bytes, nullptr);
  if (!model) return {false, std::string(code_name(model.error().code))};
  const auto graph = import(*model);
  if (!graph) return {false, std::string(code_name(graph.error().code))};
  std::string text = print(*graph);
  for (const Value& value : graph->values) {
    if (value.constant) text += StrCat("\n", value.name, to_string(value.constant.shape()));
  }
  return {true, std::move(text)};
}

TEST(Import, RealModelCutAnywhereIsInvalidOrTheSame) {
  const auto file = map_file("models/fashion/squeezenet1_1_fashion.onnx");
  ASSERT_TRUE(file) << to_string(file.error());
  const Outcome whole = outcome(file->bytes);
  ASSERT_TRUE(whole.loaded) << whole.text;
  std::vector<size_t> cuts;
  for (size_t i = 0; i < 600; ++i) cuts.push_back(i);
  for (size_t i = 1; i <= 600 && i < file->bytes.size(); ++i) cuts.push_back(file->bytes.size() - i);
  std::mt19937 random(1);
  for (int i = 0; i < 500; ++i) cuts.push_back(random() % file->bytes.size());
  for (const size_t cut : cuts) {
    const Outcome part = outcome(file->bytes.first(cut));
    if (part.loaded) {
      EXPECT_EQ(part.text, whole.text) << "cut at " << cut;
    } else {
      EXPECT_EQ(part.text, "InvalidModel") << "cut at " << cut;
    }
  }
}

}  // namespace
}  // namespace sinter::onnx
