// SPDX-License-Identifier: Apache-2.0
#include "engine/gpu/exec.h"

#include <cstring>
#include <utility>

#include "engine/base/failure.h"
#include "engine/base/str.h"
#include "engine/gpu/loss.h"
#include "engine/plan/where.h"

namespace sinter::gpu {
namespace {

// What the device uses during a run. The run and its pending device work share it, so that it lives as long as either.
struct InFlight {
  std::shared_ptr<Prepared> prepared;
  Lane::Hold hold;
  std::vector<Tensor> values;  // by ValueId
};

Result<> check_inputs(const plan::Plan& plan, const std::vector<Tensor>& inputs) {
  const Graph& graph = *plan.graph;
  if (inputs.size() != graph.inputs.size()) {
    return fail(Code::InvalidInput, StrCat(inputs.size(), " inputs given, the model has ", graph.inputs.size()));
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const plan::PlannedValue& planned = plan.values[graph.inputs[i]];
    if (inputs[i].dtype() == planned.dtype && inputs[i].shape() == planned.shape) continue;
    return fail(Code::InvalidInput, StrCat("input '", graph.values[graph.inputs[i]].name, "' is ",
                                           name_of(inputs[i].dtype()), to_string(inputs[i].shape()),
                                           ", the plan is for ", name_of(planned.dtype), to_string(planned.shape)));
  }
  return {};
}

// The host values of a segment's writes in device form. `owned` keeps the converted bytes until the call has taken them.
struct Writes {
  std::vector<Write> list;
  std::vector<Tensor> owned;
  std::vector<std::vector<std::byte>> padded;
};

Result<Writes> convert_writes(const InFlight& flight, const Segment& segment) {
  const Prepared& prepared = *flight.prepared;
  Writes writes;
  for (const Segment::Transfer& transfer : segment.writes) {
    const Tensor& value = flight.values[transfer.value];
    if (!value) {
      return fail(Code::Internal, StrCat("value '", prepared.plan->graph->values[transfer.value].name,
                                         "' is uploaded before it is made"));
    }
    Tensor converted = SINTER_TRY(wgsl::to_device(value, prepared.plan->target.gpu));
    std::span<const std::byte> bytes = converted.bytes();
    if (bytes.size() != transfer.bytes) {  // an odd number of 16-bit elements
      std::vector<std::byte> padded(bytes.begin(), bytes.end());
      padded.resize(transfer.bytes);
      bytes = writes.padded.emplace_back(std::move(padded));
    }
    writes.list.push_back({prepared.arena.id(), transfer.offset, bytes});
    writes.owned.push_back(std::move(converted));
  }
  return writes;
}

Result<> convert_reads(InFlight& flight, const Segment& segment) {
  const plan::Plan& plan = *flight.prepared->plan;
  for (const Segment::Transfer& transfer : segment.reads) {
    const plan::PlannedValue& planned = plan.values[transfer.value];
    const std::string_view name = plan.graph->values[transfer.value].name;
    Tensor out = SINTER_TRY(Tensor::alloc(planned.dtype, planned.shape, name));
    const std::span<const std::byte> bytes(flight.prepared->read_back.get() + transfer.offset, transfer.bytes);
    if (transfer.bytes) SINTER_CHECK_OK(wgsl::from_device(bytes, out, plan.target.gpu));
    flight.values[transfer.value] = std::move(out);
  }
  return {};
}

// Starts the device's part of a segment. Its end arrives at the completion, which a cancellation may reach first: the
// pending work then keeps `flight`, and with it buffers and lane, until the device is done.
Result<Completion<>> start_segment(Executor& executor, std::shared_ptr<InFlight> flight, const Segment& segment) {
  const Writes writes = SINTER_TRY(convert_writes(*flight, segment));
  const Prepared& prepared = *flight->prepared;
  Batch batch{writes.list, segment.commands};
  if (segment.read_bytes) {
    batch.read = prepared.staging.id();
    batch.out = {prepared.read_back.get(), static_cast<size_t>(segment.read_bytes)};
  }
  Completion<> done;
  spawn(executor, prepared.device->execute(batch),
        [flight, done](Result<> result) mutable { done.complete(std::move(result)); });
  return done;
}

// A submit failed as a whole: submits command by command to find the one that is to blame. Gives its step, kNone where
// each passes alone.
Task<uint32_t> find_culprit(std::shared_ptr<InFlight> flight, const Segment& segment) {
  Device& device = *flight->prepared->device;
  for (size_t i = 0; i < segment.commands.size(); ++i) {
    Result<> result = co_await device.execute({.commands = std::span(segment.commands).subspan(i, 1)});
    if (!result) co_return segment.origins[i];
  }
  co_return kNone;
}

// What ran when the device failed as a whole.
std::string describe_segment(const plan::Plan& plan, const Segment& segment) {
  if (segment.origins.empty()) return "writing to the device";
  return StrCat("running ", segment.commands.size(), " commands on the device, from ",
                describe_step(plan, segment.origins.front()), " to ", describe_step(plan, segment.origins.back()));
}

Task<Error> blame(std::shared_ptr<InFlight> flight, const Segment& segment, Error error) {
  const plan::Plan& plan = *flight->prepared->plan;
  // A failure that has been told of already keeps its place.
  if (error.failure && !error.failure->node.empty()) co_return error;
  if (error.code == Code::Gpu) {
    Result<uint32_t> step = co_await find_culprit(flight, segment);
    if (step && *step != kNone) {
      error = at(std::move(error), plan::where(plan, *step));
      co_return std::move(error).with_context(describe_step(plan, *step));
    }
  }
  if (error.code == Code::Cancelled) co_return error;
  co_return std::move(error).with_context(describe_segment(plan, segment));
}

// The device's part of a segment in three: what goes up, the commands in the hands of `timer`, what comes down.
Task<> run_timed(std::shared_ptr<InFlight> flight, const Segment& segment, StepTimer& timer) {
  const Prepared& prepared = *flight->prepared;
  const Writes writes = SINTER_CO_TRY(convert_writes(*flight, segment));
  SINTER_CO_CHECK_OK(co_await prepared.device->execute({.writes = writes.list}));
  SINTER_CO_CHECK_OK(co_await timer.run(prepared.device, segment.commands, segment.origins));
  Batch down{.read = prepared.staging.id()};
  down.out = {prepared.read_back.get(), static_cast<size_t>(segment.read_bytes)};
  co_return co_await prepared.device->execute(down);
}

// The device's part of a segment, to its end or to a cancellation.
Task<> run_on_device(std::shared_ptr<InFlight> flight, const Segment& segment, CancelToken cancel, trace::Log* trace) {
  trace::Span submit(trace, "submit", {}, StrCat(segment.commands.size(), " commands"));
  Executor& executor = co_await current_executor();
  Completion<> done = SINTER_CO_TRY(start_segment(executor, std::move(flight), segment));
  submit.finish();
  trace::Span read(segment.read_bytes ? trace : nullptr, "read", {}, StrCat(segment.read_bytes, " bytes"));
  cancel.link(done);
  co_return co_await done;
}

Task<> run_segment(std::shared_ptr<InFlight> flight, const Segment& segment, HostSteps* host, CancelToken cancel,
                   trace::Log* trace, StepTimer* timer) {
  const plan::Plan& plan = *flight->prepared->plan;
  if (!segment.writes.empty() || !segment.commands.empty()) {
    Result<> result =
        timer ? co_await run_timed(flight, segment, *timer) : co_await run_on_device(flight, segment, cancel, trace);
    if (!result) {
      Error error = SINTER_CO_TRY(co_await blame(flight, segment, std::move(result).error()));
      co_return std::unexpected(std::move(error));
    }
  }
  SINTER_CO_CHECK_OK(convert_reads(*flight, segment));
  for (uint32_t step : segment.host_steps) {
    SINTER_CO_CHECK_OK(cancel.check());
    if (!host) {
      co_return fail(Code::Internal,
                     StrCat(describe_step(plan, step), " runs on the host, and nobody runs host steps"));
    }
    const double start = timer ? trace::now_ms() : 0;
    Result<> result = co_await host->run_host_step(plan, step, flight->values);
    if (timer) timer->after_host_step(step, trace::now_ms() - start);
    if (!result) co_return std::unexpected(std::move(result).error().with_context(describe_step(plan, step)));
  }
  co_return Result<>();
}

// No step writes an empty tensor: it exists from the start.
Result<> make_empty_values(InFlight& flight) {
  const plan::Plan& plan = *flight.prepared->plan;
  for (size_t id = 0; id < plan.values.size(); ++id) {
    const plan::PlannedValue& planned = plan.values[id];
    if (!planned.live || planned.shape.numel() > 0 || flight.values[id]) continue;
    flight.values[id] = SINTER_TRY(Tensor::alloc(planned.dtype, planned.shape, plan.graph->values[id].name));
  }
  return {};
}

Result<std::vector<Tensor>> take_outputs(const InFlight& flight) {
  const plan::Plan& plan = *flight.prepared->plan;
  std::vector<Tensor> outputs;
  for (ValueId id : plan.graph->outputs) {
    const Tensor& made = flight.values[id];
    const Tensor& output = made ? made : plan.values[id].constant;
    if (!output) {
      return fail(Code::Internal, StrCat("the plan makes no output '", plan.graph->values[id].name, "'"));
    }
    outputs.push_back(output);
  }
  return outputs;
}

Task<std::vector<Tensor>> run_all(std::shared_ptr<Prepared> prepared, std::vector<Tensor> inputs, HostSteps* host,
                                  CancelToken cancel, trace::Log* trace, StepTimer* timer) {
  const plan::Plan& plan = *prepared->plan;
  SINTER_CO_CHECK_OK(check_inputs(plan, inputs));
  Lane::Hold hold = SINTER_CO_TRY(co_await prepared->lane.enter(cancel));
  SINTER_CO_CHECK_OK(cancel.check());
  auto flight = std::make_shared<InFlight>(InFlight{prepared, std::move(hold), {}});
  flight->values.resize(plan.values.size());
  for (size_t i = 0; i < inputs.size(); ++i) flight->values[plan.graph->inputs[i]] = std::move(inputs[i]);
  SINTER_CO_CHECK_OK(make_empty_values(*flight));
  for (const Segment& segment : prepared->segments) {
    SINTER_CO_CHECK_OK(co_await run_segment(flight, segment, host, cancel, trace, timer));
  }
  co_return take_outputs(*flight);
}

}  // namespace

Task<std::vector<Tensor>> run(std::shared_ptr<Prepared> prepared, std::vector<Tensor> inputs, HostSteps* host,
                              CancelToken cancel, trace::Log* trace, StepTimer* timer) {
  auto outputs = co_await run_all(prepared, std::move(inputs), host, std::move(cancel), trace, timer);
  if (!outputs) co_return std::unexpected(share_loss(*prepared->device, std::move(outputs).error()));
  co_return outputs;
}

}  // namespace sinter::gpu
