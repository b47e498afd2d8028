// SPDX-License-Identifier: Apache-2.0
// Thread pools behind plan::ThreadPool.
#pragma once

#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>

#include "engine/plan/target.h"

namespace sinter::cpu {

/// Calls in place. The only pool of the single-threaded web build.
class SerialPool final : public plan::ThreadPool {
 public:
  unsigned threads() const override { return 1; }
  void parallel_for(size_t count, void (*body)(void* context, size_t index), void* context) override {
    for (size_t i = 0; i < count; ++i) body(context, i);
  }
};

/// body(index) for index in [0, count) on the pool's threads.
template <class Body>
void parallel_for(plan::ThreadPool& pool, size_t count, Body&& body) {
  using Plain = std::remove_reference_t<Body>;
  if (count == 0) return;
  if (count == 1) {
    body(size_t{0});
    return;
  }
  pool.parallel_for(
      count, [](void* context, size_t index) { (*static_cast<Plain*>(context))(index); },
      const_cast<std::remove_const_t<Plain>*>(std::addressof(body)));
}

/// A pool of `threads` threads, the caller's included; 0 means one per core that this process may use. Native builds only.
/// Threads that the system refuses are done without.
std::unique_ptr<plan::ThreadPool> make_native_pool(unsigned threads);
unsigned usable_cores();

}  // namespace sinter::cpu
