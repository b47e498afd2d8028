// SPDX-License-Identifier: Apache-2.0
// gpu::Device over host imports. Calls are gathered as records (wire.h) and cross in one host call per turn; answers come
// back by request number.
#include "engine/gpu/device_web.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>

#include "engine/async/completion.h"
#include "engine/async/wait.h"
#include "engine/base/check.h"
#include "engine/base/failure.h"
#include "engine/base/str.h"
#include "engine/base/uninitialised.h"
#include "engine/gpu/device.h"
#include "engine/gpu/wire.h"

#define SINTER_IMPORT(name) __attribute__((import_module("sinter_gpu"), import_name(name)))
#define SINTER_EXPORT(name) __attribute__((export_name(name)))

extern "C" {
/// Opens an adapter and a device; answered by sinter_gpu_opened or sinter_gpu_settle.
SINTER_IMPORT("open") void sinter_gpu_open(uint32_t request, uint32_t flags, double binding_bytes, double buffer_bytes);
/// Runs a block of records; all its requests but pipeline compilations are answered together, by sinter_gpu_done(batch).
SINTER_IMPORT("flush") void sinter_gpu_flush(uint32_t device, uint32_t batch, const uint32_t* words, uint32_t count);
}

namespace sinter::gpu {
namespace {

// Writes up to this many bytes ride in the block; larger ones cross by address, in a call of their own.
constexpr size_t kInlineBytes = 1 << 20;

class WebDevice;

struct Pending {
  WebDevice* device = nullptr;
  uint32_t batch = 0;  // 0: answered on its own
  Completion<> done;
};

struct Registry {
  uint32_t next_request = 1;
  uint32_t next_batch = 1;
  std::map<uint32_t, Pending> pending;
  std::map<uint32_t, Completion<std::vector<std::byte>>> opening;
  std::vector<WebDevice*> devices;
};

Registry& registry() {
  static Registry instance;
  return instance;
}

class WebDevice final : public Device {
 public:
  WebDevice(uint32_t handle, const wgsl::Target& target, AdapterInfo adapter)
      : handle_(handle), target_(target), adapter_(std::move(adapter)) {
    registry().devices.push_back(this);
  }

  ~WebDevice() override {
    std::erase(registry().devices, this);
    for (auto& [request, pending] : registry().pending) {
      if (pending.device == this) pending.device = nullptr;
    }
    if (!destroyed_) close();
  }

  uint32_t handle() const { return handle_; }
  const wgsl::Target& target() const override { return target_; }
  const AdapterInfo& adapter() const override { return adapter_; }

  BufferId create_buffer(uint64_t bytes, uint32_t use, std::string_view label) override {
    const size_t record = begin(wire::kCreateBuffer);
    put(++last_id_, use);
    put64(bytes);
    put(static_cast<uint32_t>(label.size()));
    put_bytes(std::as_bytes(std::span(label)));
    end(record);
    return last_id_;
  }

  void destroy_buffer(BufferId buffer) override { simple(wire::kDestroyBuffer, buffer); }

  void write_buffer(BufferId buffer, uint64_t offset, std::span<const std::byte> bytes) override {
    const bool by_address = words_.size() * 4 + bytes.size() > kInlineBytes;
    const size_t record = begin(by_address ? wire::kWriteFrom : wire::kWriteInline);
    put(buffer);
    put64(offset);
    if (by_address) put(address(bytes.data()));
    put(static_cast<uint32_t>(bytes.size()));
    if (!by_address) put_bytes(bytes);
    end(record);
    if (by_address) flush();
  }

  Task<std::vector<PipelineId>> create_pipelines(std::vector<PipelineDesc> descs) override {
    if (lost_) return already_lost<std::vector<PipelineId>>();
    std::vector<PipelineId> ids;
    auto [request, done] = ask(/*alone=*/true);
    const size_t record = begin(wire::kCreatePipelines);
    put(request, static_cast<uint32_t>(descs.size()));
    for (const PipelineDesc& desc : descs) {
      uint32_t writes = 0;
      SINTER_CHECK(desc.bindings.size() <= 32);
      for (size_t i = 0; i < desc.bindings.size(); ++i) writes |= uint32_t{desc.bindings[i].writes} << i;
      ids.push_back(++last_id_);
      put(last_id_, desc.uniform, static_cast<uint32_t>(desc.bindings.size()), writes,
          static_cast<uint32_t>(desc.label.size()), static_cast<uint32_t>(desc.wgsl.size()));
      put_bytes(std::as_bytes(std::span(desc.label)));
      put_bytes(std::as_bytes(std::span(desc.wgsl)));
    }
    end(record);
    return wait_for_pipelines(std::move(done), std::move(ids));
  }

