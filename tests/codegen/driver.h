// SPDX-License-Identifier: Apache-2.0
// Runs generated models against the ONNX files that they come from, bit for bit. tests/codegen_test.py writes the cases.
#pragma once

#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include <sinter/sinter.hpp>

namespace driver {

using Tensors = std::vector<sinter::HostTensor>;
/// Every round's outputs, one after the other.
using Run = sinter::Task<Tensors> (*)(sinter::Engine engine, std::vector<Tensors> rounds);

struct Case {
  const char* name;
  const char* model;   // path of the ONNX file
  const char* inputs;  // file of the inputs: per tensor dtype u32, rank u32, dims i64, then the bytes
  size_t rounds;       // equal parts of it, each for one run
  Run run;
};

inline Tensors read_inputs(const char* path) {
  Tensors tensors;
  std::ifstream file(path, std::ios::binary);
  unsigned header[2];
  while (file.read(reinterpret_cast<char*>(header), sizeof header)) {
    sinter::Shape shape;
    for (unsigned i = 0; i < header[1]; ++i) {
      int64_t dim = 0;
      file.read(reinterpret_cast<char*>(&dim), sizeof dim);
      shape.push_back(dim);
    }
    auto tensor = sinter::HostTensor::zeros(static_cast<sinter::DType>(header[0]), shape);
    if (!tensor) return {};
    file.read(reinterpret_cast<char*>(tensor->mutable_bytes().data()),
              static_cast<std::streamsize>(tensor->mutable_bytes().size()));
    tensors.push_back(*tensor);
  }
  return tensors;
}

inline void write_outputs(const std::string& path, const Tensors& tensors) {
  std::ofstream file(path, std::ios::binary);
  const auto put = [&](const auto* from, size_t count) {
    file.write(reinterpret_cast<const char*>(from), static_cast<std::streamsize>(count * sizeof *from));
  };
  for (const sinter::HostTensor& tensor : tensors) {
    const unsigned header[] = {static_cast<unsigned>(tensor.dtype()), static_cast<unsigned>(tensor.shape().rank())};
    put(header, 2);
    for (const int64_t dim : tensor.shape()) put(&dim, 1);
    put(tensor.bytes().data(), tensor.bytes().size());
  }
}

inline std::vector<Tensors> read_rounds(const Case& one) {
  const Tensors all = read_inputs(one.inputs);
  std::vector<Tensors> rounds(one.rounds);
  for (size_t i = 0; i < all.size(); ++i) rounds[i / (all.size() / one.rounds)].push_back(all[i]);
  return rounds;
}

inline sinter::Task<Tensors> run_session(sinter::Engine engine, std::string model, std::vector<Tensors> rounds) {
  auto session = co_await engine.load(std::move(model));
  if (!session) co_return std::unexpected(session.error());
  const auto infos = session->inputs();
  Tensors tensors;
  for (const Tensors& inputs : rounds) {
    std::vector<sinter::NamedTensor> named;
    for (size_t i = 0; i < infos.size(); ++i) named.push_back({infos[i].name, inputs[i]});
    auto outputs = co_await session->run(std::move(named));
    if (!outputs) co_return std::unexpected(outputs.error());
    for (auto& output : *outputs) tensors.push_back(output.tensor);
  }
  co_return tensors;
}

inline bool same(const sinter::HostTensor& a, const sinter::HostTensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() && a.bytes().size() == b.bytes().size() &&
         (a.bytes().empty() || std::memcmp(a.bytes().data(), b.bytes().data(), a.bytes().size()) == 0);
}

/// What is wrong, or nothing. The outputs are kept in a file named after that of the inputs.
inline std::string check(const sinter::Engine& engine, const Case& one, const char* suffix) {
  const std::vector<Tensors> rounds = read_rounds(one);
  const auto expected = engine.wait(run_session(engine, one.model, rounds));
  const auto actual = engine.wait(one.run(engine, rounds));
  if (!expected) return "the ONNX file: " + sinter::to_string(expected.error());
  if (!actual) return sinter::to_string(actual.error());
  if (expected->size() != actual->size()) return "another number of outputs";
  for (size_t i = 0; i < actual->size(); ++i) {
    if (!same((*expected)[i], (*actual)[i])) return "output " + std::to_string(i) + " differs";
  }
  write_outputs(one.inputs + std::string(suffix), *actual);
  return {};
}

inline sinter::Engine make_engine(std::string_view backend) {
  sinter::EngineOptions options;
  options.threads = 1;
  options.timeout_ms = 300000;  // software adapters, on machines that are busy with other tests
  options.backend = backend == "webgpu" ? sinter::Backend::webgpu
                    : backend == "cpu"  ? sinter::Backend::cpu
                                        : sinter::Backend::reference;
  return sinter::Engine(options);
}

}  // namespace driver
