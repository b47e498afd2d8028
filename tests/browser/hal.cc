// SPDX-License-Identifier: Apache-2.0
// Checks of the web device in a real browser: a module of its own that wears the engine's entry points, so that the package
// loads it as it is. Opening an "engine" runs the checks; the first one that fails is the error.
#include <cstdlib>
#include <cstring>
#include <numeric>

#include "engine/async/cancel.h"
#include "engine/base/str.h"
#include "engine/gpu/device.h"
#include "engine/gpu/device_web.h"

#define SINTER_IMPORT(name) __attribute__((import_module("sinter"), import_name(name)))
#define SINTER_EXPORT(name) __attribute__((export_name(name)))

extern "C" {
SINTER_IMPORT("complete") void sinter_complete(uint32_t request, uint32_t status, const void* data, uint32_t bytes);
SINTER_IMPORT("schedule_turn") void sinter_schedule_turn();
}

namespace sinter::gpu {
namespace {

Executor& executor() {
  static Executor instance;
  return instance;
}

void serve() {
  executor().drain();
  flush_web_devices();
}

#define EXPECT(condition) \
  if (!(condition)) co_return fail(Code::Internal, StrCat("hal.cc:", __LINE__, ": " #condition))
#define EXPECT_HAS(text, part)                                     \
  if (std::string_view(text).find(part) == std::string_view::npos) \
  co_return fail(Code::Internal, StrCat("hal.cc:", __LINE__, ": no '", part, "' in: ", text))

constexpr std::string_view kAdd = R"(struct P { n: u32, bias: f32, pad0: u32, pad1: u32 }
@group(0) @binding(0) var<storage, read> a: array<f32>;
@group(0) @binding(1) var<storage, read_write> b: array<f32>;
@group(0) @binding(2) var<uniform> p: P;
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  if (id.x < p.n) { b[id.x] = b[id.x] + a[id.x] + p.bias; }
})";

constexpr uint32_t kRead = kMapRead | kCopyDst;
constexpr uint32_t kData = kStorage | kCopySrc | kCopyDst;
constexpr wgsl::Binding kBindings[] = {{.writes = false}, {.writes = true}};

template <class T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

/// b += a + 0.5, over a size that is no multiple of the workgroup's, with a write that crosses by address.
Task<> computes(std::shared_ptr<Device> device) {
  constexpr uint32_t kCount = 300001;
  std::vector<float> a(kCount), b(kCount), out(kCount - 1);
  std::iota(a.begin(), a.end(), 0.0f);
  std::iota(b.begin(), b.end(), 1.0f);
  const struct {
    uint32_t n;
    float bias;
    uint32_t pad[2];
  } uniform{kCount, 0.5f, {}};
  const std::vector<PipelineId> pipelines =
      SINTER_CO_TRY(co_await device->create_pipelines({{"add", kAdd, kBindings, true}}));
  device->push_error_scope();
  const BufferId first = device->create_buffer(kCount * 4, kData, "a");
  const BufferId second = device->create_buffer(kCount * 4, kData, "b");
  const BufferId uniforms = device->create_buffer(16, kUniform | kCopyDst, "p");
  const BufferId staging = device->create_buffer(kCount * 4, kRead, "out");
  device->write_buffer(uniforms, 0, std::as_bytes(std::span(&uniform, 1)));
  const BindGroupId group = device->create_bind_group(
      pipelines[0], std::vector<BufferRange>{{first, 0, kCount * 4}, {second, 0, kCount * 4}, {uniforms, 0, 16}});
  SINTER_CO_CHECK_OK(co_await device->pop_error_scope());
  const Write writes[] = {{first, 0, bytes_of(a)}, {second, 0, bytes_of(b)}};
  const Command commands[] = {{.kind = Command::kDispatch, .a = pipelines[0], .b = group, .x = (kCount + 63) / 64},
                              {.kind = Command::kDispatch, .a = pipelines[0], .b = group, .x = (kCount + 63) / 64},
                              {.kind = Command::kCopy, .a = second, .b = staging, .bytes = kCount * 4}};
  // From an offset that a map cannot start at.
  SINTER_CO_CHECK_OK(co_await device->execute({writes, commands, staging, 4, std::as_writable_bytes(std::span(out))}));
  for (uint32_t i = 0; i < out.size(); ++i) {
    const auto x = static_cast<float>(i + 1);
    EXPECT(out[i] == x + 1 + 2 * (x + 0.5f));
  }
  device->destroy_bind_group(group);
  device->destroy_pipeline(pipelines[0]);
  for (const BufferId buffer : {first, second, uniforms, staging}) device->destroy_buffer(buffer);
  co_return Result<>();
}

Task<> tells_shader_errors(std::shared_ptr<Device> device) {
  const std::string broken =
      StrCat("// first line\n", kAdd.substr(0, kAdd.find("@compute")), "fn oops() { let x: u32 = 1.5; }\n",
             "@compute @workgroup_size(1) fn main() { oops(); }");
  auto result =
      co_await device->create_pipelines({{"good", kAdd, kBindings, true}, {"broken_kernel", broken, kBindings, true}});
  EXPECT(!result);
  EXPECT(result.error().code == Code::Gpu);
  EXPECT_HAS(result.error().message, "compiling kernel broken_kernel: ");
  EXPECT_HAS(result.error().message, "> 6 | fn oops() { let x: u32 = 1.5; }");
  device->push_error_scope();
  EXPECT(co_await device->pop_error_scope());
  // No module error: a layout that does not fit the shader.
  const wgsl::Binding swapped[] = {{.writes = true}, {.writes = false}};
  result = co_await device->create_pipelines({{"swapped", kAdd, swapped, true}});
  EXPECT(!result);
  EXPECT_HAS(result.error().message, "compiling kernel swapped: ");
  co_return Result<>();
}

Task<> keeps_errors_in_their_scope(std::shared_ptr<Device> device) {
  const BufferId small = device->create_buffer(16, kData, "small");
  const Command beyond{.kind = Command::kCopy, .a = small, .b = small, .to = 8, .bytes = 64};
  device->push_error_scope();
  device->push_error_scope();
  device->submit(std::span(&beyond, 1));
  Task<> inner = device->pop_error_scope();
  Task<> outer = device->pop_error_scope();
  Result<> inner_result = co_await std::move(inner);
  EXPECT(!inner_result && inner_result.error().code == Code::Gpu);
  EXPECT(co_await std::move(outer));
  // Outside of every scope: the next one gets it, once.
  device->submit(std::span(&beyond, 1));
  device->push_error_scope();
  EXPECT(!co_await device->pop_error_scope());
  device->push_error_scope();
  EXPECT(co_await device->pop_error_scope());
  // Open while another turn passes.
  device->push_error_scope();
  co_await next_turn();
  device->submit(std::span(&beyond, 1));
  EXPECT(!co_await device->pop_error_scope());
  device->push_error_scope();
  (void)device->create_buffer(uint64_t{1} << 50, kData, "far too large");
  Result<> too_large = co_await device->pop_error_scope();
  EXPECT(!too_large && (too_large.error().code == Code::Gpu || too_large.error().code == Code::OutOfMemory));
  // What names a thing that never was must not stop the host.
  device->push_error_scope();
  const Command unknown{.kind = Command::kDispatch, .a = 4000, .b = 4001};
  device->submit(std::span(&unknown, 1));
  Result<> nothing = co_await device->pop_error_scope();
  EXPECT(!nothing);
  EXPECT_HAS(nothing.error().message, "pipeline 4000");
  device->destroy_buffer(small);
  co_return Result<>();
}

Task<> leaves_forgotten_addresses_alone(std::shared_ptr<Device> device) {
  const BufferId source = device->create_buffer(64, kData, "source");
  const BufferId staging = device->create_buffer(64, kRead, "staging");
  const BufferId other = device->create_buffer(64, kRead, "other");
  const Command copies[] = {{.kind = Command::kCopy, .a = source, .b = staging, .bytes = 64},
                            {.kind = Command::kCopy, .a = source, .b = other, .bytes = 64}};
  device->submit(copies);
  std::vector<std::byte> forgotten(64, std::byte{0x5a}), out(64, std::byte{0x5a});
  {
    Task<> dropped = device->read_buffer(staging, 0, forgotten);
  }
  SINTER_CO_CHECK_OK(co_await device->read_buffer(other, 0, out));
  for (size_t i = 0; i < 64; ++i) {
    EXPECT(forgotten[i] == std::byte{0x5a});
    EXPECT(out[i] == std::byte{0});
  }
  // A failed read fails its await.
  EXPECT(!co_await device->read_buffer(source, 0, out));
  for (const BufferId buffer : {source, staging, other}) device->destroy_buffer(buffer);
  co_return Result<>();
}

Task<> ends_when_destroyed(std::shared_ptr<Device> device) {
  const BufferId staging = device->create_buffer(64, kRead, "staging");
  std::vector<std::byte> out(64);
  Task<> pending = device->read_buffer(staging, 0, out);
  device->destroy();
  EXPECT(device->lost());
  Result<> ended = co_await std::move(pending);
  EXPECT(!ended && ended.error().code == Code::DeviceLost);
  device->push_error_scope();
  (void)device->create_buffer(16, kData, "after the end");
  Result<> after = co_await device->pop_error_scope();
  EXPECT(!after && after.error().code == Code::DeviceLost);
  auto pipelines = co_await device->create_pipelines({{"add", kAdd, kBindings, true}});
  EXPECT(!pipelines && pipelines.error().code == Code::DeviceLost);
  co_return Result<>();
}

Task<> all_checks() {
  const std::shared_ptr<Device> device = SINTER_CO_TRY(co_await open_device({}));
  const std::shared_ptr<Device> twin = SINTER_CO_TRY(co_await open_device({}));
  EXPECT(device->target().max_storage_buffers >= 8);
  EXPECT(device->target().max_binding_bytes >= (128u << 20));
  EXPECT(device->target().storage_alignment == 256);
  EXPECT(device->target().max_invocations >= 256);
  EXPECT(device->target().max_group_size[2] >= 64);
  EXPECT(!device->adapter().vendor.empty() || !device->adapter().architecture.empty());
  // Both share the browser's device: an open scope of one is not the other's.
  twin->push_error_scope();
  flush_web_devices();
  SINTER_CO_CHECK_OK(co_await computes(device));
  SINTER_CO_CHECK_OK(co_await tells_shader_errors(device));
  SINTER_CO_CHECK_OK(co_await keeps_errors_in_their_scope(device));
  SINTER_CO_CHECK_OK(co_await leaves_forgotten_addresses_alone(device));
  EXPECT(co_await twin->pop_error_scope());
  SINTER_CO_CHECK_OK(co_await ends_when_destroyed(device));
  SINTER_CO_CHECK_OK(co_await computes(twin));
  co_return Result<>();
}

}  // namespace
}  // namespace sinter::gpu

