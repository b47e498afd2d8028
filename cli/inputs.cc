// SPDX-License-Identifier: Apache-2.0
#include "cli/inputs.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <random>

#include "cli/options.h"
#include "engine/base/str.h"
#include "engine/onnx/external_data.h"
#include "engine/onnx/parse.h"
#include "engine/tensor/npy.h"

namespace sinter::cli {
namespace {

using Symbols = std::map<std::string, int64_t>;

bool is_number(const std::string& dim) {
  return !dim.empty() && dim.find_first_not_of("0123456789") == std::string::npos;
}

Result<Shape> concrete_shape(const IoInfo& info, const Symbols& symbols) {
  Shape shape;
  for (const std::string& dim : info.shape) {
    const auto at = symbols.find(dim);
    shape.push_back(is_number(dim) ? std::stoll(dim) : at == symbols.end() ? 1 : at->second);
  }
  return shape;
}

/// The same numbers on every machine: the standard's distributions are not.
Result<Tensor> random_tensor(const IoInfo& info, const Symbols& symbols, std::mt19937_64& random) {
  const Shape shape = SINTER_TRY(concrete_shape(info, symbols));
  Tensor tensor = SINTER_TRY(Tensor::alloc(info.dtype, shape, StrCat("random input '", info.name, "'")));
  for (size_t i = 0; i < tensor.numel(); ++i) {
    const uint64_t bits = random();
    if (is_float(info.dtype)) {
      set_f64(tensor, i, static_cast<double>(bits >> 40) / (1 << 23) - 1);
    } else {
      set_i64(tensor, i, static_cast<int64_t>(bits >> 61));
    }
  }
  return tensor;
}

std::unexpected<Error> unknown_input(const Session& session, const std::string& name) {
  std::vector<std::string> names;
  for (const IoInfo& info : session.inputs()) names.push_back(StrCat("'", info.name, "'"));
  return fail(Code::InvalidInput, StrCat("the model has no input named '", name, "'"),
              StrCat("its inputs are ", StrJoin(names, ", ")));
}

}  // namespace

Result<Tensor> read_npy_file(const std::string& path) {
  const onnx::FileBytes file = SINTER_TRY(onnx::map_file(path));
  auto tensor = read_npy(file.bytes, file.owner);
  if (!tensor) return std::unexpected(std::move(tensor).error().with_context(StrCat("reading '", path, "'")));
  return tensor;
}

Result<> write_npy_file(const std::string& path, const Tensor& tensor) {
  std::ofstream file(path, std::ios::binary);
  const auto header = npy_header(tensor.dtype(), tensor.shape());
  file.write(reinterpret_cast<const char*>(header.data()), static_cast<std::streamsize>(header.size()));
  file.write(reinterpret_cast<const char*>(tensor.bytes().data()), static_cast<std::streamsize>(tensor.nbytes()));
  file.close();
  if (!file)
    return fail(Code::Io, StrCat("cannot write '", path, "': ", std::strerror(errno)),
                "check the folder and the free space");
  return {};
}

Result<Tensor> read_tensor_file(const std::string& path) {
  const onnx::FileBytes file = SINTER_TRY(onnx::map_file(path));
  auto proto = onnx::parse_tensor_file(file.bytes, file.owner);
  if (!proto) return std::unexpected(std::move(proto).error().with_context(StrCat("reading '", path, "'")));
  if (!proto->refusal.empty()) return fail(Code::Unsupported, StrCat("'", path, "': ", proto->refusal));
  if (!proto->tensor) return fail(Code::Unsupported, StrCat("'", path, "' holds no tensor with its data in the file"));
  return proto->tensor.aligned();
}

std::string file_name_of(std::string_view value_name) {
  std::string name(value_name);
  for (char& c : name) {
    const bool plain =
        (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
    if (!plain) c = '_';
  }
  return name + ".npy";
}

Result<std::vector<NamedTensor>> make_inputs(const Session& session, const std::vector<std::string>& assignments,
                                             const std::vector<std::pair<std::string, int64_t>>& dims, uint64_t seed) {
  std::vector<NamedTensor> inputs;
  Symbols symbols(dims.begin(), dims.end());
  for (const std::string& text : assignments) {
    const auto [name, path] = split_assignment(text);
    const auto& known = session.inputs();
    const auto info = std::find_if(known.begin(), known.end(), [&](const IoInfo& i) { return i.name == name; });
    if (info == known.end()) return unknown_input(session, name);
    const Tensor tensor = SINTER_TRY(read_npy_file(path));
    for (size_t i = 0; i < info->shape.size() && info->shape.size() == tensor.shape().rank(); ++i) {
      if (!is_number(info->shape[i])) symbols.try_emplace(info->shape[i], tensor.shape()[i]);
    }
    inputs.push_back({name, tensor});
  }
  std::mt19937_64 random(seed);
  for (const IoInfo& info : session.inputs()) {
    const bool given =
        std::any_of(inputs.begin(), inputs.end(), [&](const NamedTensor& i) { return i.name == info.name; });
    if (!given) inputs.push_back({info.name, SINTER_TRY(random_tensor(info, symbols, random))});
  }
  return inputs;
}

Statistics statistics(const Tensor& tensor) {
  Statistics result;
  double sum = 0;
  size_t count = 0;
  for (size_t i = 0; i < tensor.numel(); ++i) {
    const double value = get_f64(tensor, i);
    if (std::isnan(value)) {
      ++result.nan;
      continue;
    }
    result.infinite += std::isinf(value);
    result.min = count ? std::min(result.min, value) : value;
    result.max = count ? std::max(result.max, value) : value;
    sum += value;
    ++count;
  }
  if (count) result.mean = sum / static_cast<double>(count);
  return result;
}

}  // namespace sinter::cli
