// SPDX-License-Identifier: Apache-2.0
// The native device on a real (usually software) adapter. ./dev test sets SINTER_TEST_ADAPTER and the driver; without
// it these tests are skipped, with it a missing adapter is a failure.
#include "engine/gpu/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <thread>

#include "engine/async/block_on_native.h"
#include "engine/base/str.h"

namespace sinter::gpu {
namespace {

using ::testing::HasSubstr;

#if SINTER_HAVE_WEBGPU

constexpr std::string_view kDouble = R"(
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
struct P { n: u32, add: f32 }
@group(0) @binding(2) var<uniform> p: P;
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) gid: vec3<u32>) {
  if (gid.x < p.n) { y[gid.x] = 2.0 * x[gid.x] + p.add; }
}
)";

const wgsl::Binding kBindings[] = {{.writes = false}, {.writes = true}};

constexpr std::string_view kMain = "@compute @workgroup_size(1) fn main() {}\n";

class NativeDeviceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!getenv("SINTER_TEST_ADAPTER")) GTEST_SKIP() << "no adapter chosen; see ./dev env";
    auto opened = block_on(executor_, open_device({}));
    ASSERT_TRUE(opened) << to_string(opened.error());
    device_ = *opened;
  }

  template <class T>
  Result<T> wait(Task<T> task) {
    return block_on(executor_, std::move(task), [this] { return device_->poll(); });
  }

  // 2x + 1 over n elements: what the device answers.
  Result<std::vector<float>> run_double(uint32_t n) {
    PipelineDesc desc{"double", kDouble, kBindings, true};
    auto pipelines = SINTER_TRY(wait(device_->create_pipelines({desc})));
    std::vector<float> values(n);
    for (uint32_t i = 0; i < n; ++i) values[i] = static_cast<float>(i);
    const uint64_t bytes = n * sizeof(float);
    struct {
      uint32_t n;
      float add;
      uint32_t pad[2];
    } params{n, 1.0f, {}};
    device_->push_error_scope();
    const BufferId x = device_->create_buffer(bytes, kStorage | kCopyDst, "x");
    const BufferId y = device_->create_buffer(bytes, kStorage | kCopySrc, "y");
    const BufferId uniform = device_->create_buffer(16, kUniform | kCopyDst, "p");
    const BufferId staging = device_->create_buffer(bytes, kMapRead | kCopyDst, "staging");
    const BufferRange ranges[] = {{x, 0, bytes}, {y, 0, bytes}, {uniform, 0, 16}};
    const BindGroupId group = device_->create_bind_group(pipelines[0], ranges);
    SINTER_CHECK_OK(wait(device_->pop_error_scope()));

    const Write writes[] = {{x, 0, std::as_bytes(std::span(values))},
                            {uniform, 0, std::as_bytes(std::span(&params, 1))}};
    const Command commands[] = {{.kind = Command::kDispatch, .a = pipelines[0], .b = group, .x = (n + 63) / 64},
                                {.kind = Command::kCopy, .a = y, .b = staging, .bytes = bytes}};
    std::vector<float> out(n);
    Result<> ran = wait(device_->execute({writes, commands, staging, 0, std::as_writable_bytes(std::span(out))}));
    for (BufferId buffer : {x, y, uniform, staging}) device_->destroy_buffer(buffer);
    device_->destroy_bind_group(group);
    device_->destroy_pipeline(pipelines[0]);
    SINTER_CHECK_OK(std::move(ran));
    return out;
  }

  Executor executor_;
  std::shared_ptr<Device> device_;
};

TEST_F(NativeDeviceTest, AnswersPlausibleFacts) {
  const wgsl::Target& target = device_->target();
  EXPECT_GE(target.max_storage_buffers, 8u);
  EXPECT_GE(target.max_invocations, 128u);
  EXPECT_GE(target.max_workgroup_bytes, 16384u);
  EXPECT_EQ(device_->adapter().backend, "vulkan");
  printf("adapter: %s %s, f16 %d, subgroups %d, timestamps %d, binding %llu, buffer %llu\n",
         device_->adapter().device.c_str(), device_->adapter().description.c_str(), target.f16, target.subgroups,
         target.timestamps, static_cast<unsigned long long>(target.max_binding_bytes),
         static_cast<unsigned long long>(target.max_buffer_bytes));
}

