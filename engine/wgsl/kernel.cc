// SPDX-License-Identifier: Apache-2.0
#include "engine/wgsl/kernel.h"

#include <cstring>
#include <memory>

#include "engine/base/str.h"

namespace sinter::wgsl {
namespace {

template <class T>
T load(const std::byte* bytes, size_t i) {
  T value;
  std::memcpy(&value, bytes + i * sizeof(T), sizeof(T));
  return value;
}

template <class T>
void store(std::byte* bytes, size_t i, T value) {
  std::memcpy(bytes + i * sizeof(T), &value, sizeof(T));
}

// Element-wise copies that change the width; both sides may be misaligned.
template <class From, class To>
void cast_all(const std::byte* from, std::byte* to, size_t n) {
  for (size_t i = 0; i < n; ++i) store<To>(to, i, static_cast<To>(load<From>(from, i)));
}

void widen(DType dtype, const std::byte* from, std::byte* to, size_t n) {
  switch (dtype) {
    case DType::i8:
      return cast_all<int8_t, int32_t>(from, to, n);
    case DType::i16:
      return cast_all<int16_t, int32_t>(from, to, n);
    case DType::u16:
      return cast_all<uint16_t, uint32_t>(from, to, n);
    case DType::f16:
      for (size_t i = 0; i < n; ++i) store(to, i, f16_to_f32(load<uint16_t>(from, i)));
      return;
    case DType::bf16:
      for (size_t i = 0; i < n; ++i) store(to, i, bf16_to_f32(load<uint16_t>(from, i)));
      return;
    default:
      return cast_all<uint8_t, uint32_t>(from, to, n);  // u8, boolean
  }
}

void narrow(DType dtype, const std::byte* from, std::byte* to, size_t n) {
  switch (dtype) {
    case DType::i8:
      return cast_all<int32_t, int8_t>(from, to, n);
    case DType::i16:
      return cast_all<int32_t, int16_t>(from, to, n);
    case DType::u16:
      return cast_all<uint32_t, uint16_t>(from, to, n);
    case DType::f16:
      for (size_t i = 0; i < n; ++i) store(to, i, f32_to_f16(load<float>(from, i)));
      return;
    case DType::bf16:
      for (size_t i = 0; i < n; ++i) store(to, i, f32_to_bf16(load<float>(from, i)));
      return;
    case DType::boolean:
      for (size_t i = 0; i < n; ++i) store<uint8_t>(to, i, load<uint32_t>(from, i) != 0);
      return;
    default:
      return cast_all<uint32_t, uint8_t>(from, to, n);  // u8
  }
}

std::unexpected<Error> no_device_form(DType dtype) {
  return fail(Code::Unsupported, StrCat("dtype ", name_of(dtype), " has no form in device memory"),
              "run the model on the CPU backend");
}

}  // namespace

Storage storage_of(DType dtype, const Target& target) {
  switch (dtype) {
    case DType::f32:
    case DType::bf16:
      return Storage::f32;
    case DType::f16:
      return target.f16 ? Storage::f16 : Storage::f32;
    case DType::i8:
    case DType::i16:
    case DType::i32:
      return Storage::i32;
    case DType::u8:
    case DType::u16:
    case DType::u32:
    case DType::boolean:
      return Storage::u32;
    case DType::i64:
    case DType::u64:
      return Storage::words2;
    // f32 would silently drop half of a double's digits.
    case DType::f64:
    case DType::string:
    case DType::undefined:
      return Storage::none;
  }
  return Storage::none;
}

uint32_t device_size(Storage storage) {
  switch (storage) {
    case Storage::f32:
    case Storage::i32:
    case Storage::u32:
      return 4;
    case Storage::f16:
      return 2;
    case Storage::words2:
      return 8;
    case Storage::none:
      return 0;
  }
  return 0;
}

uint64_t device_bytes(DType dtype, uint64_t numel, const Target& target) {
  return (numel * device_size(storage_of(dtype, target)) + 3) & ~uint64_t{3};
}

Result<Tensor> to_device(const Tensor& tensor, const Target& target) {
  const Storage storage = storage_of(tensor.dtype(), target);
  if (storage == Storage::none) return no_device_form(tensor.dtype());
  if (storage == Storage::words2) {
    const Shape words{static_cast<int64_t>(tensor.numel() * 2)};
    return Tensor::view(DType::u32, words, tensor.bytes(), std::make_shared<const Tensor>(tensor));
  }
  if (size_of(tensor.dtype()) == device_size(storage)) return tensor;
  const DType wide = storage == Storage::f32 ? DType::f32 : storage == Storage::i32 ? DType::i32 : DType::u32;
  Tensor out = SINTER_TRY(Tensor::alloc(wide, tensor.shape(), "a tensor widened for the device"));
  widen(tensor.dtype(), tensor.bytes().data(), out.mutable_bytes().data(), tensor.numel());
  return out;
}

Result<> from_device(std::span<const std::byte> device_bytes, Tensor& out, const Target& target) {
  const Storage storage = storage_of(out.dtype(), target);
  if (storage == Storage::none) return no_device_form(out.dtype());
  const size_t needed = out.numel() * device_size(storage);
  if (device_bytes.size() < needed) {
    return fail(Code::Internal, StrCat("a device tensor of ", needed, " bytes was read as ", device_bytes.size()));
  }
  if (needed == 0) return {};
  std::byte* to = out.mutable_bytes().data();
  if (size_of(out.dtype()) == device_size(storage)) {
    std::memcpy(to, device_bytes.data(), needed);
  } else {
    narrow(out.dtype(), device_bytes.data(), to, out.numel());
  }
  return {};
}

}  // namespace sinter::wgsl
