// SPDX-License-Identifier: Apache-2.0
// Weights: tensors by name, from a .weights file of `sinter compile` or from an ONNX file.
#pragma once

#include <memory>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "include/sinter/lock.hpp"
#include "include/sinter/tensor.hpp"

namespace sinter::onnx {
class ExternalData;
}

namespace sinter::api {

class Weights {
 public:
  Weights() = default;
  /// Opens a file (native builds only). What it is shows in its first bytes.
  static Result<Weights> open(const std::string& path);
  static Result<Weights> from(std::span<const std::byte> bytes, std::shared_ptr<const void> owner);

  /// A constant of that name. A missing one fails at the read, with what the file has.
  Tensor at(std::string_view name, Source at = Source::current()) const;
  Result<HostTensor> get(std::string_view name) const;
  std::vector<std::string> names() const;
  /// Refuses weights that do not belong to this code (lock.hpp).
  Result<> check(const lock::Lock& code) const;

 private:
  static Result<Weights> read(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                              onnx::ExternalData* external);

  struct State;
  std::shared_ptr<const State> state_;
};

/// headers(), and the types that generated code uses beside those.
consteval lock::Headers code_headers() {
  lock::Headers all = headers();
  all.layout = lock::layout_of<Dim, Dims, Tensor, Attributes, Output, Function, Weights, Task<Function>>(all.layout);
  return all;
}

}  // namespace sinter::api