using namespace sinter;

extern "C" {

SINTER_EXPORT("sinter_alloc") void* sinter_alloc(uint32_t bytes) { return std::malloc(bytes); }
SINTER_EXPORT("sinter_free") void sinter_free(void* block) { std::free(block); }
SINTER_EXPORT("sinter_version") const char* sinter_version() { return SINTER_VERSION; }
SINTER_EXPORT("sinter_events") const void* sinter_events() {
  static uint32_t no_events[4] = {0, 1, 0, 0};
  return no_events;
}

SINTER_EXPORT("sinter_stage") uint32_t sinter_stage(uint32_t, uint32_t, const char*, uint32_t) { return 0; }
SINTER_EXPORT("sinter_engine_close") void sinter_engine_close(uint32_t) {}

SINTER_EXPORT("sinter_turn") void sinter_turn() {
  gpu::executor().begin_turn();
  gpu::serve();
}

SINTER_EXPORT("sinter_gpu_done") void sinter_gpu_done(uint32_t batch) {
  gpu::finish_web_batch(batch);
  gpu::serve();
}

SINTER_EXPORT("sinter_engine_open") void sinter_engine_open(uint32_t request, const char*, uint32_t) {
  gpu::executor().set_turn_hook([](void*) { sinter_schedule_turn(); }, nullptr);
  spawn(gpu::executor(), gpu::all_checks(), [request](Result<> result) {
    std::string text = "{\"engine\":1}";
    if (!result) {
      text = "{\"message\":\"";
      for (const char c : to_string(result.error())) {
        if (c == '\n') {
          text += "\\n";
        } else if (c == '"' || c == '\\') {
          text += '\'';
        } else {
          text += c;
        }
      }
      text += "\"}";
    }
    sinter_complete(request, result ? 0 : static_cast<uint32_t>(result.error().code) + 1, text.data(),
                    static_cast<uint32_t>(text.size()));
  });
  gpu::serve();
}

}  // extern "C"
