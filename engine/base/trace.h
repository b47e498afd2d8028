// SPDX-License-Identifier: Apache-2.0
// Trace events: the only logging mechanism. A ring keeps the last events; a listener sees them live.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace sinter::trace {

enum class Phase : uint8_t { begin, end, point };

std::string_view phase_name(Phase phase);

struct Event {
  uint64_t id = 0;    // a begin and its end share one id
  double t_ms = 0;    // since the log was made
  std::string stage;  // "open adapter", "parse", "pass fuse_epilogue", "compile", "run", ...
  Phase phase = Phase::point;
  std::string node;  // ONNX node name where there is one
  std::string detail;
};

class Listener {
 public:
  virtual void on_event(const Event& event) = 0;

 protected:
  ~Listener() = default;
};

/// Milliseconds from a monotonic clock.
double now_ms();

class Log {
 public:
  static constexpr size_t kRing = 256;

  explicit Log(Listener* listener = nullptr) : listener_(listener), start_ms_(now_ms()) {}
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  uint64_t begin(std::string_view stage, std::string_view node = {}, std::string_view detail = {});
  void end(uint64_t id, std::string_view stage, std::string_view detail = {});
  void point(std::string_view stage, std::string_view node = {}, std::string_view detail = {});

  /// Visits the kept events, oldest first.
  template <class Visitor>
  void visit(Visitor&& visitor) const {
    const size_t kept = count_ < kRing ? count_ : kRing;
    for (size_t i = count_ - kept; i < count_; ++i) visitor(ring_[i % kRing]);
  }

  void set_listener(Listener* listener) { listener_ = listener; }
  /// When the latest event was logged, on the clock of now_ms.
  double last_event_ms() const { return count_ ? start_ms_ + ring_[(count_ - 1) % kRing].t_ms : start_ms_; }

 private:
  void emit(uint64_t id, std::string_view stage, Phase phase, std::string_view node, std::string_view detail);

  Listener* listener_;
  double start_ms_;
  uint64_t next_id_ = 1;
  size_t count_ = 0;
  std::array<Event, kRing> ring_;
};

/// Begin on construction, end on destruction; a null log is allowed and records nothing.
class Span {
 public:
  Span(Log* log, std::string_view stage, std::string_view node = {}, std::string_view detail = {})
      : log_(log), stage_(stage), id_(log ? log->begin(stage, node, detail) : 0) {}
  ~Span() { finish(); }
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

  void finish(std::string_view detail = {}) {
    if (log_) log_->end(id_, stage_, detail);
    log_ = nullptr;
  }

 private:
  Log* log_;
  std::string stage_;
  uint64_t id_;
};

}  // namespace sinter::trace
