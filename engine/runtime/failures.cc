// SPDX-License-Identifier: Apache-2.0
#include "engine/runtime/failures.h"

#include "engine/base/str.h"

namespace sinter {
namespace {

constexpr size_t kEvents = 16;

std::vector<std::string> last_events(const trace::Log& log) {
  std::vector<std::string> events;
  log.visit([&](const trace::Event& event) {
    std::string text =
        StrCat(static_cast<int64_t>(event.t_ms), " ms ", trace::phase_name(event.phase), " ", event.stage);
    if (!event.node.empty()) text += StrCat(" '", event.node, "'");
    if (!event.detail.empty()) text += StrCat(": ", event.detail);
    events.push_back(std::move(text));
  });
  if (events.size() > kEvents) events.erase(events.begin(), events.end() - kEvents);
  return events;
}

}  // namespace

Error Failures::record(Error error) {
  if (error.code == Code::Cancelled) return error;  // what the caller asked for is no failure
  Failure& failure = failure_of(error);
  if (failure.id) {
    error.echo_of = failure.id;
    return error;
  }
  failure.id = ++count_;
  failure.code = error.code;
  failure.message = error.message;
  failure.chain = error.chain;
  failure.hint = error.hint;
  failure.events = last_events(log_);
  if (!first_) first_ = error.failure;
  log_.point("failure", failure.node, StrCat("#", failure.id, ": ", failure.message));
  return error;
}

}  // namespace sinter
