// SPDX-License-Identifier: Apache-2.0
#include "engine/gpu/device.h"

#include <optional>
#include <utility>

#include "engine/base/failure.h"

namespace sinter::gpu {
namespace {

// Both tasks have been started by their calls; awaiting one after the other loses no time. The read is awaited even
// where the scope failed: the device owns `out` until then.
Task<> finish(Task<> scope, std::optional<Task<>> read) {
  Result<> result = co_await std::move(scope);
  std::string_view call = "queue.submit";
  if (read) {
    Result<> read_result = co_await std::move(*read);
    if (result) {
      call = "buffer.mapAsync";
      result = std::move(read_result);
    }
  }
  if (!result) failure_of(result.error()).call = call;
  co_return result;
}

}  // namespace

Task<> Device::execute(const Batch& batch) {
  push_error_scope();
  for (const Write& write : batch.writes) write_buffer(write.buffer, write.offset, write.bytes);
  if (!batch.commands.empty()) submit(batch.commands);
  Task<> scope = pop_error_scope();
  std::optional<Task<>> read;
  if (!batch.out.empty()) read = read_buffer(batch.read, batch.read_offset, batch.out);
  return finish(std::move(scope), std::move(read));
}

Task<std::vector<double>> Device::time(std::span<const Command>) {
  co_return fail(Code::Unsupported, "this device has no clock of its own");
}

}  // namespace sinter::gpu
