// SPDX-License-Identifier: Apache-2.0
#include "engine/wgsl/kernel.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

namespace sinter::wgsl {
namespace {

Target target_with_f16(bool f16) {
  Target target;
  target.f16 = f16;
  return target;
}

TEST(Storage, FollowsTheDevice) {
  EXPECT_EQ(storage_of(DType::f16, target_with_f16(true)), Storage::f16);
  EXPECT_EQ(storage_of(DType::f16, target_with_f16(false)), Storage::f32);
  EXPECT_EQ(storage_of(DType::boolean, {}), Storage::u32);
  EXPECT_EQ(storage_of(DType::i64, {}), Storage::words2);
  EXPECT_EQ(storage_of(DType::f64, {}), Storage::none);
  EXPECT_EQ(device_bytes(DType::boolean, 3, {}), 12u);
  EXPECT_EQ(device_bytes(DType::f16, 5, target_with_f16(true)), 12u) << "10 bytes, rounded up to 4";
  EXPECT_EQ(device_bytes(DType::f16, 5, target_with_f16(false)), 20u);
  EXPECT_EQ(device_bytes(DType::i64, 3, {}), 24u);
}

// Values at the ends of each type's range go there and come back.
TEST(DeviceForm, RoundTripsEveryDtype) {
  struct Case {
    DType dtype;
    std::vector<int64_t> values;
  };
  const Case cases[] = {
      {DType::f32, {-3, 0, 7}},
      {DType::f16, {-2048, 0, 2048}},
      {DType::bf16, {-256, 0, 256}},
      {DType::i8, {-128, -1, 127}},
      {DType::u8, {0, 128, 255}},
      {DType::i16, {-32768, -1, 32767}},
      {DType::u16, {0, 32768, 65535}},
      {DType::i32, {std::numeric_limits<int32_t>::min(), -1, std::numeric_limits<int32_t>::max()}},
      {DType::u32, {0, 1, 0xFFFFFFFFll}},
      {DType::i64, {std::numeric_limits<int64_t>::min(), -1, std::numeric_limits<int64_t>::max()}},
      {DType::boolean, {0, 1, 1}},
  };
  for (bool f16 : {false, true}) {
    const Target target = target_with_f16(f16);
    for (const Case& c : cases) {
      Tensor tensor = *Tensor::alloc(c.dtype, Shape{3});
      for (size_t i = 0; i < 3; ++i) set_i64(tensor, i, c.values[i]);
      auto up = to_device(tensor, target);
      ASSERT_TRUE(up) << name_of(c.dtype);
      EXPECT_EQ((up->nbytes() + 3) / 4 * 4, device_bytes(c.dtype, 3, target)) << name_of(c.dtype);
      Tensor back = *Tensor::alloc(c.dtype, Shape{3});
      ASSERT_TRUE(from_device(up->bytes(), back, target));
      EXPECT_EQ(std::memcmp(tensor.bytes().data(), back.bytes().data(), tensor.nbytes()), 0) << name_of(c.dtype);
    }
  }
}

TEST(DeviceForm, ConvertingTwiceChangesNothing) {
  for (DType dtype : {DType::f16, DType::i64, DType::boolean, DType::i8}) {
    Tensor tensor = *Tensor::alloc(dtype, Shape{4});
    for (size_t i = 0; i < 4; ++i) set_i64(tensor, i, static_cast<int64_t>(i % 2));
    Tensor once = *to_device(tensor, {});
    Tensor twice = *to_device(once, {});
    ASSERT_EQ(once.nbytes(), twice.nbytes());
    EXPECT_EQ(std::memcmp(once.bytes().data(), twice.bytes().data(), once.nbytes()), 0);
  }
}

TEST(DeviceForm, WidenedHalvesKeepNaNAndInfinity) {
  Tensor tensor = *Tensor::alloc(DType::f16, Shape{3});
  tensor.mutable_data<uint16_t>()[0] = 0x7C00;  // infinity
  tensor.mutable_data<uint16_t>()[1] = 0x7E00;  // NaN
  tensor.mutable_data<uint16_t>()[2] = 0x0001;  // the smallest subnormal
  Tensor up = *to_device(tensor, {});
  EXPECT_EQ(up.dtype(), DType::f32);
  EXPECT_TRUE(std::isinf(up.data<float>()[0]));
  EXPECT_TRUE(std::isnan(up.data<float>()[1]));
  EXPECT_EQ(up.data<float>()[2], 0x1p-24f);
}

TEST(DeviceForm, MisalignedBytesAreRead) {
  auto bytes = std::make_shared<std::vector<std::byte>>(9);
  const uint16_t halves[] = {0x3C00, 0xC000, 0x4200};
  std::memcpy(bytes->data() + 1, halves, sizeof(halves));
  Tensor tensor = Tensor::view(DType::f16, Shape{3}, std::span(*bytes).subspan(1, 6), bytes);
  Tensor up = *to_device(tensor, {});
  EXPECT_EQ(up.data<float>()[0], 1.0f);
  EXPECT_EQ(up.data<float>()[1], -2.0f);
  EXPECT_EQ(up.data<float>()[2], 3.0f);
}

TEST(DeviceForm, RefusesWhatTheDeviceCannotHold) {
  Tensor doubles = *Tensor::alloc(DType::f64, Shape{2});
  auto up = to_device(doubles, {});
  ASSERT_FALSE(up);
  EXPECT_EQ(up.error().code, Code::Unsupported);
  EXPECT_NE(up.error().message.find("float64"), std::string::npos);
  Tensor floats = *Tensor::alloc(DType::f32, Shape{2});
  const std::byte few[4] = {};
  auto down = from_device(few, floats, {});
  ASSERT_FALSE(down) << "missing bytes must never become zeros";
  EXPECT_EQ(down.error().code, Code::Internal);
}

}  // namespace
}  // namespace sinter::wgsl
