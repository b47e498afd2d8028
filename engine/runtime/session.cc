// SPDX-License-Identifier: Apache-2.0
// The walk: bytes -> parse -> import -> passes -> plan -> prepare -> run.
#include "engine/runtime/session.h"
#include "engine/base/sort.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "engine/async/wait.h"
#include "engine/base/memory.h"
#include "engine/base/str.h"
#include "engine/cpu/exec.h"
#include "engine/cpu/kernels.h"
#include "engine/gpu/exec.h"
#include "engine/gpu/faulty_device.h"
#include "engine/gpu/prepare.h"
#include "engine/onnx/parse.h"
#include "engine/passes/passes.h"
#include "engine/plan/where.h"
#include "engine/runtime/inputs.h"
#include "engine/runtime/profile.h"
#include "engine/runtime/weights.h"

namespace sinter {
namespace {

// Plans kept per session, by input shapes; the least recently used goes first.
constexpr size_t kMaxPlans = 8;

// With the automatic choice, a device that is lost so often is not used again.
constexpr size_t kMaxLosses = 2;

plan::Backend fixed_backend(BackendChoice choice) {
  return choice == BackendChoice::reference ? plan::Backend::reference : plan::Backend::cpu;
}

// A plan made ready on the backend it is for.
struct Ready {
  std::shared_ptr<const plan::Plan> plan;
  std::unique_ptr<cpu::Prepared> host;    // reference and cpu
  std::shared_ptr<gpu::Prepared> device;  // webgpu
};

class SessionImpl final : public Session, public std::enable_shared_from_this<SessionImpl>, private gpu::HostSteps {
 public:
  SessionImpl(std::shared_ptr<Engine> engine, std::shared_ptr<const Graph> graph, SessionOptions options)
      : engine_(std::move(engine)), graph_(std::move(graph)), options_(std::move(options)), weights_(graph_) {
    inputs_ = describe_values(*graph_, graph_->inputs);
    outputs_ = describe_values(*graph_, graph_->outputs);
  }

  const std::vector<IoInfo>& inputs() const override { return inputs_; }
  const std::vector<IoInfo>& outputs() const override { return outputs_; }
  size_t model_outputs() const override { return graph_->outputs.size() - graph_->captured; }
  const SessionReport& report() const override { return report_; }
  const Graph& graph() const override { return *graph_; }
  std::shared_ptr<const plan::Plan> plan() const override { return plans_.empty() ? nullptr : plans_.front()->plan; }

  void note_load(double ms, std::string inert) {
    report_.load_ms = ms;
    report_.inert = std::move(inert);
  }

  Task<> open([[maybe_unused]] std::shared_ptr<SessionImpl> self, CancelToken cancel) {
    const double start = trace::now_ms();
    SINTER_CO_CHECK_OK(co_await choose_backend(cancel));
    auto bindings = SINTER_CO_TRY(default_bindings(*graph_, options_.dims));
    if (bindings) {
      auto needed = SINTER_CO_TRY(plan::needed_values(*graph_, *bindings));
      if (needed.empty()) {
        auto ready = co_await ready_or_fall_back(*bindings, cancel);
        if (!ready) co_return std::unexpected(std::move(ready).error());
      }
    }
    SINTER_CO_CHECK_OK(cancel.check());
    report_.prepare_ms = trace::now_ms() - start;
    co_return Result<>{};
  }

  Task<std::vector<NamedTensor>> run(std::vector<NamedTensor> given, RunOptions options) override {
    return recorded(shared_from_this(), std::move(given), std::move(options));
  }

  void close() override {
    closed_ = true;
    plans_.clear();
    device_weights_.reset();
    faulty_.reset();
  }

 private:
  // The shared pointer as an argument: a task that has begun keeps the session.
  static Task<std::vector<NamedTensor>> recorded(std::shared_ptr<SessionImpl> self, std::vector<NamedTensor> given,
                                                 RunOptions options) {
    auto outputs = co_await self->run_queued(std::move(given), std::move(options));
    if (!outputs) co_return std::unexpected(self->engine_->failures().record(std::move(outputs).error()));
    co_return outputs;
  }

