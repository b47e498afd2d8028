// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <unordered_map>

#include "engine/api/expression.h"
#include "engine/base/nearest.h"
#include "engine/base/sort.h"
#include "engine/base/str.h"
#include "engine/onnx/attributes.h"
#include "engine/ops/annotate.h"

namespace sinter::api::internal {
namespace {

using Kind = Expression::Kind;

std::string describe(const Expression& expression) {
  switch (expression.kind) {
    case Kind::op:
      return expression.op;
    case Kind::input:
      return StrCat("input '", expression.name, "'");
    case Kind::constant:
      return expression.name.empty() ? std::string("constant") : StrCat("'", expression.name, "'");
    case Kind::number:
      return StrCat(expression.number);
    case Kind::data:
      return "data";
    case Kind::failed:
      break;
  }
  return "tensor";
}

std::unexpected<Error> at(const Expression& expression, Error error) {
  return std::unexpected(std::move(error).with_context(StrCat(describe(expression), " at ", place(expression.at))));
}

/// Every expression that the tensors need, in the order of their creation.
std::vector<const Expression*> reachable(const std::vector<Tensor>& roots) {
  std::vector<const Expression*> found, open;
  std::unordered_map<const Expression*, bool> seen;
  const auto visit = [&](const Tensor& tensor) {
    if (tensor && seen.emplace(tensor.expression().get(), true).second) open.push_back(tensor.expression().get());
  };
  for (const Tensor& root : roots) visit(root);
  while (!open.empty()) {
    const Expression* expression = open.back();
    open.pop_back();
    found.push_back(expression);
    for (const Tensor& input : expression->inputs) visit(input);
  }
  heap_sort(found, [](const Expression* a, const Expression* b) { return a->sequence < b->sequence; });
  return found;
}

char letter_of(const AttrValue& value) { return "ifsIFSt"[value.index()]; }

Result<> check_attributes(const Expression& expression) {
  const onnx::SchemaRow* schema = onnx::find_schema(expression.op);
  if (!schema || !expression.attributes) return {};
  for (const auto& [name, value] : expression.attributes->items) {
    std::string_view rest = schema->attributes;
    bool known = false;
    while (!rest.empty() && !known) {
      const std::string_view word = rest.substr(0, std::min(rest.find(' '), rest.size()));
      rest.remove_prefix(std::min(word.size() + 1, rest.size()));
      const size_t colon = word.find(':');
      known = word.substr(0, colon) == name && word.find(letter_of(value), colon + 1) != std::string_view::npos;
    }
    if (known) continue;
    return fail(Code::InvalidInput, StrCat(expression.op, " has no attribute '", name, "' of this type"),
                StrCat("its attributes are: ", schema->attributes.empty() ? "none" : schema->attributes));
  }
  return {};
}

class Builder {
 public:
  Builder(const std::vector<Tensor>& inputs, const std::vector<Output>& outputs)
      : inputs_(inputs), outputs_(outputs), annotator_(built_.graph) {}

  Result<Built> run() {
    std::vector<Tensor> roots = inputs_;
    for (const Output& output : outputs_) {
      if (!output.tensor) return fail(Code::InvalidInput, StrCat("output '", output.name, "' is no tensor"));
      roots.push_back(output.tensor);
    }
    const std::vector<const Expression*> order = reachable(roots);
    for (const Expression* expression : order) {
      for (const Tensor& input : expression->inputs) use(input);
    }
    for (const Output& output : outputs_) use(output.tensor);
    SINTER_CHECK_OK(reserve_names());
    for (const Tensor& input : inputs_) SINTER_CHECK_OK(add_input(input));
    for (const Expression* expression : order) {
      auto added = add(*expression);
      if (!added) return at(*expression, std::move(added).error());
    }
    for (const Output& output : outputs_) SINTER_CHECK_OK(add_output(output));
    SINTER_CHECK_OK(verify(built_.graph));
    return std::move(built_);
  }

 private:
  struct Entry {
    std::vector<ValueId> values;  // by output
    std::vector<bool> used;
  };

  Graph& graph() { return built_.graph; }

  void use(const Tensor& tensor) {
    if (!tensor) return;
    auto& used = entries_[tensor.expression().get()].used;
    if (used.size() <= tensor.output()) used.resize(tensor.output() + 1);
    used[tensor.output()] = true;
  }

  std::string unique(std::string base) {
    while (!names_.emplace(base, true).second) base += StrCat("_", names_.size());
    return base;
  }

  // An output that is computed has a name of its own; others keep the one that they have.
  static bool computed(const Output& output) { return output.tensor.expression()->kind == Kind::op; }

  Result<> reserve_names() {
    for (const Output& output : outputs_) {
      if (!computed(output) || names_.emplace(output.name, true).second) continue;
      return fail(Code::InvalidInput, StrCat("two outputs are named '", output.name, "'"), "give each its own name");
    }
    return {};
  }

