// SPDX-License-Identifier: Apache-2.0
#include "engine/gpu/fake_device.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/async/wait.h"
#include "engine/base/str.h"

namespace sinter::gpu {

FakeDevice::~FakeDevice() {
  lose("released");
  while (!operations_.empty()) finish(0);
}

std::optional<Error> FakeDevice::note(std::string call) {
  const size_t index = calls_.size();
  if (lose_at_ == index) lose("scripted loss");
  calls_.push_back(std::move(call));
  if (!fault_ || fault_->call != index) return std::nullopt;
  return std::exchange(fault_, std::nullopt)->error;
}

void FakeDevice::error(Error error) {
  std::optional<Error>& place = scopes_.empty() ? stray_ : scopes_.back();
  if (!place) place = std::move(error);
}

std::optional<Error> FakeDevice::lost_error() const {
  if (!lost_) return std::nullopt;
  return Error{Code::DeviceLost, StrCat("the GPU device was lost: ", lost_reason_), {}, {}};
}

void FakeDevice::lose(std::string reason) {
  if (lost_) return;
  lost_ = true;
  lost_reason_ = std::move(reason);
}

std::vector<std::string> FakeDevice::pending() const {
  std::vector<std::string> names;
  for (const Operation& operation : operations_) names.push_back(operation.what);
  return names;
}

void FakeDevice::finish(size_t index, std::optional<Error> error) {
  Operation operation = std::move(operations_[index]);
  operations_.erase(operations_.begin() + static_cast<ptrdiff_t>(index));
  if (!error) error = std::move(operation.fault);
  if (lost_) error = lost_error();
  operation.end(std::move(error));
}

bool FakeDevice::poll() {
  if (manual_ || operations_.empty()) return false;
  finish(0);
  return true;
}

size_t FakeDevice::count(std::string_view call) const {
  return static_cast<size_t>(std::ranges::count_if(calls_, [&](const std::string& c) { return c.starts_with(call); }));
}

std::span<std::byte> FakeDevice::bytes_of(BufferId buffer) {
  auto found = buffers_.find(buffer);
  return found == buffers_.end() ? std::span<std::byte>() : std::span<std::byte>(found->second.bytes);
}

BufferId FakeDevice::create_buffer(uint64_t bytes, uint32_t use, std::string_view label) {
  std::optional<Error> fault = note(StrCat("create_buffer ", label, " ", bytes));
  const BufferId id = next_id_++;
  if (fault) {
    error(std::move(*fault));
  } else if (bytes > target_.max_buffer_bytes) {
    error(StrCat("buffer '", label, "' of ", bytes, " bytes is larger than maxBufferSize"));
  } else if ((use & kMapRead) && (use & ~(kMapRead | kCopyDst))) {
    error(StrCat("buffer '", label, "' mixes MapRead with other uses"));
  } else {
    buffers_[id] = {std::vector<std::byte>(bytes), use, std::string(label)};
  }
  return id;
}

void FakeDevice::destroy_buffer(BufferId buffer) { buffers_.erase(buffer); }

void FakeDevice::write_buffer(BufferId buffer, uint64_t offset, std::span<const std::byte> bytes) {
  if (auto fault = note(StrCat("write_buffer ", bytes.size()))) return error(std::move(*fault));
  auto found = buffers_.find(buffer);
  if (found == buffers_.end()) return error("writeBuffer: no such buffer");
  FakeBuffer& target = found->second;
  if (!(target.use & kCopyDst) || offset % 4 || bytes.size() % 4 || offset + bytes.size() > target.bytes.size()) {
    return error(StrCat("writeBuffer: ", bytes.size(), " bytes at ", offset, " do not fit '", target.label, "'"));
  }
  std::memcpy(target.bytes.data() + offset, bytes.data(), bytes.size());
}

Task<std::vector<PipelineId>> FakeDevice::create_pipelines(std::vector<PipelineDesc> descs) {
  std::optional<Error> fault = note(StrCat("create_pipelines ", descs.size()));
  Completion<std::vector<PipelineId>> done;
  std::vector<FakePipeline> made;
  for (const PipelineDesc& desc : descs) {
    FakePipeline pipeline{std::string(desc.label), {}, desc.uniform};
    for (const wgsl::Binding& binding : desc.bindings) pipeline.writes.push_back(binding.writes);
    made.push_back(std::move(pipeline));
  }
  operations_.push_back({calls_.back(), std::move(fault), [this, done, made](std::optional<Error> error) mutable {
                           if (error) {
                             done.complete(std::unexpected(std::move(*error)));
                             return;
                           }
                           std::vector<PipelineId> ids;
                           for (FakePipeline& pipeline : made) {
                             ids.push_back(next_id_++);
                             pipelines_[ids.back()] = std::move(pipeline);
                           }
                           done.complete(std::move(ids));
                         }});
  return wait_for(done);
}

// What WebGPU demands of a bind group and of its use in a dispatch; empty where all is well.
std::string FakeDevice::check_ranges(const FakePipeline& pipeline, std::span<const BufferRange> ranges) const {
  if (ranges.size() != pipeline.writes.size() + pipeline.uniform) return "the number of bindings is wrong";
  for (size_t i = 0; i < ranges.size(); ++i) {
    const BufferRange& range = ranges[i];
    const bool uniform = i == pipeline.writes.size();
    auto buffer = buffers_.find(range.buffer);
    if (buffer == buffers_.end()) return StrCat("binding ", i, " has no buffer");
    const uint64_t most = uniform ? target_.max_uniform_bytes : target_.max_binding_bytes;
    const uint32_t alignment = uniform ? target_.uniform_alignment : target_.storage_alignment;
    if (!(buffer->second.use & (uniform ? kUniform : kStorage))) return StrCat("binding ", i, " has the wrong use");
    if (range.bytes == 0 || range.bytes > most) return StrCat("binding ", i, " of ", range.bytes, " bytes");
    if (!uniform && range.bytes % 4) return StrCat("binding ", i, " is no multiple of 4 bytes");
    if (range.offset % alignment) return StrCat("binding ", i, " at ", range.offset, " is not aligned");
    if (range.offset + range.bytes > buffer->second.bytes.size())
      return StrCat("binding ", i, " ends outside its buffer");
    for (size_t j = 0; j < i && !uniform; ++j) {
      if (ranges[j].buffer != range.buffer) continue;
      if (pipeline.writes[i] != pipeline.writes[j])
        return StrCat("bindings ", j, " and ", i, " read and write one buffer");
      const bool apart =
          ranges[j].offset >= range.offset + range.bytes || range.offset >= ranges[j].offset + ranges[j].bytes;
      if (pipeline.writes[i] && !apart) return StrCat("bindings ", j, " and ", i, " overlap");
    }
  }
  return {};
}

BindGroupId FakeDevice::create_bind_group(PipelineId pipeline, std::span<const BufferRange> ranges) {
  std::optional<Error> fault = note(StrCat("create_bind_group ", ranges.size()));
  const BindGroupId id = next_id_++;
  auto found = pipelines_.find(pipeline);
  std::string wrong = found == pipelines_.end() ? "no such pipeline" : check_ranges(found->second, ranges);
  if (fault) {
    error(std::move(*fault));
  } else if (!wrong.empty()) {
    error(StrCat("createBindGroup: ", wrong));
  } else {
    bind_groups_[id] = {pipeline, {ranges.begin(), ranges.end()}};
  }
  return id;
}

void FakeDevice::dispatch(const Command& command) {
  auto pipeline = pipelines_.find(command.a);
  auto group = bind_groups_.find(command.b);
  if (pipeline == pipelines_.end() || group == bind_groups_.end()) return error("dispatchWorkgroups: invalid object");
  if (std::max({command.x, command.y, command.z}) > target_.max_groups) {
    return error("dispatchWorkgroups: too many workgroups");
  }
  std::vector<std::span<std::byte>> bindings;
  for (const BufferRange& range : group->second.ranges) {
    auto buffer = buffers_.find(range.buffer);
    if (buffer == buffers_.end()) return error("dispatchWorkgroups: a bound buffer was destroyed");
    bindings.push_back(std::span(buffer->second.bytes).subspan(range.offset, range.bytes));
  }
  if (kernel_) kernel_(pipeline->second.label, bindings, command);
}

void FakeDevice::copy(const Command& command) {
  auto from = buffers_.find(command.a), to = buffers_.find(command.b);
  if (from == buffers_.end() || to == buffers_.end()) return error("copyBufferToBuffer: no such buffer");
  if (to->second.map_pending) return error("submit: a buffer is mapped");
  if (!(from->second.use & kCopySrc) || !(to->second.use & kCopyDst) || command.bytes % 4 || command.from % 4 ||
      command.to % 4 || command.from + command.bytes > from->second.bytes.size() ||
      command.to + command.bytes > to->second.bytes.size()) {
    return error("copyBufferToBuffer: the range does not fit");
  }
  std::memcpy(to->second.bytes.data() + command.to, from->second.bytes.data() + command.from, command.bytes);
}

void FakeDevice::submit(std::span<const Command> commands) {
  if (auto fault = note(StrCat("submit ", commands.size()))) return error(std::move(*fault));
  if (lost_) return;
  for (const Command& command : commands) command.kind == Command::kCopy ? copy(command) : dispatch(command);
}

Task<> FakeDevice::read_buffer(BufferId buffer, uint64_t offset, std::span<std::byte> out) {
  std::optional<Error> fault = note(StrCat("read_buffer ", out.size()));
  auto found = buffers_.find(buffer);
  const bool good = found != buffers_.end() && (found->second.use & kMapRead) && !found->second.map_pending &&
                    offset + out.size() <= found->second.bytes.size();
  if (!good && !fault) fault = Error{Code::Gpu, "mapAsync: the buffer cannot be mapped", {}, {}};
  if (good) found->second.map_pending = true;
  Completion<> done;
  operations_.push_back({calls_.back(), std::move(fault), [=, this](std::optional<Error> error) mutable {
                           auto source = buffers_.find(buffer);
                           if (good && source != buffers_.end()) source->second.map_pending = false;
                           if (!error && source == buffers_.end()) {
                             error = Error{Code::Gpu, "mapAsync: the buffer was destroyed", {}, {}};
                           }
                           if (error) {
                             done.complete(std::unexpected(std::move(*error)));
                             return;
                           }
                           std::memcpy(out.data(), source->second.bytes.data() + offset, out.size());
                           done.complete({});
                         }});
  return wait_for(done);
}

void FakeDevice::push_error_scope() {
  scopes_.emplace_back();
  if (auto fault = note("push_error_scope")) error(std::move(*fault));
}

Task<> FakeDevice::pop_error_scope() {
  std::optional<Error> fault = note("pop_error_scope");
  std::optional<Error> caught;
  if (scopes_.empty()) {
    caught = Error{Code::Gpu, "popErrorScope: there is none", {}, {}};
  } else {
    caught = std::move(scopes_.back());
    scopes_.pop_back();
  }
  if (!caught) caught = std::exchange(stray_, std::nullopt);
  if (fault) caught = std::move(fault);
  Completion<> done;
  operations_.push_back({calls_.back(), std::move(caught), [done](std::optional<Error> error) mutable {
                           done.complete(error ? Result<>(std::unexpected(std::move(*error))) : Result<>());
                         }});
  return wait_for(done);
}

}  // namespace sinter::gpu
