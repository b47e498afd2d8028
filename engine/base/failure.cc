// SPDX-License-Identifier: Apache-2.0
#include "engine/base/failure.h"

#include <algorithm>
#include <utility>

namespace sinter {

Failure& failure_of(Error& error) {
  if (!error.failure) error.failure = std::make_shared<Failure>();
  return *error.failure;
}

Error at(Error error, Failure where) {
  Failure& failure = failure_of(error);
  const auto fill = [](auto& known, auto& more) {
    if (known.empty()) known = std::move(more);
  };
  // What belongs to a node is taken together or not at all: the innermost node is the one to blame.
  if (failure.node.empty()) {
    fill(failure.node, where.node);
    fill(failure.op, where.op);
    fill(failure.attributes, where.attributes);
    fill(failure.kernel, where.kernel);
    fill(failure.wgsl, where.wgsl);
    fill(failure.nodes, where.nodes);
    fill(failure.inputs, where.inputs);
    fill(failure.outputs, where.outputs);
  }
  fill(failure.stage, where.stage);
  fill(failure.call, where.call);
  return error;
}

std::string mark_line(std::string_view text, uint64_t line) {
  const auto lines = static_cast<uint64_t>(std::ranges::count(text, '\n')) + 1;
  if (line == 0 || line > lines) return std::string(text);
  std::string marked;
  for (uint64_t number = 1; number <= lines; ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    marked += number == line ? "> " : "  ";
    marked += text.substr(0, end);
    if (number < lines) marked += '\n';
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return marked;
}

}  // namespace sinter