  Shape shape_of(const Dims& dims) {
    Shape shape;
    for (const Dim& dim : dims.list) {
      shape.push_back(dim.name.empty() ? dim.value : dim.name == "?" ? kUnknownDim : graph().symbol(dim.name));
    }
    return shape;
  }

  Result<> add_input(const Tensor& tensor) {
    if (!tensor || tensor.expression()->kind != Kind::input) {
      return fail(Code::InvalidInput, "an input of a Function must be made with Tensor::input");
    }
    const Expression& expression = *tensor.expression();
    Entry& entry = entries_[&expression];
    if (!entry.values.empty() || !names_.emplace(expression.name, true).second) {
      return fail(Code::InvalidInput, StrCat("two values are named '", expression.name, "'"), "give each its own name");
    }
    std::optional<Shape> shape;
    if (expression.dims.ranked) shape = shape_of(expression.dims);
    entry.values = {graph().add_value(expression.name, expression.dtype, shape)};
    graph().inputs.push_back(entry.values[0]);
    built_.inputs.push_back(tensor.expression());
    return {};
  }

  Result<> add(const Expression& expression) {
    Entry& entry = entries_[&expression];
    switch (expression.kind) {
      case Kind::failed:
        return std::unexpected(expression.error);
      case Kind::number:
        return {};  // added where its type is known
      case Kind::input:
        if (!entry.values.empty()) return {};
        return fail(Code::InvalidInput, "no value is given for it", "make a Function that has it among its inputs");
      case Kind::constant: {
        const std::string name = unique(expression.name.empty() ? std::string("constant") : expression.name);
        entry.values = {graph().add_value(name, expression.dtype, expression.data.shape())};
        graph().values.back().constant = to_engine(expression.data);
        return {};
      }
      case Kind::data: {
        entry.values = {graph().add_value(unique("data"), expression.dtype, expression.data.shape())};
        graph().inputs.push_back(entry.values[0]);
        built_.inputs.push_back(shared_of(expression));
        return {};
      }
      case Kind::op:
        return add_op(expression, entry);
    }
    return {};
  }

  // The handle of an expression that some tensor holds.
  std::shared_ptr<const Expression> shared_of(const Expression& expression) {
    return {std::shared_ptr<const void>(), &expression};
  }

  Result<ValueId> number(const Expression& number, const Expression& op) {
    DType dtype = DType::f32;
    for (const Tensor& operand : op.inputs) {
      if (!operand || operand.expression()->kind == Kind::number) continue;
      dtype = graph().values[entries_[operand.expression().get()].values[operand.output()]].dtype;
      break;
    }
    sinter::Tensor tensor = SINTER_TRY(sinter::Tensor::alloc(dtype, {}));
    set_f64(tensor, 0, number.number);
    const ValueId id = graph().add_value(unique("number"), dtype, Shape());
    graph().values[id].constant = std::move(tensor);
    return id;
  }

  Result<> add_op(const Expression& expression, Entry& entry) {
    Node node;
    node.op = expression.op == "Inject" || expression.op == "Map" ? nullptr : find_op("", expression.op);
    if (!node.op) {
      std::vector<std::string_view> names;
      for (const OpDef* op : all_ops()) names.push_back(op->name);
      const auto near = nearest(expression.op, names);
      return fail(Code::Unsupported, StrCat("there is no operator ", expression.op),
                  near.empty() ? std::string() : StrCat("did you mean ", near, "?"));
    }
    SINTER_CHECK_OK(check_attributes(expression));
    node.name = unique(StrCat(expression.op, "@", place(expression.at)));
    node.origins.push_back(node.name);
    if (expression.attributes) {
      for (const auto& [name, value] : expression.attributes->items) node.attrs.set(name, value);
    }
    for (const Tensor& input : expression.inputs) {
      if (!input) {
        node.inputs.push_back(kNone);
      } else if (input.expression()->kind == Kind::number) {
        node.inputs.push_back(SINTER_TRY(number(*input.expression(), expression)));
      } else {
        node.inputs.push_back(entries_[input.expression().get()].values[input.output()]);
      }
    }
    while (!node.inputs.empty() && node.inputs.back() == kNone) node.inputs.pop_back();
    const auto id = static_cast<NodeId>(graph().nodes.size());
    entry.values.assign(expression.outputs, kNone);
    for (size_t i = 0; i < expression.outputs; ++i) {
      const bool used = i < entry.used.size() && entry.used[i];
      if (i > 0 && !used && node.op->max_outputs >= 0) continue;  // a variadic operator's outputs are counted
      entry.values[i] =
          graph().add_value(unique(i ? StrCat(node.name, ":", i) : node.name + ":0"), DType::undefined, {});
      graph().values[entry.values[i]].producer = id;
    }
    node.outputs = entry.values;
    while (!node.outputs.empty() && node.outputs.back() == kNone) node.outputs.pop_back();
    graph().nodes.push_back(std::move(node));
    return annotator_.infer(id);
  }

