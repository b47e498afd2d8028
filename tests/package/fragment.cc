// SPDX-License-Identifier: Apache-2.0
// A model whose generated code is kept, built by the CMake fragment that comes with it.
#include <cstdio>

#include <clothes_kept.hpp>

int main() {
  const sinter::Engine engine({.backend = sinter::Backend::cpu});
  const auto model = engine.wait(clothes_kept::Model::create(engine));
  if (!model) {
    std::printf("%s\n", sinter::to_string(model.error()).c_str());
    return 1;
  }
  clothes_kept::Model::Inputs inputs;
  inputs.input = *sinter::HostTensor::zeros(sinter::DType::f32, {1, 3, 224, 224});
  const auto outputs = engine.wait(model->forward(std::move(inputs)));
  if (!outputs) return 1;
  std::printf("kept %.6f\n", static_cast<double>(outputs->output.data<float>()[0]));
  return 0;
}
