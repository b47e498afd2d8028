// SPDX-License-Identifier: Apache-2.0
#include "engine/gpu/device_native.h"

#if SINTER_HAVE_WEBGPU

#include <array>
#include <cstring>

#include "engine/async/wait.h"
#include "engine/base/str.h"

namespace sinter::gpu::native {
namespace {

// One pop of the three scopes that stand for one of ours.
struct PendingPop {
  NativeDevice* device;
  std::shared_ptr<Trouble> trouble;
  Completion<> done;
  int left = 3;
  std::optional<Error> first;
};

struct PendingRead {
  NativeDevice* device;
  std::shared_ptr<Trouble> trouble;
  BufferId buffer;
  size_t offset;
  std::span<std::byte> out;
  Completion<> done;
};

void on_pop(WGPUPopErrorScopeStatus status, WGPUErrorType type, WGPUStringView message, void* user, void*) {
  auto* pop = static_cast<PendingPop*>(user);
  if (status != WGPUPopErrorScopeStatus_Success) {
    if (!pop->first) {
      pop->first = fail(Code::Gpu, StrCat("popErrorScope failed: ", text_of(message))).error();
    }
  } else if (type != WGPUErrorType_NoError) {
    // Out-of-memory explains the validation errors that follow it.
    if (!pop->first || type == WGPUErrorType_OutOfMemory) pop->first = error_of(type, text_of(message));
  }
  if (--pop->left > 0) return;
  std::optional<Error> stray = pop->trouble->take_error();
  if (pop->trouble->lost()) {
    pop->first = fail(Code::DeviceLost, StrCat("the GPU device was lost: ", pop->trouble->reason())).error();
  } else if (!pop->first) {
    pop->first = std::move(stray);
  }
  pop->device->delivered();
  pop->done.complete(pop->first ? Result<>(std::unexpected(std::move(*pop->first))) : Result<>());
  delete pop;
}

Result<> copy_mapped(const PendingRead& read, WGPUMapAsyncStatus status, WGPUStringView message) {
  const Api& api = read.device->api();
  if (read.trouble->lost()) return std::unexpected(read.device->lost_error());
  if (status != WGPUMapAsyncStatus_Success) {
    return fail(Code::Gpu, StrCat("mapAsync of ", read.out.size(), " bytes failed: ", text_of(message)));
  }
  WGPUBuffer buffer = read.device->find_buffer(read.buffer);
  const void* mapped = buffer ? api.BufferGetConstMappedRange(buffer, read.offset, read.out.size()) : nullptr;
  if (mapped) std::memcpy(read.out.data(), mapped, read.out.size());
  if (buffer) api.BufferUnmap(buffer);
  if (!mapped) return fail(Code::Gpu, StrCat("getMappedRange of ", read.out.size(), " bytes gave nothing"));
  return {};
}

void on_map(WGPUMapAsyncStatus status, WGPUStringView message, void* user, void*) {
  auto* read = static_cast<PendingRead*>(user);
  Result<> result = copy_mapped(*read, status, message);
  read->device->delivered();
  read->done.complete(std::move(result));
  delete read;
}

// Both tasks have been started by their calls.
Task<> both(Task<> first, Task<> second) {
  Result<> first_result = co_await std::move(first);
  Result<> second_result = co_await std::move(second);
  co_return first_result ? std::move(second_result) : std::move(first_result);
}

uint64_t round_up(uint64_t bytes, uint64_t to) { return (bytes + to - 1) / to * to; }

}  // namespace

void Trouble::lose(std::string reason) {
  std::lock_guard lock(mutex_);
  if (lost_) return;
  lost_ = true;
  reason_ = std::move(reason);
}

void Trouble::add_error(Error error) {
  std::lock_guard lock(mutex_);
  if (!error_) error_ = std::move(error);
}

bool Trouble::lost() const {
  std::lock_guard lock(mutex_);
  return lost_;
}

std::string Trouble::reason() const {
  std::lock_guard lock(mutex_);
  return reason_;
}

std::optional<Error> Trouble::take_error() {
  std::lock_guard lock(mutex_);
  return std::exchange(error_, std::nullopt);
}

Error error_of(WGPUErrorType type, std::string message) {
  if (type == WGPUErrorType_OutOfMemory) {
    return {Code::OutOfMemory,
            StrCat("the GPU is out of memory: ", message),
            {},
            "use a smaller batch or input, or the CPU backend"};
  }
  const std::string_view kind = type == WGPUErrorType_Validation ? "validation" : "internal";
  return {Code::Gpu, StrCat("GPU ", kind, " error: ", message), {}, {}};
}

NativeDevice::NativeDevice(OpenedDevice opened) : opened_(std::move(opened)) {}

NativeDevice::~NativeDevice() {
  // Pending callbacks refer to this object: destroying the device ends them, and processing delivers them.
  api().DeviceDestroy(opened_.device.get());
  api().InstanceProcessEvents(opened_.instance->get());
}

Error NativeDevice::lost_error() const {
  return {
      Code::DeviceLost, StrCat("the GPU device was lost: ", lost_reason()), {}, "run again: the session is rebuilt"};
}

void NativeDevice::bad_id(std::string_view call, uint32_t id) {
  opened_.trouble->add_error({Code::Gpu, StrCat(call, ": no object with id ", id), {}, {}});
}

WGPUBuffer NativeDevice::find_buffer(BufferId id) const {
  auto found = buffers_.find(id);
  return found == buffers_.end() ? nullptr : found->second.get();
}

BufferId NativeDevice::create_buffer(uint64_t bytes, uint32_t use, std::string_view label) {
  WGPUBufferDescriptor desc{};
  desc.label = view_of(label);
  desc.usage = use;
  desc.size = round_up(bytes, 4);
  const BufferId id = next_id_++;
  WGPUBuffer buffer = api().DeviceCreateBuffer(opened_.device.get(), &desc);
  if (buffer) buffers_.emplace(id, Ref(buffer, api().BufferRelease));
  return id;
}

void NativeDevice::destroy_buffer(BufferId buffer) {
  auto found = buffers_.find(buffer);
  if (found == buffers_.end()) return;
  api().BufferDestroy(found->second.get());
  buffers_.erase(found);
}

void NativeDevice::write_buffer(BufferId buffer, uint64_t offset, std::span<const std::byte> bytes) {
  WGPUBuffer target = find_buffer(buffer);
  if (!target) return bad_id("writeBuffer", buffer);
  api().QueueWriteBuffer(opened_.queue.get(), target, offset, bytes.data(), bytes.size());
}

// Inputs of a run come again and again, and the library's own way up takes fresh memory for each large write: the page
// faults of that cost more than the copy. Below this size its ring of memory serves, and a submit less.
constexpr uint64_t kStagedBytes = 2u << 20;
constexpr size_t kMaxStaging = 4;

NativeDevice::Staging* NativeDevice::free_staging(uint64_t bytes) {
  for (const auto& staging : staging_) {
    if (staging->mapped && staging->bytes >= bytes) return staging.get();
  }
  // One that is in use or too small gives way; its buffer lives until the device is done with it.
  if (staging_.size() == kMaxStaging) staging_.erase(staging_.begin());
  WGPUBufferDescriptor desc{};
  desc.label = view_of("input staging");
  desc.usage = WGPUBufferUsage_MapWrite | WGPUBufferUsage_CopySrc;
  desc.size = bytes;
  desc.mappedAtCreation = true;
  WGPUBuffer buffer = api().DeviceCreateBuffer(opened_.device.get(), &desc);
  if (!buffer) return nullptr;
  staging_.push_back(std::make_unique<Staging>(Staging{Ref(buffer, api().BufferRelease), bytes, next_id_++, true}));
  return staging_.back().get();
}

void NativeDevice::write_staged(const Write& write) {
  WGPUBuffer target = find_buffer(write.buffer);
  Staging* staging = target ? free_staging(write.bytes.size()) : nullptr;
  void* mapped = staging ? api().BufferGetMappedRange(staging->buffer.get(), 0, write.bytes.size()) : nullptr;
  if (!mapped) return write_buffer(write.buffer, write.offset, write.bytes);
  std::memcpy(mapped, write.bytes.data(), write.bytes.size());
  api().BufferUnmap(staging->buffer.get());
  staging->mapped = false;
  Ref encoder(api().DeviceCreateCommandEncoder(opened_.device.get(), nullptr), api().CommandEncoderRelease);
  api().CommandEncoderCopyBufferToBuffer(encoder.get(), staging->buffer.get(), 0, target, write.offset,
                                         write.bytes.size());
  Ref buffer(api().CommandEncoderFinish(encoder.get(), nullptr), api().CommandBufferRelease);
  WGPUCommandBuffer handle = buffer.get();
  if (handle) api().QueueSubmit(opened_.queue.get(), 1, &handle);
  WGPUBufferMapCallbackInfo info{};
  info.mode = WGPUCallbackMode_AllowProcessEvents;
  info.callback = [](WGPUMapAsyncStatus status, WGPUStringView, void* device, void* user) {
    for (const auto& staging : static_cast<NativeDevice*>(device)->staging_) {
      if (staging->id == reinterpret_cast<uintptr_t>(user)) staging->mapped = status == WGPUMapAsyncStatus_Success;
    }
  };
  info.userdata1 = this;
  info.userdata2 = reinterpret_cast<void*>(staging->id);
  api().BufferMapAsync(staging->buffer.get(), WGPUMapMode_Write, 0, staging->bytes, info);
}

Task<> NativeDevice::execute(const Batch& batch) {
  Batch rest = batch;
  push_error_scope();
  for (const Write& write : batch.writes) {
    if (write.bytes.size() < kStagedBytes) {
      write_buffer(write.buffer, write.offset, write.bytes);
    } else {
      write_staged(write);
    }
  }
  Task<> scope = pop_error_scope();
  rest.writes = {};
  return both(std::move(scope), Device::execute(rest));
}

Task<std::vector<PipelineId>> NativeDevice::create_pipelines(std::vector<PipelineDesc> descs) {
  return compile_pipelines(*this, opened_.device.get(), opened_.trouble, std::move(descs));
}

PipelineId NativeDevice::add_pipeline(WGPUComputePipeline pipeline, WGPUBindGroupLayout layout) {
  const PipelineId id = next_id_++;
  pipelines_.emplace(id,
                     Pipeline{Ref(pipeline, api().ComputePipelineRelease), Ref(layout, api().BindGroupLayoutRelease)});
  return id;
}

void NativeDevice::destroy_pipeline(PipelineId pipeline) { pipelines_.erase(pipeline); }

BindGroupId NativeDevice::create_bind_group(PipelineId pipeline, std::span<const BufferRange> ranges) {
  const BindGroupId id = next_id_++;
  auto found = pipelines_.find(pipeline);
  if (found == pipelines_.end()) {
    bad_id("createBindGroup", pipeline);
    return id;
  }
  std::vector<WGPUBindGroupEntry> entries(ranges.size(), WGPUBindGroupEntry{});
  for (size_t i = 0; i < ranges.size(); ++i) {
    WGPUBuffer buffer = find_buffer(ranges[i].buffer);
    if (!buffer) {
      bad_id("createBindGroup", ranges[i].buffer);
      return id;
    }
    entries[i].binding = static_cast<uint32_t>(i);
    entries[i].buffer = buffer;
    entries[i].offset = ranges[i].offset;
    entries[i].size = ranges[i].bytes;
  }
  WGPUBindGroupDescriptor desc{};
  desc.layout = found->second.layout.get();
  desc.entryCount = entries.size();
  desc.entries = entries.data();
  WGPUBindGroup group = api().DeviceCreateBindGroup(opened_.device.get(), &desc);
  if (group) bind_groups_.emplace(id, Ref(group, api().BindGroupRelease));
  return id;
}

void NativeDevice::destroy_bind_group(BindGroupId group) { bind_groups_.erase(group); }

void NativeDevice::encode(WGPUCommandEncoder encoder, std::span<const Command> commands,
                          const WGPUComputePassDescriptor* description) {
  Ref<WGPUComputePassEncoder> pass;
  WGPUComputePipeline current = nullptr;
  auto end_pass = [&] {
    if (pass) api().ComputePassEncoderEnd(pass.get());
    pass = {};
    current = nullptr;
  };
  for (const Command& command : commands) {
    if (command.kind == Command::kCopy) {
      end_pass();
      WGPUBuffer from = find_buffer(command.a), to = find_buffer(command.b);
      if (!from || !to) {
        bad_id("copyBufferToBuffer", from ? command.b : command.a);
        continue;
      }
      api().CommandEncoderCopyBufferToBuffer(encoder, from, command.from, to, command.to, command.bytes);
      continue;
    }
    auto pipeline = pipelines_.find(command.a);
    auto group = bind_groups_.find(command.b);
    if (pipeline == pipelines_.end() || group == bind_groups_.end()) {
      bad_id("dispatchWorkgroups", pipeline == pipelines_.end() ? command.a : command.b);
      continue;
    }
    if (!pass) pass = Ref(api().CommandEncoderBeginComputePass(encoder, description), api().ComputePassEncoderRelease);
    if (current != pipeline->second.pipeline.get()) {
      current = pipeline->second.pipeline.get();
      api().ComputePassEncoderSetPipeline(pass.get(), current);
    }
    api().ComputePassEncoderSetBindGroup(pass.get(), 0, group->second.get(), 0, nullptr);
    api().ComputePassEncoderDispatchWorkgroups(pass.get(), command.x, command.y, command.z);
  }
  end_pass();
}

void NativeDevice::submit(std::span<const Command> commands) {
  Ref encoder(api().DeviceCreateCommandEncoder(opened_.device.get(), nullptr), api().CommandEncoderRelease);
  encode(encoder.get(), commands);
  Ref buffer(api().CommandEncoderFinish(encoder.get(), nullptr), api().CommandBufferRelease);
  WGPUCommandBuffer handle = buffer.get();
  if (handle) api().QueueSubmit(opened_.queue.get(), 1, &handle);
}

Task<> NativeDevice::read_buffer(BufferId buffer, uint64_t offset, std::span<std::byte> out) {
  Completion<> done;
  WGPUBuffer source = find_buffer(buffer);
  if (!source) {
    done.complete(fail(Code::Gpu, StrCat("mapAsync: no buffer with id ", buffer)));
    return wait_for(done);
  }
  if (lost()) {
    done.complete(std::unexpected(lost_error()));
    return wait_for(done);
  }
  WGPUBufferMapCallbackInfo info{};
  info.mode = WGPUCallbackMode_AllowProcessEvents;
  info.callback = on_map;
  info.userdata1 = new PendingRead{this, opened_.trouble, buffer, static_cast<size_t>(offset), out, done};
  api().BufferMapAsync(source, WGPUMapMode_Read, offset, out.size(), info);
  return wait_for(done);
}

// A WebGPU scope filters one kind of error; ours catches all, so it is three.
void NativeDevice::push_error_scope() {
  for (WGPUErrorFilter filter : {WGPUErrorFilter_Internal, WGPUErrorFilter_OutOfMemory, WGPUErrorFilter_Validation}) {
    api().DevicePushErrorScope(opened_.device.get(), filter);
  }
}

Task<> NativeDevice::pop_error_scope() {
  Completion<> done;
  WGPUPopErrorScopeCallbackInfo info{};
  info.mode = WGPUCallbackMode_AllowProcessEvents;
  info.callback = on_pop;
  info.userdata1 = new PendingPop{this, opened_.trouble, done, 3, std::nullopt};
  for (int i = 0; i < 3; ++i) api().DevicePopErrorScope(opened_.device.get(), info);
  return wait_for(done);
}

bool NativeDevice::poll() {
  const uint64_t before = deliveries_;
  api().InstanceProcessEvents(opened_.instance->get());
  return deliveries_ != before;
}

void NativeDevice::destroy() {
  opened_.trouble->lose("destroyed");
  api().DeviceDestroy(opened_.device.get());
}

}  // namespace sinter::gpu::native

#endif  // SINTER_HAVE_WEBGPU
