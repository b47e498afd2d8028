// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <vector>

#include "engine/cpu/pool.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace sinter::cpu {
namespace {

void relax() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

// One job at a time. `claim_` packs the job's generation, its count and the next index into one word: a worker that wakes
// late cannot claim an index of a job other than the one it read, so the job's fields are stable for who holds a claim.
class NativePool final : public plan::ThreadPool {
 public:
  explicit NativePool(unsigned threads) {
    workers_.reserve(threads);
    for (unsigned i = 1; i < threads; ++i) {
      pthread_t id;
      // pthread and not std::thread: a refusal comes back as a value.
      if (pthread_create(&id, nullptr, &NativePool::enter, this) != 0) break;
      workers_.push_back(id);
    }
  }

  ~NativePool() override {
    {
      std::lock_guard lock(mutex_);
      stop_.store(true);
    }
    wake_.notify_all();
    for (pthread_t id : workers_) pthread_join(id, nullptr);
  }

  unsigned threads() const override { return static_cast<unsigned>(workers_.size()) + 1; }

  void parallel_for(size_t count, void (*body)(void*, size_t), void* context) override {
    // Another run holds the workers, or this is a nested call: the caller does the work itself rather than wait.
    const bool alone = count < 2 || workers_.empty() || busy_.exchange(true, std::memory_order_acquire);
    if (alone) {
      for (size_t i = 0; i < count; ++i) body(context, i);
      return;
    }
    for (size_t first = 0; first < count; first += kMaxCount) {
      run_part(first, count - first < kMaxCount ? count - first : kMaxCount, body, context);
    }
    busy_.store(false, std::memory_order_release);
  }

 private:
  static constexpr unsigned kIndexBits = 20;
  static constexpr size_t kMaxCount = (size_t{1} << kIndexBits) - 1;
  static constexpr uint64_t kIndexMask = kMaxCount;
  static constexpr int kSpins = 2000;  // some tens of microseconds, the gap between two steps of a run

  static uint64_t generation(uint64_t claim) { return claim >> (2 * kIndexBits); }

  void run_part(size_t first, size_t count, void (*body)(void*, size_t), void* context) {
    first_ = first;
    body_ = body;
    context_ = context;
    left_.store(count, std::memory_order_relaxed);
    const uint64_t next = generation(claim_.load(std::memory_order_relaxed)) + 1;
    claim_.store((next << (2 * kIndexBits)) | (uint64_t{count} << kIndexBits));
    if (sleepers_.load() > 0) {
      std::lock_guard lock(mutex_);
      wake_.notify_all();
    }
    work();
    for (int spins = 0; left_.load(std::memory_order_acquire) != 0; ++spins) {
      if (spins < kSpins) {
        relax();
      } else {
        sched_yield();
      }
    }
  }

  /// Claims and runs indices of the current job until none is left.
  void work() {
    uint64_t claim = claim_.load(std::memory_order_acquire);
    while ((claim & kIndexMask) < ((claim >> kIndexBits) & kIndexMask)) {
      if (!claim_.compare_exchange_weak(claim, claim + 1, std::memory_order_acq_rel, std::memory_order_acquire))
        continue;
      body_(context_, first_ + (claim & kIndexMask));
      left_.fetch_sub(1, std::memory_order_acq_rel);
      claim = claim_.load(std::memory_order_acquire);
    }
  }

  static void* enter(void* self) {
    static_cast<NativePool*>(self)->loop();
    return nullptr;
  }

  void loop() {
    uint64_t seen = 0;
    while (true) {
      for (int spins = 0; spins < kSpins && generation(claim_.load()) == seen && !stop_.load(); ++spins) relax();
      if (generation(claim_.load()) == seen) {
        std::unique_lock lock(mutex_);
        sleepers_.fetch_add(1);
        wake_.wait(lock, [&] { return stop_.load() || generation(claim_.load()) != seen; });
        sleepers_.fetch_sub(1);
      }
      if (stop_.load()) return;
      seen = generation(claim_.load());
      work();
    }
  }

  std::vector<pthread_t> workers_;
  std::atomic<bool> busy_{false};
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::condition_variable wake_;
  std::atomic<int> sleepers_{0};
  // The job; written before `claim_` publishes it.
  size_t first_ = 0;
  void (*body_)(void*, size_t) = nullptr;
  void* context_ = nullptr;
  alignas(64) std::atomic<uint64_t> claim_{0};
  alignas(64) std::atomic<size_t> left_{0};
};

}  // namespace

unsigned usable_cores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) {
    const int count = CPU_COUNT(&set);
    if (count > 0) return static_cast<unsigned>(count);
  }
  return 1;
}

std::unique_ptr<plan::ThreadPool> make_native_pool(unsigned threads) {
  if (threads == 0) threads = usable_cores();
  if (threads == 1) return std::make_unique<SerialPool>();
  return std::make_unique<NativePool>(threads);
}

}  // namespace sinter::cpu
