// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include "engine/ops/op_def.h"

namespace sinter {

#define OP(domain, name, symbol) extern const OpDef symbol;
#include "engine/ops/ops.inc"
#undef OP

namespace {
const OpDef* const kOps[] = {
#define OP(domain, name, symbol) &symbol,
#include "engine/ops/ops.inc"
#undef OP
    nullptr,  // the table stays well-formed when the list is empty
};
}  // namespace

std::span<const OpDef* const> all_ops() { return {kOps, std::size(kOps) - 1}; }

const OpDef* find_op(std::string_view domain, std::string_view name) {
  if (domain == "ai.onnx") domain = "";
  for (const OpDef* op : all_ops()) {
    if (op->name == name && op->domain == domain) return op;
  }
  return nullptr;
}

}  // namespace sinter
