// SPDX-License-Identifier: Apache-2.0
#include "engine/tensor/tensor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "engine/base/memory.h"
#include "engine/tensor/strides.h"

namespace sinter {
namespace {

TEST(Half, EveryBitPatternSurvivesTheRoundTrip) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const uint16_t half = static_cast<uint16_t>(bits);
    const float wide = f16_to_f32(half);
    if (std::isnan(wide)) {
      EXPECT_TRUE(std::isnan(f16_to_f32(f32_to_f16(wide))));
    } else {
      ASSERT_EQ(f32_to_f16(wide), half) << bits;
    }
  }
}

TEST(Half, RoundsToNearestEven) {
  EXPECT_EQ(f32_to_f16(1.0f), 0x3c00);
  EXPECT_EQ(f32_to_f16(65504.0f), 0x7bff);
  EXPECT_EQ(f32_to_f16(65519.9f), 0x7bff);
  EXPECT_EQ(f32_to_f16(65520.0f), 0x7c00);
  EXPECT_EQ(f32_to_f16(2049.0f), 0x6800);           // halfway between 2048 and 2050: even
  EXPECT_EQ(f32_to_f16(2051.0f), 0x6802);           // halfway between 2050 and 2052: even
  EXPECT_EQ(f32_to_f16(std::ldexp(1.0f, -25)), 0);  // half of the smallest subnormal
  EXPECT_EQ(f32_to_f16(std::ldexp(1.5f, -25)), 1);
  EXPECT_EQ(f32_to_f16(-0.0f), 0x8000);
}

TEST(Tensor, RefusesShapesThatOverflow) {
  const auto tensor = Tensor::alloc(DType::f32, {int64_t{1} << 40, int64_t{1} << 40});
  ASSERT_FALSE(tensor.has_value());
  EXPECT_EQ(tensor.error().code, Code::InvalidInput);
}

TEST(Tensor, AnImpossibleSizeIsOutOfMemoryAndNamesBytes) {
  const auto tensor = Tensor::alloc(DType::f32, {int64_t{1} << 50}, "the test tensor");
  ASSERT_FALSE(tensor.has_value());
  EXPECT_EQ(tensor.error().code, Code::OutOfMemory);
  EXPECT_NE(tensor.error().message.find("the test tensor"), std::string::npos);
  EXPECT_NE(tensor.error().message.find("4503599627370496"), std::string::npos);
}

TEST(Tensor, MisalignedViewsAreCopiedOnRequest) {
  alignas(8) std::byte bytes[12] = {};
  const float value = 2.5f;
  std::memcpy(bytes + 1, &value, 4);
  const Tensor view = Tensor::view(DType::f32, {1}, {bytes + 1, 4}, nullptr);
  const auto aligned = view.aligned();
  ASSERT_TRUE(aligned.has_value());
  EXPECT_EQ(aligned->data<float>()[0], 2.5f);
}

TEST(Tensor, MemoryIsCountedAndGivenBack) {
  const uint64_t before = memory_stats().current;
  {
    const auto tensor = Tensor::alloc(DType::f32, {1000});
    ASSERT_TRUE(tensor.has_value());
    EXPECT_GE(memory_stats().current, before + 4000);
  }
  EXPECT_EQ(memory_stats().current, before);
}

TEST(Convert, IntegersWrapAndFloatsSaturate) {
  auto wide = Tensor::alloc(DType::i32, {2});
  ASSERT_TRUE(wide.has_value());
  wide->mutable_data<int32_t>()[0] = 300;
  wide->mutable_data<int32_t>()[1] = -1;
  const auto narrow = convert(*wide, DType::u8);
  ASSERT_TRUE(narrow.has_value());
  EXPECT_EQ(narrow->data<uint8_t>()[0], 44);
  EXPECT_EQ(narrow->data<uint8_t>()[1], 255);
}

TEST(Strides, ContiguousAxesMerge) {
  const Shape out{2, 3, 4, 5};
  const Shape dense = row_major_strides(out);
  const Shape channel = broadcast_strides({3, 1, 1}, out);
  const Shape both[] = {dense, channel};
  const StridedLoop loop = merge_axes(out, both);
  EXPECT_EQ(loop.dims, (Shape{2, 3, 20}));
  EXPECT_EQ(loop.strides[1], (Shape{0, 1, 0}));
  const Shape one[] = {dense};
  EXPECT_EQ(merge_axes(out, one).dims, (Shape{120}));
}

TEST(Broadcast, SymbolsKeepWhatIsKnown) {
  const int64_t n = symbol_dim(0);
  EXPECT_EQ(*broadcast(Shape{n, 3}, Shape{3}), (Shape{n, 3}));
  EXPECT_EQ(*broadcast(Shape{n, 1}, Shape{1, 4}), (Shape{n, 4}));
  EXPECT_EQ(*broadcast_dim(n, 5), 5);
  EXPECT_EQ(*broadcast_dim(n, symbol_dim(1)), kUnknownDim);
  EXPECT_FALSE(broadcast(Shape{2}, Shape{3}).has_value());
}

}  // namespace
}  // namespace sinter
