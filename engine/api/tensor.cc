// SPDX-License-Identifier: Apache-2.0
// The lazy Tensor: how expressions are made and read.
#include "include/sinter/tensor.hpp"

#include <algorithm>
#include <atomic>

#include "engine/api/expression.h"
#include "engine/base/str.h"

namespace sinter::api {
namespace internal {

// A long chain would be destroyed recursively; this takes it apart in a loop.
Expression::~Expression() {
  std::vector<Tensor> open = std::move(inputs);
  while (!open.empty()) {
    Tensor tensor = std::move(open.back());
    open.pop_back();
    if (!tensor || tensor.expression().use_count() != 1) continue;
    auto& last = const_cast<Expression&>(*tensor.expression());
    for (Tensor& input : last.inputs) open.push_back(std::move(input));
    last.inputs.clear();
  }
}

}  // namespace internal

namespace {

using internal::Expression;
using Kind = Expression::Kind;

uint64_t next_sequence() {
  static std::atomic<uint64_t> next = 0;
  return next++;
}

std::shared_ptr<Expression> make(Kind kind, Source at) {
  auto expression = std::make_shared<Expression>();
  expression->kind = kind;
  expression->sequence = next_sequence();
  expression->at = at;
  return expression;
}

constexpr size_t kMaxKnown = 16;

// The session of an expression, kept for the next one of the same structure.
Task<std::shared_ptr<sinter::Session>> session_of(std::shared_ptr<internal::EngineState> state,
                                                  internal::Built& built) {
  std::string key = structure(built);
  auto& known = state->known;
  const auto found = std::find_if(known.begin(), known.end(), [&](const auto& entry) { return entry.key == key; });
  if (found != known.end()) {
    std::rotate(known.begin(), found, found + 1);
    co_return known.front().session;
  }
  std::vector<std::shared_ptr<const void>> constants;
  for (const Value& value : built.graph.values) {
    if (value.constant) constants.push_back(std::make_shared<sinter::Tensor>(value.constant));
  }
  for (const Node& node : built.graph.nodes) {
    for (const auto& [name, value] : node.attrs) {
      if (const auto* tensor = std::get_if<sinter::Tensor>(&value)) {
        constants.push_back(std::make_shared<sinter::Tensor>(*tensor));
      }
    }
  }
  auto session = SINTER_CO_TRY(
      co_await open_session(state->engine, std::move(built.graph), internal::session_options(state->options, {})));
  known.push_front({std::move(key), std::move(constants), session});
  if (known.size() > kMaxKnown) known.pop_back();
  co_return session;
}

}  // namespace

Tensor Tensor::of_number(double number, Source at) {
  auto expression = make(Kind::number, at);
  expression->number = number;
  return Tensor(std::move(expression), 0);
}

Tensor::Tensor(std::initializer_list<int64_t> values, Source at) {
  const Shape shape = {static_cast<int64_t>(values.size())};
  *this = constant(HostTensor::of<int64_t>(shape, {values.begin(), values.size()}), {}, at);
}

Tensor::Tensor(const Engine& engine, HostTensor data, Source at) {
  auto expression = make(Kind::data, at);
  expression->dtype = data.dtype();
  expression->data = std::move(data);
  expression->engine = engine.state();
  expression_ = std::move(expression);
}

Tensor::Tensor(const Engine& engine, Result<HostTensor> data, Source at) {
  *this = data ? Tensor(engine, std::move(*data), at) : failed(std::move(data).error(), at);
}

Tensor Tensor::constant(HostTensor data, std::string name, Source at) {
  auto expression = make(Kind::constant, at);
  expression->dtype = data.dtype();
  expression->data = std::move(data);
  expression->name = std::move(name);
  return Tensor(std::move(expression), 0);
}

Tensor Tensor::constant(Result<HostTensor> data, std::string name, Source at) {
  return data ? constant(std::move(*data), std::move(name), at) : failed(std::move(data).error(), at);
}

Tensor Tensor::input(std::string name, DType dtype, Dims shape, Source at) {
  if (shape.list.size() > kMaxRank) {
    return failed({Code::Unsupported,
                   StrCat("input '", name, "' has ", shape.list.size(), " dimensions"),
                   {},
                   StrCat("up to ", kMaxRank, " are supported")},
                  at);
  }
  auto expression = make(Kind::input, at);
  expression->name = std::move(name);
  expression->dtype = dtype;
  expression->dims = std::move(shape);
  return Tensor(std::move(expression), 0);
}

Tensor Tensor::failed(Error error, Source at) {
  auto expression = make(Kind::failed, at);
  expression->error = std::move(error);
  return Tensor(std::move(expression), 0);
}

namespace {

Attributes& put(Attributes& attributes, std::shared_ptr<internal::AttributeList>& list, std::string_view name,
                AttrValue value) {
  if (!list) list = std::make_shared<internal::AttributeList>();
  list->items.emplace_back(name, std::move(value));
  return attributes;
}

}  // namespace

Attributes& Attributes::set(std::string_view name, std::optional<int64_t> value) {
  return value ? put(*this, list_, name, *value) : *this;
}
Attributes& Attributes::set(std::string_view name, std::optional<float> value) {
  return value ? put(*this, list_, name, *value) : *this;
}
Attributes& Attributes::set(std::string_view name, std::optional<std::string_view> value) {
  return value ? put(*this, list_, name, std::string(*value)) : *this;
}
Attributes& Attributes::set(std::string_view name, const List<int64_t>& value) {
  return value.values ? put(*this, list_, name, *value.values) : *this;
}
Attributes& Attributes::set(std::string_view name, const List<float>& value) {
  return value.values ? put(*this, list_, name, *value.values) : *this;
}
Attributes& Attributes::set(std::string_view name, const List<std::string>& value) {
  return value.values ? put(*this, list_, name, *value.values) : *this;
}
Attributes& Attributes::set(std::string_view name, const HostTensor& value) {
  return value ? put(*this, list_, name, internal::to_engine(value)) : *this;
}

std::vector<Tensor> apply(std::string_view op, std::vector<Tensor> inputs, const Attributes& attributes, size_t outputs,
                          Source at) {
  auto expression = make(Kind::op, at);
  expression->op = op;
  expression->inputs = std::move(inputs);
  expression->attributes = attributes.list();
  expression->outputs = std::max<size_t>(outputs, 1);
  std::vector<Tensor> tensors;
  for (uint32_t i = 0; i < std::max<size_t>(outputs, 1); ++i) tensors.push_back(Tensor(expression, i));
  return tensors;
}

Task<std::vector<HostTensor>> data_of(Engine engine, std::vector<Tensor> tensors) {
  SINTER_CO_CHECK_OK(Result<>(engine.state()->fits));
  std::vector<Output> outputs;
  // A tensor that is data already is not computed, and one that is asked for twice is computed once.
  std::vector<HostTensor> results(tensors.size());
  std::vector<std::pair<size_t, size_t>> from;  // result, output
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& tensor = tensors[i];
    if (tensor && (tensor.expression()->kind == Kind::data || tensor.expression()->kind == Kind::constant)) {
      results[i] = tensor.expression()->data;
      continue;
    }
    const auto same = std::find_if(outputs.begin(), outputs.end(), [&](const Output& output) {
      return output.tensor.expression() == tensor.expression() && output.tensor.output() == tensor.output();
    });
    from.push_back({i, static_cast<size_t>(same - outputs.begin())});
    if (same == outputs.end()) outputs.push_back({StrCat("result_", outputs.size()), tensor});
  }
  if (outputs.empty()) co_return results;
  internal::Built built = SINTER_CO_TRY(internal::build({}, outputs));
  std::vector<sinter::NamedTensor> inputs;
  for (size_t i = 0; i < built.inputs.size(); ++i) {
    inputs.push_back({built.graph.values[built.graph.inputs[i]].name, internal::to_engine(built.inputs[i]->data)});
  }
  const auto state = engine.state();
  const auto session = SINTER_CO_TRY(co_await session_of(state, built));
  // A session of an earlier expression names its inputs as that one did.
  for (size_t i = 0; i < inputs.size(); ++i) inputs[i].name = session->inputs()[i].name;
  const auto computed = SINTER_CO_TRY(co_await session->run(std::move(inputs), {}));
  for (const auto& [result, output] : from) results[result] = internal::to_host(computed[output].tensor);
  co_return results;
}

