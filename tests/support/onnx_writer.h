// SPDX-License-Identifier: Apache-2.0
// Writes small ONNX files for tests, field by field: also damaged and unusual ones, which no exporter would write.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "engine/tensor/tensor.h"

namespace sinter::test {

/// A protobuf message under construction.
class Message {
 public:
  Message& varint(uint32_t field, uint64_t value);
  Message& fixed32(uint32_t field, float value);
  Message& text(uint32_t field, std::string_view value);
  Message& message(uint32_t field, const Message& value) { return text(field, value.bytes()); }
  Message& raw(std::string_view bytes) {
    bytes_ += bytes;
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  void number(uint64_t value);
  std::string bytes_;
};

using Dim = std::variant<int64_t, std::string>;

Message tensor(std::string_view name, DType dtype, const std::vector<int64_t>& dims, std::string_view raw);
Message tensor_f32(std::string_view name, const std::vector<int64_t>& dims, const std::vector<float>& values);
Message tensor_i64(std::string_view name, const std::vector<int64_t>& dims, const std::vector<int64_t>& values);

Message attr_int(std::string_view name, int64_t value);
Message attr_ints(std::string_view name, const std::vector<int64_t>& values);
Message attr_float(std::string_view name, float value);
Message attr_floats(std::string_view name, const std::vector<float>& values);
Message attr_text(std::string_view name, std::string_view value);
Message attr_tensor(std::string_view name, const Message& value);
Message attr_graph(std::string_view name, const Message& value);

Message node(std::string_view op, const std::vector<std::string>& inputs, const std::vector<std::string>& outputs,
             const std::vector<Message>& attributes = {}, std::string_view name = "", std::string_view domain = "");
Message value_info(std::string_view name, DType dtype, const std::vector<Dim>& dims);

/// What most tests change of a model; `bytes` writes it.
struct ModelWriter {
  int64_t ir_version = 8;
  std::vector<std::pair<std::string, int64_t>> opsets = {{"", 17}};
  std::vector<Message> nodes, initializers, inputs, outputs;
  Message extra_graph_fields, extra_model_fields;

  Message graph() const;
  std::string bytes() const;
};

/// Bytes with an owner, as the reader wants them.
struct Blob {
  std::shared_ptr<const std::string> text;
  explicit Blob(std::string content) : text(std::make_shared<const std::string>(std::move(content))) {}
  std::span<const std::byte> bytes() const { return std::as_bytes(std::span(text->data(), text->size())); }
};

}  // namespace sinter::test