  Task<std::vector<NamedTensor>> run_queued(std::vector<NamedTensor> given, RunOptions options) {
    std::vector<Tensor> inputs = SINTER_CO_TRY(match_inputs(*graph_, given));
    given.clear();
    plan::Bindings bindings = bindings_of(inputs);
    if (closed_) co_return fail(Code::InvalidInput, "the session is closed", "load the model again");
    // Shared with the work itself, which may outlast this await: the next run starts when both have let go.
    const auto hold = std::make_shared<Lane::Hold>(SINTER_CO_TRY(co_await engine_->lane().enter(options.cancel)));
    if (closed_) co_return fail(Code::Cancelled, "the session was closed while the run waited");
    SINTER_CO_CHECK_OK(options.cancel.check());
    if (const auto known = known_bindings(inputs)) {
      bindings = *known;
    } else {
      SINTER_CO_CHECK_OK(complete(bindings, inputs));
    }
    auto outputs = co_await guarded_run(hold, bindings, inputs, options);
    if (!outputs) note_loss();
    if (!outputs && can_fall_back(outputs.error())) {
      fall_back(outputs.error());
      outputs = co_await guarded_run(hold, bindings, inputs, options);
    }
    if (!outputs) co_return std::unexpected(std::move(outputs).error());
    std::vector<NamedTensor> named;
    for (size_t i = 0; i < outputs->size(); ++i) named.push_back({outputs_[i].name, std::move((*outputs)[i])});
    co_return named;
  }

  Task<> choose_backend(CancelToken cancel) {
    const BackendChoice choice = options_.backend;
    if (choice == BackendChoice::cpu || choice == BackendChoice::reference) {
      report_.backend = fixed_backend(choice);
      report_.why = "asked for";
      co_return Result<>{};
    }
    report_.backend = plan::Backend::webgpu;
    auto device = in_stage("open device", co_await open_device(cancel));
    if (choice == BackendChoice::webgpu || cancel.cancelled()) {
      if (!device) co_return std::unexpected(std::move(device).error());
      report_.why = "asked for";
      co_return Result<>{};
    }
    if (!device) {
      use_cpu(device.error().message);
    } else if ((*device)->adapter().software) {
      use_cpu(StrCat("the only adapter computes in software (", (*device)->adapter().description,
                     "), which is slower than the CPU backend"));
    } else {
      const auto tested = co_await engine_->tested_device();
      report_.why = StrCat("a hardware adapter answers (", (*device)->adapter().description, ")");
      if (!tested) use_cpu(tested.error().message);
    }
    co_return Result<>{};
  }

  // The bindings of a plan that is there already and fits these inputs: most runs.
  std::optional<plan::Bindings> known_bindings(const std::vector<Tensor>& inputs) const {
    plan::Bindings given = bindings_of(inputs);
    for (const auto& ready : plans_) {
      const plan::Bindings& known = ready->plan->bindings;
      given.values.clear();
      for (const auto& [id, tensor] : known.values) given.values.push_back({id, inputs[input_index(id)]});
      if (same_bindings(known, given)) return known;
    }
    return std::nullopt;
  }

  // A plan outlives the inputs that it was made for.
  static Result<Tensor> kept_copy(const Tensor& tensor) {
    Tensor copy = SINTER_TRY(Tensor::alloc(tensor.dtype(), tensor.shape(), "an input that decides shapes"));
    if (tensor.nbytes()) std::memcpy(copy.mutable_bytes().data(), tensor.bytes().data(), tensor.nbytes());
    return copy;
  }

  size_t input_index(ValueId id) const {
    return std::find(graph_->inputs.begin(), graph_->inputs.end(), id) - graph_->inputs.begin();
  }