TEST_F(NativeDeviceTest, RunsAKernelAndReadsItsOutput) {
  auto out = run_double(1000);
  ASSERT_TRUE(out) << to_string(out.error());
  for (size_t i = 0; i < out->size(); ++i) ASSERT_EQ((*out)[i], 2.0f * i + 1.0f) << i;
}

// Inputs of this size go up through buffers that stay mapped: sizes alternate, so that one is kept, outgrown and replaced.
TEST_F(NativeDeviceTest, WritesLargeInputsAgainAndAgain) {
  for (uint32_t n : {600'000u, 1'000'000u, 600'000u, 600'001u, 2'000'000u, 600'000u, 1'500'000u}) {
    auto out = run_double(n);
    ASSERT_TRUE(out) << to_string(out.error());
    for (uint32_t i = 0; i < n; i += 997) ASSERT_EQ((*out)[i], 2.0f * i + 1.0f) << n << ": " << i;
    ASSERT_EQ(out->back(), 2.0f * (n - 1) + 1.0f);
  }
}

TEST_F(NativeDeviceTest, HasTheFeaturesThatItClaims) {
  const auto compiles = [&](std::string_view extension) {
    const std::string text = StrCat("enable ", extension, ";\n", kMain);
    return wait(device_->create_pipelines({{"feature", text, {}, false}})).has_value();
  };
  EXPECT_EQ(compiles("f16"), device_->target().f16);
  EXPECT_EQ(compiles("subgroups"), device_->target().subgroups);
}

TEST_F(NativeDeviceTest, ItsClockIsFineEnoughForOneSmallKernel) {
  if (!device_->target().timestamps) GTEST_SKIP() << "the adapter has no timestamp queries";
  const auto pipelines = wait(device_->create_pipelines({{"nothing", kMain, {}, false}}));
  ASSERT_TRUE(pipelines) << to_string(pipelines.error());
  const BindGroupId group = device_->create_bind_group((*pipelines)[0], {});
  const std::vector<Command> commands(64, {.kind = Command::kDispatch, .a = (*pipelines)[0], .b = group});
  const auto times = wait(device_->time(commands));
  ASSERT_TRUE(times) << to_string(times.error());
  // A rounded clock gives multiples of its step, 65 microseconds or more.
  const auto fine = std::ranges::count_if(*times, [](double ms) { return std::llround(ms * 1e6) % 65536 != 0; });
  EXPECT_GT(fine, 32);
  device_->destroy_bind_group(group);
  device_->destroy_pipeline((*pipelines)[0]);
}

TEST_F(NativeDeviceTest, MarksTheLineOfAShaderError) {
  const std::string bad = std::string(kDouble) + "fn broken() -> f32 {\n  return missing_name + 1.0;\n}\n";
  const PipelineDesc descs[] = {{"good", kDouble, kBindings, true}, {"bad kernel", bad, kBindings, true}};
  auto made = wait(device_->create_pipelines({descs[0], descs[1]}));
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, Code::Gpu);
  EXPECT_THAT(made.error().message, HasSubstr("compiling kernel bad kernel: "));
  EXPECT_THAT(made.error().message, HasSubstr("missing_name"));
  EXPECT_THAT(made.error().message, HasSubstr("(line 10, column 10)"));
  EXPECT_THAT(made.error().message, HasSubstr("> 10 |   return missing_name + 1.0;\n     |          ^"));
  EXPECT_TRUE(wait(device_->create_pipelines({descs[0]}))) << "a failed batch must not poison the next";
}

TEST_F(NativeDeviceTest, SaysWhyALayoutDoesNotMatch) {
  const wgsl::Binding swapped[] = {{.writes = true}, {.writes = true}};
  auto made = wait(device_->create_pipelines({PipelineDesc{"double", kDouble, swapped, true}}));
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error().message, HasSubstr("binding"));
}

