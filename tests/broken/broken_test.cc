// SPDX-License-Identifier: Apache-2.0
// Real faults, not injected ones: compare and bisect must name the pass, the patch and the nodes of each broken part, and
// the repro must fail with the broken part and pass without it.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <utility>

#include "engine/async/block_on_native.h"
#include "engine/diag/report.h"
#include "engine/diag/repro.h"
#include "engine/onnx/parse.h"
#include "tests/broken/parts.h"
#include "tests/support/onnx_writer.h"

namespace sinter::test {
namespace {

using diag::BisectResult;
using Names = std::vector<std::string>;

constexpr Tolerance kTolerance{1e-3, 1e-4};

class Weights {
 public:
  Message operator()(const std::string& name, const std::vector<int64_t>& dims, float lo, float hi) {
    size_t count = 1;
    for (const int64_t dim : dims) count *= static_cast<size_t>(dim);
    std::uniform_real_distribution<float> uniform(lo, hi);
    std::vector<float> values(count);
    for (float& value : values) value = uniform(random_);
    return tensor_f32(name, dims, values);
  }

 private:
  std::mt19937 random_{7};
};

// Conv, BatchNormalization and activation four times, the second convolution depthwise and the third strided, all padded on
// one side; then MaxPool, Flatten and Gemm.
Blob chain_model() {
  ModelWriter writer;
  Weights weights;
  const auto block = [&](int i, const std::string& x, int64_t in, int64_t out, int64_t group, int64_t stride) {
    const std::string n = std::to_string(i);
    writer.initializers.push_back(weights("w" + n, {out, in / group, 3, 3}, -0.5f, 0.5f));
    writer.initializers.push_back(weights("scale" + n, {out}, 0.5f, 1.5f));
    writer.initializers.push_back(weights("bias" + n, {out}, -0.3f, 0.3f));
    writer.initializers.push_back(weights("mean" + n, {out}, -0.5f, 0.5f));
    writer.initializers.push_back(weights("var" + n, {out}, 0.5f, 1.5f));
    writer.nodes.push_back(node("Conv", {x, "w" + n}, {"c" + n},
                                {attr_ints("pads", {0, 0, 1, 1}), attr_ints("strides", {stride, stride}),
                                 attr_ints("kernel_shape", {3, 3}), attr_int("group", group)},
                                "conv" + n));
    writer.nodes.push_back(node("BatchNormalization", {"c" + n, "scale" + n, "bias" + n, "mean" + n, "var" + n},
                                {"b" + n}, {}, "norm" + n));
    writer.nodes.push_back(node("Relu", {"b" + n}, {"r" + n}, {}, "relu" + n));
  };
  block(0, "x", 3, 8, 1, 1);
  block(1, "r0", 8, 8, 8, 1);
  block(2, "r1", 8, 16, 1, 2);
  block(3, "r2", 16, 8, 1, 1);
  writer.nodes.push_back(node("MaxPool", {"r3"}, {"p"}, {attr_ints("kernel_shape", {2, 2})}, "pool"));
  writer.nodes.push_back(node("Flatten", {"p"}, {"f"}, {}, "flatten"));
  writer.initializers.push_back(weights("wg", {5, 8 * 6 * 4}, -0.3f, 0.3f));
  writer.nodes.push_back(node("Gemm", {"f", "wg"}, {"y"}, {attr_int("transB", 1)}, "gemm"));
  writer.inputs.push_back(value_info("x", DType::f32, {int64_t{1}, int64_t{3}, int64_t{19}, int64_t{15}}));
  writer.outputs.push_back(value_info("y", DType::f32, {int64_t{1}, int64_t{5}}));
  return Blob(writer.bytes());
}

std::vector<NamedTensor> inputs() {
  Tensor x = *Tensor::alloc(DType::f32, {1, 3, 19, 15});
  std::mt19937 random(3);
  std::uniform_real_distribution<float> uniform(-1, 1);
  for (float& value : x.mutable_data<float>()) value = uniform(random);
  return {{"x", x}};
}

class BrokenParts : public testing::Test {
 protected:
  ~BrokenParts() override { g_broken = Broken::nothing; }

  template <class T>
  Result<T> wait(Task<T> task) {
    return block_on(engine_->executor(), std::move(task), [this] { return engine_->poll(); });
  }
  ModelSource source() const { return {model_.bytes(), model_.text, nullptr}; }

  bool have_device() { return wait(engine_->device()).has_value(); }

