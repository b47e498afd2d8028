// SPDX-License-Identifier: Apache-2.0
#include "engine/gpu/weights.h"

#include <cstring>
#include <string>
#include <utility>

#include "engine/base/failure.h"
#include "engine/base/str.h"
#include "engine/base/uninitialised.h"

namespace sinter::gpu {
namespace {

constexpr uint64_t kSmall = 64u << 10;  // weights up to this size share buffers
constexpr uint64_t kSlab = 1u << 20;    // of about this size
constexpr double kSliceMs = 8;          // the host gets a turn after this long

uint64_t round_up(uint64_t bytes, uint64_t to) { return (bytes + to - 1) / to * to; }

}  // namespace

DeviceWeights::Key DeviceWeights::key_of(const plan::WeightUse& use) {
  return {use.value, use.packer ? use.packer->name : std::string_view{}, use.packer_arg};
}

// The uploads of one call. Each buffer has an error scope of its own, so that a failure names its weight; the scopes'
// answers are awaited together at the end.
class DeviceWeights::Uploader {
 public:
  explicit Uploader(std::shared_ptr<Device> device) : device_(std::move(device)) {}

  Result<> add(size_t slot, const Tensor& tensor, std::string_view name, std::vector<DeviceWeight>& out) {
    const wgsl::Target& target = device_->target();
    const uint64_t bytes = round_up(tensor.nbytes(), 4);
    if (bytes > target.max_buffer_bytes) {
      return fail(Code::OutOfMemory,
                  StrCat("weight '", name, "' needs a buffer of ", bytes, " bytes, the device allows ",
                         target.max_buffer_bytes),
                  "use the CPU backend, or a device with a larger maxBufferSize");
    }
    out[slot].bytes = bytes;
    if (bytes == 0) return {};
    if (bytes > kSmall) {
      out[slot].buffer = create(tensor.bytes(), name);
      return {};
    }
    const uint64_t offset = round_up(slab_.size(), target.storage_alignment);
    if (offset + bytes > kSlab && offset > 0) {
      flush(out);
      return add(slot, tensor, name, out);
    }
    slab_.resize(offset + bytes);
    std::memcpy(slab_.data() + offset, tensor.bytes().data(), tensor.nbytes());
    out[slot].offset = offset;
    slab_slots_.push_back(slot);
    if (!slab_names_.empty()) slab_names_ += ", ";
    slab_names_ += name;
    return {};
  }

  void flush(std::vector<DeviceWeight>& out) {
    if (slab_.empty()) return;
    std::shared_ptr<const Buffer> buffer = create(slab_, slab_names_);
    for (size_t slot : slab_slots_) out[slot].buffer = buffer;
    slab_.clear();
    slab_slots_.clear();
    slab_names_.clear();
  }

  Task<> finish() {
    Result<> first;
    for (Scope& scope : scopes_) {
      Result<> result = co_await std::move(scope.task);
      if (!result && first) {
        first = std::unexpected(at(std::move(result).error(), {.call = "createBuffer"})
                                    .with_context(StrCat("uploading weight ", scope.name)));
      }
    }
    scopes_.clear();
    co_return first;
  }

 private:
  struct Scope {
    Task<> task;
    std::string name;
  };

  std::shared_ptr<const Buffer> create(std::span<const std::byte> bytes, std::string_view name) {
    name = name.substr(0, 200);  // a shared buffer may hold hundreds
    device_->push_error_scope();
    const uint64_t whole = bytes.size() & ~uint64_t{3};
    auto buffer = std::make_shared<const Buffer>(device_, round_up(bytes.size(), 4), kStorage | kCopyDst, name);
    if (whole) device_->write_buffer(buffer->id(), 0, bytes.first(whole));
    if (whole < bytes.size()) {  // a tail of 16-bit elements
      std::byte tail[4] = {};
      std::memcpy(tail, bytes.data() + whole, bytes.size() - whole);
      device_->write_buffer(buffer->id(), whole, tail);
    }
    scopes_.push_back({device_->pop_error_scope(), std::string(name)});
    return buffer;
  }

  std::shared_ptr<Device> device_;
  std::vector<Scope> scopes_;
  std::vector<std::byte, Uninitialised<std::byte>> slab_;
  std::vector<size_t> slab_slots_;
  std::string slab_names_;
};

Task<std::vector<DeviceWeight>> DeviceWeights::upload(const plan::Plan& plan, plan::WeightSource& source,
                                                      CancelToken cancel) {
  Lane::Hold hold = SINTER_CO_TRY(co_await lane_.enter());
  std::vector<DeviceWeight> out(plan.weights.size());
  std::vector<size_t> loaded;
  Uploader uploader(device_);
  co_await next_turn();  // the pipelines were handed over in this one
  double slice = trace::now_ms();
  for (size_t i = 0; i < plan.weights.size(); ++i) {
    const plan::WeightUse& use = plan.weights[i];
    if (!use.on_device) continue;
    if (auto found = kept_.find(key_of(use)); !use.constant && found != kept_.end()) {
      out[i] = found->second;
      continue;
    }
    SINTER_CO_CHECK_OK(cancel.check());
    const std::string_view name = plan.graph->values[use.value].name;
    Result<Tensor> tensor = source.load(use, device_->target());
    if (!tensor) {
      co_return std::unexpected(std::move(tensor).error().with_context(StrCat("loading weight '", name, "'")));
    }
    SINTER_CO_CHECK_OK(uploader.add(i, *tensor, name, out));
    loaded.push_back(i);
    tensor = Tensor();  // freed before the turn
    if (trace::now_ms() - slice < kSliceMs) continue;
    co_await next_turn();
    slice = trace::now_ms();
  }
  uploader.flush(out);
  SINTER_CO_CHECK_OK(co_await uploader.finish());
  uploads_ += loaded.size();
  for (size_t i : loaded) {
    if (plan.weights[i].constant) continue;  // private to the plan
    if (kept_.emplace(key_of(plan.weights[i]), out[i]).second) bytes_ += out[i].bytes;
  }
  co_return out;
}

}  // namespace sinter::gpu
