// SPDX-License-Identifier: Apache-2.0
// Timing commands by the device's own clock: one compute pass per dispatch, a timestamp on either side of it.
#include "engine/gpu/device_native.h"

#if SINTER_HAVE_WEBGPU

#include <algorithm>
#include <cstring>

namespace sinter::gpu::native {
namespace {

constexpr size_t kChunk = 1024;  // dispatches; a query set holds at most 4096 timestamps
constexpr uint32_t kQueryResolve = 0x0200;

}  // namespace

Task<> NativeDevice::time_some(std::span<const Command> commands, std::span<double> ms) {
  const size_t queries = 2 * commands.size();
  WGPUQuerySetDescriptor desc{};
  desc.type = WGPUQueryType_Timestamp;
  desc.count = static_cast<uint32_t>(queries);
  push_error_scope();
  const Ref set(api().DeviceCreateQuerySet(opened_.device.get(), &desc), api().QuerySetRelease);
  const BufferId resolved = create_buffer(queries * 8, kQueryResolve | kCopySrc, "timestamps");
  const BufferId staging = create_buffer(queries * 8, kMapRead | kCopyDst, "timestamps read back");
  Ref encoder(api().DeviceCreateCommandEncoder(opened_.device.get(), nullptr), api().CommandEncoderRelease);
  for (size_t i = 0; i < commands.size(); ++i) {
    WGPUPassTimestampWrites stamps{};
    stamps.querySet = set.get();
    stamps.beginningOfPassWriteIndex = static_cast<uint32_t>(2 * i);
    stamps.endOfPassWriteIndex = static_cast<uint32_t>(2 * i + 1);
    WGPUComputePassDescriptor pass{};
    pass.timestampWrites = &stamps;
    encode(encoder.get(), commands.subspan(i, 1), &pass);
  }
  api().CommandEncoderResolveQuerySet(encoder.get(), set.get(), 0, desc.count, find_buffer(resolved), 0);
  api().CommandEncoderCopyBufferToBuffer(encoder.get(), find_buffer(resolved), 0, find_buffer(staging), 0, queries * 8);
  {
    Ref buffer(api().CommandEncoderFinish(encoder.get(), nullptr), api().CommandBufferRelease);
    WGPUCommandBuffer handle = buffer.get();
    if (handle) api().QueueSubmit(opened_.queue.get(), 1, &handle);
  }
  Task<> scope = pop_error_scope();
  std::vector<uint64_t> stamps(queries);
  Result<> read = co_await read_buffer(staging, 0, std::as_writable_bytes(std::span(stamps)));
  Result<> submitted = co_await std::move(scope);
  destroy_buffer(resolved);
  destroy_buffer(staging);
  SINTER_CO_CHECK_OK(std::move(submitted));
  SINTER_CO_CHECK_OK(std::move(read));
  for (size_t i = 0; i < commands.size(); ++i) {
    const uint64_t begin = stamps[2 * i], end = stamps[2 * i + 1];
    const bool dispatch = commands[i].kind == Command::kDispatch;
    ms[i] = dispatch && end > begin ? static_cast<double>(end - begin) * 1e-6 : 0;
  }
  co_return Result<>{};
}

Task<std::vector<double>> NativeDevice::time(std::span<const Command> commands) {
  if (!target().timestamps) co_return fail(Code::Unsupported, "the adapter has no timestamp queries");
  std::vector<double> ms(commands.size());
  for (size_t at = 0; at < commands.size(); at += kChunk) {
    const size_t count = std::min(kChunk, commands.size() - at);
    SINTER_CO_CHECK_OK(co_await time_some(commands.subspan(at, count), std::span(ms).subspan(at, count)));
  }
  co_return ms;
}

}  // namespace sinter::gpu::native

#endif  // SINTER_HAVE_WEBGPU
