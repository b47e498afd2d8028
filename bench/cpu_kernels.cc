// SPDX-License-Identifier: Apache-2.0
// CPU kernels at the shapes of MobileNetV2 against the machine's measured multiply-add peak.
//   cpu_kernels [--set=AVX2] [--threads=N] [Google Benchmark's own flags]
// Counters, of the fastest iteration: GFLOP/s, and the share of the peak that threads reach with registers only.
#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/str.h"
#include "engine/cpu/kernels.h"
#include "engine/cpu/pool.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace sinter::cpu {
namespace {

unsigned g_threads = 1;

// With one thread its CPU time, so that other programs on the machine count less.
double seconds() {
  timespec now;
  clock_gettime(g_threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Independent chains that hide the latency of any current core and fit into 16 registers.
constexpr int kChains = 12;
constexpr int64_t kRounds = 1'000'000;

#if defined(__x86_64__)
#define SINTER_PEAK(name, isa, type, set1, step)                                          \
  __attribute__((target(isa), noinline)) double name() {                                  \
    type acc[kChains];                                                                    \
    const type a = set1(0.999f), b = set1(0.001f);                                        \
    for (type & x : acc) x = set1(1.0f);                                                  \
    const double start = seconds();                                                       \
    for (int64_t i = 0; i < kRounds; ++i) {                                               \
      _Pragma("clang loop unroll(full)") for (int k = 0; k < kChains; ++k) {              \
        acc[k] = step;                                                                    \
        asm volatile("" : "+v"(acc[k])); /* keeps the loop between the two clock calls */ \
      }                                                                                   \
    }                                                                                     \
    const double time = seconds() - start;                                                \
    return 2.0 * kChains * kRounds * (sizeof(type) / sizeof(float)) / time / 1e9;         \
  }
SINTER_PEAK(peak_avx512, "avx512f", __m512, _mm512_set1_ps, _mm512_fmadd_ps(acc[k], a, b))
SINTER_PEAK(peak_avx2, "avx2,fma", __m256, _mm256_set1_ps, _mm256_fmadd_ps(acc[k], a, b))
SINTER_PEAK(peak_sse, "sse4.2", __m128, _mm_set1_ps, _mm_add_ps(_mm_mul_ps(acc[k], a), b))

double peak_gflops() {
  double (*const measure)() = instruction_set() == "AVX3"   ? &peak_avx512
                              : instruction_set() == "AVX2" ? &peak_avx2
                                                            : &peak_sse;
  double best = 0;
  for (int i = 0; i < 10; ++i) best = std::max(best, measure());
  return best;
}
#else
double peak_gflops() { return 0; }
#endif

double g_peak = 0;

const OpDef kConv{.name = "Conv", .op_class = OpClass::spatial, .accepts_epilogue = true};

struct Layer {
  int64_t size, in, out, kernel, stride, groups;
};

Tensor filled(const Shape& shape) {
  Tensor tensor = *Tensor::alloc(DType::f32, shape);
  float value = 0;
  for (float& x : tensor.mutable_data<float>()) x = (value = value > 1 ? -1 : value + 0.013f);
  return tensor;
}

void run_layer(benchmark::State& state, Layer layer) {
  Node node;
  node.name = "bench";
  node.op = &kConv;
  node.attrs.set("nhwc", int64_t{1});
  node.attrs.set("group", layer.groups);
  node.attrs.set("strides", std::vector<int64_t>{layer.stride, layer.stride});
  const int64_t pad = layer.kernel / 2;
  node.attrs.set("pads", std::vector<int64_t>{pad, pad, pad, pad});
  node.expr.unary(ScalarOp::relu, node.expr.input(0));
  node.inputs = {0, 1, 2};
  node.outputs = {3};
  const int64_t out_size = (layer.size + 2 * pad - layer.kernel) / layer.stride + 1;
  const std::vector<Tensor> inputs = {filled({1, layer.size, layer.size, layer.in}),
                                      filled({layer.out, layer.in / layer.groups, layer.kernel, layer.kernel}),
                                      filled({layer.out})};
  std::vector<Tensor> outputs = {filled({1, out_size, out_size, layer.out})};
  std::vector<TensorInfo> infos;
  for (const Tensor& input : inputs) infos.push_back({DType::f32, input.shape(), nullptr, true, !infos.empty()});
  const TensorInfo output{DType::f32, outputs[0].shape(), nullptr, true, false};
  const plan::HostKernel* kernel = nullptr;
  for (const plan::HostKernel* candidate : host_kernels()) {
    if (!kernel && candidate->op == "Conv" && candidate->accepts(node, infos, {&output, 1})) kernel = candidate;
  }
  int64_t arg = 0;
  const Packer* packer = kernel->packer(node, infos, 1, &arg);
  const Tensor packed = *packer->pack(inputs[1], arg);
  const std::vector<const Tensor*> operands = {&inputs[0], &packed, &inputs[2]};
  Tensor scratch =
      *Tensor::alloc(DType::u8, {static_cast<int64_t>(kernel->scratch_bytes(node, infos, {&output, 1}, g_threads))});
  const auto pool = make_native_pool(g_threads);
  double best = 1e30;
  for (auto _ : state) {
    const double start = seconds();
    const auto done = kernel->run({node, operands, outputs, scratch.mutable_bytes(), *pool});
    best = std::min(best, seconds() - start);
    if (!done) state.SkipWithError(done.error().message.c_str());
  }
  const double flops = 2.0 * static_cast<double>(out_size * out_size * layer.out * layer.in / layer.groups *
                                                 layer.kernel * layer.kernel);
  state.counters["best_us"] = best * 1e6;
  state.counters["GFLOP/s"] = flops / best / 1e9;
  state.counters["of_peak"] = flops / best / 1e9 / (g_peak * g_threads);
}

// Size of the input, channels in and out, kernel, stride, groups.
constexpr Layer kLayers[] = {
    {224, 3, 32, 3, 2, 1},     {112, 32, 16, 1, 1, 1},    {112, 16, 96, 1, 1, 1},    {56, 96, 24, 1, 1, 1},
    {56, 24, 144, 1, 1, 1},    {56, 144, 24, 1, 1, 1},    {28, 144, 32, 1, 1, 1},    {28, 32, 192, 1, 1, 1},
    {28, 192, 32, 1, 1, 1},    {14, 192, 64, 1, 1, 1},    {14, 64, 384, 1, 1, 1},    {14, 384, 64, 1, 1, 1},
    {14, 384, 96, 1, 1, 1},    {14, 96, 576, 1, 1, 1},    {14, 576, 96, 1, 1, 1},    {7, 576, 160, 1, 1, 1},
    {7, 160, 960, 1, 1, 1},    {7, 960, 160, 1, 1, 1},    {7, 960, 320, 1, 1, 1},    {7, 320, 1280, 1, 1, 1},
    {112, 32, 32, 3, 1, 32},   {112, 96, 96, 3, 2, 96},   {56, 144, 144, 3, 1, 144}, {56, 144, 144, 3, 2, 144},
    {28, 192, 192, 3, 1, 192}, {28, 192, 192, 3, 2, 192}, {14, 384, 384, 3, 1, 384}, {14, 576, 576, 3, 2, 576},
    {7, 960, 960, 3, 1, 960},  {56, 64, 64, 3, 1, 1},     {28, 128, 128, 3, 1, 1},   {14, 256, 256, 3, 1, 1},
    {7, 512, 512, 3, 1, 1},    {14, 512, 512, 3, 2, 1},   {7, 512, 2048, 1, 1, 1},   {7, 2048, 512, 1, 1, 1},
    {14, 1024, 2048, 1, 2, 1}, {224, 3, 64, 7, 2, 1},
};

std::string name_of(const Layer& l) {
  return StrCat(l.groups > 1 ? "depthwise" : "conv", l.kernel, "x", l.kernel, l.stride > 1 ? "s2" : "", "/", l.size,
                "/", l.in, "->", l.out);
}

}  // namespace
}  // namespace sinter::cpu

int main(int argc, char** argv) {
  using namespace sinter::cpu;
  int kept = 1;
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], "--set=", 6) == 0) {
      if (!force_instruction_set(argv[i] + 6)) {
        std::fprintf(stderr, "this machine does not have %s\n", argv[i] + 6);
        return 2;
      }
    } else if (std::strncmp(argv[i], "--threads=", 10) == 0) {
      g_threads = static_cast<unsigned>(std::atoi(argv[i] + 10));
    } else {
      argv[kept++] = argv[i];
    }
  }
  argc = kept;
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  g_peak = peak_gflops();
  std::printf("%s, peak of one thread %.1f GFLOP/s\n", std::string(instruction_set()).c_str(), g_peak);
  for (const Layer& layer : kLayers) {
    auto* bench = benchmark::RegisterBenchmark(name_of(layer).c_str(),
                                               [layer](benchmark::State& state) { run_layer(state, layer); });
    bench->Unit(benchmark::kMicrosecond);
    if (g_threads > 1) bench->UseRealTime();
  }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
