// SPDX-License-Identifier: Apache-2.0
#include "engine/runtime/inputs.h"

#include <algorithm>
#include <cstring>

#include "engine/base/str.h"

namespace sinter {
namespace {

std::string declared(const Graph& graph, const Value& value) {
  return StrCat(name_of(value.dtype), value.shape ? to_string(*value.shape, graph.symbols) : std::string("[?]"));
}

std::string input_names(const Graph& graph) {
  std::string names;
  for (ValueId id : graph.inputs) {
    names += StrCat(names.empty() ? "" : ", ", "'", graph.values[id].name, "' ", declared(graph, graph.values[id]));
  }
  return names.empty() ? "the model takes no inputs" : StrCat("the model takes ", names);
}

Result<> check_one(const Graph& graph, const Value& value, const Tensor& tensor, std::vector<int64_t>& symbols) {
  const auto wrong = [&](std::string text, std::string hint) {
    return fail(Code::InvalidInput, StrCat("input '", value.name, "' ", text), std::move(hint));
  };
  if (tensor.dtype() != value.dtype) {
    return wrong(StrCat("is ", name_of(tensor.dtype()), ", the model wants ", name_of(value.dtype)),
                 StrCat("convert it to ", name_of(value.dtype), " before the run"));
  }
  if (!value.shape) return {};
  const auto mismatch = [&] {
    return wrong(
        StrCat("has shape ", to_string(tensor.shape()), ", the model wants ", to_string(*value.shape, graph.symbols)),
        "give a tensor of that shape; named dimensions may be any size, the same wherever they appear");
  };
  if (tensor.shape().rank() != value.shape->rank()) return mismatch();
  for (size_t i = 0; i < value.shape->rank(); ++i) {
    const int64_t want = (*value.shape)[i], got = tensor.shape()[i];
    if (is_known(want) && want != got) return mismatch();
    if (!is_symbol(want)) continue;
    int64_t& bound = symbols[symbol_of(want)];
    if (bound >= 0 && bound != got) {
      return wrong(
          StrCat("has ", got, " for dimension '", graph.symbols[symbol_of(want)], "', another input has ", bound),
          "a named dimension has one size in a run");
    }
    bound = got;
  }
  return {};
}

}  // namespace

std::vector<IoInfo> describe_values(const Graph& graph, std::span<const ValueId> ids) {
  std::vector<IoInfo> infos;
  for (ValueId id : ids) {
    const Value& value = graph.values[id];
    IoInfo info{value.name, value.dtype, {}};
    for (size_t i = 0; value.shape && i < value.shape->rank(); ++i) {
      const int64_t dim = (*value.shape)[i];
      info.shape.push_back(is_known(dim)    ? StrCat(dim)
                           : is_symbol(dim) ? graph.symbols[symbol_of(dim)]
                                            : std::string("?"));
    }
    infos.push_back(std::move(info));
  }
  return infos;
}

Result<std::optional<plan::Bindings>> default_bindings(const Graph& graph,
                                                       std::span<const std::pair<std::string, int64_t>> dims) {
  std::vector<int64_t> symbols(graph.symbols.size(), 1);
  for (const auto& [name, size] : dims) {
    const auto at = std::find(graph.symbols.begin(), graph.symbols.end(), name);
    if (at == graph.symbols.end()) {
      return fail(Code::InvalidInput, StrCat("the model has no dimension named '", name, "'"),
                  graph.symbols.empty() ? std::string("all of its dimensions are fixed")
                                        : StrCat("its named dimensions are: ", StrJoin(graph.symbols, ", ")));
    }
    if (size < 0) return fail(Code::InvalidInput, StrCat("dimension '", name, "' cannot be ", size));
    symbols[at - graph.symbols.begin()] = size;
  }
  plan::Bindings bindings;
  for (ValueId id : graph.inputs) {
    const auto& shape = graph.values[id].shape;
    if (!shape) return std::nullopt;
    Shape concrete;
    for (int64_t dim : *shape) concrete.push_back(is_known(dim) ? dim : is_symbol(dim) ? symbols[symbol_of(dim)] : 1);
    bindings.inputs.push_back(concrete);
  }
  return bindings;
}

Result<std::vector<Tensor>> match_inputs(const Graph& graph, std::span<const NamedTensor> given) {
  std::vector<Tensor> inputs(graph.inputs.size());
  std::vector<int64_t> symbols(graph.symbols.size(), -1);
  for (const NamedTensor& named : given) {
    const auto at = std::find_if(graph.inputs.begin(), graph.inputs.end(),
                                 [&](ValueId id) { return graph.values[id].name == named.name; });
    if (at == graph.inputs.end()) {
      return fail(Code::InvalidInput, StrCat("the model has no input named '", named.name, "'"), input_names(graph));
    }
    Tensor& slot = inputs[at - graph.inputs.begin()];
    if (slot) return fail(Code::InvalidInput, StrCat("input '", named.name, "' is given twice"));
    SINTER_CHECK_OK(check_one(graph, graph.values[*at], named.tensor, symbols));
    slot = SINTER_TRY(named.tensor.aligned());
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i]) continue;
    return fail(Code::InvalidInput, StrCat("input '", graph.values[graph.inputs[i]].name, "' is missing"),
                input_names(graph));
  }
  return inputs;
}

plan::Bindings bindings_of(const std::vector<Tensor>& inputs) {
  plan::Bindings bindings;
  for (const Tensor& input : inputs) bindings.inputs.push_back(input.shape());
  return bindings;
}

bool same_bindings(const plan::Bindings& a, const plan::Bindings& b) {
  if (a.inputs != b.inputs || a.values.size() != b.values.size()) return false;
  for (size_t i = 0; i < a.values.size(); ++i) {
    const auto& [id, x] = a.values[i];
    const auto& [other, y] = b.values[i];
    if (id != other || x.shape() != y.shape() || std::memcmp(x.bytes().data(), y.bytes().data(), x.nbytes()) != 0)
      return false;
  }
  return true;
}

}  // namespace sinter