  // Adds the contents that decide shapes. Shapes that become known may need the contents of further inputs.
  Result<> complete(plan::Bindings& bindings, const std::vector<Tensor>& inputs) const {
    while (true) {
      const auto needed = SINTER_TRY(plan::needed_values(*graph_, bindings));
      if (needed.empty()) return {};
      for (ValueId id : needed) bindings.values.push_back({id, SINTER_TRY(kept_copy(inputs[input_index(id)]))});
      heap_sort(bindings.values, [](const auto& a, const auto& b) { return a.first < b.first; });
    }
  }

  Task<std::vector<Tensor>> guarded_run(std::shared_ptr<Lane::Hold> hold, const plan::Bindings& bindings,
                                        const std::vector<Tensor>& inputs, RunOptions options) {
    CancelSource abandon;
    const CancelToken cancel = options.cancel;
    options.cancel = CancelToken::any(cancel, abandon.token());
    auto task = run_bound(shared_from_this(), std::move(hold), bindings, inputs, std::move(options));
    auto outputs = co_await engine_->watchdog().guard(engine_->executor(), std::move(task), cancel, abandon);
    if (!outputs && outputs.error().code == Code::Timeout) describe_stuck_step(outputs.error());
    co_return outputs;
  }

  // The watchdog knows the node's name only.
  void describe_stuck_step(Error& error) const {
    const std::shared_ptr<const plan::Plan> stuck = plan();
    const std::string node = failure_of(error).node;
    if (!stuck || node.empty()) return;
    failure_of(error).node.clear();  // what is told of a node is told together
    for (size_t i = 0; i < stuck->steps.size(); ++i) {
      const NodeId id = stuck->steps[i].node;
      if (id == kNone || stuck->graph->nodes[id].name != node) continue;
      error = at(std::move(error), plan::where(*stuck, i));
      break;
    }
    failure_of(error).node = node;
  }

  // The engine's device, or this session's faulty view of it.
  Task<std::shared_ptr<gpu::Device>> open_device(CancelToken cancel) {
    const auto& fault = options_.inject_device;
    if (fault && fault->kind == DeviceFault::Kind::no_adapter) {
      co_return fail(Code::Gpu, "no adapter: the fault was injected", "run without the injected fault");
    }
    auto device = SINTER_CO_TRY(co_await or_cancelled(device_of(engine_), cancel));
    if (!fault) co_return device;
    if (faulty_ && static_cast<gpu::FaultyDevice&>(*faulty_->device()).inner() == device) co_return faulty_->device();
    if (fault_happened()) co_return device;
    faulty_ = std::make_shared<gpu::PipelineCache>(std::make_shared<gpu::FaultyDevice>(device));
    co_return faulty_->device();
  }

  static Task<std::shared_ptr<gpu::Device>> device_of(std::shared_ptr<Engine> engine) {
    co_return co_await engine->device();
  }

  bool fault_happened() const {
    return faulty_ && static_cast<const gpu::FaultyDevice&>(*faulty_->device()).happened();
  }

  const std::shared_ptr<gpu::PipelineCache>& pipelines_of(const std::shared_ptr<gpu::Device>& device) const {
    return faulty_ && faulty_->device() == device ? faulty_ : engine_->pipelines();
  }

  // Makes the injected fault wait for its step.
  Result<> arm(const gpu::Prepared& prepared) {
    if (!faulty_ || faulty_->device() != prepared.device || fault_happened()) return {};
    const bool lost = options_.inject_device->kind == DeviceFault::Kind::lost;
    const gpu::StepCommand found = SINTER_TRY(gpu::find_command(prepared, options_.inject_device->step));
    std::string step = gpu::describe_step(*prepared.plan, found.step);
    if (found.step < prepared.plan->steps.size()) step = StrCat("at step ", found.step, ", ", step);
    Error error{lost ? Code::DeviceLost : Code::OutOfMemory,
                StrCat(lost ? "the GPU device was lost: injected " : "the GPU is out of memory: injected ", step),
                {},
                lost ? "run again: the session is rebuilt" : "use a smaller batch or input, or the CPU backend"};
    Failure place = plan::where(*prepared.plan, found.step);
    place.call = "queue.submit";
    static_cast<gpu::FaultyDevice&>(*faulty_->device()).arm(found.command, at(std::move(error), std::move(place)));
    return {};
  }

