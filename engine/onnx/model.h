// SPDX-License-Identifier: Apache-2.0
// Model: the part of an ONNX file that the engine reads, as it stands in the file. Names and weights are views into the
// file's bytes, which `owner` keeps alive.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/tensor/tensor.h"

namespace sinter::onnx {

/// Where a tensor's bytes lie outside the model file.
struct ExternalRef {
  std::string_view location;
  uint64_t offset = 0;
  uint64_t length = 0;
  bool has_length = false;
};

struct TensorProto {
  std::string_view name;
  int64_t data_type = 0;  // ONNX's number; may be one that DType has no name for
  std::vector<int64_t> dims;
  Tensor tensor;  // set unless `external` or `refusal`
  bool is_external = false;
  ExternalRef external;
  std::string refusal;  // a valid tensor that this engine cannot hold: why
  uint64_t bytes = 0;   // of its data, wherever that is; 0 where unknown
};

enum class AttrKind : uint8_t {
  undefined = 0,
  real = 1,
  integer = 2,
  text = 3,
  tensor = 4,
  graph = 5,
  reals = 6,
  integers = 7,
  texts = 8,
  tensors = 9,
  graphs = 10,
  sparse_tensor = 11,
  sparse_tensors = 12,
  type = 13,
  types = 14,
};
std::string_view name_of(AttrKind kind);

struct AttributeProto {
  std::string_view name;
  AttrKind kind = AttrKind::undefined;
  float f = 0;
  int64_t i = 0;
  std::string_view s;
  std::vector<float> floats;
  std::vector<int64_t> ints;
  std::vector<std::string_view> strings;
  std::unique_ptr<TensorProto> tensor;
  std::string_view function_attribute;  // a reference to an attribute of the enclosing function
};

struct NodeProto {
  std::string_view name, op, domain;
  std::vector<std::string_view> inputs, outputs;  // "" where absent
  std::vector<AttributeProto> attributes;
};

struct DimProto {
  bool known = false;
  int64_t value = 0;
  std::string_view symbol;  // dim_param; empty where there is none
};

struct ValueInfoProto {
  std::string_view name;
  std::string_view kind;     // "tensor", "sequence", "map", "optional", "sparse tensor", "opaque", or "" without a type
  int64_t element_type = 0;  // of tensors
  bool has_shape = false;
  std::vector<DimProto> dims;
};

struct GraphProto {
  std::string_view name;
  std::vector<NodeProto> nodes;
  std::vector<TensorProto> initializers;
  std::vector<std::string_view> sparse_initializers;  // names
  std::vector<ValueInfoProto> inputs, outputs;
};

struct Opset {
  std::string_view domain;  // "" for ai.onnx
  int64_t version = 0;
};

struct FunctionName {
  std::string_view domain, name;
};

struct Model {
  int64_t ir_version = 0;
  std::string_view producer, producer_version, domain;
  int64_t model_version = 0;
  std::vector<Opset> opsets;
  GraphProto graph;
  std::vector<std::pair<std::string_view, std::string_view>> metadata;
  std::vector<FunctionName> functions;  // model-local functions; their bodies are not read
  uint64_t file_bytes = 0;
  std::shared_ptr<const void> owner;

  /// The imported version of an operator set, 0 where the model does not import it.
  int64_t opset(std::string_view domain) const;
};

/// ONNX's name of an element type, also of those that DType lacks: "float8e4m3fn", "complex64", "type 99".
std::string type_name(int64_t data_type);
/// DType of an ONNX element type; undefined where the engine has none.
DType dtype_of(int64_t data_type);

}  // namespace sinter::onnx