TEST_F(NativeDeviceTest, CatchesValidationErrorsInTheirScope) {
  device_->push_error_scope();
  device_->push_error_scope();
  const BufferId bad = device_->create_buffer(16, kMapRead | kStorage, "mappable storage");
  auto inner = wait(device_->pop_error_scope());
  auto outer = wait(device_->pop_error_scope());
  ASSERT_FALSE(inner);
  EXPECT_EQ(inner.error().code, Code::Gpu);
  EXPECT_THAT(inner.error().message, HasSubstr("mappable storage"));
  EXPECT_TRUE(outer) << to_string(outer.error());
  device_->destroy_buffer(bad);
}

TEST_F(NativeDeviceTest, ReportsOutOfMemoryAsSuch) {
  auto big = block_on(executor_, open_device({.need_binding_bytes = ~0ull, .need_buffer_bytes = ~0ull}));
  ASSERT_TRUE(big) << to_string(big.error());
  const uint64_t bytes = (*big)->target().max_buffer_bytes & ~0xFFull;
  std::vector<BufferId> buffers;
  Result<> scope;
  for (int i = 0; i < 64 && scope; ++i) {  // more than any machine here can hold
    (*big)->push_error_scope();
    buffers.push_back((*big)->create_buffer(bytes, kStorage | kCopyDst, "huge"));
    scope = block_on(executor_, (*big)->pop_error_scope(), [&] { return (*big)->poll(); });
  }
  for (BufferId buffer : buffers) (*big)->destroy_buffer(buffer);
  if (scope) GTEST_SKIP() << "the driver overcommits: 64 buffers of " << bytes << " bytes were granted";
  EXPECT_EQ(scope.error().code, Code::OutOfMemory) << to_string(scope.error());
}

TEST_F(NativeDeviceTest, HandsStrayErrorsToTheNextScope) {
  device_->write_buffer(4711, 0, {});
  device_->push_error_scope();
  auto popped = wait(device_->pop_error_scope());
  ASSERT_FALSE(popped);
  EXPECT_THAT(popped.error().message, HasSubstr("4711"));
  device_->create_buffer(16, kMapRead | kStorage, "outside");
  device_->push_error_scope();
  popped = wait(device_->pop_error_scope());
  ASSERT_FALSE(popped);
  EXPECT_THAT(popped.error().message, HasSubstr("outside"));
  EXPECT_TRUE(run_double(10));
}

TEST_F(NativeDeviceTest, ARejectedMapIsAnErrorAndNeverZeros) {
  const BufferId buffer = device_->create_buffer(64, kStorage | kCopyDst, "not mappable");
  std::vector<std::byte> out(64, std::byte{7});
  device_->push_error_scope();
  auto read = wait(device_->read_buffer(buffer, 0, out));
  (void)wait(device_->pop_error_scope());
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, Code::Gpu);
  EXPECT_THAT(read.error().message, HasSubstr("mapAsync"));
  for (std::byte byte : out) ASSERT_EQ(byte, std::byte{7});
}

TEST_F(NativeDeviceTest, LossEndsWhatIsPendingAndWhatFollows) {
  const BufferId staging = device_->create_buffer(64, kMapRead | kCopyDst, "staging");
  std::vector<std::byte> out(64);
  device_->push_error_scope();
  Task<> read = device_->read_buffer(staging, 0, out);
  Task<> scope = device_->pop_error_scope();
  device_->destroy();
  EXPECT_TRUE(device_->lost());
  for (auto* task : {&read, &scope}) {
    auto ended = wait(std::move(*task));
    ASSERT_FALSE(ended);
    EXPECT_EQ(ended.error().code, Code::DeviceLost);
  }
  auto pipelines = wait(device_->create_pipelines({PipelineDesc{"double", kDouble, kBindings, true}}));
  ASSERT_FALSE(pipelines);
  EXPECT_EQ(pipelines.error().code, Code::DeviceLost);
  auto again = wait(device_->read_buffer(staging, 0, out));
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, Code::DeviceLost);
}

