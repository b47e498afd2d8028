// SPDX-License-Identifier: Apache-2.0
#include "engine/gpu/prepare.h"

#include <algorithm>
#include <utility>

#include "engine/base/failure.h"
#include "engine/base/str.h"
#include "engine/gpu/loss.h"
#include "engine/plan/where.h"

namespace sinter::gpu {
namespace {

uint64_t round_up(uint64_t bytes, uint64_t to) { return (bytes + to - 1) / to * to; }

// Uniform blocks are bound in multiples of 16 bytes, which any layout of the block fits.
uint64_t uniform_bytes(const wgsl::Kernel& kernel) { return round_up(kernel.uniforms.size(), 16); }

std::unexpected<Error> bad_plan(const plan::Plan& plan, size_t step, std::string_view what) {
  return fail(Code::Internal, StrCat(describe_step(plan, step), ": ", what), "run on the CPU backend, and report this");
}

bool overlap(const plan::DeviceOperand& a, const plan::DeviceOperand& b) {
  return a.kind == plan::DeviceOperand::Kind::arena && b.kind == plan::DeviceOperand::Kind::arena &&
         a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

// What the device would refuse later and with less to say.
Result<> check_dispatch(const plan::Plan& plan, size_t index, const wgsl::Target& target) {
  const plan::Step& step = plan.steps[index];
  if (step.operands.size() != step.kernel.bindings.size()) {
    return bad_plan(plan, index, "the operands do not match the kernel's bindings");
  }
  for (size_t i = 0; i < 3; ++i) {
    if (step.kernel.groups[i] > target.max_groups) {
      return bad_plan(plan, index, StrCat(step.kernel.groups[i], " workgroups, the device allows ", target.max_groups));
    }
  }
  for (size_t i = 0; i < step.operands.size(); ++i) {
    const plan::DeviceOperand& operand = step.operands[i];
    const bool arena = operand.kind == plan::DeviceOperand::Kind::arena;
    if (arena && operand.bytes == 0) return bad_plan(plan, index, StrCat("binding ", i, " has no elements"));
    if (operand.bytes > target.max_binding_bytes) {
      return bad_plan(
          plan, index,
          StrCat("binding ", i, " of ", operand.bytes, " bytes, the device allows ", target.max_binding_bytes));
    }
    if (operand.offset % target.storage_alignment != 0) {
      return bad_plan(plan, index, StrCat("binding ", i, " at the unaligned offset ", operand.offset));
    }
    if (arena && operand.offset + operand.bytes > plan.device_arena_bytes) {
      return bad_plan(plan, index, StrCat("binding ", i, " ends outside the arena"));
    }
    if (!arena && (operand.weight >= plan.weights.size() || !plan.weights[operand.weight].on_device)) {
      return bad_plan(plan, index, StrCat("binding ", i, " names no device weight"));
    }
    for (size_t j = 0; j < i; ++j) {
      if (overlap(operand, step.operands[j]))
        return bad_plan(plan, index, StrCat("bindings ", j, " and ", i, " overlap"));
    }
  }
  if (!step.kernel.uniforms.empty() && (step.uniform_offset % target.uniform_alignment != 0 ||
                                        step.uniform_offset + step.kernel.uniforms.size() > plan.uniforms.size())) {
    return bad_plan(plan, index, "the uniform block is misplaced");
  }
  return {};
}

Result<> check_size(std::string_view what, uint64_t bytes, const wgsl::Target& target) {
  if (bytes <= target.max_buffer_bytes) return {};
  return fail(Code::OutOfMemory,
              StrCat(what, " need a buffer of ", bytes, " bytes, the device allows ", target.max_buffer_bytes),
              "use a smaller batch or input, or the CPU backend");
}

// The kernels of the plan, once each, with a label that names kernel and first node.
struct Kernels {
  std::vector<std::string> labels;
  std::vector<PipelineDesc> descs;
  std::vector<uint32_t> of_step;  // per step: index into descs
};

std::shared_ptr<Kernels> distinct_kernels(const plan::Plan& plan) {
  auto kernels = std::make_shared<Kernels>();
  std::map<std::string_view, uint32_t> seen;
  kernels->of_step.resize(plan.steps.size(), kNone);
  kernels->labels.reserve(plan.steps.size());  // the views into it must stay good
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const plan::Step& step = plan.steps[i];
    if (step.kind != plan::Step::Kind::dispatch) continue;
    auto [found, added] = seen.emplace(step.kernel.text, static_cast<uint32_t>(kernels->descs.size()));
    kernels->of_step[i] = found->second;
    if (!added) continue;
    std::string label = step.kernel.name;
    if (step.node < plan.graph->nodes.size()) {
      StrAppend(label, StrCat(" for node '", plan.graph->nodes[step.node].name, "'"));
    }
    kernels->labels.push_back(std::move(label));
    kernels->descs.push_back(
        {kernels->labels.back(), step.kernel.text, step.kernel.bindings, !step.kernel.uniforms.empty()});
  }
  return kernels;
}

// "... (line 12, column 5)": where a compiler message says it is.
uint64_t line_in(std::string_view message) {
  constexpr std::string_view kBefore = "(line ";
  size_t place = message.find(kBefore);
  if (place == message.npos) return 0;
  uint64_t line = 0;
  for (place += kBefore.size(); place < message.size() && message[place] >= '0' && message[place] <= '9'; ++place) {
    line = line * 10 + static_cast<uint64_t>(message[place] - '0');
  }
  return line;
}

// A shader error names its kernel by the label: the step behind it is the first that uses the kernel.
Error compile_error(Error error, const plan::Plan& plan, const Kernels& kernels) {
  for (size_t step = 0; step < kernels.of_step.size(); ++step) {
    const uint32_t kernel = kernels.of_step[step];
    if (kernel == kNone || error.message.find(StrCat("kernel ", kernels.labels[kernel], ":")) == std::string::npos) {
      continue;
    }
    Failure place = plan::where(plan, step);
    place.wgsl = mark_line(place.wgsl, line_in(error.message));
    error = at(std::move(error), std::move(place));
    break;
  }
  return at(std::move(error), {.stage = "compile", .call = "createComputePipelineAsync"});
}

struct Owner {
  std::shared_ptr<const plan::Plan> plan;
  std::shared_ptr<Kernels> kernels;
};

// Compilation runs on its own, because other loads may share it: it goes on even where this load is cancelled.
Completion<std::vector<PipelineId>> start_compiling(Executor& executor, PipelineCache& cache, Owner owner) {
  Completion<std::vector<PipelineId>> done;
  std::vector<PipelineDesc> descs = owner.kernels->descs;
  spawn(executor, cache.get(std::move(descs), std::make_shared<Owner>(std::move(owner))),
        [done](Result<std::vector<PipelineId>> ids) mutable { done.complete(std::move(ids)); });
  return done;
}

uint64_t staging_bytes(const std::vector<Segment>& segments) {
  uint64_t most = 0;
  for (const Segment& segment : segments) most = std::max(most, segment.read_bytes);
  return most;
}

// The buffers of the plan itself, under a scope that the caller awaits.
Result<Task<>> create_buffers(Prepared& prepared) {
  const plan::Plan& plan = *prepared.plan;
  const wgsl::Target& target = prepared.device->target();
  const uint64_t arena = round_up(plan.device_arena_bytes, 4);
  const uint64_t staging = staging_bytes(prepared.segments);
  SINTER_CHECK_OK(check_size("the activations", arena, target));
  SINTER_CHECK_OK(check_size("the outputs", staging, target));
  if (staging) prepared.read_back = SINTER_TRY(allocate(staging, "the outputs read back"));
  prepared.device->push_error_scope();
  if (arena) prepared.arena = Buffer(prepared.device, arena, kStorage | kCopySrc | kCopyDst, "activations");
  if (staging) prepared.staging = Buffer(prepared.device, staging, kMapRead | kCopyDst, "outputs");
  if (!plan.uniforms.empty()) {
    std::vector<std::byte> bytes = plan.uniforms;
    bytes.resize(round_up(bytes.size(), 16));  // the last block is bound in full
    prepared.uniforms = Buffer(prepared.device, bytes.size(), kUniform | kCopyDst, "uniforms");
    prepared.device->write_buffer(prepared.uniforms.id(), 0, bytes);
  }
  return prepared.device->pop_error_scope();
}

// Buffers of the plan and weights of the session.
Task<> fill(std::shared_ptr<Prepared> prepared, std::shared_ptr<DeviceWeights> weights, plan::WeightSource& source,
            CancelToken cancel, trace::Log* trace) {
  trace::Span upload(trace, "upload");
  Task<> buffers = SINTER_CO_TRY(create_buffers(*prepared));
  prepared->weights = SINTER_CO_TRY(co_await weights->upload(*prepared->plan, source, cancel));
  Result<> created = co_await std::move(buffers);
  if (!created) {
    co_return std::unexpected(at(std::move(created).error(), {.call = "createBuffer"})
                                  .with_context(StrCat("allocating ", prepared->device_bytes(),
                                                       " bytes for activations, outputs and uniforms")));
  }
  co_return created;
}

Result<std::vector<BufferRange>> ranges_of(const Prepared& prepared, size_t index) {
  const plan::Step& step = prepared.plan->steps[index];
  std::vector<BufferRange> ranges;
  for (const plan::DeviceOperand& operand : step.operands) {
    if (operand.kind == plan::DeviceOperand::Kind::arena) {
      ranges.push_back({prepared.arena.id(), operand.offset, operand.bytes});
      continue;
    }
    const DeviceWeight& weight = prepared.weights[operand.weight];
    if (!weight.buffer || operand.offset + operand.bytes > weight.bytes) {
      return bad_plan(*prepared.plan, index,
                      StrCat("bytes ", operand.offset, " to ", operand.offset + operand.bytes, " of a weight of ",
                             weight.bytes, " bytes"));
    }
    const uint64_t bytes = operand.bytes ? operand.bytes : weight.bytes - operand.offset;
    if (bytes == 0 || bytes > prepared.device->target().max_binding_bytes) {
      return bad_plan(
          *prepared.plan, index,
          StrCat("a weight of ", bytes, " bytes, one binding may have ", prepared.device->target().max_binding_bytes));
    }
    ranges.push_back({weight.buffer->id(), weight.offset + operand.offset, bytes});
  }
  if (!step.kernel.uniforms.empty()) {
    ranges.push_back({prepared.uniforms.id(), step.uniform_offset, uniform_bytes(step.kernel)});
  }
  return ranges;
}

// Fills in the commands' ids. With `scopes`, each bind group gets a scope of its own, to find the one that failed.
Result<> bind_all(Prepared& prepared, const Kernels& kernels, const std::vector<PipelineId>& pipelines,
                  std::vector<std::pair<uint32_t, Task<>>>* scopes) {
  Device& device = *prepared.device;
  for (Segment& segment : prepared.segments) {
    for (size_t i = 0; i < segment.commands.size(); ++i) {
      Command& command = segment.commands[i];
      if (command.kind == Command::kCopy) {
        command.a = prepared.arena.id();
        command.b = prepared.staging.id();
        continue;
      }
      const uint32_t step = segment.origins[i];
      const std::vector<BufferRange> ranges = SINTER_TRY(ranges_of(prepared, step));
      command.a = pipelines[kernels.of_step[step]];
      if (scopes) device.push_error_scope();
      command.b = device.create_bind_group(command.a, ranges);
      prepared.groups.push_back(command.b);
      if (scopes) scopes->emplace_back(step, device.pop_error_scope());
    }
  }
  return {};
}

Task<> bind(std::shared_ptr<Prepared> prepared, std::shared_ptr<Kernels> kernels, std::vector<PipelineId> pipelines) {
  prepared->device->push_error_scope();
  Result<> bound = bind_all(*prepared, *kernels, pipelines, nullptr);
  Result<> scope = co_await prepared->device->pop_error_scope();
  SINTER_CO_CHECK_OK(std::move(bound));
  if (scope || scope.error().code != Code::Gpu) co_return scope;
  std::vector<std::pair<uint32_t, Task<>>> scopes;
  (void)bind_all(*prepared, *kernels, pipelines, &scopes);
  for (auto& [step, task] : scopes) {
    Result<> result = co_await std::move(task);
    if (!result) {
      Error error = at(std::move(result).error(), plan::where(*prepared->plan, step));
      failure_of(error).call = "createBindGroup";
      co_return std::unexpected(
          std::move(error).with_context(StrCat("binding ", describe_step(*prepared->plan, step))));
    }
  }
  co_return scope;
}

Task<std::shared_ptr<Prepared>> prepare_all(std::shared_ptr<PipelineCache> pipelines,
                                            std::shared_ptr<DeviceWeights> weights,
                                            std::shared_ptr<const plan::Plan> plan, plan::WeightSource& source,
                                            CancelToken cancel, trace::Log* trace) {
  SINTER_CO_CHECK_OK(cancel.check());
  auto prepared = std::make_shared<Prepared>();
  prepared->device = pipelines->device();
  prepared->pipelines = pipelines;
  prepared->plan = plan;
  for (size_t i = 0; i < plan->steps.size(); ++i) {
    const bool dispatch = plan->steps[i].kind == plan::Step::Kind::dispatch;
    if (dispatch) SINTER_CO_CHECK_OK(check_dispatch(*plan, i, prepared->device->target()));
  }
  prepared->segments = SINTER_CO_TRY(cut_segments(*plan));

  std::shared_ptr<Kernels> kernels = distinct_kernels(*plan);
  trace::Span compile(trace, "compile", {}, StrCat(kernels->descs.size(), " kernels"));
  Executor& executor = co_await current_executor();
  Completion<std::vector<PipelineId>> compiled = start_compiling(executor, *pipelines, {plan, kernels});
  cancel.link(compiled);

  Result<> uploaded = co_await fill(prepared, weights, source, cancel, trace);
  // Awaited even where the upload failed: what was started has ended when this returns.
  Result<std::vector<PipelineId>> ids = co_await compiled;
  compile.finish();
  SINTER_CO_CHECK_OK(in_stage("upload", std::move(uploaded)));
  if (!ids) co_return std::unexpected(compile_error(std::move(ids).error(), *plan, *kernels));
  SINTER_CO_CHECK_OK(cancel.check());
  SINTER_CO_CHECK_OK(co_await bind(prepared, kernels, *std::move(ids)));
  SINTER_CO_CHECK_OK(cancel.check());
  co_return prepared;
}

}  // namespace

Prepared::~Prepared() {
  for (BindGroupId group : groups) device->destroy_bind_group(group);
}

Task<std::shared_ptr<Prepared>> prepare(std::shared_ptr<PipelineCache> pipelines,
                                        std::shared_ptr<DeviceWeights> weights, std::shared_ptr<const plan::Plan> plan,
                                        plan::WeightSource& source, CancelToken cancel, trace::Log* trace) {
  const std::shared_ptr<Device> device = pipelines->device();
  auto prepared =
      co_await prepare_all(std::move(pipelines), std::move(weights), std::move(plan), source, cancel, trace);
  if (!prepared) co_return std::unexpected(share_loss(*device, std::move(prepared).error()));
  co_return prepared;
}

}  // namespace sinter::gpu
