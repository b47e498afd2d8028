// SPDX-License-Identifier: Apache-2.0
#include "engine/base/trace.h"

#include <time.h>

namespace sinter::trace {

std::string_view phase_name(Phase phase) {
  switch (phase) {
    case Phase::begin:
      return "begin";
    case Phase::end:
      return "end";
    case Phase::point:
      return "point";
  }
  return "point";
}

double now_ms() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_nsec) * 1e-6;
}

uint64_t Log::begin(std::string_view stage, std::string_view node, std::string_view detail) {
  const uint64_t id = next_id_++;
  emit(id, stage, Phase::begin, node, detail);
  return id;
}

void Log::end(uint64_t id, std::string_view stage, std::string_view detail) { emit(id, stage, Phase::end, {}, detail); }

void Log::point(std::string_view stage, std::string_view node, std::string_view detail) {
  emit(next_id_++, stage, Phase::point, node, detail);
}

void Log::emit(uint64_t id, std::string_view stage, Phase phase, std::string_view node, std::string_view detail) {
  Event& event = ring_[count_++ % kRing];
  event.id = id;
  event.t_ms = now_ms() - start_ms_;
  event.stage.assign(stage);
  event.phase = phase;
  event.node.assign(node);
  event.detail.assign(detail);
  if (listener_) listener_->on_event(event);
}

}  // namespace sinter::trace
