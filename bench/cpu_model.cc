// SPDX-License-Identifier: Apache-2.0
// Where a model's time goes on the CPU: each step's fastest time over many runs, in CPU time of one thread.
//   cpu_model MODEL.onnx [RUNS] [INSTRUCTION_SET]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "engine/base/str.h"
#include "engine/cpu/exec.h"
#include "engine/cpu/kernels.h"
#include "engine/cpu/pool.h"
#include "engine/onnx/import.h"
#include "engine/onnx/parse.h"
#include "engine/passes/passes.h"
#include "engine/runtime/weights.h"

namespace sinter::cpu {
namespace {

double now_us() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return 1e6 * static_cast<double>(now.tv_sec) + 1e-3 * static_cast<double>(now.tv_nsec);
}

struct Observer final : StepObserver {
  explicit Observer(size_t steps) : best(steps, 1e30) {}
  void after_step(size_t index, const plan::Step&, std::span<const Tensor>, double) override {
    best[index] = std::min(best[index], now_us() - last);
    last = now_us();
  }
  std::vector<double> best;
  double last = 0;
};

// Multiply-adds of convolutions and products, doubled.
double flops(const plan::Plan& plan, const plan::Step& step) {
  const Node& node = plan.graph->nodes[step.node];
  const Shape& out = plan.values[step.outputs[0]].shape;
  if (node.op->name != "Conv" && node.op->name != "Gemm") return 0;
  const Shape& weight = plan.values[step.inputs[1]].shape;
  const int64_t per_output = node.op->name == "Conv" ? weight.numel() / weight[0] : weight.numel() / out[1];
  return 2.0 * static_cast<double>(out.numel() * per_output);
}

Result<> run(const char* path, int runs) {
  std::ifstream file(path, std::ios::binary);
  const auto bytes =
      std::make_shared<std::vector<char>>(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  const auto model = SINTER_TRY(onnx::parse(std::as_bytes(std::span(*bytes)), bytes));
  auto graph = std::make_shared<Graph>(SINTER_TRY(onnx::import(model, {})));
  SINTER_CHECK_OK(passes::run(*graph, {}));
  plan::Target target;
  target.host_kernels = host_kernels();
  plan::Bindings bindings;
  for (ValueId input : graph->inputs) {
    Shape shape = *graph->values[input].shape;
    for (int64_t& dim : std::span(&shape[0], shape.rank())) dim = is_known(dim) ? dim : 1;
    bindings.inputs.push_back(shape);
  }
  const auto plan = SINTER_TRY(plan::build(graph, target, bindings));
  Weights weights(graph);
  SerialPool pool;
  const auto prepared = SINTER_TRY(Prepared::make(plan, weights, pool));
  std::vector<Tensor> inputs;
  for (ValueId input : graph->inputs) {
    inputs.push_back(SINTER_TRY(Tensor::alloc(plan->values[input].dtype, plan->values[input].shape)));
    for (size_t i = 0; i < inputs.back().numel(); ++i) set_f64(inputs.back(), i, static_cast<double>(i % 17) / 17);
  }
  Observer observer(plan->steps.size());
  double best = 1e30;
  for (int i = 0; i < runs; ++i) {
    const double start = now_us();
    CpuRun run = SINTER_TRY(CpuRun::start(*prepared, inputs, {}, &observer));
    observer.last = now_us();
    if (run_some(run, Budget::infinite()) == StepStatus::failed) return std::unexpected(run.error());
    best = std::min(best, now_us() - start);
  }
  double sum = 0, work = 0;
  for (size_t i = 0; i < plan->steps.size(); ++i) {
    const plan::Step& step = plan->steps[i];
    const double gflop = flops(*plan, step) / 1e9;
    std::string shapes;
    for (ValueId input : step.inputs) {
      if (input != kNone) shapes += " " + to_string(plan->values[input].shape);
    }
    std::printf("%9.1f us %7.1f GFLOP/s  %-28s%s -> %s\n", observer.best[i], gflop / observer.best[i] * 1e6,
                step.host_kernel ? std::string(step.host_kernel->name).c_str() : "reference", shapes.c_str(),
                to_string(plan->values[step.outputs[0]].shape).c_str());
    sum += observer.best[i];
    work += gflop;
  }
  std::printf("%9.1f us %7.1f GFLOP/s  sum of the steps' fastest; fastest run %.1f us; %s\n", sum, work / sum * 1e6,
              best, std::string(instruction_set()).c_str());
  return {};
}

}  // namespace
}  // namespace sinter::cpu

int main(int argc, char** argv) {
  if (argc < 2 || (argc > 3 && !sinter::cpu::force_instruction_set(argv[3]))) {
    std::fprintf(stderr, "usage: cpu_model MODEL.onnx [RUNS] [INSTRUCTION_SET]\n");
    return 2;
  }
  const auto done = sinter::cpu::run(argv[1], argc > 2 ? std::atoi(argv[2]) : 50);
  if (!done) std::fprintf(stderr, "%s\n", to_string(done.error()).c_str());
  return done ? 0 : 1;
}