  void destroy_pipeline(PipelineId pipeline) override { simple(wire::kDestroyPipeline, pipeline); }

  BindGroupId create_bind_group(PipelineId pipeline, std::span<const BufferRange> ranges) override {
    const size_t record = begin(wire::kCreateBindGroup);
    put(++last_id_, pipeline, static_cast<uint32_t>(ranges.size()));
    for (const BufferRange& range : ranges) {
      put(range.buffer);
      put64(range.offset);
      put64(range.bytes);
    }
    end(record);
    return last_id_;
  }

  void destroy_bind_group(BindGroupId group) override { simple(wire::kDestroyBindGroup, group); }

  void submit(std::span<const Command> commands) override {
    const size_t record = begin(wire::kSubmit);
    put(static_cast<uint32_t>(commands.size()));
    put_bytes(std::as_bytes(commands));
    end(record);
  }

  Task<> read_buffer(BufferId buffer, uint64_t offset, std::span<std::byte> out) override {
    if (lost_) return already_lost();
    auto [request, done] = ask();
    const size_t record = begin(wire::kRead);
    put(request, buffer);
    put64(offset);
    put(address(out.data()), static_cast<uint32_t>(out.size()));
    end(record);
    return wait_for_read(ReadGuard(request), std::move(done));
  }

  void push_error_scope() override { end(begin(wire::kPushScope)); }

  Task<> pop_error_scope() override {
    if (lost_) return already_lost();
    auto [request, done] = ask();
    simple(wire::kPopScope, request);
    return wait_for(std::move(done));
  }

  void destroy() override {
    if (destroyed_) return;
    set_lost("the device was destroyed");
    close();
    // The host has let go of every address, so what waits can end here.
    for (Completion<>& done : take_pending()) done.complete(fail(Code::DeviceLost, lost_reason_));
  }

  bool lost() const override { return lost_; }
  std::string lost_reason() const override { return lost_reason_; }
  bool poll() override { return false; }

  void forget(uint32_t request) { simple(wire::kForget, request); }

  void set_lost(std::string reason) {
    if (std::exchange(lost_, true)) return;
    lost_reason_ = std::move(reason);
  }

  /// An error that no scope caught. It belongs to work in flight: all that waits ends with it, or else the next answer does.
  void set_uncaptured(Error error) {
    if (uncaptured_) return;
    failure_of(error);  // shared by all who are told
    for (const auto& [request, pending] : registry().pending) {
      if (pending.device == this) forget(request);
    }
    std::vector<Completion<>> waiting = take_pending();
    if (waiting.empty()) uncaptured_ = error;
    for (Completion<>& done : waiting) done.complete(std::unexpected(error));
  }

  Result<> success() {
    if (lost_) return fail(Code::DeviceLost, lost_reason_);
    if (!uncaptured_) return {};
    Error error = std::move(*uncaptured_);
    uncaptured_.reset();
    return std::unexpected(std::move(error));
  }

  void flush() {
    if (words_.empty()) return;
    const uint32_t batch = std::exchange(batch_, 0);
    sinter_gpu_flush(handle_, batch, words_.data(), static_cast<uint32_t>(words_.size()));
    words_.clear();
    if (words_.capacity() * 4 > kInlineBytes) words_.shrink_to_fit();
  }

 private:
  /// Lives in the coroutine that waits for a read: where that coroutine goes away first, the host must not write to the
  /// address it was given.
  class ReadGuard {
   public:
    explicit ReadGuard(uint32_t request) : request_(request) {}
    ReadGuard(ReadGuard&& other) : request_(std::exchange(other.request_, 0)) {}
    ReadGuard& operator=(ReadGuard&&) = delete;
    ~ReadGuard() {
      auto& pending = registry().pending;
      const auto at = pending.find(request_);
      if (at == pending.end()) return;
      if (at->second.device) at->second.device->forget(request_);
      pending.erase(at);
    }

