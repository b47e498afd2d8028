// SPDX-License-Identifier: Apache-2.0
#include "engine/ir/attrs.h"

#include <algorithm>

namespace sinter {
namespace {
template <class T>
const T* get(const Attrs& attrs, std::string_view name) {
  const AttrValue* value = attrs.find(name);
  return value ? std::get_if<T>(value) : nullptr;
}
}  // namespace

void Attrs::set(std::string_view name, AttrValue value) {
  auto at = std::lower_bound(items_.begin(), items_.end(), name,
                             [](const auto& item, std::string_view key) { return item.first < key; });
  if (at != items_.end() && at->first == name) {
    at->second = std::move(value);
  } else {
    items_.insert(at, {std::string(name), std::move(value)});
  }
}

void Attrs::erase(std::string_view name) {
  std::erase_if(items_, [&](const auto& item) { return item.first == name; });
}

const AttrValue* Attrs::find(std::string_view name) const {
  for (const auto& [key, value] : items_) {
    if (key == name) return &value;
  }
  return nullptr;
}

int64_t Attrs::i(std::string_view name, int64_t fallback) const {
  const auto* value = get<int64_t>(*this, name);
  return value ? *value : fallback;
}

float Attrs::f(std::string_view name, float fallback) const {
  const auto* value = get<float>(*this, name);
  return value ? *value : fallback;
}

std::string_view Attrs::s(std::string_view name, std::string_view fallback) const {
  const auto* value = get<std::string>(*this, name);
  return value ? std::string_view(*value) : fallback;
}

std::span<const int64_t> Attrs::ints(std::string_view name) const {
  const auto* value = get<std::vector<int64_t>>(*this, name);
  return value ? std::span<const int64_t>(*value) : std::span<const int64_t>();
}

std::span<const float> Attrs::floats(std::string_view name) const {
  const auto* value = get<std::vector<float>>(*this, name);
  return value ? std::span<const float>(*value) : std::span<const float>();
}

const Tensor* Attrs::tensor(std::string_view name) const { return get<Tensor>(*this, name); }

}  // namespace sinter
