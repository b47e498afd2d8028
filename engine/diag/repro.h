// SPDX-License-Identifier: Apache-2.0
// Repro: the part of a model around what bisect found, made as small as the difference allows, as an ONNX backend test that
// the bad way fails and the good one passes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/diag/bisect.h"
#include "engine/diag/cut.h"

namespace sinter::diag {

struct ReproNode {
  std::string name, op;
  std::string attributes;                    // "group=32 strides=[2,2]"
  std::vector<std::string> inputs, outputs;  // "x float32[1,32,7,7]"
};

struct ReproKernel {
  std::string node, name;
  std::string wgsl;  // empty on the CPU
};

struct Repro {
  std::vector<File> files;
  std::vector<ReproNode> nodes;
  bool whole_model = false;  // the difference needs all of it
  // What differs on the cut model: an output, or the bad way's error.
  std::string output;
  std::vector<int64_t> index;
  double expected = 0, actual = 0;
  double max_abs = 0, max_rel = 0;
  uint64_t differing = 0, elements = 0;
  std::string failure;
  std::vector<ReproKernel> kernels;  // of the bad way on the cut model
  std::string adapter;               // webgpu
  int tries = 0;                     // pairs of runs it took to cut and shrink
};

/// Cuts around `found.nodes`, taking neighbours in until the difference shows, then makes shapes smaller while it does.
/// `found` must not be of kind none. `kept` as for bisect.
Task<Repro> make_repro(std::shared_ptr<Engine> engine, ModelSource source, BisectResult found, Spec good, Spec bad,
                       std::vector<NamedTensor> inputs, Tolerance tolerance, KeptRuns* kept = nullptr);

}  // namespace sinter::diag