TEST_F(NativeDeviceTest, CompilesManyPipelinesAtOnce) {
  std::vector<std::string> texts;
  std::vector<PipelineDesc> descs;
  for (int i = 0; i < 12; ++i) {
    std::string text(kDouble);
    text.replace(text.find("2.0"), 3, StrCat(i, ".0"));
    texts.push_back(std::move(text));
  }
  for (const std::string& text : texts) descs.push_back({"many", text, kBindings, true});
  auto pipelines = wait(device_->create_pipelines(descs));
  ASSERT_TRUE(pipelines) << to_string(pipelines.error());
  ASSERT_EQ(pipelines->size(), 12u);
  for (PipelineId id : *pipelines) EXPECT_NE(id, 0u);
}

// Resident pages of this process.
long resident_kib() {
  long pages = 0, resident = 0;
  FILE* file = fopen("/proc/self/statm", "r");
  const int read = file ? fscanf(file, "%ld %ld", &pages, &resident) : 0;
  if (file) fclose(file);
  return read == 2 ? resident * (sysconf(_SC_PAGESIZE) / 1024) : 0;
}

TEST_F(NativeDeviceTest, TwoHundredCyclesStayFlat) {
  auto cycle = [&] {
    device_ = nullptr;
    auto opened = block_on(executor_, open_device({}));
    ASSERT_TRUE(opened) << to_string(opened.error());
    device_ = *opened;
    auto out = run_double(64);
    ASSERT_TRUE(out) << to_string(out.error());
    ASSERT_EQ((*out)[63], 127.0f);
  };
  // A leak shows in every stretch; the growth of the allocator's pools does not.
  long least = std::numeric_limits<long>::max();
  for (int stretch = 0; stretch < 5; ++stretch) {
    const long before = resident_kib();
    for (int i = 0; i < 40; ++i) cycle();
    least = std::min(least, resident_kib() - before);
  }
#if defined(__has_feature) && __has_feature(address_sanitizer)
  return;  // its quarantine grows by design
#endif
  EXPECT_LT(least, 40 * 16) << "KiB in 40 cycles";
}

TEST(NativeLibrary, NamesWhatIsMissingAndTheNextStep) {
  Executor executor;
  const char* before = getenv("SINTER_WEBGPU_LIB");
  const std::string kept = before ? before : "";
  auto open_with = [&](const char* path) {
    setenv("SINTER_WEBGPU_LIB", path, 1);
    return block_on(executor, open_device({}));
  };
  auto absent = open_with("/nowhere/libwebgpu.so");
  auto other = open_with("libm.so.6");
  if (before)
    setenv("SINTER_WEBGPU_LIB", kept.c_str(), 1);
  else
    unsetenv("SINTER_WEBGPU_LIB");
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().code, Code::Gpu);
  EXPECT_THAT(absent.error().message, HasSubstr("/nowhere/libwebgpu.so"));
  EXPECT_THAT(absent.error().hint, HasSubstr("./dev setup"));
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().message, HasSubstr("libm.so.6 has no function wgpuCreateInstance"));
}

TEST(NativeLibrary, NoAdapterIsATypedError) {
  const char* before = getenv("VK_DRIVER_FILES");
  const std::string kept = before ? before : "";
  setenv("VK_DRIVER_FILES", "/nowhere.json", 1);
  setenv("VK_ICD_FILENAMES", "/nowhere.json", 1);
  Result<std::shared_ptr<Device>> opened;
  // A thread that has had an adapter looks for no other driver.
  std::thread([&] {
    Executor executor;
    opened = block_on(executor, open_device({}));
  }).join();
  if (before) {
    setenv("VK_DRIVER_FILES", kept.c_str(), 1);
    setenv("VK_ICD_FILENAMES", kept.c_str(), 1);
  } else {
    unsetenv("VK_DRIVER_FILES");
    unsetenv("VK_ICD_FILENAMES");
  }
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Code::Gpu);
  EXPECT_THAT(opened.error().message, HasSubstr("no WebGPU adapter"));
  EXPECT_THAT(opened.error().hint, HasSubstr("Vulkan driver"));
}

#else

TEST(NativeDeviceTest, SaysThatTheBuildHasNoWebGPU) {
  Executor executor;
  auto opened = block_on(executor, open_device({}));
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Code::Gpu);
  EXPECT_THAT(opened.error().message, HasSubstr("no WebGPU device"));
}

#endif

}  // namespace
}  // namespace sinter::gpu
