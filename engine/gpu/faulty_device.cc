// SPDX-License-Identifier: Apache-2.0
#include "engine/gpu/faulty_device.h"

#include <cstring>

#include "engine/async/wait.h"

namespace sinter::gpu {
void FaultyDevice::submit(std::span<const Command> commands) {
  if (!fault_) return inner_->submit(commands);
  size_t before = 0;
  while (before < commands.size() && std::memcmp(&commands[before], &fault_->command, sizeof(Command)) != 0) ++before;
  if (before == commands.size()) return inner_->submit(commands);
  if (before > 0) inner_->submit(commands.first(before));
  Error error = std::exchange(fault_, std::nullopt)->error;
  happened_ = true;
  if (error.code == Code::DeviceLost) {
    loss_ = std::move(error);
    inner_->destroy();
  } else if (!scopes_.empty()) {
    scopes_.back() = std::move(error);
  }
}

Task<> FaultyDevice::read_buffer(BufferId buffer, uint64_t offset, std::span<std::byte> out) {
  return inner_->read_buffer(buffer, offset, out);
}

void FaultyDevice::push_error_scope() {
  scopes_.emplace_back();
  inner_->push_error_scope();
}

Task<> FaultyDevice::pop_error_scope() {
  std::optional<Error> fault = loss_;
  if (!fault) fault = std::move(scopes_.back());
  scopes_.pop_back();
  Task<> task = inner_->pop_error_scope();
  if (!fault) return task;
  Completion<> failed;
  failed.complete(std::unexpected(std::move(*fault)));
  return wait_for(failed);
}

}  // namespace sinter::gpu