  diag::CompareResult compared(BackendChoice backend) {
    auto result = wait(diag::compare(engine_, source(), {.backend = BackendChoice::reference}, {.backend = backend},
                                     inputs(), kTolerance));
    EXPECT_TRUE(result.has_value()) << to_string(result.error());
    return result ? *result : diag::CompareResult{};
  }

  BisectResult bisected(BackendChoice backend) {
    good_ = {.backend = BackendChoice::reference};
    bad_ = {.backend = backend};
    auto result = wait(diag::bisect(engine_, source(), good_, bad_, inputs(), kTolerance));
    EXPECT_TRUE(result.has_value()) << to_string(result.error());
    if (!result) return {};
    EXPECT_LE(result->runs, 2 * std::log2(15) + 4);
    if (result->kind != BisectResult::Kind::none) check_repro(*result);
    return *result;
  }

  // The repro fails with the broken part, and passes on the good way and once the part is mended.
  void check_repro(const BisectResult& found) {
    const auto repro = wait(diag::make_repro(engine_, source(), found, good_, bad_, inputs(), kTolerance));
    ASSERT_TRUE(repro.has_value()) << to_string(repro.error());
    EXPECT_FALSE(repro->whole_model);
    EXPECT_LT(repro->files[0].bytes.size(), model_.bytes().size() / 2);
    const Blob cut(repro->files[0].bytes);
    std::vector<NamedTensor> given;
    std::vector<Tensor> expected;
    read_back(*repro, cut, given, expected);
    EXPECT_FALSE(agrees(cut, bad_, given, expected));
    EXPECT_TRUE(agrees(cut, good_, given, expected));
    const Broken broken = std::exchange(g_broken, Broken::nothing);
    EXPECT_TRUE(agrees(cut, bad_, given, expected));
    g_broken = broken;
    const std::string report = diag::report_markdown(found, *repro, good_, bad_, {.model = "chain.onnx"});
    for (const std::string& name : found.nodes) EXPECT_NE(report.find(name), std::string::npos) << report;
    EXPECT_NE(report.find(found.kind == BisectResult::Kind::patch ? found.pass : found.op), std::string::npos);
    keep(*repro, report);
  }

  void read_back(const diag::Repro& repro, const Blob& cut, std::vector<NamedTensor>& given,
                 std::vector<Tensor>& expected) {
    const auto model = onnx::parse(cut.bytes(), cut.text);
    ASSERT_TRUE(model.has_value()) << to_string(model.error());
    for (size_t i = 1; i < repro.files.size(); ++i) {
      const Blob file(repro.files[i].bytes);
      const auto tensor = onnx::parse_tensor_file(file.bytes(), file.text);
      ASSERT_TRUE(tensor.has_value()) << to_string(tensor.error());
      const Tensor aligned = *tensor->tensor.aligned();
      if (repro.files[i].name.find("input_") != std::string::npos) {
        given.push_back({std::string(model->graph.inputs[given.size()].name), aligned});
      } else {
        expected.push_back(aligned);
      }
    }
  }

  bool agrees(const Blob& cut, const diag::Spec& spec, const std::vector<NamedTensor>& given,
              const std::vector<Tensor>& expected) {
    const auto session =
        wait(open_session(engine_, ModelSource{cut.bytes(), cut.text, nullptr}, diag::options_for(spec)));
    if (!session) return false;
    const auto outputs = wait((*session)->run(given, {}));
    if (!outputs || outputs->size() != expected.size()) return false;
    for (size_t i = 0; i < expected.size(); ++i) {
      const auto comparison = sinter::compare((*outputs)[i].tensor, expected[i], Tolerance{});
      if (!comparison || !comparison->equal()) return false;
    }
    return true;
  }

  // For a look from outside: ONNX Runtime must load what is written here.
  static void keep(const diag::Repro& repro, const std::string& report) {
    const char* folder = std::getenv("SINTER_REPRO_DIR");
    if (!folder) return;
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    const std::filesystem::path base = std::filesystem::path(folder) / info->name();
    std::filesystem::create_directories(base / "test_data_set_0");
    for (const diag::File& file : repro.files) std::ofstream(base / file.name, std::ios::binary) << file.bytes;
    std::ofstream(base / "report.md") << report;
  }

