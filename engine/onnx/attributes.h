// SPDX-License-Identifier: Apache-2.0
// Attributes of a node, checked against ONNX's own schema.
#pragma once

#include <string>
#include <string_view>

#include "engine/base/result.h"
#include "engine/ir/attrs.h"
#include "engine/onnx/model.h"

namespace sinter::onnx {

/// One operator of ai.onnx as ONNX defines it.
struct SchemaRow {
  std::string_view op;
  int first_opset;
  std::string_view attributes;  // "axis:i keepdims:i to:is"
};
/// Null where ai.onnx has no such operator.
const SchemaRow* find_schema(std::string_view op);

/// InvalidModel for an attribute that the operator does not have or has with another type; Unsupported for sub-graphs and
/// other kinds that no operator row takes.
Result<Attrs> import_attributes(const NodeProto& node);

}  // namespace sinter::onnx
