// SPDX-License-Identifier: Apache-2.0
// Bytes of an ONNX file to Model. Never trusts a size, count or depth in the file.
#pragma once

#include <memory>
#include <span>

#include "engine/base/result.h"
#include "engine/onnx/model.h"
#include "engine/onnx/wire.h"

namespace sinter::onnx {

/// Reads a model. Weights stored as raw bytes become views (no copy); `owner` keeps `bytes` alive and is shared by them.
Result<Model> parse(std::span<const std::byte> bytes, std::shared_ptr<const void> owner);

/// Reads a file that holds one serialised TensorProto, such as the input_0.pb of a test data set.
Result<TensorProto> parse_tensor_file(std::span<const std::byte> bytes, std::shared_ptr<const void> owner);

/// An error that says what the bytes are, where they are recognisably not an ONNX model: a Git LFS pointer, a web page, an
/// archive, another format, text, nothing at all.
Result<> check_is_model(std::span<const std::byte> bytes);

/// What a file's structure (nodes, names, attributes; not weights) may take once decoded. A file says "one million nodes" in
/// two megabytes; this is what stops it.
constexpr uint64_t kStructureLimit = 256ull << 20;

/// Counts decoded structure against the limit.
class StructureBudget {
 public:
  Result<> take(uint64_t bytes, const Wire& where) {
    used_ += bytes;
    if (used_ <= kStructureLimit) return {};
    return where.damaged("the nodes, names and attributes of this model take more than 256 MiB");
  }

 private:
  uint64_t used_ = 0;
};

/// The message behind a TensorProto field.
Result<> parse_tensor(Wire wire, StructureBudget& budget, const std::shared_ptr<const void>& owner, TensorProto& out);

}  // namespace sinter::onnx