   private:
    uint32_t request_;
  };

  template <class T = void>
  Task<T> already_lost() {
    Completion<T> done;
    done.complete(fail(Code::DeviceLost, lost_reason_));
    return wait_for(std::move(done));
  }

  void close() {
    destroyed_ = true;
    end(begin(wire::kClose));
    flush();
  }

  /// What waits for this device, which from now on nobody answers.
  std::vector<Completion<>> take_pending() {
    std::vector<Completion<>> taken;
    std::erase_if(registry().pending, [&](auto& entry) {
      if (entry.second.device != this) return false;
      taken.push_back(entry.second.done);
      return true;
    });
    return taken;
  }

  static Task<> wait_for_read(ReadGuard, Completion<> done) { co_return co_await done; }

  static Task<std::vector<PipelineId>> wait_for_pipelines(Completion<> done, std::vector<PipelineId> ids) {
    SINTER_CO_CHECK_OK(co_await done);
    co_return std::move(ids);
  }

  std::pair<uint32_t, Completion<>> ask(bool alone = false) {
    Registry& all = registry();
    if (!alone && !batch_) batch_ = all.next_batch++;
    const uint32_t request = all.next_request++;
    Pending& pending = all.pending[request];
    pending.device = this;
    pending.batch = alone ? 0 : batch_;
    return {request, pending.done};
  }

  static uint32_t address(const void* pointer) { return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(pointer)); }

  size_t begin(wire::Op op) {
    const size_t at = words_.size();
    put(op, 0u);
    return at;
  }
  void end(size_t record) { words_[record + 1] = static_cast<uint32_t>(words_.size() - record); }

  template <class... Words>
  void put(Words... words) {
    (words_.push_back(static_cast<uint32_t>(words)), ...);
  }
  void put64(uint64_t value) { put(static_cast<uint32_t>(value), static_cast<uint32_t>(value >> 32)); }
  void put_bytes(std::span<const std::byte> bytes) {
    const size_t at = words_.size();
    words_.resize(at + (bytes.size() + 3) / 4);
    if (!bytes.empty()) std::memcpy(words_.data() + at, bytes.data(), bytes.size());
  }
  void simple(wire::Op op, uint32_t field) {
    const size_t record = begin(op);
    put(field);
    end(record);
  }

  uint32_t handle_;
  wgsl::Target target_;
  AdapterInfo adapter_;
  uint32_t last_id_ = 0;
  uint32_t batch_ = 0;  // of the records gathered now, where one of them asks something
  std::vector<uint32_t, Uninitialised<uint32_t>> words_;
  bool lost_ = false;
  bool destroyed_ = false;
  std::string lost_reason_;
  std::optional<Error> uncaptured_;
};

/// The pending request, taken out of the table.
std::optional<Pending> take(uint32_t request) {
  auto& pending = registry().pending;
  const auto at = pending.find(request);
  if (at == pending.end()) return {};
  std::optional<Pending> taken = std::move(at->second);
  pending.erase(at);
  return taken;
}

void finish(Pending& pending) { pending.done.complete(pending.device ? pending.device->success() : Result<>{}); }

WebDevice* find_device(uint32_t handle) {
  for (WebDevice* device : registry().devices) {
    if (device->handle() == handle) return device;
  }
  return nullptr;
}

std::shared_ptr<Device> make_device(std::span<const std::byte> bytes) {
  wire::OpenReply reply;
  SINTER_CHECK(bytes.size() >= sizeof reply);
  std::memcpy(&reply, bytes.data(), sizeof reply);
  wgsl::Target target;
  target.max_storage_buffers = reply.max_storage_buffers;
  target.max_binding_bytes = static_cast<uint64_t>(reply.max_binding_bytes);
  target.max_buffer_bytes = static_cast<uint64_t>(reply.max_buffer_bytes);
  target.max_uniform_bytes = reply.max_uniform_bytes;
  target.storage_alignment = reply.storage_alignment;
  target.uniform_alignment = reply.uniform_alignment;
  target.max_groups = reply.max_groups;
  target.max_invocations = reply.max_invocations;
  std::copy_n(reply.max_group_size, 3, target.max_group_size.begin());
  target.max_workgroup_bytes = reply.max_workgroup_bytes;
  target.f16 = reply.features & 1;
  target.subgroups = reply.features & 2;
  target.timestamps = reply.features & 4;

  AdapterInfo info;
  target.software = info.software = reply.features & 8;
  std::string_view text(reinterpret_cast<const char*>(bytes.data()) + sizeof reply, bytes.size() - sizeof reply);
  for (std::string* field : {&info.vendor, &info.architecture, &info.device, &info.description, &info.backend}) {
    const size_t length = std::min(text.find('\0'), text.size());
    field->assign(text.substr(0, length));
    text.remove_prefix(std::min(length + 1, text.size()));
  }
  return std::make_shared<WebDevice>(reply.device, target, std::move(info));
}

}  // namespace

