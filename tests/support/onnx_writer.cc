// SPDX-License-Identifier: Apache-2.0
#include "tests/support/onnx_writer.h"

#include <cstring>

namespace sinter::test {

void Message::number(uint64_t value) {
  for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
  bytes_ += static_cast<char>(value);
}

Message& Message::varint(uint32_t field, uint64_t value) {
  number(uint64_t{field} << 3);
  number(value);
  return *this;
}

Message& Message::fixed32(uint32_t field, float value) {
  number(uint64_t{field} << 3 | 5);
  bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  return *this;
}

Message& Message::text(uint32_t field, std::string_view value) {
  number(uint64_t{field} << 3 | 2);
  number(value.size());
  bytes_ += value;
  return *this;
}

Message tensor(std::string_view name, DType dtype, const std::vector<int64_t>& dims, std::string_view raw) {
  Message message;
  for (const int64_t dim : dims) message.varint(1, static_cast<uint64_t>(dim));
  return message.varint(2, static_cast<uint64_t>(dtype)).text(8, name).text(9, raw);
}

Message tensor_f32(std::string_view name, const std::vector<int64_t>& dims, const std::vector<float>& values) {
  return tensor(name, DType::f32, dims, {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)});
}

Message tensor_i64(std::string_view name, const std::vector<int64_t>& dims, const std::vector<int64_t>& values) {
  return tensor(name, DType::i64, dims,
                {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(int64_t)});
}

Message attr_int(std::string_view name, int64_t value) {
  return Message().text(1, name).varint(3, static_cast<uint64_t>(value)).varint(20, 2);
}

Message attr_ints(std::string_view name, const std::vector<int64_t>& values) {
  Message message;
  message.text(1, name);
  for (const int64_t value : values) message.varint(8, static_cast<uint64_t>(value));
  return message.varint(20, 7);
}

Message attr_float(std::string_view name, float value) {
  return Message().text(1, name).fixed32(2, value).varint(20, 1);
}

Message attr_floats(std::string_view name, const std::vector<float>& values) {
  Message message;
  message.text(1, name);
  for (const float value : values) message.fixed32(7, value);
  return message.varint(20, 6);
}

Message attr_text(std::string_view name, std::string_view value) {
  return Message().text(1, name).text(4, value).varint(20, 3);
}

Message attr_tensor(std::string_view name, const Message& value) {
  return Message().text(1, name).message(5, value).varint(20, 4);
}

Message attr_graph(std::string_view name, const Message& value) {
  return Message().text(1, name).message(6, value).varint(20, 5);
}

Message node(std::string_view op, const std::vector<std::string>& inputs, const std::vector<std::string>& outputs,
             const std::vector<Message>& attributes, std::string_view name, std::string_view domain) {
  Message message;
  for (const std::string& input : inputs) message.text(1, input);
  for (const std::string& output : outputs) message.text(2, output);
  if (!name.empty()) message.text(3, name);
  message.text(4, op);
  for (const Message& attribute : attributes) message.message(5, attribute);
  if (!domain.empty()) message.text(7, domain);
  return message;
}

Message value_info(std::string_view name, DType dtype, const std::vector<Dim>& dims) {
  Message shape;
  for (const Dim& dim : dims) {
    Message one;
    if (const auto* value = std::get_if<int64_t>(&dim)) {
      one.varint(1, static_cast<uint64_t>(*value));
    } else if (const auto& symbol = std::get<std::string>(dim); !symbol.empty()) {
      one.text(2, symbol);
    }
    shape.message(1, one);
  }
  Message type;
  type.varint(1, static_cast<uint64_t>(dtype)).message(2, shape);
  return Message().text(1, name).message(2, Message().message(1, type));
}

Message ModelWriter::graph() const {
  Message graph;
  for (const Message& item : nodes) graph.message(1, item);
  graph.text(2, "g");
  for (const Message& item : initializers) graph.message(5, item);
  for (const Message& item : inputs) graph.message(11, item);
  for (const Message& item : outputs) graph.message(12, item);
  return graph.raw(extra_graph_fields.bytes());
}

std::string ModelWriter::bytes() const {
  Message model;
  model.varint(1, static_cast<uint64_t>(ir_version)).text(2, "test").message(7, graph());
  for (const auto& [domain, version] : opsets) {
    model.message(8, Message().text(1, domain).varint(2, static_cast<uint64_t>(version)));
  }
  return model.raw(extra_model_fields.bytes()).bytes();
}

}  // namespace sinter::test
