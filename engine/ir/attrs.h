// SPDX-License-Identifier: Apache-2.0
// Attributes of a node: a small sorted list of typed values.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "engine/tensor/tensor.h"

namespace sinter {

using AttrValue = std::variant<int64_t, float, std::string, std::vector<int64_t>, std::vector<float>,
                               std::vector<std::string>, Tensor>;

class Attrs {
 public:
  void set(std::string_view name, AttrValue value);
  void erase(std::string_view name);
  bool has(std::string_view name) const { return find(name) != nullptr; }
  const AttrValue* find(std::string_view name) const;

  /// The value where the attribute is there with that type, else the default. Import checks types against the schema.
  int64_t i(std::string_view name, int64_t fallback) const;
  float f(std::string_view name, float fallback) const;
  std::string_view s(std::string_view name, std::string_view fallback) const;
  std::span<const int64_t> ints(std::string_view name) const;
  std::span<const float> floats(std::string_view name) const;
  const Tensor* tensor(std::string_view name) const;

  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }
  size_t size() const { return items_.size(); }

 private:
  std::vector<std::pair<std::string, AttrValue>> items_;
};

}  // namespace sinter
