// SPDX-License-Identifier: Apache-2.0
// Cuts the output of a window over an [N, spatial..., C] tensor into runs of points that see the same filter taps, so
// that the inner loops know nothing of padding.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "engine/cpu/kernels/spatial.h"
#include "engine/cpu/pool.h"
#include "engine/ops/window.h"

namespace sinter::cpu {

class WindowRuns {
 public:
  WindowRuns(const ops::Window& window, int64_t batch, int64_t channels);

  /// One call's place for taps.
  struct Taps {
    ptrdiff_t* offsets;
    size_t* ids;  // index of the tap in the filter
  };
  struct Run : TapRun {
    const size_t* tap_ids;
    size_t first_point;  // of the run, in output points from the tensor's start
    size_t counted;      // taps inside the input and its explicit padding: AveragePool's other divisor
  };

  size_t rows() const { return rows_; }
  size_t work() const { return rows_ * static_cast<size_t>(window_.width().out * window_.taps() * channels_); }
  static uint64_t scratch_bytes(const ops::Window& window, unsigned threads) {
    return uint64_t{threads == 1 ? 1 : threads * kChunksPerThread} * taps_bytes(window);
  }

  /// visit(const Run&) for every run of every output row, in parallel.
  template <class Visit>
  void each(const float* in, float* out, std::span<std::byte> scratch, plan::ThreadPool& pool, Visit&& visit) const {
    const size_t slots = std::max<size_t>(1, scratch.size() / taps_bytes(window_));
    const size_t wanted = pool.threads() == 1 || work() < kMinParallelWork ? 1 : pool.threads() * kChunksPerThread;
    const size_t chunks = std::min({slots, wanted, rows_});
    parallel_for(pool, chunks, [&](size_t chunk) {
      std::byte* slot = scratch.data() + chunk * taps_bytes(window_);
      const Taps taps{reinterpret_cast<ptrdiff_t*>(slot),
                      reinterpret_cast<size_t*>(slot + static_cast<size_t>(window_.taps()) * sizeof(ptrdiff_t))};
      Run run;
      for (size_t row = rows_ * chunk / chunks; row < rows_ * (chunk + 1) / chunks; ++row) {
        for (const Span& span : spans_) {
          fill(row, span, in, out, taps, run);
          visit(run);
        }
      }
    });
  }

 private:
  static constexpr size_t kChunksPerThread = 4;
  static constexpr size_t kMinParallelWork = 1 << 14;
  static size_t taps_bytes(const ops::Window& window) {
    return (static_cast<size_t>(window.taps()) * (sizeof(ptrdiff_t) + sizeof(size_t)) + 63) / 64 * 64;
  }

  // Consecutive points of a row whose windows hold the same taps of the width.
  struct Span {
    int64_t first, count, tap_first, tap_last, counted;
    bool same(const Span& other) const {
      return tap_first == other.tap_first && tap_last == other.tap_last && counted == other.counted;
    }
  };
  static Span span_of(const ops::WindowAxis& axis, int64_t out);
  void fill(size_t row, const Span& span, const float* in, float* out, const Taps& taps, Run& run) const;

  ops::Window window_;
  int64_t channels_;
  size_t rows_;
  std::vector<Span> spans_;
};

}  // namespace sinter::cpu
