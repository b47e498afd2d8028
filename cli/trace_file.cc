// SPDX-License-Identifier: Apache-2.0
#include "cli/trace_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "engine/base/str.h"

namespace sinter::cli {
namespace {

Json row_of(const char* phase, std::string_view name, double t_ms) {
  return {{"name", name}, {"cat", "sinter"}, {"ph", phase}, {"ts", t_ms * 1e3}, {"pid", 1}, {"tid", 1}};
}

Json name_row(const char* what, const char* name) {
  return {{"name", what}, {"ph", "M"}, {"pid", 1}, {"tid", 1}, {"args", {{"name", name}}}};
}

}  // namespace

TraceFile::~TraceFile() {
  if (!file_.is_open()) return;
  while (!open_.empty()) {
    Json row = row_of("E", open_.back().stage, last_ms_);
    row["args"] = {{"detail", open_.back().detail}, {"unfinished", !open_.back().ended}};
    write(row);
    open_.pop_back();
  }
  file_ << "\n]\n";
}

Result<> TraceFile::open(const std::string& path) {
  if (path.empty()) return {};
  file_.open(path, std::ios::binary);
  if (!file_)
    return fail(Code::Io, StrCat("cannot write the trace '", path, "': ", std::strerror(errno)), "check the path");
  file_ << "[";
  write(name_row("process_name", "sinter"));
  write(name_row("thread_name", "engine"));
  return {};
}

void TraceFile::write(const Json& row) {
  file_ << (first_ ? "\n" : ",\n") << row.dump(-1, ' ', false, Json::error_handler_t::replace);
  file_.flush();
  first_ = false;
}

// "E" ends the innermost stage, so one that ends before a stage inside it waits for that.
void TraceFile::write_ends(double t_ms) {
  while (!open_.empty() && open_.back().ended) {
    Json row = row_of("E", open_.back().stage, t_ms);
    row["args"] = {{"detail", open_.back().detail}};
    write(row);
    open_.pop_back();
  }
}

void TraceFile::on_event(const trace::Event& event) {
  if (!file_.is_open()) return;
  last_ms_ = event.t_ms;
  if (event.phase == trace::Phase::end) {
    const auto at = std::ranges::find(open_, event.id, &Open::id);
    if (at == open_.end()) return;
    at->ended = true;
    at->detail = event.detail;
    return write_ends(event.t_ms);
  }
  const bool begins = event.phase == trace::Phase::begin;
  Json row = row_of(begins ? "B" : "i", event.stage, event.t_ms);
  if (!begins) row["s"] = "t";
  row["args"] = {{"node", event.node}, {"detail", event.detail}};
  write(row);
  if (begins) open_.push_back({event.id, event.stage, {}, false});
}

}  // namespace sinter::cli