  Result<> add_output(const Output& output) {
    const Expression& expression = *output.tensor.expression();
    if (expression.kind == Kind::number) {
      return fail(Code::InvalidInput, StrCat("output '", output.name, "' is a bare number"),
                  "use a constant of a type");
    }
    const ValueId id = entries_[&expression].values[output.tensor.output()];
    Value& value = graph().values[id];
    if (std::find(graph().outputs.begin(), graph().outputs.end(), id) != graph().outputs.end()) {
      return fail(Code::InvalidInput, StrCat("output '", output.name, "' is listed twice"));
    }
    if (computed(output)) value.name = output.name;
    declare(output.shape, value);
    graph().outputs.push_back(id);
    return {};
  }

  // What is declared fills in what inference could not know; only a symbol that an input binds can have a value.
  void declare(const Dims& dims, Value& value) {
    if (!dims.ranked || (value.shape && value.shape->rank() != dims.list.size())) return;
    if (!value.shape) value.shape = Shape::filled(dims.list.size(), kUnknownDim);
    for (size_t i = 0; i < dims.list.size(); ++i) {
      int64_t& dim = (*value.shape)[i];
      if (dim != kUnknownDim) continue;
      const Dim& given = dims.list[i];
      if (given.name.empty()) dim = given.value;
      const auto& symbols = graph().symbols;
      const auto found = std::find(symbols.begin(), symbols.end(), given.name);
      if (!given.name.empty() && found != symbols.end())
        dim = symbol_dim(static_cast<uint32_t>(found - symbols.begin()));
    }
  }

  const std::vector<Tensor>& inputs_;
  const std::vector<Output>& outputs_;
  Built built_;
  Annotator annotator_;
  std::unordered_map<const Expression*, Entry> entries_;
  std::unordered_map<std::string, bool> names_;
};

void append_attribute(std::string& out, const AttrValue& value) {
  std::visit(
      [&]<class T>(const T& v) {
        if constexpr (std::is_same_v<T, sinter::Tensor>) {
          StrAppend(out, reinterpret_cast<uintptr_t>(v.bytes().data()));
        } else if constexpr (std::is_same_v<T, int64_t> || std::is_same_v<T, float> || std::is_same_v<T, std::string>) {
          StrAppend(out, v);
        } else {
          StrAppend(out, StrJoin(v, ","));
        }
      },
      value);
}

}  // namespace

std::string place(const Source& at) {
  std::string_view file = at.file_name();
  if (const size_t slash = file.rfind('/'); slash != std::string_view::npos) file.remove_prefix(slash + 1);
  return StrCat(file, ":", static_cast<uint64_t>(at.line()));
}

Result<Built> build(const std::vector<Tensor>& inputs, const std::vector<Output>& outputs) {
  return Builder(inputs, outputs).run();
}

Result<Engine> engine_of(const std::vector<Tensor>& tensors) {
  std::shared_ptr<EngineState> engine;
  for (const Expression* expression : reachable(tensors)) {
    if (expression->kind == Kind::failed) return at(*expression, expression->error);
    if (!expression->engine) continue;
    if (engine && engine != expression->engine) {
      return at(*expression, {Code::InvalidInput,
                              "it is on another engine than what it meets",
                              {},
                              "make all data of one expression on one engine"});
    }
    engine = expression->engine;
  }
  if (!engine) {
    return fail(Code::InvalidInput, "the expression has no data on an engine",
                "make one of its operands with Tensor(engine, ...), or name the engine: data(engine)");
  }
  return Engine(std::move(engine));
}

std::string structure(const Built& built) {
  const Graph& graph = built.graph;
  std::string key;
  for (const Value& value : graph.values) {
    if (value.producer != kNone) continue;
    StrAppend(key, StrCat(name_of(value.dtype), value.shape ? to_string(*value.shape) : std::string("?")));
    // Numbers are written out: their bytes are new each time.
    if (value.constant && value.constant.numel() == 1) {
      StrAppend(key, StrCat("=", get_f64(value.constant, 0)));
    } else if (value.constant && value.constant.nbytes() <= 64 && is_integer(value.constant.dtype())) {
      for (size_t i = 0; i < value.constant.numel(); ++i)
        StrAppend(key, StrCat(i ? "," : "=", get_i64(value.constant, i)));
    } else if (value.constant) {
      StrAppend(key, StrCat("@", reinterpret_cast<uintptr_t>(value.constant.bytes().data())));
    }
    key += ';';
  }
  for (const Node& node : graph.nodes) {
    StrAppend(key, node.op->name);
    for (const auto& [name, value] : node.attrs) {
      StrAppend(key, StrCat(" ", name, "="));
      append_attribute(key, value);
    }
    StrAppend(key, StrCat("(", StrJoin(node.inputs, ","), ")", StrJoin(node.outputs, ","), ";"));
  }
  return key + StrJoin(graph.inputs, ",") + ">" + StrJoin(graph.outputs, ",");
}

}  // namespace sinter::api::internal
