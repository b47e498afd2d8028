// SPDX-License-Identifier: Apache-2.0
#include "include/sinter/weights.hpp"

#include <algorithm>

#include "engine/api/state.h"
#include "engine/base/nearest.h"
#include "engine/base/str.h"
#include "engine/codegen/weights_file.h"
#include "engine/onnx/external_data.h"
#include "engine/onnx/parse.h"

namespace sinter::api {

struct Weights::State {
  codegen::WeightsFile file;
  bool locked = false;               // from a .weights file
  mutable std::vector<Tensor> made;  // by weight: one that is used twice is one constant
};

namespace {

std::string hex(uint64_t value) {
  std::string out;
  for (int shift = 60; shift >= 0; shift -= 4) out += "0123456789abcdef"[(value >> shift) & 15];
  return out;
}

Result<sinter::Tensor> tensor_of(const onnx::TensorProto& proto, onnx::ExternalData* external) {
  if (!proto.refusal.empty()) return fail(Code::Unsupported, proto.refusal);
  if (!proto.is_external) return proto.tensor.aligned();
  if (!external)
    return fail(Code::Io, StrCat("it lies in '", proto.external.location, "'"), "open the model from a file");
  SINTER_CHECK_OK(onnx::check_external_name(proto.external.location));
  const onnx::FileBytes file = SINTER_TRY(external->open(proto.external.location));
  const uint64_t offset = proto.external.offset;
  if (offset > file.bytes.size()) return fail(Code::InvalidModel, "it begins behind the end of its file");
  auto bytes = file.bytes.subspan(offset);
  if (proto.external.has_length && proto.external.length <= bytes.size()) bytes = bytes.first(proto.external.length);
  Shape shape(proto.dims);
  SINTER_CHECK_OK(HostTensor::view(onnx::dtype_of(proto.data_type), shape, bytes, file.owner));
  return sinter::Tensor::view(onnx::dtype_of(proto.data_type), shape, bytes, file.owner).aligned();
}

}  // namespace

Result<Weights> Weights::read(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                              onnx::ExternalData* external) {
  auto state = std::make_shared<State>();
  if (codegen::is_weights_file(bytes)) {
    state->file = SINTER_TRY(codegen::read_weights(bytes, std::move(owner)));
    state->locked = true;
  } else {
    const onnx::Model model = SINTER_TRY(onnx::parse(bytes, std::move(owner)));
    for (const onnx::TensorProto& proto : model.graph.initializers) {
      auto tensor = tensor_of(proto, external);
      if (!tensor) {
        return std::unexpected(std::move(tensor).error().with_context(StrCat("reading weight '", proto.name, "'")));
      }
      state->file.weights.push_back({std::string(proto.name), std::move(*tensor)});
    }
  }
  Weights weights;
  weights.state_ = std::move(state);
  return weights;
}

Result<Weights> Weights::from(std::span<const std::byte> bytes, std::shared_ptr<const void> owner) {
  return read(bytes, std::move(owner), nullptr);
}

Result<HostTensor> Weights::get(std::string_view name) const {
  std::vector<std::string_view> known;
  if (state_) {
    for (const codegen::NamedWeight& weight : state_->file.weights) {
      if (weight.name == name) return internal::to_host(weight.tensor);
      known.push_back(weight.name);
    }
  }
  const std::string_view close = nearest(name, known);
  return fail(Code::InvalidInput, StrCat("there is no weight '", name, "' among ", known.size()),
              close.empty() ? std::string() : StrCat("the closest name is '", close, "'"));
}

Tensor Weights::at(std::string_view name, Source at) const {
  auto tensor = get(name);
  if (!tensor) return Tensor::failed(std::move(tensor).error(), at);
  const auto& weights = state_->file.weights;
  state_->made.resize(weights.size());
  const auto found =
      std::find_if(weights.begin(), weights.end(), [&](const auto& weight) { return weight.name == name; });
  Tensor& made = state_->made[found - weights.begin()];
  if (!made) made = Tensor::constant(std::move(*tensor), std::string(name), at);
  return made;
}

std::vector<std::string> Weights::names() const {
  std::vector<std::string> names;
  if (!state_) return names;
  for (const codegen::NamedWeight& weight : state_->file.weights) names.push_back(weight.name);
  return names;
}

Result<> Weights::check(const lock::Lock& code) const {
  constexpr std::string_view kHint = "generate code and weights together: sinter compile MODEL.onnx -o DIR";
  const auto refuse = [&](std::string text) { return fail(Code::InvalidModel, std::move(text), std::string(kHint)); };
  if (!state_ || !state_->locked) return refuse("generated code needs the .weights file that was generated with it");
  const codegen::WeightsFile& file = state_->file;
  if (!lock::takes_format(file.format)) {
    return refuse(StrCat("the weights file has format ", file.format, ", this library reads formats ",
                         lock::kOldestFormat, " to ", lock::kFormat));
  }
  if (file.engine != code.engine) {
    return refuse(StrCat("the weights were written by sinter ", file.engine, ", the code by sinter ", code.engine));
  }
  if (file.operators != code.operators) {
    return refuse(StrCat("the weights belong to a model of other operators (", hex(file.operators), ") than the code (",
                         hex(code.operators), ")"));
  }
  if (file.hash != code.weights) {
    return refuse(StrCat("the weights (", hex(file.hash), ") are not those that the code was generated for (",
                         hex(code.weights), ")"));
  }
  return {};
}

}  // namespace sinter::api