  std::shared_ptr<Engine> engine_ = std::make_shared<Engine>(EngineOptions{});
  Blob model_ = chain_model();
  diag::Spec good_, bad_;
};

TEST_F(BrokenParts, NothingBrokenIsNoDifference) {
  EXPECT_TRUE(compared(BackendChoice::cpu).equal);
  EXPECT_EQ(bisected(BackendChoice::cpu).kind, BisectResult::Kind::none);
}

TEST_F(BrokenParts, AWrongFusedClampIsThePatchThatFusesIt) {
  g_broken = Broken::fused_clamp;
  const auto difference = compared(BackendChoice::cpu).first;
  ASSERT_TRUE(difference.has_value());
  // Without fusion both agree, so it is the fused step itself.
  EXPECT_EQ(difference->nodes, (Names{"conv1", "norm1", "relu1"}));
  const BisectResult found = bisected(BackendChoice::cpu);
  EXPECT_EQ(found.kind, BisectResult::Kind::patch);
  EXPECT_EQ(found.pass, "fuse_epilogue");
  EXPECT_EQ(found.nodes, (Names{"conv1", "norm1", "relu1"}));
}

TEST_F(BrokenParts, AKernelThatFailsWhenFusedIsThePatchThatFusesIt) {
  g_broken = Broken::fused_failure;
  const BisectResult found = bisected(BackendChoice::cpu);
  EXPECT_EQ(found.kind, BisectResult::Kind::patch);
  EXPECT_EQ(found.pass, "fuse_epilogue");
  EXPECT_EQ(found.nodes, (Names{"conv1", "norm1", "relu1"}));
  EXPECT_NE(found.failure.find("the scratch memory is too small"), std::string::npos) << found.failure;
}

TEST_F(BrokenParts, AWrongKernelInsideAFusedStepIsNarrowedToItsNode) {
  g_broken = Broken::depthwise;
  const auto difference = compared(BackendChoice::cpu).first;
  ASSERT_TRUE(difference.has_value());
  EXPECT_EQ(difference->nodes, (Names{"conv1"}));
  EXPECT_EQ(difference->index, (std::vector<int64_t>{0, 7, 16, 12}));
}

TEST_F(BrokenParts, ASwappedPaddingIsThePatchThatSwapsIt) {
  g_broken = Broken::swapped_padding;
  const BisectResult found = bisected(BackendChoice::cpu);
  EXPECT_EQ(found.kind, BisectResult::Kind::patch);
  EXPECT_EQ(found.pass, "normalise_padding");
  EXPECT_EQ(found.patch, 3);
  EXPECT_EQ(found.nodes, (Names{"conv2"}));
  const auto difference = compared(BackendChoice::cpu).first;
  ASSERT_TRUE(difference.has_value());
  EXPECT_EQ(difference->nodes, (Names{"conv2"}));
}

TEST_F(BrokenParts, ABadBatchNormalizationFoldIsThatPatch) {
  g_broken = Broken::batchnorm_fold;
  const BisectResult found = bisected(BackendChoice::cpu);
  EXPECT_EQ(found.kind, BisectResult::Kind::patch);
  EXPECT_EQ(found.pass, "fold_batchnorm");
  EXPECT_EQ(found.nodes, (Names{"conv2", "norm2"}));
  const auto difference = compared(BackendChoice::cpu).first;
  ASSERT_TRUE(difference.has_value());
  EXPECT_EQ(difference->nodes, (Names{"conv2", "norm2", "relu2"}));
}

TEST_F(BrokenParts, AWrongTailOfAShaderIsItsNode) {
  if (!have_device()) GTEST_SKIP() << "no WebGPU adapter";
  g_broken = Broken::wgsl_tail;
  const auto difference = compared(BackendChoice::webgpu).first;
  ASSERT_TRUE(difference.has_value());
  EXPECT_EQ(difference->nodes, (Names{"pool"}));
  const BisectResult found = bisected(BackendChoice::webgpu);
  EXPECT_EQ(found.kind, BisectResult::Kind::node);
  EXPECT_EQ(found.nodes, (Names{"pool"}));
}

TEST_F(BrokenParts, AWrongFusedClampOfAShaderIsThePatchThatFusesIt) {
  if (!have_device()) GTEST_SKIP() << "no WebGPU adapter";
  g_broken = Broken::wgsl_fused_clamp;
  const auto difference = compared(BackendChoice::webgpu).first;
  ASSERT_TRUE(difference.has_value());
  EXPECT_EQ(difference->nodes, (Names{"conv0", "norm0", "relu0"}));
  const BisectResult found = bisected(BackendChoice::webgpu);
  EXPECT_EQ(found.kind, BisectResult::Kind::patch);
  EXPECT_EQ(found.pass, "fuse_epilogue");
  EXPECT_EQ(found.nodes, (Names{"conv0", "norm0", "relu0"}));
}

}  // namespace
}  // namespace sinter::test
