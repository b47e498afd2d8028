// SPDX-License-Identifier: Apache-2.0
// Layout, all little-endian: magic, format u32, count u32, operators u64, hash u64, engine version (16 bytes, zero-padded);
// then per weight: name bytes u32, dtype u32, rank u32, zero u32, dims i64 x rank, offset u64, bytes u64, name; then the
// contents, each at a multiple of 64.
#include "engine/codegen/weights_file.h"

#include <cstring>

#include "engine/base/str.h"

namespace sinter::codegen {
namespace {

constexpr std::string_view kMagic = "SINTERWT";
constexpr size_t kVersionBytes = 16;
constexpr size_t kContentAlignment = 64;

// A hash of eight bytes at a time: weights are large.
uint64_t mix(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * 0x9e3779b97f4a7c15;
  return hash ^ (hash >> 29);
}

uint64_t hash_bytes(uint64_t hash, std::span<const std::byte> bytes) {
  size_t at = 0;
  for (; at + 8 <= bytes.size(); at += 8) {
    uint64_t word;
    std::memcpy(&word, bytes.data() + at, 8);
    hash = mix(hash, word);
  }
  uint64_t tail = 0;
  if (at < bytes.size()) std::memcpy(&tail, bytes.data() + at, bytes.size() - at);
  return mix(mix(hash, tail), bytes.size());
}

template <class T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

size_t align(size_t at) { return (at + kContentAlignment - 1) / kContentAlignment * kContentAlignment; }

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <class T>
  bool get(T& value) {
    if (bytes_.size() - at_ < sizeof value) return false;
    std::memcpy(&value, bytes_.data() + at_, sizeof value);
    at_ += sizeof value;
    return true;
  }
  bool text(std::string& out, size_t count) {
    if (bytes_.size() - at_ < count) return false;
    out.assign(reinterpret_cast<const char*>(bytes_.data()) + at_, count);
    at_ += count;
    return true;
  }
  bool slice(uint64_t offset, uint64_t count, std::span<const std::byte>& out) const {
    if (offset > bytes_.size() || count > bytes_.size() - offset) return false;
    out = bytes_.subspan(offset, count);
    return true;
  }

 private:
  std::span<const std::byte> bytes_;
  size_t at_ = 0;
};

std::unexpected<Error> damaged(std::string_view why) {
  return fail(Code::InvalidModel, StrCat("the weights file is damaged: ", why),
              "generate it again: sinter compile MODEL.onnx -o DIR");
}

}  // namespace

bool is_weights_file(std::span<const std::byte> bytes) {
  return bytes.size() >= kMagic.size() && std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) == 0;
}

uint64_t hash_weights(std::span<const NamedWeight> weights) {
  uint64_t hash = weights.size();
  for (const NamedWeight& weight : weights) {
    hash = hash_bytes(hash, std::as_bytes(std::span(weight.name)));
    hash = mix(hash, static_cast<uint64_t>(weight.tensor.dtype()));
    hash = hash_bytes(hash, std::as_bytes(weight.tensor.shape().dims()));
    hash = hash_bytes(hash, weight.tensor.bytes());
  }
  return hash;
}

std::string write_weights(const WeightsFile& file) {
  std::string table;
  size_t table_bytes = 0;
  for (const NamedWeight& weight : file.weights)
    table_bytes += 32 + weight.tensor.shape().rank() * 8 + weight.name.size();
  size_t at = align(kMagic.size() + 24 + kVersionBytes + table_bytes);
  std::string out(kMagic);
  put(out, file.format);
  put(out, static_cast<uint32_t>(file.weights.size()));
  put(out, file.operators);
  put(out, file.hash);
  std::string version = file.engine;
  version.resize(kVersionBytes);
  out += version;
  for (const NamedWeight& weight : file.weights) {
    const Tensor& tensor = weight.tensor;
    put(out, static_cast<uint32_t>(weight.name.size()));
    put(out, static_cast<uint32_t>(tensor.dtype()));
    put(out, static_cast<uint32_t>(tensor.shape().rank()));
    put(out, uint32_t{0});
    for (const int64_t dim : tensor.shape()) put(out, dim);
    put(out, static_cast<uint64_t>(at));
    put(out, static_cast<uint64_t>(tensor.nbytes()));
    out += weight.name;
    at = align(at + tensor.nbytes());
  }
  for (const NamedWeight& weight : file.weights) {
    out.resize(align(out.size()));
    out.append(reinterpret_cast<const char*>(weight.tensor.bytes().data()), weight.tensor.nbytes());
  }
  return out;
}

Result<WeightsFile> read_weights(std::span<const std::byte> bytes, std::shared_ptr<const void> owner) {
  WeightsFile file;
  Reader reader(bytes);
  std::string magic;
  uint32_t count = 0;
  if (!reader.text(magic, kMagic.size()) || magic != kMagic) return damaged("it does not begin as one");
  if (!reader.get(file.format) || !reader.get(count) || !reader.get(file.operators) || !reader.get(file.hash) ||
      !reader.text(file.engine, kVersionBytes)) {
    return damaged("its header is cut off");
  }
  file.engine.resize(std::strlen(file.engine.c_str()));
  for (uint32_t i = 0; i < count; ++i) {
    NamedWeight weight;
    uint32_t name_bytes = 0, dtype = 0, rank = 0, zero = 0;
    uint64_t offset = 0, nbytes = 0;
    Shape shape;
    bool good = reader.get(name_bytes) && reader.get(dtype) && reader.get(rank) && reader.get(zero) && rank <= kMaxRank;
    for (uint32_t d = 0; good && d < rank; ++d) {
      int64_t dim = 0;
      good = reader.get(dim) && dim >= 0;
      shape.push_back(dim);
    }
    std::span<const std::byte> content;
    good = good && reader.get(offset) && reader.get(nbytes) && reader.text(weight.name, name_bytes) &&
           reader.slice(offset, nbytes, content) && dtype <= static_cast<uint32_t>(DType::bf16);
    const auto numel = good ? checked_numel(shape) : std::nullopt;
    const size_t size = good ? size_of(static_cast<DType>(dtype)) : 0;
    if (!numel || size == 0 || static_cast<uint64_t>(*numel) != nbytes / size || nbytes % size != 0) {
      return damaged(StrCat("weight ", i, " of ", count, " does not fit the file's ", bytes.size(), " bytes"));
    }
    weight.tensor = Tensor::view(static_cast<DType>(dtype), shape, content, owner);
    file.weights.push_back(std::move(weight));
  }
  if (hash_weights(file.weights) != file.hash) return damaged("its contents are not those that were written");
  return file;
}

}  // namespace sinter::codegen