  // Forgets what was on a device that is lost, once.
  void note_loss() {
    if (!device_weights_ || !device_weights_->device()->lost()) return;
    const std::string reason = device_weights_->device()->lost_reason();
    ++report_.losses;
    report_.fallbacks.push_back({"webgpu", "webgpu", StrCat("the device was lost: ", reason)});
    engine_->trace().point("device lost", {}, reason);
    plans_.clear();
    device_weights_.reset();
  }

  // Only `auto` moves to the CPU, and only for what the device did; a wrong input stays wrong there.
  bool can_fall_back(const Error& error) const {
    const bool device_failed = error.code == Code::Gpu || error.code == Code::OutOfMemory ||
                               (error.code == Code::DeviceLost && report_.losses >= kMaxLosses);
    return options_.backend == BackendChoice::automatic && report_.backend == plan::Backend::webgpu && device_failed;
  }

  // The error stays inside: it is recorded here.
  void fall_back(Error error) { use_cpu(engine_->failures().record(std::move(error)).message); }

  // What `auto` decides; by itself it is no failure.
  void use_cpu(const std::string& reason) {
    report_.fallbacks.push_back({"webgpu", "cpu", reason});
    report_.backend = plan::Backend::cpu;
    report_.why = StrCat("WebGPU was not used: ", reason);
    engine_->trace().point("fall back", {}, reason);
    plans_.clear();
    device_weights_.reset();
  }

  Task<std::shared_ptr<Ready>> ready_or_fall_back(const plan::Bindings& bindings, CancelToken cancel) {
    auto ready = co_await ready_for(bindings, cancel);
    // A load has nobody who could try again later.
    while (!ready && ready.error().code == Code::DeviceLost && options_.backend == BackendChoice::automatic &&
           report_.losses + 1 < kMaxLosses) {
      note_loss();
      ready = co_await ready_for(bindings, cancel);
    }
    if (!ready) note_loss();
    if (!ready && can_fall_back(ready.error())) {
      fall_back(ready.error());
      ready = co_await ready_for(bindings, cancel);
    }
    co_return ready;
  }

  // Owns what it works on: after a timeout it is left to itself.
  Task<std::vector<Tensor>> run_bound([[maybe_unused]] std::shared_ptr<SessionImpl> self,
                                      [[maybe_unused]] std::shared_ptr<Lane::Hold> hold, plan::Bindings bindings,
                                      std::vector<Tensor> inputs, RunOptions options) {
    const auto ready = SINTER_CO_TRY(co_await ready_for(bindings, options.cancel));
    trace::Span span(&engine_->trace(), "run", {}, plan::name_of(report_.backend));
    StepProfile* profile = options.profile.get();
    running_ = options.cancel;
    auto outputs = ready->device
                       ? co_await gpu::run(ready->device, inputs, this, options.cancel, &engine_->trace(), profile)
                       : co_await run_on_host(*ready->host, inputs, options.cancel, profile);
    if (!closed_) update_peak(*ready);
    co_return in_stage("run", std::move(outputs));
  }

  Task<std::vector<Tensor>> run_on_host(cpu::Prepared& prepared, const std::vector<Tensor>& inputs, CancelToken cancel,
                                        StepProfile* profile) {
    for (const plan::Step& step : prepared.plan().steps) {
      if (is_hang(graph_->nodes[step.node])) SINTER_CO_CHECK_OK(co_await hang(graph_->nodes[step.node], cancel));
    }
    cpu::CpuRun run = SINTER_CO_TRY(cpu::CpuRun::start(prepared, inputs, cancel, profile));
    while (true) {
      engine_->watchdog().progress();
      const auto status = cpu::run_some(run, cpu::Budget::slice(engine_->options().slice_ms));
      if (status == cpu::StepStatus::failed) co_return std::unexpected(run.error());
      if (status == cpu::StepStatus::done) co_return run.take_outputs();
      co_await next_turn();
    }
  }

