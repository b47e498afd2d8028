// SPDX-License-Identifier: Apache-2.0
// Uninitialised<T>: the allocator of a vector whose `resize` leaves new elements as they are. For buffers that are written at
// once: the web build, made for size, would first fill them element by element, which for weights takes longer than the copy.
#pragma once

#include <memory>

namespace sinter {

template <class T>
struct Uninitialised : std::allocator<T> {
  template <class U>
  struct rebind {
    using other = Uninitialised<U>;
  };
  // Of the ways to construct only this one: with another, moving to a larger block would go element by element too.
  template <class U>
  void construct(U* at) noexcept {
    ::new (static_cast<void*>(at)) U;
  }
};

}  // namespace sinter