Task<std::vector<HostTensor>> data_of(std::vector<Tensor> tensors) {
  auto engine = internal::engine_of(tensors);
  if (!engine) co_return std::unexpected(std::move(engine).error());
  co_return co_await data_of(std::move(*engine), std::move(tensors));
}

Task<HostTensor> Tensor::data(Engine engine) const {
  const Tensor self = *this;
  auto all = SINTER_CO_TRY(co_await data_of(std::move(engine), {self}));
  co_return std::move(all[0]);
}

Task<HostTensor> Tensor::data() const {
  const Tensor self = *this;
  auto all = SINTER_CO_TRY(co_await data_of({self}));
  co_return std::move(all[0]);
}

Task<Function> Function::create(Engine engine, std::vector<Tensor> inputs, std::vector<Output> outputs,
                                LoadOptions options) {
  SINTER_CO_CHECK_OK(Result<>(engine.state()->fits));
  internal::Built built = SINTER_CO_TRY(internal::build(inputs, outputs));
  if (built.inputs.size() != inputs.size()) {
    co_return fail(Code::InvalidInput, "a Function's expression holds data that belongs to one run",
                   "make it a constant, or an input of the Function");
  }
  const auto state = engine.state();
  Function function;
  for (const auto& input : built.inputs) function.names_.push_back(input->name);
  function.session_.state_ = std::make_shared<internal::SessionState>();
  function.session_.state_->engine = state;
  function.session_.state_->session = SINTER_CO_TRY(
      co_await open_session(state->engine, std::move(built.graph), internal::session_options(state->options, options)));
  co_return function;
}

Task<std::vector<HostTensor>> Function::run(std::vector<HostTensor> inputs, CancelToken cancel) const {
  const Session session = session_;
  if (inputs.size() != names_.size()) {
    co_return fail(Code::InvalidInput,
                   StrCat("the function takes ", names_.size(), " inputs, given are ", inputs.size()));
  }
  std::vector<NamedTensor> named;
  for (size_t i = 0; i < inputs.size(); ++i) named.push_back({names_[i], std::move(inputs[i])});
  auto outputs = SINTER_CO_TRY(co_await session.run(std::move(named), cancel));
  std::vector<HostTensor> tensors;
  for (NamedTensor& output : outputs) tensors.push_back(std::move(output.tensor));
  co_return tensors;
}

}  // namespace sinter::api