  plan::ThreadPool& pool() const { return options_.pool ? *options_.pool : engine_->pool(); }

  // An injected step that never ends: only the watchdog or the caller's token gets out of it.
  Task<> hang(const Node& node, CancelToken cancel) {
    engine_->trace().point("step", node.name, "hangs: injected");
    Completion<> never;
    cancel.link(never);
    co_return co_await never;
  }

  // The plan for these shapes, made and prepared where it is not there yet.
  Task<std::shared_ptr<Ready>> ready_for(const plan::Bindings& bindings, CancelToken cancel) {
    if (report_.backend == plan::Backend::webgpu) {
      const auto device = SINTER_CO_TRY(in_stage("open device", co_await open_device(cancel)));
      if (closed_) co_return fail(Code::Cancelled, "the session was closed while the run waited");
      note_loss();
      if (device_weights_ && device_weights_->device() != device) {
        plans_.clear();
        device_weights_.reset();
      }
      if (!device_weights_) device_weights_ = std::make_shared<gpu::DeviceWeights>(device);
    }
    for (size_t i = 0; i < plans_.size(); ++i) {
      if (!same_bindings(plans_[i]->plan->bindings, bindings)) continue;
      std::rotate(plans_.begin(), plans_.begin() + i, plans_.begin() + i + 1);
      co_return plans_.front();
    }
    auto ready = std::make_shared<Ready>();
    {
      trace::Span span(&engine_->trace(), "plan");
      ready->plan = SINTER_CO_TRY(in_stage("plan", plan::build(graph_, target(), bindings, &report_.unsupported)));
    }
    co_await next_turn();  // planning a large model takes a page long enough
    if (closed_) co_return fail(Code::Cancelled, "the session was closed while it was prepared");
    SINTER_CO_CHECK_OK(cancel.check());
    trace::Span span(&engine_->trace(), "prepare");
    if (report_.backend == plan::Backend::webgpu) {
      const auto weights = device_weights_;
      ready->device =
          SINTER_CO_TRY(in_stage("prepare", co_await gpu::prepare(pipelines_of(weights->device()), weights, ready->plan,
                                                                  weights_, cancel, &engine_->trace())));
      SINTER_CO_CHECK_OK(arm(*ready->device));
    } else {
      SINTER_CO_CHECK_OK(in_stage("prepare", co_await pack_weights(*ready->plan, cancel)));
      ready->host = SINTER_CO_TRY(in_stage("prepare", cpu::Prepared::make(ready->plan, weights_, pool())));
    }
    if (closed_) co_return ready;  // for this one run
    plans_.insert(plans_.begin(), ready);
    if (plans_.size() > kMaxPlans) plans_.pop_back();
    describe(*ready);
    co_return ready;
  }

  // Slice by slice; cpu::Prepared then finds them in weights_.
  Task<> pack_weights(const plan::Plan& plan, CancelToken cancel) {
    double slice = trace::now_ms();
    for (const plan::WeightUse& use : plan.weights) {
      if (!use.constant) SINTER_CO_CHECK_OK(weights_.load(use, plan.target.gpu));
      if (trace::now_ms() - slice < engine_->options().slice_ms) continue;
      co_await next_turn();
      SINTER_CO_CHECK_OK(cancel.check());
      slice = trace::now_ms();
    }
    co_return Result<>{};
  }

  plan::Target target() const {
    plan::Target target;
    target.backend = report_.backend;
    if (report_.backend != plan::Backend::reference) target.host_kernels = cpu::host_kernels();
    target.threads = pool().threads();
    if (report_.backend == plan::Backend::webgpu) target.gpu = device_weights_->device()->target();
    target.gpu.force_plain = options_.force_plain;
    return target;
  }

