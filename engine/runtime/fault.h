// SPDX-License-Identifier: Apache-2.0
// Faults injected on purpose, to test the diagnosis.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/ir/graph.h"

namespace sinter {

struct Fault {
  std::string node;  // ONNX name, or the first output's name where the node has none
  std::string kind;  // wrong, nan, error or hang
};

/// Reads "NODE=KIND", split at the last '='.
Result<Fault> parse_fault(std::string_view text);

/// A fault of the device instead: it is lost or out of memory when it comes to a step, or there is no adapter.
struct DeviceFault {
  enum class Kind : uint8_t { lost, oom, no_adapter };
  Kind kind = Kind::lost;
  std::string step;  // the index of a step in the plan, or the name of a node
};

/// Reads "lost@STEP", "oom@STEP" or "no-adapter".
Result<DeviceFault> parse_device_fault(std::string_view text);

/// Puts a barrier behind the node: its first output is materialised there and the fault acts on it. To be done before the
/// passes run. Gives the reason where that can change no output of the model: the fault is inert.
Result<std::string> inject(Graph& graph, const Fault& fault);

/// The node by its ONNX name or its first output's name; kNone where there is none.
NodeId find_node(const Graph& graph, std::string_view name);

bool is_hang(const Node& node);

}  // namespace sinter
