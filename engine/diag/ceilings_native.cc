// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "engine/base/str.h"
#include "engine/cpu/ceilings.h"
#include "engine/cpu/kernels.h"
#include "engine/diag/ceilings.h"
#include "engine/diag/profile.h"
#include "engine/gpu/buffer.h"

namespace sinter::diag {
namespace {

constexpr double kLongEnoughMs = 5;  // far above the clock's resolution and the cost of waking threads
constexpr int kTries = 5;            // the best counts: others on the machine only slow it down

constexpr std::string_view kArithmetic = R"(
struct Params { rounds: u32 }
@group(0) @binding(0) var<storage, read_write> y: array<vec4<f32>>;
@group(0) @binding(1) var<uniform> p: Params;
@compute @workgroup_size(256) fn main(@builtin(global_invocation_id) gid: vec3<u32>) {
  let factor = vec4<f32>(0.5);
  let term = vec4<f32>(f32(gid.x & 255u));
  var a = term; var b = a + 1.0; var c = a + 2.0; var d = a + 3.0;
  var e = a + 4.0; var f = a + 5.0; var g = a + 6.0; var h = a + 7.0;
  for (var i = 0u; i < p.rounds; i++) {
    a = a * factor + term; b = b * factor + term; c = c * factor + term; d = d * factor + term;
    e = e * factor + term; f = f * factor + term; g = g * factor + term; h = h * factor + term;
  }
  y[gid.x & 255u] = a + b + c + d + e + f + g + h;
})";
constexpr double kFlopsPerRound = 8 * 4 * 2;

constexpr std::string_view kReads = R"(
struct Params { rounds: u32, count: u32, threads: u32 }
@group(0) @binding(0) var<storage, read_write> y: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read_write> x: array<vec4<f32>>;
@group(0) @binding(2) var<uniform> p: Params;
@compute @workgroup_size(256) fn main(@builtin(global_invocation_id) gid: vec3<u32>) {
  var a = vec4<f32>(0.0);
  for (var i = 0u; i < p.rounds; i++) {
    for (var at = gid.x; at < p.count; at += p.threads) { a += x[at]; }
  }
  y[gid.x & 255u] = a;
})";

constexpr std::string_view kNothing = R"(
@group(0) @binding(0) var<storage, read_write> y: array<vec4<f32>>;
@compute @workgroup_size(1) fn main() { y[0] = vec4<f32>(0.0); })";

/// Work done per millisecond: `work(rounds)` gives {amount, milliseconds}, and rounds grow until that is long enough.
struct Amount {
  double amount = 0, ms = 0;
};
template <class Work>
double best_rate(Work&& work) {
  size_t rounds = 1;
  while (work(rounds).ms < kLongEnoughMs && rounds < (size_t{1} << 40)) rounds *= 2;
  double best = 0;
  for (int i = 0; i < kTries; ++i) {
    const Amount done = work(rounds);
    best = std::max(best, done.amount / done.ms);
  }
  return best;
}

class DeviceCeilings {
 public:
  explicit DeviceCeilings(std::shared_ptr<gpu::PipelineCache> pipelines)
      : pipelines_(std::move(pipelines)), device_(pipelines_->device()) {}
  ~DeviceCeilings() {
    for (const gpu::BindGroupId group : groups_) device_->destroy_bind_group(group);
  }

  static Task<Ceilings> measure(std::shared_ptr<DeviceCeilings> self) {
    SINTER_CO_CHECK_OK(co_await self->open());
    Ceilings ceilings;
    const gpu::AdapterInfo& adapter = self->device_->adapter();
    ceilings.of = adapter.device.empty() ? adapter.description : adapter.device;
    ceilings.dispatch_ms = SINTER_CO_TRY(co_await self->dispatch(kEmpty, 1, 0, 0));
    for (int i = 0; i < kTries; ++i) {
      ceilings.dispatch_ms = std::min(ceilings.dispatch_ms, SINTER_CO_TRY(co_await self->dispatch(kEmpty, 1, 0, 0)));
    }
    const bool software = self->device_->target().software;
    // Enough threads for 64 workgroups on each of 256 cores, or for the few cores of a CPU.
    const uint32_t groups = software ? 64 : 16384;
    const double rate = SINTER_CO_TRY(co_await self->best_rate(kFma, groups, 0, groups * 256.0 * kFlopsPerRound));
    ceilings.gflop_per_s = rate * 1e-6;
    for (const uint64_t bytes : self->sets_) {
      const uint32_t readers = static_cast<uint32_t>(std::min<uint64_t>(software ? 64 : 4096, bytes / (16 * 256)));
      const double read = SINTER_CO_TRY(co_await self->best_rate(kRead, readers, bytes, static_cast<double>(bytes)));
      ceilings.bandwidth.push_back({static_cast<double>(bytes), read * 1e-6});
    }
    co_return ceilings;
  }

 private:
  enum Kernel : uint8_t { kEmpty, kFma, kRead };

