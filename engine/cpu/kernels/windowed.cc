// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/kernels/windowed.h"

namespace sinter::cpu {
namespace {
constexpr int64_t kRowsBytes = 24 << 10;  // input rows under a window, one block of channels
constexpr int64_t kMinBlock = 32, kMaxBlock = 128;
}  // namespace

using ops::WindowAxis;

WindowRuns::Span WindowRuns::span_of(const WindowAxis& axis, int64_t out) {
  Span span{out, 1, axis.kernel, 0, 0};
  for (int64_t k = 0; k < axis.kernel; ++k) {
    const int64_t at = axis.at(out, k);
    if (at >= 0 && at < axis.in) {
      span.tap_first = std::min(span.tap_first, k);
      span.tap_last = k + 1;
    }
    // A window of ceil_mode may reach past the padding; what lies there never counts.
    if (at < axis.in + axis.pad_end) ++span.counted;
  }
  if (span.tap_first > span.tap_last) span.tap_first = span.tap_last;
  return span;
}

WindowRuns::WindowRuns(const ops::Window& window, int64_t batch, int64_t channels, size_t tap_stride)
    : window_(window),
      channels_(static_cast<size_t>(channels)),
      tap_stride_(tap_stride),
      rows_(static_cast<size_t>(batch * window.depth().out * window.height().out)) {
  const int64_t row_bytes = window.height().kernel * window.width().in * static_cast<int64_t>(sizeof(float));
  block_ = static_cast<size_t>(std::clamp(kRowsBytes / row_bytes / kMinBlock * kMinBlock, kMinBlock, kMaxBlock));
  for (int64_t x = 0; x < window.width().out; ++x) {
    const Span span = span_of(window.width(), x);
    if (!spans_.empty() && spans_.back().same_taps(span)) {
      ++spans_.back().count;
    } else {
      spans_.push_back(span);
    }
  }
}

WindowRuns::Taps WindowRuns::taps_at(std::byte* slot) const {
  size_t* words = reinterpret_cast<size_t*>(slot);
  const size_t count = spans_.size() * taps();
  Taps at{reinterpret_cast<ptrdiff_t*>(words), words + count, words + 2 * count, {}};
  at.filled.tall.counted = -1;  // no row's
  return at;
}

WindowRuns::Place WindowRuns::place_of(size_t row) const {
  const int64_t index = static_cast<int64_t>(row);
  const int64_t height = window_.height().out, depth = window_.depth().out;
  return {index / height / depth, span_of(window_.depth(), index / height % depth),
          span_of(window_.height(), index % height)};
}

void WindowRuns::fill(const Place& place, Taps& taps_of) const {
  const WindowAxis &depth = window_.depth(), &height = window_.height(), &width = window_.width();
  taps_of.filled = place;
  for (size_t s = 0; s < spans_.size(); ++s) {
    const Span& span = spans_[s];
    ptrdiff_t* offsets = taps_of.offsets + s * taps();
    size_t* ids = taps_of.ids + s * taps();
    size_t count = 0;
    for (int64_t kd = place.deep.tap_first; kd < place.deep.tap_last; ++kd) {
      for (int64_t kh = place.tall.tap_first; kh < place.tall.tap_last; ++kh) {
        for (int64_t kw = span.tap_first; kw < span.tap_last; ++kw, ++count) {
          // From the first tap in use: that one lies inside the input, as do all others.
          const int64_t d = (kd - place.deep.tap_first) * depth.dilation;
          const int64_t h = (kh - place.tall.tap_first) * height.dilation;
          const int64_t w = (kw - span.tap_first) * width.dilation;
          offsets[count] = ((d * height.in + h) * width.in + w) * static_cast<int64_t>(channels_);
          ids[count] = static_cast<size_t>((kd * height.kernel + kh) * width.kernel + kw) * tap_stride_;
        }
      }
    }
    taps_of.counts[s] = count;
  }
}

void WindowRuns::set(const Place& place, size_t row, size_t index, size_t channel, const Taps& taps_of, const float* in,
                     float* out, Run& run) const {
  const WindowAxis &depth = window_.depth(), &height = window_.height(), &width = window_.width();
  const Span& span = spans_[index];
  run.offsets = taps_of.offsets + index * taps();
  run.tap_ids = taps_of.ids + index * taps();
  run.taps = taps_of.counts[index];
  run.in = in;
  if (run.taps > 0) {
    const int64_t z = depth.at(place.deep.first, place.deep.tap_first);
    const int64_t y = height.at(place.tall.first, place.tall.tap_first);
    const int64_t x = width.at(span.first, span.tap_first);
    run.in += static_cast<size_t>(((place.n * depth.in + z) * height.in + y) * width.in + x) * channels_ + channel;
  }
  run.points = static_cast<size_t>(span.count);
  run.in_step = width.stride * static_cast<int64_t>(channels_);
  run.first_channel = channel;
  run.channels = std::min(block_, channels_ - channel);
  run.first_point = row * static_cast<size_t>(width.out) + static_cast<size_t>(span.first);
  run.out = out + run.first_point * channels_ + channel;
  run.out_step = channels_;
  run.counted = static_cast<size_t>(place.deep.counted * place.tall.counted * span.counted);
}

}  // namespace sinter::cpu