  void describe(const Ready& ready) {
    report_.dispatches = ready.plan->dispatches();
    report_.pipelines = ready.plan->pipelines();
    report_.cpu_steps.clear();
    if (ready.device) {
      for (const plan::Step& step : ready.plan->steps) {
        if (step.kind != plan::Step::Kind::host) continue;
        const Node& node = graph_->nodes[step.node];
        report_.cpu_steps.push_back({node.name, std::string(node.op->name), step.reason});
      }
    }
    update_peak(ready);
  }

  void update_peak(const Ready& ready) {
    uint64_t device = 0;
    if (ready.device) device = ready.device->device_bytes() + device_weights_->bytes();
    report_.peak_bytes = std::max(report_.peak_bytes, memory_stats().peak + device);
  }

  Task<> run_host_step(const plan::Plan& plan, size_t index, std::vector<Tensor>& values) override {
    const plan::Step& step = plan.steps[index];
    if (is_hang(graph_->nodes[step.node])) SINTER_CO_CHECK_OK(co_await hang(graph_->nodes[step.node], running_));
    std::vector<Tensor> constants(step.inputs.size());
    std::vector<const Tensor*> inputs(step.inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (step.inputs[i] == kNone) continue;
      inputs[i] = &values[step.inputs[i]];
      if (step.input_weights[i] == kNone) continue;
      constants[i] = SINTER_CO_TRY(weights_.load(plan.weights[step.input_weights[i]], plan.target.gpu));
      inputs[i] = &constants[i];
    }
    std::vector<Tensor> outputs(step.outputs.size());
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (step.outputs[i] == kNone) continue;
      const plan::PlannedValue& value = plan.values[step.outputs[i]];
      outputs[i] = SINTER_CO_TRY(Tensor::alloc(value.dtype, value.shape, "the output of a CPU step"));
    }
    SINTER_CO_CHECK_OK(cpu::run_host_step(plan, step, inputs, outputs, pool()));
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (step.outputs[i] != kNone) values[step.outputs[i]] = std::move(outputs[i]);
    }
    co_return Result<>{};
  }

  std::shared_ptr<Engine> engine_;
  std::shared_ptr<const Graph> graph_;
  SessionOptions options_;
  Weights weights_;
  std::vector<IoInfo> inputs_, outputs_;
  SessionReport report_;
  std::vector<std::shared_ptr<Ready>> plans_;  // most recently used first
  std::shared_ptr<gpu::DeviceWeights> device_weights_;
  std::shared_ptr<gpu::PipelineCache> faulty_;  // of a gpu::FaultyDevice
  CancelToken running_;                         // of the run that holds the lane
  bool closed_ = false;
};

}  // namespace

