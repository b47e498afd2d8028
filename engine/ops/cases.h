// SPDX-License-Identifier: Apache-2.0
// Small tools for writing self-tests.
#pragma once

#include <initializer_list>
#include <string_view>
#include <utility>

#include "engine/ir/attrs.h"
#include "engine/tensor/shape.h"

namespace sinter::ops {

inline Attrs attrs_of(std::initializer_list<std::pair<std::string_view, AttrValue>> items) {
  Attrs attrs;
  for (const auto& [name, value] : items) attrs.set(name, value);
  return attrs;
}

/// [N, C, spatial...] as [N, spatial..., C].
inline Shape channels_last(const Shape& shape) {
  Shape out = shape;
  out.erase(1);
  out.push_back(shape[1]);
  return out;
}

}  // namespace sinter::ops
