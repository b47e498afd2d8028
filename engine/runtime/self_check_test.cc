// SPDX-License-Identifier: Apache-2.0
#include "engine/runtime/self_check.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstring>

#include "engine/async/block_on_native.h"
#include "engine/gpu/fake_device.h"
#include "engine/onnx/external_data.h"
#include "engine/runtime/session.h"

namespace sinter {
namespace {

// A real device that passes for a hardware one and may change one of the values read back.
class Altered final : public gpu::Device {
 public:
  Altered(std::shared_ptr<gpu::Device> inner, bool lies) : inner_(std::move(inner)), lies_(lies) {
    info_ = inner_->adapter();
    info_.software = false;
  }
  const wgsl::Target& target() const override { return inner_->target(); }
  const gpu::AdapterInfo& adapter() const override { return info_; }
  gpu::BufferId create_buffer(uint64_t bytes, uint32_t use, std::string_view label) override {
    return inner_->create_buffer(bytes, use, label);
  }
  void destroy_buffer(gpu::BufferId id) override { inner_->destroy_buffer(id); }
  void write_buffer(gpu::BufferId id, uint64_t offset, std::span<const std::byte> bytes) override {
    inner_->write_buffer(id, offset, bytes);
  }
  Task<std::vector<gpu::PipelineId>> create_pipelines(std::vector<gpu::PipelineDesc> descs) override {
    return inner_->create_pipelines(std::move(descs));
  }
  void destroy_pipeline(gpu::PipelineId id) override { inner_->destroy_pipeline(id); }
  gpu::BindGroupId create_bind_group(gpu::PipelineId id, std::span<const gpu::BufferRange> ranges) override {
    return inner_->create_bind_group(id, ranges);
  }
  void destroy_bind_group(gpu::BindGroupId id) override { inner_->destroy_bind_group(id); }
  void submit(std::span<const gpu::Command> commands) override { inner_->submit(commands); }
  Task<> read_buffer(gpu::BufferId id, uint64_t offset, std::span<std::byte> out) override {
    return alter(inner_->read_buffer(id, offset, out), out, lies_);
  }
  void push_error_scope() override { inner_->push_error_scope(); }
  Task<> pop_error_scope() override { return inner_->pop_error_scope(); }
  void destroy() override { inner_->destroy(); }
  bool lost() const override { return inner_->lost(); }
  std::string lost_reason() const override { return inner_->lost_reason(); }
  bool poll() override { return inner_->poll(); }

