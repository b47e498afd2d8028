// SPDX-License-Identifier: Apache-2.0
#include "engine/tensor/npy.h"

#include <gmock/gmock.h>

#include <cstring>

namespace sinter {
namespace {

using ::testing::HasSubstr;

Result<Tensor> read(std::string_view content) {
  auto copy = std::make_shared<const std::string>(content);
  return read_npy(std::as_bytes(std::span(copy->data(), copy->size())), copy);
}

std::string file(std::string_view header, std::string_view data) {
  std::string text("\x93NUMPY\1\0", 8);
  text += static_cast<char>(header.size() & 0xff);
  text += static_cast<char>(header.size() >> 8);
  text += header;
  text += data;
  return text;
}

std::string message(std::string_view content) {
  const auto tensor = read(content);
  return tensor ? "accepted" : tensor.error().message;
}

TEST(Npy, RoundTripsEveryType) {
  for (int code = 1; code <= 16; ++code) {
    const auto dtype = static_cast<DType>(code);
    if (size_of(dtype) == 0) continue;
    for (const Shape& shape : {Shape{}, Shape{3}, Shape{2, 1, 3}, Shape{0, 4}, Shape{1, 1, 1, 1, 1, 1, 1, 2}}) {
      auto tensor = Tensor::alloc(dtype, shape);
      ASSERT_TRUE(tensor);
      for (size_t i = 0; i < tensor->nbytes(); ++i) tensor->mutable_bytes()[i] = static_cast<std::byte>(i * 7 + 1);
      const auto header = npy_header(dtype, shape);
      EXPECT_EQ(header.size() % 64, 0u);
      std::string content(reinterpret_cast<const char*>(header.data()), header.size());
      content.append(reinterpret_cast<const char*>(tensor->bytes().data()), tensor->nbytes());
      const auto again = read(content);
      ASSERT_TRUE(again) << name_of(dtype) << " " << again.error().message;
      EXPECT_EQ(again->dtype(), dtype);
      EXPECT_EQ(again->shape(), shape);
      EXPECT_EQ(std::memcmp(again->bytes().data(), tensor->bytes().data(), tensor->nbytes()), 0);
    }
  }
}

TEST(Npy, ReadsWhatNumpyWrites) {
  // numpy.save of numpy.array([[1, 2, 3]], dtype='<i2'), header as numpy pads it.
  std::string header = "{'descr': '<i2', 'fortran_order': False, 'shape': (1, 3), }";
  header.resize(117, ' ');
  header += '\n';
  const auto tensor = read(file(header, std::string("\1\0\2\0\3\0", 6)));
  ASSERT_TRUE(tensor) << tensor.error().message;
  EXPECT_EQ(tensor->dtype(), DType::i16);
  EXPECT_EQ(tensor->shape(), (Shape{1, 3}));
  EXPECT_EQ(get_i64(*tensor, 2), 3);
}

TEST(Npy, RefusesWhatItCannotRead) {
  EXPECT_THAT(message(""), HasSubstr("empty"));
  EXPECT_THAT(message("PK\3\4"), HasSubstr("does not begin with numpy's mark"));
  EXPECT_THAT(message("\x93NUMPY"), HasSubstr("ends inside its header"));
  EXPECT_THAT(message(file("{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }", "1234")), HasSubstr("'>f4'"));
  EXPECT_THAT(message(file("{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }", "12345678")),
              HasSubstr("'<c8'"));
  EXPECT_THAT(message(file("{'descr': '<f4', 'fortran_order': True, 'shape': (2,2), }", "1234123412341234")),
              HasSubstr("Fortran"));
  EXPECT_THAT(message(file("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", "1234")),
              HasSubstr("needs 8 bytes of data, the file has 4"));
  EXPECT_THAT(message(file("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999,99999999999), }", "")),
              HasSubstr("too large"));
  EXPECT_THAT(message(file("{'descr': '<f4', 'fortran_order': False, 'shape': (2", "")), HasSubstr("does not end"));
  EXPECT_THAT(message(file("{'descr': '<f4', 'shape': (2,), }", "")), HasSubstr("lacks"));
  EXPECT_THAT(message(file("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", "1234")),
              HasSubstr("not a simple one"));
  EXPECT_THAT(message(file("{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1), }", "1234")),
              HasSubstr("dimensions"));
}

TEST(Npy, EveryCutIsAnError) {
  const auto header = npy_header(DType::f32, {2, 2});
  std::string content(reinterpret_cast<const char*>(header.data()), header.size());
  content += "1234123412341234";
  ASSERT_TRUE(read(content));
  for (size_t length = 0; length < content.size(); ++length) {
    EXPECT_FALSE(read(std::string_view(content).substr(0, length))) << length;
  }
}

}  // namespace
}  // namespace sinter
