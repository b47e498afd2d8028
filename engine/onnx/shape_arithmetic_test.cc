// SPDX-License-Identifier: Apache-2.0
// The shape arithmetic that exporters write around a symbolic batch: what import knows of the shapes behind it, and that
// a plan for a concrete batch gets them right.
#include <gtest/gtest.h>

#include "engine/base/str.h"
#include "engine/onnx/import.h"
#include "engine/onnx/parse.h"
#include "engine/plan/bind.h"
#include "tests/support/onnx_writer.h"

namespace sinter::onnx {
namespace {

namespace t = ::sinter::test;

/// x[N,3,H,4] -> nodes -> y; the initialisers are what the nodes below read.
Result<Graph> load(std::vector<t::Message> nodes, std::vector<t::Dim> y) {
  t::ModelWriter writer;
  writer.nodes = std::move(nodes);
  writer.inputs = {t::value_info("x", DType::f32, {"N", int64_t{3}, "H", int64_t{4}})};
  writer.outputs = {t::value_info("y", DType::f32, std::move(y))};
  writer.initializers = {
      t::tensor_i64("zero", {}, {0}),        t::tensor_i64("axis0", {1}, {0}),
      t::tensor_i64("minus_one", {1}, {-1}), t::tensor_i64("twelve", {1}, {12}),
      t::tensor_i64("two", {1}, {2}),        t::tensor_i64("three", {1}, {3}),
      t::tensor_f32("one", {1}, {1}),        t::tensor_i64("first_two", {2}, {0, 2}),
      t::tensor_i64("four", {1}, {4}),       t::tensor_i64("two_scalar", {}, {2}),
  };
  const t::Blob blob(writer.bytes());
  const Model model = SINTER_TRY(parse(blob.bytes(), blob.text));
  return import(model);
}

/// The shape of `y` as imported, and bound to N=5, H=2: "[N,?] [5,24]".
std::string shapes(std::vector<t::Message> nodes, size_t rank) {
  std::vector<t::Dim> y;
  for (size_t i = 0; i < rank; ++i) y.push_back(StrCat("y", i));
  const auto graph = load(std::move(nodes), std::move(y));
  if (!graph) return to_string(graph.error());
  const ValueId id = graph->find_value("y");
  const std::optional<Shape>& imported = graph->values[id].shape;
  plan::Bindings bindings;
  bindings.inputs = {Shape{5, 3, 2, 4}};
  std::vector<plan::Refusal> refusals;
  const auto bound = plan::bind(*graph, bindings, refusals);
  if (!bound) return to_string(bound.error());
  if (!refusals.empty()) return refusals[0].reason;
  return StrCat(imported ? to_string(*imported, graph->symbols) : "?", " ", to_string(bound->values[id].shape));
}

t::Message n(std::string_view op, std::vector<std::string> inputs, std::string output,
             std::vector<t::Message> attrs = {}) {
  return t::node(op, inputs, {std::move(output)}, attrs);
}

TEST(ShapeArithmetic, FlattenByShapeGatherConcat) {
  EXPECT_EQ(shapes({n("Shape", {"x"}, "shape"), n("Gather", {"shape", "zero"}, "batch"),
                    n("Unsqueeze", {"batch", "axis0"}, "row"),
                    n("Concat", {"row", "minus_one"}, "to", {t::attr_int("axis", 0)}), n("Reshape", {"x", "to"}, "y")},
                   2),
            "[N,?] [5,24]");
}

TEST(ShapeArithmetic, SymbolsThatCancelLeaveNumbers) {
  // [N, H, -1]: what is left of [N,3,H,4] is 12.
  EXPECT_EQ(shapes({n("Shape", {"x"}, "shape"), n("Gather", {"shape", "first_two"}, "kept"),
                    n("Concat", {"kept", "minus_one"}, "to", {t::attr_int("axis", 0)}), n("Reshape", {"x", "to"}, "y")},
                   3),
            "[N,H,12] [5,2,12]");
}

TEST(ShapeArithmetic, ViewsThroughSliceAndCast) {
  EXPECT_EQ(shapes({n("Shape", {"x"}, "shape"), n("Cast", {"shape"}, "wide", {t::attr_int("to", 6)}),
                    n("Slice", {"wide", "two", "four", "axis0"}, "tail32"),
                    n("Cast", {"tail32"}, "tail", {t::attr_int("to", 7)}),
                    n("Concat", {"minus_one", "tail"}, "to", {t::attr_int("axis", 0)}), n("Reshape", {"x", "to"}, "y")},
                   3),
            "[?,H,4] [15,2,4]");
}

TEST(ShapeArithmetic, ShapeWithStartAndEnd) {
  EXPECT_EQ(shapes({n("Shape", {"x"}, "batch", {t::attr_int("end", 1)}),
                    n("Concat", {"batch", "three", "minus_one"}, "to", {t::attr_int("axis", 0)}),
                    n("Reshape", {"x", "to"}, "y")},
                   3),
            "[N,3,?] [5,3,8]");
}

TEST(ShapeArithmetic, ExpandAndConstantOfShape) {
  EXPECT_EQ(shapes({n("Shape", {"x"}, "shape"), n("Slice", {"shape", "axis0", "two"}, "head"),
                    n("Expand", {"one", "head"}, "y")},
                   2),
            "[N,3] [5,3]");
  EXPECT_EQ(
      shapes({n("Shape", {"x"}, "shape"), n("ConstantOfShape", {"shape"}, "zeros"), n("Add", {"x", "zeros"}, "y")}, 4),
      "[N,3,H,4] [5,3,2,4]");
}

TEST(ShapeArithmetic, ComputedDimensionsAreUnknownButRanksAreNot) {
  // H / 2 has no name.
  EXPECT_EQ(shapes({n("Shape", {"x"}, "shape"), n("Gather", {"shape", "two"}, "h"), n("Div", {"h", "two"}, "half"),
                    n("Concat", {"minus_one", "half", "two"}, "to", {t::attr_int("axis", 0)}),
                    n("Reshape", {"x", "to"}, "y")},
                   3),
            "[?,?,2] [60,1,2]");
}

}  // namespace
}  // namespace sinter::onnx