 private:
  // The last float is off by one part in sixteen.
  static Task<> alter(Task<> read, std::span<std::byte> out, bool lies) {
    SINTER_CO_CHECK_OK(co_await std::move(read));
    float value = 0;
    std::memcpy(&value, out.data() + out.size() - 4, 4);
    if (lies) value *= 1.0625f;
    std::memcpy(out.data() + out.size() - 4, &value, 4);
    co_return Result<>{};
  }
  std::shared_ptr<gpu::Device> inner_;
  bool lies_;
  gpu::AdapterInfo info_;
};

std::shared_ptr<gpu::FakeDevice> g_fake;
Task<std::shared_ptr<gpu::Device>> open_fake(gpu::DeviceOptions) { co_return g_fake; }

template <bool lies>
Task<std::shared_ptr<gpu::Device>> open_altered(gpu::DeviceOptions options) {
  co_return std::make_shared<Altered>(SINTER_CO_TRY(co_await gpu::open_device(options)), lies);
}

using Open = decltype(EngineOptions::open_device);

std::shared_ptr<Engine> engine_with(Open open) {
  EngineOptions options;
  options.open_device = open;
  return std::make_shared<Engine>(options);
}

template <class T>
Result<T> wait(Engine& engine, Task<T> task) {
  return block_on(engine.executor(), std::move(task), [&] { return engine.poll(); });
}

Task<std::shared_ptr<Session>> open_gemm(std::shared_ptr<Engine> engine) {
  const auto file = SINTER_CO_TRY(onnx::map_file("models/generated/single_gemm.onnx"));
  co_return co_await open_session(engine, {file.bytes, file.owner, nullptr}, {});
}

size_t self_tests(Engine& engine) {
  size_t count = 0;
  engine.trace().visit(
      [&](const trace::Event& event) { count += event.stage == "self-test" && event.phase == trace::Phase::begin; });
  return count;
}

// The fake device computes nothing, as the drivers do that answer zeros.
TEST(SelfTest, ADeviceThatComputesNothingIsNotUsedAndTheReportSaysWhy) {
  g_fake = std::make_shared<gpu::FakeDevice>();
  const auto engine = engine_with(&open_fake);
  const auto session = wait(*engine, open_gemm(engine));
  ASSERT_TRUE(session.has_value()) << to_string(session.error());
  const SessionReport& report = (*session)->report();
  EXPECT_EQ(report.backend, plan::Backend::cpu);
  EXPECT_NE(report.why.find("the device computes wrong values"), std::string::npos) << report.why;
  ASSERT_EQ(report.fallbacks.size(), 1u);
  EXPECT_NE(report.fallbacks[0].reason.find("instead of"), std::string::npos) << report.fallbacks[0].reason;
}

TEST(SelfTest, ADeviceIsTriedOnceHoweverManySessionsOpen) {
  g_fake = std::make_shared<gpu::FakeDevice>();
  const auto engine = engine_with(&open_fake);
  std::vector<Result<std::shared_ptr<Session>>> opened;
  for (int i = 0; i < 3; ++i) {
    spawn(engine->executor(), open_gemm(engine), [&](auto result) { opened.push_back(std::move(result)); });
  }
  while (opened.size() < 3) {
    engine->executor().begin_turn();
    engine->executor().drain();
    engine->poll();
  }
  ASSERT_TRUE(wait(*engine, open_gemm(engine)).has_value());
  for (const auto& session : opened) {
    ASSERT_TRUE(session.has_value()) << to_string(session.error());
    EXPECT_EQ((*session)->report().backend, plan::Backend::cpu);
  }
  EXPECT_EQ(self_tests(*engine), 1u);
}

TEST(SelfTest, ADeviceThatFailsInTheTestIsNotUsed) {
  g_fake = std::make_shared<gpu::FakeDevice>();
  g_fake->fail_call(1, Error{Code::Gpu, "scripted failure", {}, {}});
  const auto engine = engine_with(&open_fake);
  const auto session = wait(*engine, open_gemm(engine));
  ASSERT_TRUE(session.has_value()) << to_string(session.error());
  EXPECT_NE((*session)->report().why.find("scripted failure"), std::string::npos) << (*session)->report().why;
}

TEST(SelfTest, AnExplicitBackendIsNotTested) {
  g_fake = std::make_shared<gpu::FakeDevice>();
  const auto engine = engine_with(&open_fake);
  ASSERT_TRUE(wait(*engine, engine->device()).has_value());
  EXPECT_EQ(self_tests(*engine), 0u);
  EXPECT_TRUE(wait(*engine, self_check(engine->pipelines())).error().message.find("wrong values") != std::string::npos);
}

class OnRealDevice : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!getenv("SINTER_TEST_ADAPTER")) GTEST_SKIP() << "no adapter chosen; see ./dev env";
  }
};

TEST_F(OnRealDevice, ARightDeviceIsUsed) {
  const auto engine = engine_with(&open_altered<false>);
  const auto session = wait(*engine, open_gemm(engine));
  ASSERT_TRUE(session.has_value()) << to_string(session.error());
  EXPECT_EQ((*session)->report().backend, plan::Backend::webgpu) << (*session)->report().why;
  EXPECT_EQ(self_tests(*engine), 1u);
  EXPECT_TRUE((*session)->report().fallbacks.empty());
}

TEST_F(OnRealDevice, OneWrongElementIsEnough) {
  const auto engine = engine_with(&open_altered<true>);
  const auto session = wait(*engine, open_gemm(engine));
  ASSERT_TRUE(session.has_value()) << to_string(session.error());
  EXPECT_EQ((*session)->report().backend, plan::Backend::cpu);
  EXPECT_NE((*session)->report().why.find("small Gemm"), std::string::npos) << (*session)->report().why;
}

}  // namespace
}  // namespace sinter