void flush_web_devices() {
  for (WebDevice* device : registry().devices) device->flush();
}

void finish_web_batch(unsigned batch) {
  auto& pending = registry().pending;
  for (auto at = pending.begin(); at != pending.end();) {
    if (batch == 0 || at->second.batch != batch) {
      ++at;
      continue;
    }
    finish(at->second);
    at = pending.erase(at);
  }
}

Task<std::shared_ptr<Device>> open_device(DeviceOptions options) {
  trace::Span span(options.trace, "open device");
  const uint32_t request = registry().next_request++;
  Completion<std::vector<std::byte>> opened = registry().opening[request];
  const uint32_t flags = (options.prefer_low_power ? 1u : 0u) | (options.allow_software ? 2u : 0u);
  sinter_gpu_open(request, flags, static_cast<double>(options.need_binding_bytes),
                  static_cast<double>(options.need_buffer_bytes));
  const std::vector<std::byte> reply = SINTER_CO_TRY(co_await opened);
  std::shared_ptr<Device> device = make_device(reply);
  span.finish(device->adapter().description);
  co_return device;
}

}  // namespace sinter::gpu

using namespace sinter;
using namespace sinter::gpu;

extern "C" {

SINTER_EXPORT("sinter_gpu_opened") void sinter_gpu_opened(uint32_t request, const std::byte* reply, uint32_t bytes) {
  auto& opening = registry().opening;
  const auto at = opening.find(request);
  if (at == opening.end()) return;
  auto opened = at->second;
  opening.erase(at);
  opened.complete(std::vector<std::byte>(reply, reply + bytes));
}

/// Ends one request; `code` is 0 or a Code plus one. The text is a message, then a hint after a zero byte.
SINTER_EXPORT("sinter_gpu_settle")
void sinter_gpu_settle(uint32_t request, uint32_t code, const char* text, uint32_t bytes) {
  if (code == 0) {
    if (auto pending = take(request)) finish(*pending);
    return;
  }
  const std::string_view all(text, bytes);
  const size_t split = std::min(all.find('\0'), all.size());
  Error error{static_cast<Code>(code - 1), std::string(all.substr(0, split)), {}, {}};
  if (split < all.size()) error.hint.assign(all.substr(split + 1));
  if (auto pending = take(request)) {
    pending->done.complete(std::unexpected(std::move(error)));
  } else if (const auto at = registry().opening.find(request); at != registry().opening.end()) {
    auto opened = at->second;
    registry().opening.erase(at);
    opened.complete(std::unexpected(std::move(error)));
  }
}

SINTER_EXPORT("sinter_gpu_lost") void sinter_gpu_lost(uint32_t device, const char* text, uint32_t bytes) {
  if (WebDevice* found = find_device(device)) found->set_lost(std::string(text, bytes));
}

SINTER_EXPORT("sinter_gpu_uncaptured") void sinter_gpu_uncaptured(uint32_t device, const char* text, uint32_t bytes) {
  if (WebDevice* found = find_device(device)) {
    found->set_uncaptured(Error{Code::Gpu, StrCat("the device reported: ", std::string_view(text, bytes)), {}, {}});
  }
}

}  // extern "C"