  Task<> open() {
    const uint64_t largest = std::min<uint64_t>(device_->target().max_binding_bytes, 256 << 20);
    for (uint64_t bytes = 1 << 20; bytes <= largest; bytes *= 4) sets_.push_back(bytes);
    device_->push_error_scope();
    const auto use = static_cast<uint32_t>(gpu::kStorage);
    small_ = gpu::Buffer(device_, 4096, use, "ceilings: result");
    large_ = gpu::Buffer(device_, sets_.back(), use, "ceilings: working set");
    params_ = gpu::Buffer(device_, 16, gpu::kUniform | gpu::kCopyDst, "ceilings: parameters");
    SINTER_CO_CHECK_OK(co_await device_->pop_error_scope());
    bindings_ = {wgsl::Binding{.writes = true}, wgsl::Binding{.writes = true}};
    const std::span<const wgsl::Binding> both(bindings_);
    pipeline_ids_ = SINTER_CO_TRY(co_await pipelines_->get(
        {{.label = "ceilings: nothing", .wgsl = kNothing, .bindings = both.first(1)},
         {.label = "ceilings: arithmetic", .wgsl = kArithmetic, .bindings = both.first(1), .uniform = true},
         {.label = "ceilings: reads", .wgsl = kReads, .bindings = both, .uniform = true}},
        nullptr));
    device_->push_error_scope();
    const gpu::BufferRange small{small_.id(), 0, small_.bytes()}, large{large_.id(), 0, large_.bytes()},
        params{params_.id(), 0, params_.bytes()};
    const auto bind = [&](Kernel kernel, std::initializer_list<gpu::BufferRange> ranges) {
      groups_.push_back(device_->create_bind_group(pipeline_ids_[kernel], std::span(ranges.begin(), ranges.size())));
    };
    bind(kEmpty, {small});
    bind(kFma, {small, params});
    bind(kRead, {small, large, params});
    co_return co_await device_->pop_error_scope();
  }

  // Milliseconds of one dispatch.
  Task<double> dispatch(Kernel kernel, uint32_t groups, uint32_t rounds, uint64_t bytes) {
    const uint32_t params[4] = {rounds, static_cast<uint32_t>(bytes / 16), groups * 256, 0};
    device_->write_buffer(params_.id(), 0, std::as_bytes(std::span(params)));
    const gpu::Command command{
        .kind = gpu::Command::kDispatch, .a = pipeline_ids_[kernel], .b = groups_[kernel], .x = groups};
    const uint32_t step = 0;
    Profile profile;
    SINTER_CO_CHECK_OK(co_await profile.run(device_, {&command, 1}, {&step, 1}));
    co_return profile.ms_of(0);
  }

  // Amount per millisecond, `amount` being that of one round.
  Task<double> best_rate(Kernel kernel, uint32_t groups, uint64_t bytes, double amount) {
    uint32_t rounds = 1;
    while (SINTER_CO_TRY(co_await dispatch(kernel, groups, rounds, bytes)) < kLongEnoughMs && rounds < 1u << 30) {
      rounds *= 2;
    }
    double best = 0;
    for (int i = 0; i < kTries; ++i) {
      const double ms = SINTER_CO_TRY(co_await dispatch(kernel, groups, rounds, bytes));
      if (ms > 0) best = std::max(best, amount * rounds / ms);
    }
    co_return best;
  }

  std::shared_ptr<gpu::PipelineCache> pipelines_;
  std::shared_ptr<gpu::Device> device_;
  std::vector<uint64_t> sets_;
  gpu::Buffer small_, large_, params_;
  std::vector<wgsl::Binding> bindings_;
  std::vector<gpu::PipelineId> pipeline_ids_;
  std::vector<gpu::BindGroupId> groups_;
};

}  // namespace

Ceilings cpu_ceilings(plan::ThreadPool& pool) {
  Ceilings ceilings;
  ceilings.of = StrCat(pool.threads(), pool.threads() == 1 ? " thread of " : " threads of ", cpu::instruction_set());
  const auto timed = [](auto&& work) {
    const double start = trace::now_ms();
    const double amount = work();
    return Amount{amount, trace::now_ms() - start};
  };
  ceilings.gflop_per_s =
      best_rate([&](size_t rounds) { return timed([&] { return cpu::multiply_add(pool, rounds); }); }) * 1e-6;
  constexpr size_t kLargest = 256 << 20;
  const std::vector<float> values(kLargest / sizeof(float), 1.0f);
  for (size_t bytes = 64 << 10; bytes <= kLargest; bytes *= 8) {
    const std::span<const float> set(values.data(), bytes / sizeof(float));
    const double rate =
        best_rate([&](size_t rounds) { return timed([&] { return cpu::read_all(pool, set, rounds); }); });
    ceilings.bandwidth.push_back({static_cast<double>(bytes), rate * 1e-6});
  }
  return ceilings;
}

Task<Ceilings> device_ceilings(std::shared_ptr<gpu::PipelineCache> pipelines) {
  return DeviceCeilings::measure(std::make_shared<DeviceCeilings>(std::move(pipelines)));
}

double Ceilings::best_ms(const StepCost& cost) const {
  double ms = gflop_per_s > 0 ? cost.flops / gflop_per_s * 1e-6 : 0;
  if (bandwidth.empty()) return ms;
  const auto holds = std::ranges::find_if(bandwidth, [&](const Bandwidth& at) { return at.bytes >= cost.bytes; });
  const Bandwidth& at = holds == bandwidth.end() ? bandwidth.back() : *holds;
  return std::max(ms, cost.bytes / at.gb_per_s * 1e-6);
}

}  // namespace sinter::diag
