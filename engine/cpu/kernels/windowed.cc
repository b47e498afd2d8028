// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/kernels/windowed.h"

namespace sinter::cpu {

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

WindowRuns::WindowRuns(const ops::Window& window, int64_t batch, int64_t channels)
    : window_(window),
      channels_(channels),
      rows_(static_cast<size_t>(batch * window.depth().out * window.height().out)) {
  for (int64_t x = 0; x < window.width().out; ++x) {
    const Span span = span_of(window.width(), x);
    if (!spans_.empty() && spans_.back().same(span)) {
      ++spans_.back().count;
    } else {
      spans_.push_back(span);
    }
  }
}

void WindowRuns::fill(size_t row, const Span& span, const float* in, float* out, const Taps& taps, Run& run) const {
  const WindowAxis &depth = window_.depth(), &height = window_.height(), &width = window_.width();
  const int64_t y = static_cast<int64_t>(row) % height.out;
  const int64_t z = static_cast<int64_t>(row) / height.out % depth.out;
  const int64_t n = static_cast<int64_t>(row) / height.out / depth.out;
  const Span tall = span_of(height, y), deep = span_of(depth, z);
  run.taps = 0;
  for (int64_t kd = deep.tap_first; kd < deep.tap_last; ++kd) {
    for (int64_t kh = tall.tap_first; kh < tall.tap_last; ++kh) {
      for (int64_t kw = span.tap_first; kw < span.tap_last; ++kw) {
        taps.offsets[run.taps] =
            ((kd * depth.dilation * height.in + kh * height.dilation) * width.in + kw * width.dilation) * channels_;
        taps.ids[run.taps] = static_cast<size_t>((kd * height.kernel + kh) * width.kernel + kw);
        ++run.taps;
      }
    }
  }
  // The pointer to the first tap may lie before the tensor; the offsets of the taps in use bring it inside. Computed as
  // an integer offset, added to the offsets rather than to the pointer, so that no pointer leaves the tensor.
  const ptrdiff_t base =
      ((depth.at(z, 0) * height.in + height.at(y, 0)) * width.in + width.at(span.first, 0)) * channels_;
  for (size_t t = 0; t < run.taps; ++t) taps.offsets[t] += base;
  run.in = in + n * depth.in * height.in * width.in * channels_;
  run.offsets = taps.offsets;
  run.tap_ids = taps.ids;
  run.points = static_cast<size_t>(span.count);
  run.in_step = width.stride * channels_;
  run.channels = static_cast<size_t>(channels_);
  run.first_point = row * static_cast<size_t>(width.out) + static_cast<size_t>(span.first);
  run.out = out + run.first_point * run.channels;
  run.counted = static_cast<size_t>(deep.counted * tall.counted * span.counted);
}

}  // namespace sinter::cpu
