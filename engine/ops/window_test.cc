// SPDX-License-Identifier: Apache-2.0
#include "engine/ops/window.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/ops/cases.h"
#include "engine/ops/op_def.h"

namespace sinter::ops {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Ints = std::vector<int64_t>;

Node node_of(std::string_view op, Attrs attrs) {
  Node node;
  node.op = find_op("", op);
  node.attrs = std::move(attrs);
  return node;
}

Ints extents(const Window& window) {
  Ints out;
  for (const WindowAxis& axis : window.own()) out.push_back(axis.out);
  return out;
}

Ints pads(const Window& window) {
  Ints begin, end;
  for (const WindowAxis& axis : window.own()) {
    begin.push_back(axis.pad_begin);
    end.push_back(axis.pad_end);
  }
  begin.insert(begin.end(), end.begin(), end.end());
  return begin;
}

Window resolve(Attrs attrs, const Shape& shape, std::string_view op = "MaxPool") {
  const auto window = resolve_window(node_of(op, std::move(attrs)), shape);
  EXPECT_TRUE(window) << to_string(window.error());
  return window.value_or(Window{});
}

std::string refusal(Attrs attrs, const Shape& shape, Ints weight_kernel = {}) {
  const auto window = resolve_window(node_of("Conv", std::move(attrs)), shape, weight_kernel);
  EXPECT_FALSE(window);
  if (window) return "";
  EXPECT_EQ(window.error().code, Code::InvalidModel);
  return window.error().message;
}

Attrs pool_attrs(Ints strides) { return attrs_of({{"kernel_shape", Ints{3, 2}}, {"strides", std::move(strides)}}); }

// Extents by ONNX Runtime 1.26 for inputs 5x5, 6x7 and 9x8.
TEST(Window, SameUpperPutsTheOddElementAtTheEnd) {
  Attrs attrs = pool_attrs({2, 3});
  attrs.set("auto_pad", std::string("SAME_UPPER"));
  EXPECT_THAT(extents(resolve(attrs, {1, 1, 5, 5})), ElementsAre(3, 2));
  EXPECT_THAT(extents(resolve(attrs, {1, 1, 6, 7})), ElementsAre(3, 3));
  EXPECT_THAT(extents(resolve(attrs, {1, 1, 9, 8})), ElementsAre(5, 3));
  EXPECT_THAT(pads(resolve(attrs, {1, 1, 6, 7})), ElementsAre(0, 0, 1, 1));
}

TEST(Window, SameLowerPutsTheOddElementAtTheStart) {
  Attrs attrs = pool_attrs({3, 2});
  attrs.set("auto_pad", std::string("SAME_LOWER"));
  EXPECT_THAT(extents(resolve(attrs, {1, 1, 5, 5})), ElementsAre(2, 3));
  EXPECT_THAT(extents(resolve(attrs, {1, 1, 6, 7})), ElementsAre(2, 4));
  EXPECT_THAT(extents(resolve(attrs, {1, 1, 9, 8})), ElementsAre(3, 4));
  EXPECT_THAT(pads(resolve(attrs, {1, 1, 5, 5})), ElementsAre(1, 1, 0, 0));
}

TEST(Window, CeilModeRoundsUpAlsoUnderValid) {
  for (const bool valid : {false, true}) {
    Attrs attrs = pool_attrs({2, 2});
    attrs.set("ceil_mode", int64_t{1});
    if (valid) attrs.set("auto_pad", std::string("VALID"));
    EXPECT_THAT(extents(resolve(attrs, {1, 1, 5, 5})), ElementsAre(2, 3));
    EXPECT_THAT(extents(resolve(attrs, {1, 1, 6, 7})), ElementsAre(3, 4));
    EXPECT_THAT(extents(resolve(attrs, {1, 1, 9, 8})), ElementsAre(4, 4));
  }
}

TEST(Window, CeilModeDropsWindowsThatStartInTheEndPadding) {
  Attrs attrs = pool_attrs({3, 3});
  attrs.set("ceil_mode", int64_t{1});
  attrs.set("pads", Ints{1, 1, 1, 1});
  EXPECT_THAT(extents(resolve(attrs, {1, 1, 5, 5})), ElementsAre(2, 2));
  EXPECT_THAT(extents(resolve(attrs, {1, 1, 6, 7})), ElementsAre(3, 3));
  EXPECT_THAT(extents(resolve(attrs, {1, 1, 9, 8})), ElementsAre(4, 3));
}

TEST(Window, AxesAreTheLastOnes) {
  const Window window = resolve(attrs_of({{"kernel_shape", Ints{3}}}), {1, 2, 9});
  EXPECT_EQ(window.rank, 1u);
  EXPECT_EQ(window.width().out, 7);
  EXPECT_EQ(window.depth(), WindowAxis{});
  EXPECT_EQ(window.height(), WindowAxis{});
}

TEST(Window, ReadsChannelsLast) {
  Attrs attrs = attrs_of({{"kernel_shape", Ints{2, 3}}, {"nhwc", int64_t{1}}});
  EXPECT_THAT(extents(resolve(attrs, {1, 8, 9, 4})), ElementsAre(7, 7));
  EXPECT_EQ(spatial_shape(node_of("MaxPool", attrs), 1, 4, resolve(attrs, {1, 8, 9, 4})), Shape({1, 7, 7, 4}));
}

TEST(Window, KeepsSymbolsWhereTheExtentDoesNotChange) {
  const int64_t h = symbol_dim(0), w = symbol_dim(1);
  EXPECT_THAT(extents(resolve(attrs_of({{"kernel_shape", Ints{3, 3}}, {"pads", Ints{1, 1, 1, 1}}}), {1, 1, h, w})),
              ElementsAre(h, w));
  EXPECT_THAT(
      extents(resolve(attrs_of({{"kernel_shape", Ints{2, 4}}, {"auto_pad", std::string("SAME_UPPER")}}), {1, 1, h, w})),
      ElementsAre(h, w));
  EXPECT_THAT(extents(resolve(pool_attrs({1, 2}), {1, 1, h, 8})), ElementsAre(kUnknownDim, 4));
}

TEST(Window, TapsInsideAndInPadding) {
  // Input 5, kernel 3, stride 2, padding 1 and 1, ceil_mode: windows start at -1, 1 and 3.
  const WindowAxis axis{.in = 5, .out = 3, .kernel = 3, .stride = 2, .pad_begin = 1, .pad_end = 1};
  EXPECT_EQ(axis.first_tap(0), 1);
  EXPECT_EQ(axis.last_tap(0), 3);
  EXPECT_EQ(axis.first_tap(2), 0);
  EXPECT_EQ(axis.last_tap(2), 2);
  EXPECT_EQ(axis.padded_taps(2), 3);
  const WindowAxis partial{.in = 5, .out = 3, .kernel = 3, .stride = 2};
  EXPECT_EQ(partial.padded_taps(2), 1);
  const WindowAxis dilated{.in = 4, .out = 1, .kernel = 3, .dilation = 3, .pad_begin = 2, .pad_end = 1};
  EXPECT_EQ(dilated.first_tap(0), 1);
  EXPECT_EQ(dilated.last_tap(0), 2);
  EXPECT_EQ(dilated.padded_taps(0), 3);
}

TEST(Window, RefusalsNameTheNumbers) {
  EXPECT_THAT(refusal(attrs_of({{"kernel_shape", Ints{3}}}), {1, 1, 5, 5}, {3, 3}),
              HasSubstr("kernel_shape has 1 values [3], the input's spatial axes need 2"));
  EXPECT_THAT(refusal(attrs_of({{"kernel_shape", Ints{3, 5}}}), {1, 1, 5, 5}, {3, 3}),
              HasSubstr("kernel_shape = [3,5] differs from the weight's [3,3]"));
  EXPECT_THAT(refusal({}, {1, 1, 5, 5}), HasSubstr("kernel_shape is missing"));
  EXPECT_THAT(refusal(attrs_of({{"strides", Ints{0, 1}}}), {1, 1, 5, 5}, {3, 3}), HasSubstr("strides = [0,1]"));
  EXPECT_THAT(refusal(attrs_of({{"pads", Ints{1, 1}}}), {1, 1, 5, 5}, {3, 3}), HasSubstr("pads has 2 values"));
  EXPECT_THAT(refusal(attrs_of({{"pads", Ints{0, 0, -1, 0}}}), {1, 1, 5, 5}, {3, 3}), HasSubstr("pads = [0,0,-1,0]"));
  EXPECT_THAT(refusal(attrs_of({{"dilations", Ints{1, int64_t{1} << 40}}}), {1, 1, 5, 5}, {3, 3}),
              HasSubstr("dilations"));
  EXPECT_THAT(refusal(attrs_of({{"auto_pad", std::string("SAME")}}), {1, 1, 5, 5}, {3, 3}), HasSubstr("'SAME'"));
  EXPECT_THAT(refusal({}, {1, 1, 2, 5}, {3, 3}),
              HasSubstr("does not fit into the padded input [1,1,2,5]: kernel 3x3, strides 1x1, pads 0,0,0,0"));
  EXPECT_THAT(refusal({}, {1, 5}, {}), HasSubstr("rank 2"));
}

}  // namespace
}  // namespace sinter::ops
