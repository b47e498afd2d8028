// SPDX-License-Identifier: Apache-2.0
#include "engine/runtime/watchdog.h"

#include <algorithm>

#include "engine/base/failure.h"

namespace sinter {

void Watchdog::check() {
  if (watched_.empty()) return;
  const double idle = trace::now_ms() - std::max(last_ms_, log_.last_event_ms());
  if (idle < timeout_ms_) return;
  const Error error = timeout_error(idle);
  for (const auto& entry : watched_) entry->expire(error);
}

// Names the innermost stage still open, and the node of the latest event that has one.
Error Watchdog::timeout_error(double waited_ms) const {
  std::vector<const trace::Event*> open;
  std::string node;
  log_.visit([&](const trace::Event& event) {
    if (event.phase == trace::Phase::begin) open.push_back(&event);
    if (event.phase == trace::Phase::end) {
      std::erase_if(open, [&](const trace::Event* begun) { return begun->id == event.id; });
    }
    node = event.node;
  });
  const std::string stage =
      open.empty() ? std::string("between stages") : StrCat("in stage '", open.back()->stage, "'");
  Error error{Code::Timeout,
              StrCat("no progress for ", static_cast<int64_t>(waited_ms), " ms ", stage,
                     node.empty() ? "" : " at node '", node, node.empty() ? "" : "'"),
              {},
              "raise the time limit if the device is just slow; run doctor to see whether it works at all"};
  Failure place;
  place.node = std::move(node);
  if (!open.empty()) place.stage = open.back()->stage;
  return at(std::move(error), std::move(place));
}

}  // namespace sinter
