// SPDX-License-Identifier: Apache-2.0
// The whole walk through the public session: symbolic batch, queues, refusals, fall-back.
#include "engine/runtime/session.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "engine/async/block_on_native.h"
#include "engine/onnx/external_data.h"

namespace sinter {
namespace {

constexpr const char* kMobileNet = "models/fashion/mobilenetv2_fashion.onnx";
constexpr const char* kSqueezeNet = "models/fashion/squeezenet1_1_fashion.onnx";

struct Opened {
  std::shared_ptr<Engine> engine;
  std::shared_ptr<Session> session;
  Result<std::vector<NamedTensor>> run(std::vector<NamedTensor> inputs) {
    return block_on(engine->executor(), session->run(std::move(inputs), {}), [this] { return engine->poll(); });
  }
};

Result<Opened> open(const char* path, SessionOptions options, EngineOptions engine_options = {}) {
  Opened opened;
  opened.engine = std::make_shared<Engine>(engine_options);
  const auto file = SINTER_TRY(onnx::map_file(path));
  const ModelSource source{file.bytes, file.owner, nullptr};
  opened.session = SINTER_TRY(block_on(opened.engine->executor(), open_session(opened.engine, source, options),
                                       [&] { return opened.engine->poll(); }));
  return opened;
}

Tensor pictures(int64_t count, uint32_t seed) {
  Tensor tensor = *Tensor::alloc(DType::f32, {count, 3, 224, 224});
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-2, 2);
  for (float& value : tensor.mutable_data<float>()) value = uniform(random);
  return tensor;
}

Tensor slice(const Tensor& batch, int64_t index) {
  Shape shape = batch.shape();
  const size_t bytes = batch.nbytes() / shape[0];
  shape[0] = 1;
  return Tensor::view(batch.dtype(), shape, batch.bytes().subspan(index * bytes, bytes),
                      std::make_shared<Tensor>(batch));
}

void expect_batches_agree(BackendChoice backend) {
  SessionOptions options;
  options.backend = backend;
  auto opened = open(kMobileNet, options);
  ASSERT_TRUE(opened.has_value()) << to_string(opened.error());
  const Tensor four = pictures(4, 1);
  const auto together = opened->run({{"input", four}});
  ASSERT_TRUE(together.has_value()) << to_string(together.error());
  const Tensor& all = (*together)[0].tensor;
  ASSERT_EQ(all.shape(), (Shape{4, 10}));
  for (int64_t i = 0; i < 4; ++i) {
    const auto alone = opened->run({{"input", slice(four, i)}});
    ASSERT_TRUE(alone.has_value()) << to_string(alone.error());
    for (size_t k = 0; k < 10; ++k) {
      EXPECT_NEAR((*alone)[0].tensor.data<float>()[k], all.data<float>()[i * 10 + k], 1e-4) << "picture " << i;
    }
  }
  EXPECT_TRUE(opened->session->report().cpu_steps.empty());
}

TEST(Session, OneSessionServesBatchesOfOneAndFourOnTheCpu) { expect_batches_agree(BackendChoice::cpu); }
TEST(Session, OneSessionServesBatchesOfOneAndFourOnWebGpu) { expect_batches_agree(BackendChoice::webgpu); }

TEST(Session, UnawaitedRunsQueueAndEachGetsItsOwnAnswer) {
  SessionOptions options;
  options.backend = BackendChoice::cpu;
  auto opened = open(kSqueezeNet, options);
  ASSERT_TRUE(opened.has_value()) << to_string(opened.error());
  std::vector<std::optional<Result<std::vector<NamedTensor>>>> results(4);
  for (size_t i = 0; i < results.size(); ++i) {
    spawn(opened->engine->executor(), opened->session->run({{"input", pictures(1, static_cast<uint32_t>(i))}}, {}),
          [&results, i](Result<std::vector<NamedTensor>> result) { results[i].emplace(std::move(result)); });
  }
  opened->engine->executor().drain();
  for (size_t i = 0; i < results.size(); ++i) {
    ASSERT_TRUE(results[i].has_value() && results[i]->has_value());
    const auto alone = opened->run({{"input", pictures(1, static_cast<uint32_t>(i))}});
    EXPECT_EQ((**results[i])[0].tensor.data<float>()[3], (*alone)[0].tensor.data<float>()[3]);
  }
}

TEST(Session, WrongInputsAreNamedWithWhatTheModelWants) {
  SessionOptions options;
  options.backend = BackendChoice::cpu;
  auto opened = open(kMobileNet, options);
  ASSERT_TRUE(opened.has_value());
  const auto expect_refused = [&](std::vector<NamedTensor> inputs, const char* text) {
    const auto result = opened->run(std::move(inputs));
    ASSERT_FALSE(result.has_value());
    EXPECT_EQ(result.error().code, Code::InvalidInput);
    EXPECT_NE(to_string(result.error()).find(text), std::string::npos) << to_string(result.error());
  };
  expect_refused({}, "'input' is missing");
  expect_refused({{"image", pictures(1, 1)}}, "no input named 'image'");
  expect_refused({{"input", pictures(1, 1)}, {"input", pictures(1, 1)}}, "given twice");
  expect_refused({{"input", *Tensor::alloc(DType::f32, {1, 3, 200, 200})}}, "[1,3,200,200]");
  expect_refused({{"input", *Tensor::alloc(DType::f32, {3, 224, 224})}}, "[3,224,224]");
  expect_refused({{"input", *Tensor::alloc(DType::u8, {1, 3, 224, 224})}}, "uint8");
  EXPECT_TRUE(opened->run({{"input", pictures(1, 1)}}).has_value());
}

TEST(Session, NotANumberPropagates) {
  SessionOptions options;
  options.backend = BackendChoice::cpu;
  auto opened = open(kMobileNet, options);
  ASSERT_TRUE(opened.has_value());
  Tensor input = pictures(1, 1);
  for (float& value : input.mutable_data<float>()) value = std::nanf("");
  const auto result = opened->run({{"input", input}});
  ASSERT_TRUE(result.has_value());
  for (float value : (*result)[0].tensor.data<float>()) EXPECT_TRUE(std::isnan(value));
}

Task<std::shared_ptr<gpu::Device>> no_device(gpu::DeviceOptions) {
  co_return fail(Code::Gpu, "no adapter in this test", "use the CPU backend");
}

TEST(Session, AutoAnswersOnTheCpuWhereNoDeviceOpensAndSaysWhy) {
  EngineOptions engine_options;
  engine_options.open_device = &no_device;
  auto opened = open(kMobileNet, {}, engine_options);
  ASSERT_TRUE(opened.has_value()) << to_string(opened.error());
  EXPECT_EQ(opened->session->report().backend, plan::Backend::cpu);
  ASSERT_EQ(opened->session->report().fallbacks.size(), 1u);
  EXPECT_NE(opened->session->report().fallbacks[0].reason.find("no adapter in this test"), std::string::npos);
  EXPECT_TRUE(opened->run({{"input", pictures(1, 1)}}).has_value());
}

TEST(Session, AnExplicitBackendNeverFallsBack) {
  EngineOptions engine_options;
  engine_options.open_device = &no_device;
  SessionOptions options;
  options.backend = BackendChoice::webgpu;
  const auto opened = open(kMobileNet, options, engine_options);
  ASSERT_FALSE(opened.has_value());
  EXPECT_EQ(opened.error().code, Code::Gpu);
}

int g_opened = 0;
Task<std::shared_ptr<gpu::Device>> counted(gpu::DeviceOptions) {
  ++g_opened;
  co_return fail(Code::Gpu, "not here");
}

TEST(Session, CpuModeNeverOpensADevice) {
  g_opened = 0;
  EngineOptions engine_options;
  engine_options.open_device = &counted;
  for (BackendChoice backend : {BackendChoice::cpu, BackendChoice::reference}) {
    SessionOptions options;
    options.backend = backend;
    ASSERT_TRUE(open("models/generated/single_gemm.onnx", options, engine_options).has_value());
  }
  EXPECT_EQ(g_opened, 0);
}

TEST(Session, AClosedSessionRefusesRuns) {
  SessionOptions options;
  options.backend = BackendChoice::cpu;
  auto opened = open(kMobileNet, options);
  ASSERT_TRUE(opened.has_value());
  opened->session->close();
  const auto result = opened->run({{"input", pictures(1, 1)}});
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, Code::InvalidInput);
}

TEST(Session, CancellingARunLeavesTheNextOneRight) {
  SessionOptions options;
  options.backend = BackendChoice::cpu;
  auto opened = open(kMobileNet, options);
  ASSERT_TRUE(opened.has_value());
  CancelSource source;
  source.cancel();
  const auto cancelled =
      block_on(opened->engine->executor(), opened->session->run({{"input", pictures(1, 1)}}, {source.token()}));
  ASSERT_FALSE(cancelled.has_value());
  EXPECT_EQ(cancelled.error().code, Code::Cancelled);
  EXPECT_TRUE(opened->run({{"input", pictures(1, 1)}}).has_value());
}

}  // namespace
}  // namespace sinter
