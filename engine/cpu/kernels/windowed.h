// SPDX-License-Identifier: Apache-2.0
// Cuts the output of a window over an [N, spatial..., C] tensor into runs of points that see the same filter taps, so
// that the inner loops know nothing of padding, and into blocks of channels, so that the rows under a window stay in the
// first-level cache from one output row to the next.
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
  WindowRuns(const ops::Window& window, int64_t batch, int64_t channels, size_t tap_stride = 1);

  struct Run : TapRun {
    const size_t* tap_ids;  // index in the filter of each tap, times the stride given
    size_t first_channel;
    size_t first_point;  // in output points from the tensor's start
    size_t counted;      // taps inside the input and its explicit padding: AveragePool's other divisor
  };

  /// One run per visit covers all channels, rather than a block.
  void keep_channels_together() { block_ = channels_; }

  uint64_t scratch_bytes(unsigned threads) const {
    return uint64_t{threads == 1 ? 1 : threads * kChunksPerThread} * slot_bytes();
  }

  /// visit(const Run&) for every run of every output row, in parallel.
  template <class Visit>
  void each(const float* in, float* out, std::span<std::byte> scratch, plan::ThreadPool& pool, Visit&& visit) const {
    const bool serial = pool.threads() == 1 || work() < kMinParallelWork;
    const size_t wanted = serial ? 1 : std::min(pool.threads() * kChunksPerThread, scratch.size() / slot_bytes());
    const size_t blocks = (channels_ + block_ - 1) / block_;
    const size_t parts = std::min(rows_, (wanted + blocks - 1) / blocks);  // of the rows
    const size_t items = blocks * parts, chunks = std::min(items, wanted);
    parallel_for(pool, chunks, [&](size_t chunk) {
      Taps taps = taps_at(scratch.data() + chunk * slot_bytes());
      Run run;
      for (size_t item = items * chunk / chunks; item < items * (chunk + 1) / chunks; ++item) {
        const size_t channel = item / parts * block_, part = item % parts;
        for (size_t row = rows_ * part / parts; row < rows_ * (part + 1) / parts; ++row) {
          const Place place = place_of(row);
          if (!place.sees_the_same(taps.filled)) fill(place, taps);
          for (size_t s = 0; s < spans_.size(); ++s) {
            set(place, row, s, channel, taps, in, out, run);
            visit(run);
          }
        }
      }
    });
  }

 private:
  static constexpr size_t kChunksPerThread = 4;
  static constexpr size_t kMinParallelWork = 1 << 14;

  // Consecutive points along an axis whose windows hold the same taps of it.
  struct Span {
    int64_t first = 0, count = 1, tap_first = 0, tap_last = 0, counted = 0;
    bool same_taps(const Span& other) const {
      return tap_first == other.tap_first && tap_last == other.tap_last && counted == other.counted;
    }
  };
  // An output row: its batch element and what its windows see of depth and height.
  struct Place {
    int64_t n = 0;
    Span deep, tall;
    bool sees_the_same(const Place& other) const { return deep.same_taps(other.deep) && tall.same_taps(other.tall); }
  };
  // Per span of a row, the taps of its windows; valid for all rows that see the same taps.
  struct Taps {
    ptrdiff_t* offsets;
    size_t* ids;
    size_t* counts;
    Place filled;
  };

  static Span span_of(const ops::WindowAxis& axis, int64_t out);
  size_t taps() const { return static_cast<size_t>(window_.taps()); }
  size_t slot_bytes() const {
    const size_t words = spans_.size() * (2 * taps() + 1);
    static_assert(sizeof(ptrdiff_t) == sizeof(size_t));
    return (words * sizeof(size_t) + 63) / 64 * 64;
  }
  size_t work() const { return rows_ * static_cast<size_t>(window_.width().out) * taps() * channels_; }
  Taps taps_at(std::byte* slot) const;
  Place place_of(size_t row) const;
  void fill(const Place& place, Taps& taps) const;
  void set(const Place& place, size_t row, size_t span, size_t channel, const Taps& taps, const float* in, float* out,
           Run& run) const;

  ops::Window window_;
  size_t channels_, tap_stride_, block_, rows_;
  std::vector<Span> spans_;  // of the width
};

}  // namespace sinter::cpu
