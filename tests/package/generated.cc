// SPDX-License-Identifier: Apache-2.0
// A model as C++ with its weights beside the program, and again with them inside: both give the same answer.
#include <cstdio>

#include <clothes.hpp>
#include <clothes_inside.hpp>

namespace {

template <class Model>
sinter::Task<float> first_logit(sinter::Engine engine) {
  auto model = co_await Model::create(engine);
  if (!model) co_return std::unexpected(model.error());
  auto input = sinter::HostTensor::zeros(sinter::DType::f32, {1, 3, 224, 224});
  if (!input) co_return std::unexpected(input.error());
  typename Model::Inputs inputs;
  inputs.input = *input;
  auto outputs = co_await model->forward(std::move(inputs));
  if (!outputs) co_return std::unexpected(outputs.error());
  co_return outputs->output.template data<float>()[0];
}

}  // namespace

int main() {
  sinter::EngineOptions options;
  options.backend = sinter::Backend::cpu;
  const sinter::Engine engine(options);
  const auto beside = engine.wait(first_logit<clothes::Model>(engine));
  const auto inside = engine.wait(first_logit<clothes_inside::Model>(engine));
  for (const auto* logit : {&beside, &inside}) {
    if (*logit) continue;
    std::fprintf(stderr, "%s\n", sinter::to_string(logit->error()).c_str());
    return 1;
  }
  std::printf("beside %.6f inside %.6f\n", static_cast<double>(*beside), static_cast<double>(*inside));
  return *beside == *inside ? 0 : 1;
}
