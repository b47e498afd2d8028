// SPDX-License-Identifier: Apache-2.0
// app MODEL BACKEND: loads a model, runs it, and computes an expression; by waiting and in a coroutine.
#include <cstdio>
#include <string_view>

#include <sinter/sinter.hpp>

namespace {

using sinter::HostTensor;
using sinter::Tensor;

int report(const sinter::Error& error) {
  std::fprintf(stderr, "%s\n", sinter::to_string(error).c_str());
  return 1;
}

sinter::Task<float> largest(sinter::Engine engine, std::string model) {
  auto session = co_await engine.load(std::move(model));
  if (!session) co_return std::unexpected(session.error());
  auto input = HostTensor::zeros(sinter::DType::f32, {1, 3, 224, 224});
  if (!input) co_return std::unexpected(input.error());
  // Named first: GCC 12 does not compile a braced list inside co_await.
  std::vector<sinter::NamedTensor> inputs = {{session->inputs()[0].name, *input}};
  auto outputs = co_await session->run(std::move(inputs));
  if (!outputs) co_return std::unexpected(outputs.error());
  const Tensor logits(engine, (*outputs)[0].tensor);
  auto top = co_await sinter::reduce_max(logits).data();
  if (!top) co_return std::unexpected(top.error());
  std::printf("backend %s\n", session->report().backend.c_str());
  co_return top->data<float>()[0];
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  sinter::EngineOptions options;
  options.backend = std::string_view(argv[2]) == "webgpu" ? sinter::Backend::webgpu : sinter::Backend::cpu;
  const sinter::Engine engine(options);
  const auto top = engine.wait(largest(engine, argv[1]));
  if (!top) return report(top.error());
  std::printf("top %.6f\n", static_cast<double>(*top));

  const Tensor x(engine, {2, 2}, {1.0f, 2.0f, 3.0f, 4.0f});
  const auto y = sinter::relu(sinter::matmul(x, x) - 8).to_data();
  if (!y) return report(y.error());
  for (const float value : y->data<float>()) std::printf("%g ", static_cast<double>(value));
  std::printf("\n");

  const auto wrong = sinter::matmul(x, Tensor(engine, {3}, {1.0f, 2.0f, 3.0f})).to_data();
  if (wrong) return 1;
  std::printf("%s\n", sinter::to_string(wrong.error()).c_str());
  return 0;
}
