// SPDX-License-Identifier: Apache-2.0
// Cutting a plan into segments. A segment is writes, then commands, then one read-back, then host steps; a step that
// would break that order starts the next one.
#include <algorithm>

#include "engine/base/str.h"
#include "engine/gpu/prepare.h"

namespace sinter::gpu {
namespace {

constexpr uint64_t kStagingAlignment = 16;
constexpr uint64_t kNowhere = ~0ull;

uint64_t round_up(uint64_t bytes, uint64_t to) { return (bytes + to - 1) / to * to; }

class Cutter {
 public:
  explicit Cutter(const plan::Plan& plan) : plan_(plan), segments_(1) {}

  Result<std::vector<Segment>> run() {
    write_inputs();
    for (uint32_t i = 0; i < plan_.steps.size(); ++i) {
      const plan::Step& step = plan_.steps[i];
      switch (step.kind) {
        case plan::Step::Kind::host:
          current().host_steps.push_back(i);
          break;
        case plan::Step::Kind::dispatch:
          dispatch(i);
          break;
        case plan::Step::Kind::upload:
          SINTER_CHECK_OK(upload(i));
          break;
        case plan::Step::Kind::download:
          SINTER_CHECK_OK(download(i, step.inputs[0]));
          break;
      }
    }
    return read_outputs();
  }

 private:
  Segment& current() { return segments_.back(); }

  uint64_t bytes_of(ValueId value) const {
    const plan::PlannedValue& planned = plan_.values[value];
    return wgsl::device_bytes(planned.dtype, static_cast<uint64_t>(planned.shape.numel()), plan_.target.gpu);
  }

  Result<uint64_t> place_of(ValueId value) const {
    const uint64_t offset = plan_.values[value].device_offset;
    if (offset == kNowhere) {
      return fail(Code::Internal, StrCat("value '", plan_.graph->values[value].name, "' has no place on the device"));
    }
    return offset;
  }

  bool has_step(plan::Step::Kind kind, ValueId value) const {
    return std::ranges::any_of(plan_.steps,
                               [&](const plan::Step& step) { return step.kind == kind && step.inputs[0] == value; });
  }

  // Graph inputs that the device reads and no step uploads go up at the start.
  void write_inputs() {
    for (ValueId input : plan_.graph->inputs) {
      if (plan_.values[input].device_offset == kNowhere || bytes_of(input) == 0) continue;
      if (has_step(plan::Step::Kind::upload, input)) continue;
      current().writes.push_back({input, plan_.values[input].device_offset, bytes_of(input)});
    }
  }

  void dispatch(uint32_t step) {
    const wgsl::Kernel& kernel = plan_.steps[step].kernel;
    if (kernel.groups[0] == 0 || kernel.groups[1] == 0 || kernel.groups[2] == 0) return;  // nothing to compute
    if (!current().host_steps.empty()) segments_.emplace_back();
    current().commands.push_back(
        {.kind = Command::kDispatch, .x = kernel.groups[0], .y = kernel.groups[1], .z = kernel.groups[2]});
    current().origins.push_back(step);
  }

  Result<> upload(uint32_t step) {
    const ValueId value = plan_.steps[step].inputs[0];
    if (bytes_of(value) == 0) return {};
    const uint64_t offset = SINTER_TRY(place_of(value));
    // The place of a graph input is its own from the first step on, wherever its upload stands.
    if (std::ranges::find(plan_.graph->inputs, value) != plan_.graph->inputs.end()) {
      segments_.front().writes.push_back({value, offset, bytes_of(value)});
      return {};
    }
    // Writes come before all commands of a segment, which may still use that part of the arena.
    if (!current().host_steps.empty() || !current().commands.empty()) segments_.emplace_back();
    current().writes.push_back({value, offset, bytes_of(value)});
    return {};
  }

  Result<> download(uint32_t step, ValueId value) {
    const uint64_t bytes = bytes_of(value);
    if (bytes == 0) {
      current().reads.push_back({value, 0, 0});
      return {};
    }
    const uint64_t from = SINTER_TRY(place_of(value));
    if (!current().host_steps.empty()) segments_.emplace_back();
    const uint64_t to = round_up(current().read_bytes, kStagingAlignment);
    current().commands.push_back({.kind = Command::kCopy, .from = from, .to = to, .bytes = bytes});
    current().origins.push_back(step);
    current().reads.push_back({value, to, bytes});
    current().read_bytes = to + bytes;
    return {};
  }

  // Graph outputs on the device that no step downloads come down at the end.
  Result<std::vector<Segment>> read_outputs() {
    for (size_t i = 0; i < plan_.graph->outputs.size(); ++i) {
      const ValueId output = plan_.graph->outputs[i];
      if (plan_.values[output].device_offset == kNowhere) continue;
      if (has_step(plan::Step::Kind::download, output)) continue;
      if (std::ranges::find(plan_.graph->outputs.begin(), plan_.graph->outputs.begin() + i, output) !=
          plan_.graph->outputs.begin() + i) {
        continue;  // named twice
      }
      SINTER_CHECK_OK(download(kNone, output));
    }
    return std::move(segments_);
  }

  const plan::Plan& plan_;
  std::vector<Segment> segments_;
};

}  // namespace

Result<std::vector<Segment>> cut_segments(const plan::Plan& plan) { return Cutter(plan).run(); }

namespace {

bool is_step(const plan::Plan& plan, size_t index, std::string_view wanted) {
  if (wanted == StrCat(index)) return true;
  const NodeId id = plan.steps[index].node;
  if (id >= plan.graph->nodes.size()) return false;
  const Node& node = plan.graph->nodes[id];
  return node.name == wanted || std::ranges::find(node.origins, wanted) != node.origins.end();
}

}  // namespace

Result<StepCommand> find_command(const Prepared& prepared, std::string_view wanted) {
  const plan::Plan& plan = *prepared.plan;
  size_t first = 0;
  while (first < plan.steps.size() && !is_step(plan, first, wanted)) ++first;
  for (const Segment& segment : prepared.segments) {
    if (first == plan.steps.size()) break;
    for (size_t i = 0; i < segment.commands.size(); ++i) {
      if (segment.origins[i] >= first) return StepCommand{segment.origins[i], segment.commands[i]};
    }
  }
  return fail(Code::InvalidInput, StrCat("the plan has no step '", wanted, "' with work for the device"),
              StrCat("its ", plan.steps.size(), " steps are counted from 0; name one, or a node that runs on WebGPU"));
}

std::string describe_step(const plan::Plan& plan, size_t step) {
  if (step >= plan.steps.size()) return "reading the outputs";
  const plan::Step& s = plan.steps[step];
  if (s.kind == plan::Step::Kind::upload || s.kind == plan::Step::Kind::download) {
    return StrCat(s.kind == plan::Step::Kind::upload ? "upload of '" : "download of '",
                  plan.graph->values[s.inputs[0]].name, "'");
  }
  std::string text;
  if (s.node < plan.graph->nodes.size()) {
    const Node& node = plan.graph->nodes[s.node];
    text = StrCat("node '", node.name, "' (", node.op ? node.op->name : "?", ")");
  }
  if (s.kind == plan::Step::Kind::dispatch) StrAppend(text, StrCat(text.empty() ? "" : ", ", "kernel ", s.kernel.name));
  return text;
}

}  // namespace sinter::gpu
