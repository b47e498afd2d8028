// SPDX-License-Identifier: Apache-2.0
#include "engine/onnx/parse.h"

#include <gmock/gmock.h>

#include "tests/support/onnx_writer.h"

namespace sinter::onnx {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
namespace t = ::sinter::test;

Result<Model> parse_text(std::string bytes) {
  const t::Blob blob(std::move(bytes));
  return parse(blob.bytes(), blob.text);
}

Error error_of(std::string bytes) {
  auto model = parse_text(std::move(bytes));
  if (model) return {Code::Internal, "parsed without an error", {}, ""};
  return model.error();
}

Result<TensorProto> tensor_of(const t::Message& message) {
  const t::Blob blob(message.bytes());
  return parse_tensor_file(blob.bytes(), blob.text);
}

t::ModelWriter small_model() {
  t::ModelWriter writer;
  writer.nodes = {t::node("Add", {"x", "w"}, {"y"}, {}, "add")};
  writer.initializers = {t::tensor_f32("w", {2}, {1, 2})};
  writer.inputs = {t::value_info("x", DType::f32, {"N", int64_t{2}, ""})};
  writer.outputs = {t::value_info("y", DType::f32, {})};
  return writer;
}

TEST(Parse, ReadsModel) {
  const auto model = parse_text(small_model().bytes());
  ASSERT_TRUE(model) << to_string(model.error());
  EXPECT_EQ(model->ir_version, 8);
  EXPECT_EQ(model->producer, "test");
  EXPECT_EQ(model->opset(""), 17);
  EXPECT_EQ(model->opset("ai.onnx.ml"), 0);
  ASSERT_EQ(model->graph.nodes.size(), 1u);
  EXPECT_EQ(model->graph.nodes[0].op, "Add");
  EXPECT_THAT(model->graph.nodes[0].inputs, ElementsAre("x", "w"));
  ASSERT_EQ(model->graph.inputs.size(), 1u);
  const auto& dims = model->graph.inputs[0].dims;
  ASSERT_EQ(dims.size(), 3u);
  EXPECT_EQ(dims[0].symbol, "N");
  EXPECT_TRUE(dims[1].known);
  EXPECT_EQ(dims[1].value, 2);
  EXPECT_FALSE(dims[2].known);
}

TEST(Parse, WeightsAreViewsOfTheFile) {
  const t::Blob blob(small_model().bytes());
  const auto model = parse(blob.bytes(), blob.text);
  ASSERT_TRUE(model);
  const std::byte* data = model->graph.initializers[0].tensor.bytes().data();
  EXPECT_GE(data, blob.bytes().data());
  EXPECT_LT(data, blob.bytes().data() + blob.bytes().size());
}

TEST(Parse, WeightsKeepTheFileAlive) {
  Tensor weight;
  {
    const auto model = parse_text(small_model().bytes());
    ASSERT_TRUE(model);
    weight = model->graph.initializers[0].tensor;
  }
  const auto aligned = weight.aligned();
  ASSERT_TRUE(aligned);
  EXPECT_THAT(aligned->data<float>(), ElementsAre(1, 2));
}

TEST(Parse, TypedDataOfEveryField) {
  const auto values = [](const t::Message& message) {
    std::vector<double> out;
    const auto proto = tensor_of(message);
    if (!proto) return out;
    for (size_t i = 0; i < proto->tensor.numel(); ++i) out.push_back(get_f64(proto->tensor, i));
    return out;
  };
  const auto tensor = [](DType dtype, int64_t n) {
    return t::Message().varint(1, static_cast<uint64_t>(n)).varint(2, static_cast<uint64_t>(dtype));
  };
  EXPECT_THAT(values(tensor(DType::f32, 2).fixed32(4, 1.5f).fixed32(4, -2)), ElementsAre(1.5, -2));
  const float packed[] = {3, 4};
  EXPECT_THAT(values(tensor(DType::f32, 2).text(4, {reinterpret_cast<const char*>(packed), 8})), ElementsAre(3, 4));
  EXPECT_THAT(values(tensor(DType::i32, 2).varint(5, 7).varint(5, static_cast<uint64_t>(-3))), ElementsAre(7, -3));
  EXPECT_THAT(values(tensor(DType::i8, 2).text(5, "\x05\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01")), ElementsAre(5, -1));
  EXPECT_THAT(values(tensor(DType::u8, 1).varint(5, 255)), ElementsAre(255));
  EXPECT_THAT(values(tensor(DType::boolean, 2).varint(5, 1).varint(5, 0)), ElementsAre(1, 0));
  EXPECT_THAT(values(tensor(DType::f16, 1).varint(5, 0x3c00)), ElementsAre(1));
  EXPECT_THAT(values(tensor(DType::bf16, 1).varint(5, 0x4000)), ElementsAre(2));
  EXPECT_THAT(values(tensor(DType::i64, 1).varint(7, static_cast<uint64_t>(-9))), ElementsAre(-9));
  EXPECT_THAT(values(tensor(DType::u64, 1).varint(11, 1ull << 40)), ElementsAre(1099511627776.0));
  EXPECT_THAT(values(tensor(DType::u32, 1).varint(11, 4000000000u)), ElementsAre(4000000000.0));
  const double wide = 2.5;
  EXPECT_THAT(values(tensor(DType::f64, 1).text(10, {reinterpret_cast<const char*>(&wide), 8})), ElementsAre(2.5));
}

TEST(Parse, TensorDataMustFitItsShape) {
  const auto message = [](const t::Message& tensor) {
    const auto proto = tensor_of(tensor);
    return proto ? std::string("accepted") : proto.error().message;
  };
  EXPECT_THAT(message(t::tensor("w", DType::f32, {3}, "12345678")),
              HasSubstr("'w' has 8 bytes of data, but its shape [3]"));
  EXPECT_THAT(message(t::tensor("w", DType::f32, {-1}, "")), HasSubstr("dimension -1 of tensor 'w' is negative"));
  EXPECT_THAT(message(t::tensor("w", DType::f32, {1ll << 40, 1ll << 40}, "")), HasSubstr("impossibly many"));
  EXPECT_THAT(message(t::tensor("w", DType::f32, {1ll << 62, 4}, "")), HasSubstr("impossibly many"));
  EXPECT_THAT(message(t::Message().varint(1, 2).varint(2, 1).text(8, "w").fixed32(4, 1)),
              HasSubstr("needs 2 elements, but has 1"));
  EXPECT_THAT(message(t::Message().varint(1, 1).varint(2, 1).text(8, "w").varint(7, 1)),
              HasSubstr("needs 1 elements, but has 0"));
  EXPECT_THAT(message(t::tensor("w", DType::f32, {1}, "1234").fixed32(4, 1)), HasSubstr("both raw and typed"));
  EXPECT_THAT(message(t::tensor("w", static_cast<DType>(77), {1}, "1")), HasSubstr("element type 77"));
  EXPECT_EQ(message(t::tensor("w", DType::f32, {0, 1ll << 40, 1ll << 40}, "")), "accepted");
  EXPECT_EQ(message(t::tensor("w", DType::f32, {}, "1234")), "accepted");
}

TEST(Parse, TensorsThatTheEngineCannotHoldAreNoErrorYet) {
  const auto refusal = [](const t::Message& tensor) {
    const auto proto = tensor_of(tensor);
    return proto ? proto->refusal : std::string("error");
  };
  EXPECT_THAT(refusal(t::tensor("w", static_cast<DType>(14), {1}, "12345678")), HasSubstr("complex64"));
  EXPECT_THAT(refusal(t::tensor("w", static_cast<DType>(22), {2}, "1")), HasSubstr("int4"));
  EXPECT_THAT(refusal(t::Message().varint(1, 1).varint(2, 8).text(6, "hello")), HasSubstr("string"));
  EXPECT_THAT(refusal(t::tensor("w", DType::f32, std::vector<int64_t>(9, 1), "1234")), HasSubstr("9 dimensions"));
}

TEST(Parse, AttributesOfEveryKind) {
  t::ModelWriter writer = small_model();
  writer.nodes = {
      t::node("Op", {}, {"y"},
              {t::attr_int("i", -5), t::attr_float("f", 0.5f), t::attr_text("s", "hey"), t::attr_ints("is", {1, -2}),
               t::attr_floats("fs", {1, 2}), t::attr_tensor("t", t::tensor_i64("", {1}, {3})),
               t::Message().text(1, "packed").text(8, std::string("\x01\x02\x03", 3)).varint(20, 7),
               t::Message().text(1, "untyped").varint(3, 9)})};
  const auto model = parse_text(writer.bytes());
  ASSERT_TRUE(model) << to_string(model.error());
  const auto& attributes = model->graph.nodes[0].attributes;
  ASSERT_EQ(attributes.size(), 8u);
  EXPECT_EQ(attributes[0].i, -5);
  EXPECT_EQ(attributes[1].f, 0.5f);
  EXPECT_EQ(attributes[2].s, "hey");
  EXPECT_THAT(attributes[3].ints, ElementsAre(1, -2));
  EXPECT_THAT(attributes[4].floats, ElementsAre(1, 2));
  ASSERT_TRUE(attributes[5].tensor);
  EXPECT_THAT(attributes[6].ints, ElementsAre(1, 2, 3));
  EXPECT_EQ(attributes[7].kind, AttrKind::integer);
}

TEST(Parse, FileCutAtAnyByteIsATypedErrorOrTheSameModel) {
  t::ModelWriter writer = small_model();
  writer.extra_model_fields.message(14, t::Message().text(1, "author").text(2, "me"));
  const std::string whole = writer.bytes();
  size_t accepted = 0;
  for (size_t length = 0; length < whole.size(); ++length) {
    const auto model = parse_text(whole.substr(0, length));
    if (!model) {
      EXPECT_EQ(model.error().code, Code::InvalidModel);
      EXPECT_THAT(model.error().hint, Not(IsEmpty()));
      continue;
    }
    ++accepted;
    EXPECT_EQ(model->graph.nodes.size(), 1u) << "cut at " << length;
    EXPECT_EQ(model->opset(""), 17) << "cut at " << length;
  }
  EXPECT_EQ(accepted, 1u);  // only the metadata is gone
}

TEST(Parse, TruncationNamesWhereAndOfHowMuch) {
  const std::string whole = small_model().bytes();
  const Error error = error_of(whole.substr(0, 60));
  EXPECT_THAT(error.message, HasSubstr("truncated at byte 60 of "));
  EXPECT_THAT(error.message, HasSubstr("while reading the model"));
  EXPECT_THAT(error.hint, HasSubstr("fetch the file again"));
  EXPECT_THAT(error_of(t::Message().varint(1, 8).bytes()).message, HasSubstr("ends at byte 2 without a graph"));
}

TEST(Parse, DamageInsideNamesThePart) {
  t::ModelWriter writer = small_model();
  writer.nodes.push_back(
      t::node("Relu", {"y"}, {"z"}, {}, "broken").raw("\x22\x50"));  // a text of 80 bytes that is not there
  const Error error = error_of(writer.bytes());
  EXPECT_EQ(error.code, Code::InvalidModel);
  EXPECT_THAT(error.message, HasSubstr("in a node: a field needs 80 bytes, but only 0 are left"));
  EXPECT_THAT(error.chain, ElementsAre("reading node 1 ('broken')"));
}

TEST(Parse, WireFormatRules) {
  const auto message = [](std::string_view tail) {
    return error_of(t::Message().varint(1, 8).raw(tail).bytes()).message;
  };
  EXPECT_THAT(message("\x0b"), HasSubstr("wire type 3"));
  EXPECT_THAT(message(std::string("\x00\x01", 2)), HasSubstr("field tag 0"));
  EXPECT_THAT(message("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), HasSubstr("more than ten bytes"));
  EXPECT_THAT(message("\x3a\xff\xff\xff\xff\xff\xff\xff\xff\x7f"), HasSubstr("truncated"));
  EXPECT_THAT(message(std::string("\x3d\0\0\0\0", 5)), HasSubstr("field 7 has wire type 5"));
  EXPECT_THAT(error_of(small_model().bytes() + t::Message().text(7, "").bytes()).message, HasSubstr("a second graph"));
}

TEST(Parse, StructureIsBounded) {
  // Two bytes a node in the file, some two hundred in memory.
  std::string nodes;
  const t::Message node = t::Message().text(4, "A");
  for (int i = 0; i < 1'200'000; ++i) nodes += t::Message().message(1, node).bytes();
  t::Message model;
  model.varint(1, 8).text(7, nodes);
  const Error error = error_of(model.bytes());
  EXPECT_EQ(error.code, Code::InvalidModel);
  EXPECT_THAT(error.message, HasSubstr("more than 256 MiB"));
}

TEST(Parse, UnknownFieldsAreSkipped) {
  t::ModelWriter writer = small_model();
  writer.extra_graph_fields.text(99, "future").varint(98, 1).fixed32(97, 1);
  writer.extra_model_fields.text(99, "future");
  EXPECT_TRUE(parse_text(writer.bytes()));
}

struct Wrong {
  std::string_view name;
  std::string content;
  std::string_view message, hint;
};

class WrongFile : public ::testing::TestWithParam<Wrong> {};

TEST_P(WrongFile, IsNamed) {
  const Error error = error_of(GetParam().content);
  EXPECT_EQ(error.code, Code::InvalidModel);
  EXPECT_THAT(error.message, HasSubstr(GetParam().message));
  EXPECT_THAT(error.hint, HasSubstr(GetParam().hint));
}

INSTANTIATE_TEST_SUITE_P(
    Parse, WrongFile,
    ::testing::Values(
        Wrong{"Empty", "", "is empty (0 bytes)", "run it again"},
        Wrong{"LfsPointer", "version https://git-lfs.github.com/spec/v1\noid sha256:abc\nsize 13976744\n",
              "a Git LFS pointer, not the model itself: 72 bytes of text that stand for a file of 13976744 bytes",
              "git lfs pull"},
        Wrong{"Html", "\n <!DOCTYPE html><html><body>404</body></html>", "a web page", "raw file"},
        Wrong{"Xml", "<?xml version='1.0'?><Error>AccessDenied</Error>", "a web page", "raw file"},
        Wrong{"Gzip", "\x1f\x8b\x08", "gzip", "unpack"},
        Wrong{"Zip", "PK\x03\x04rest", "a zip archive", "export the checkpoint"},
        Wrong{"Ort", std::string("\x1c\0\0\0ORTM", 8), "ORT format", "converted from"},
        Wrong{"TfLite", std::string("\x1c\0\0\0TFL3", 8), "TensorFlow Lite", "ONNX"},
        Wrong{"Safetensors", std::string("\x10\0\0\0\0\0\0\0{\"a\":1}", 15), "safetensors", "ONNX"},
        Wrong{"Png", "\x89PNG\r\n", "a PNG picture", "order of the arguments"},
        Wrong{"Npy", "\x93NUMPY", "a numpy array", "order of the arguments"},
        Wrong{"Text", "Not found\n", "begins with \"Not found\"", "binary"},
        Wrong{"Json", "{\"error\": 1}", "text", "binary"},
        Wrong{"Noise", "\xff\xfe\x01\x02\x03\x04\x05\x06", "the model is damaged at byte", "fetch it again"}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace sinter::onnx
