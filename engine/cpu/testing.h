// SPDX-License-Identifier: Apache-2.0
// For tests of kernels: seeded tensors, one call of a kernel the way a plan makes it, and comparison. The expected values
// come from plain loops inside the tests, with double accumulation.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/str.h"
#include "engine/cpu/kernels.h"
#include "engine/cpu/pool.h"

namespace sinter::cpu::testing {

inline Tensor make(DType dtype, const Shape& shape) {
  auto tensor = Tensor::alloc(dtype, shape);
  EXPECT_TRUE(tensor.has_value());
  return *tensor;
}

inline Tensor random(const Shape& shape, uint32_t seed, float lo = -1, float hi = 1) {
  Tensor tensor = make(DType::f32, shape);
  uint64_t state = seed * 0x9e3779b97f4a7c15ull + 1;
  for (float& value : tensor.mutable_data<float>()) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    value = lo + (hi - lo) * static_cast<float>(state >> 40) / static_cast<float>(1 << 24);
  }
  return tensor;
}

struct Call {
  Node node;
  std::vector<Tensor> inputs;     // empty handle: absent
  std::vector<bool> weight = {};  // per input
  Shape output;
  std::string kernel = {};  // expected name; empty: any
};

/// Runs the first kernel that accepts the call; fails the test where there is none. The output starts as NaN, scratch as
/// junk, and the weights that the kernel packs are packed.
inline Tensor run(const Call& call, unsigned threads) {
  std::vector<TensorInfo> infos(call.inputs.size());
  for (size_t i = 0; i < infos.size(); ++i) {
    const Tensor& input = call.inputs[i];
    const bool weight = i < call.weight.size() && call.weight[i];
    infos[i].present = static_cast<bool>(input);
    if (input) infos[i] = {input.dtype(), input.shape(), weight ? &input : nullptr, true, weight};
  }
  const TensorInfo output{DType::f32, call.output, nullptr, true, false};
  for (const plan::HostKernel* kernel : host_kernels()) {
    if (!kernel->op.empty() && kernel->op != call.node.op->name) continue;
    if (!kernel->accepts(call.node, infos, {&output, 1})) continue;
    if (!call.kernel.empty()) EXPECT_EQ(kernel->name, call.kernel);
    std::vector<Tensor> packed = call.inputs;
    std::vector<const Tensor*> pointers(packed.size());
    for (size_t i = 0; i < packed.size(); ++i) {
      int64_t arg = 0;
      const Packer* packer = infos[i].weight && kernel->packer ? kernel->packer(call.node, infos, i, &arg) : nullptr;
      if (packer) packed[i] = *packer->pack(packed[i], arg);
      if (packed[i]) pointers[i] = &packed[i];
    }
    std::vector<Tensor> outputs = {make(DType::f32, call.output)};
    for (float& value : outputs[0].mutable_data<float>()) value = NAN;
    const uint64_t bytes = kernel->scratch_bytes ? kernel->scratch_bytes(call.node, infos, {&output, 1}, threads) : 0;
    Tensor scratch = make(DType::u8, {static_cast<int64_t>(bytes)});
    std::memset(scratch.mutable_bytes().data(), 0x7f, bytes);
    const auto pool = make_native_pool(threads);
    const auto done = kernel->run({call.node, pointers, outputs, scratch.mutable_bytes(), *pool});
    EXPECT_TRUE(done.has_value()) << (done ? "" : done.error().message);
    return outputs[0];
  }
  ADD_FAILURE() << "no kernel accepts " << call.node.op->name;
  return make(DType::f32, call.output);
}

inline void expect_near(const Tensor& actual, const std::vector<double>& expected, double tolerance) {
  ASSERT_EQ(actual.numel(), expected.size());
  const auto data = actual.data<float>();
  for (size_t i = 0; i < data.size(); ++i) {
    if (std::isnan(expected[i])) {
      ASSERT_TRUE(std::isnan(data[i])) << "element " << i << ": " << data[i] << " instead of NaN";
    } else if (std::isinf(expected[i])) {
      ASSERT_EQ(data[i], expected[i]) << "element " << i;
    } else {
      ASSERT_NEAR(data[i], expected[i], tolerance * std::max(1.0, std::abs(expected[i]))) << "element " << i;
    }
  }
}

/// Calls body(threads) on every instruction set of this machine, with 1 and 3 threads.
inline void everywhere(const std::function<void(unsigned)>& body) {
  for (std::string_view set : instruction_sets()) {
    ASSERT_TRUE(force_instruction_set(set));
    for (unsigned threads : {1u, 3u}) {
      SCOPED_TRACE(StrCat(set, ", ", threads, " threads"));
      body(threads);
      if (::testing::Test::HasFatalFailure()) break;
    }
  }
  force_instruction_set("");
}

}  // namespace sinter::cpu::testing