namespace {

Result<> choose_outputs(Graph& graph, const std::vector<std::string>& names) {
  graph.outputs.clear();
  for (const std::string& name : names) {
    const ValueId value = graph.find_value(name);
    if (value == kNone) return fail(Code::InvalidInput, StrCat("the model has no value named '", name, "'"));
    graph.outputs.push_back(value);
  }
  return {};
}

// Every value that a node computes from the inputs becomes an output, after those of the model.
void capture_all(Graph& graph) {
  const std::vector<bool> constant = constant_values(graph);
  for (const Node& node : graph.nodes) {
    if (node.dead) continue;
    for (ValueId output : node.outputs) {
      if (output == kNone || constant[output]) continue;
      if (std::find(graph.outputs.begin(), graph.outputs.end(), output) == graph.outputs.end()) {
        graph.outputs.push_back(output);
        ++graph.captured;
      }
    }
  }
}

// Everything between the graph as it was written and the graph that is planned.
Result<> run_passes(Graph& graph, const SessionOptions& options, trace::Log* trace, std::string* inert = nullptr) {
  if (options.inject) {
    std::string reason = SINTER_TRY(inject(graph, *options.inject));
    if (inert) *inert = std::move(reason);
  }
  if (!options.outputs.empty()) SINTER_CHECK_OK(choose_outputs(graph, options.outputs));
  if (options.rewrite) SINTER_CHECK_OK(options.rewrite(graph));
  // The reference backend runs the model as it is written.
  passes::Options pass_options{options.fusion, options.off, options.stop_after_patch, trace};
  if (options.backend != BackendChoice::reference) {
    SINTER_CHECK_OK(in_stage("passes", passes::run(graph, pass_options)));
  }
  if (options.capture) capture_all(graph);
  return {};
}

// A Constant node has become a value by the time a fault is looked for: that is what its name stands for then.
void name_constant(const onnx::Model& model, std::optional<Fault>& fault) {
  if (!fault) return;
  for (const onnx::NodeProto& node : model.graph.nodes) {
    if (node.name == fault->node && node.op == "Constant" && !node.outputs.empty()) fault->node = node.outputs[0];
  }
}

// As it is written.
Result<std::shared_ptr<Graph>> read_graph(const ModelSource& source, std::optional<Fault>& fault, trace::Log* trace) {
  onnx::Model model;
  {
    trace::Span span(trace, "parse", {}, StrCat(source.bytes.size(), " bytes"));
    model = SINTER_TRY(in_stage("parse", onnx::parse(source.bytes, source.owner)));
  }
  name_constant(model, fault);
  auto graph = std::make_shared<Graph>();
  {
    trace::Span span(trace, "import");
    onnx::ImportOptions import_options;
    import_options.external_data = source.external;
    *graph = SINTER_TRY(in_stage("import", onnx::import(model, import_options)));
  }
  return graph;
}

}  // namespace

Result<std::shared_ptr<const Graph>> load_graph(const ModelSource& source, const SessionOptions& given,
                                                trace::Log* trace) {
  SessionOptions options = given;
  auto graph = SINTER_TRY(read_graph(source, options.inject, trace));
  SINTER_CHECK_OK(run_passes(*graph, options, trace));
  return graph;
}

namespace {

// From a file, or from a graph `made` in memory.
Task<std::shared_ptr<Session>> load(std::shared_ptr<Engine> engine, ModelSource source, std::shared_ptr<Graph> made,
                                    SessionOptions options) {
  trace::Span span(&engine->trace(), "load");
  const double start = trace::now_ms();
  if (!made) {
    made = SINTER_CO_TRY(read_graph(source, options.inject, &engine->trace()));
    co_await next_turn();  // a page gets its thread back between reading, rewriting and preparing
    SINTER_CO_CHECK_OK(options.cancel.check());
  }
  std::string inert;
  SINTER_CO_CHECK_OK(run_passes(*made, options, &engine->trace(), &inert));
  co_await next_turn();
  SINTER_CO_CHECK_OK(options.cancel.check());
  const CancelToken cancel = options.cancel;
  auto session = std::make_shared<SessionImpl>(engine, std::move(made), std::move(options));
  session->note_load(trace::now_ms() - start, std::move(inert));
  CancelSource abandon;
  auto opening = session->open(session, CancelToken::any(cancel, abandon.token()));
  SINTER_CO_CHECK_OK(co_await engine->watchdog().guard(engine->executor(), std::move(opening), cancel, abandon));
  co_return std::shared_ptr<Session>(session);
}

Task<std::shared_ptr<Session>> open(std::shared_ptr<Engine> engine, ModelSource source, std::shared_ptr<Graph> made,
                                    SessionOptions options) {
  auto session = co_await load(engine, std::move(source), std::move(made), std::move(options));
  if (!session) co_return std::unexpected(engine->failures().record(std::move(session).error()));
  co_return session;
}

}  // namespace

Task<std::shared_ptr<Session>> open_session(std::shared_ptr<Engine> engine, ModelSource source,
                                            SessionOptions options) {
  return open(std::move(engine), std::move(source), nullptr, std::move(options));
}

Task<std::shared_ptr<Session>> open_session(std::shared_ptr<Engine> engine, Graph graph, SessionOptions options) {
  return open(std::move(engine), {}, std::make_shared<Graph>(std::move(graph)), std::move(options));
}

}  // namespace sinter
