// SPDX-License-Identifier: Apache-2.0
// Arbitrary bytes as a model: parsing and importing must end in a graph that holds its invariants, or in a typed error that
// is not a mistake of ours.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "engine/base/memory.h"
#include "engine/onnx/external_data.h"
#include "engine/onnx/import.h"
#include "engine/onnx/parse.h"

namespace {

void expect_honest(const sinter::Error& error) {
  if (error.code != sinter::Code::Internal && !error.message.empty()) return;
  std::fprintf(stderr, "%s\n", sinter::to_string(error).c_str());
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  sinter::set_allocation_limit(64 << 20);
  // A copy of its own, so that a weight that outlives it is a use after free.
  auto owner = std::make_shared<std::string>(reinterpret_cast<const char*>(data), size);
  const std::span<const std::byte> bytes = std::as_bytes(std::span(owner->data(), owner->size()));
  sinter::onnx::ExternalFiles files;
  files.add("weights.bin", {bytes, owner});

  const auto tensor = sinter::onnx::parse_tensor_file(bytes, owner);
  if (!tensor) expect_honest(tensor.error());
  auto model = sinter::onnx::parse(bytes, owner);
  owner.reset();
  if (!model) {
    expect_honest(model.error());
    return 0;
  }
  const auto graph = sinter::onnx::import(*model, {.external_data = &files});
  if (!graph) {
    expect_honest(graph.error());
    return 0;
  }
  *model = {};
  uint64_t sum = 0;
  for (const sinter::Value& value : graph->values) {
    if (!value.constant) continue;
    for (const std::byte byte : value.constant.bytes()) sum += static_cast<uint64_t>(byte);
  }
  volatile uint64_t sink = sum;
  (void)sink;
  return 0;
}
