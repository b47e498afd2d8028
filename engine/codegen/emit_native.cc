// SPDX-License-Identifier: Apache-2.0
#include "engine/codegen/emit.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <set>

#include "engine/base/str.h"
#include "engine/codegen/literals.h"
#include "engine/codegen/modules.h"
#include "engine/codegen/refusals.h"
#include "engine/codegen/signature.h"
#include "engine/codegen/weights_file.h"
#include "include/sinter/lock.hpp"

namespace sinter::codegen {
namespace {

std::string hex(uint64_t value) {
  std::string out = "0x";
  for (int shift = 60; shift >= 0; shift -= 4) out += "0123456789abcdef"[(value >> shift) & 15];
  return out;
}

/// A weight's name without its scopes: what it is for and, before that, of what ("squeeze_weight"); bare numbers say nothing
/// alone.
std::string weight_member(std::string_view name) {
  const auto separator = [&](size_t end) { return name.find_last_of("./:", end); };
  size_t at = separator(std::string_view::npos);
  if (at == std::string_view::npos || at == 0) return identifier(name);
  if (name[at] == ':') return identifier(name.substr(at + 1));
  do {
    at = separator(at - 1);
  } while (at != std::string_view::npos && at > 0 && name[at + 1] >= '0' && name[at + 1] <= '9');
  return identifier(at == std::string_view::npos ? name : name.substr(at + 1));
}

/// Names within one scope of C++: each once, and none of those given at the start.
class Names {
 public:
  explicit Names(std::initializer_list<const char*> taken = {}) : taken_(taken.begin(), taken.end()) {}
  std::string take(std::string_view base) {
    std::string name(base);
    for (int i = 2; !taken_.insert(name).second; ++i) name = StrCat(base, base.ends_with('_') ? "" : "_", i);
    return name;
  }

 private:
  std::set<std::string> taken_;
};

class Emitter {
 public:
  Emitter(const Graph& graph, const EmitOptions& options) : graph_(graph), options_(options) {}

  Result<Emitted> run() {
    root_ = SINTER_TRY(find_modules(graph_));
    SINTER_CHECK_OK(check_expressible(graph_, root_));
    collect(root_);
    lock();
    fields(graph_.inputs, out_.inputs);
    fields(graph_.outputs, out_.outputs);
    module(root_);
    const std::string& name = options_.name;
    out_.files.push_back({name + ".hpp", header()});
    out_.files.push_back({name + ".cpp", source()});
    const std::string weights = write_weights(file_);
    out_.files.push_back(options_.embed ? Emitted::File{name + ".weights.cpp", embedded(weights)}
                                        : Emitted::File{name + ".weights", weights});
    out_.files.push_back({name + ".cmake", cmake()});
    return std::move(out_);
  }

 private:
  // ---- what there is ----

  void collect(const Module& module) {
    for (const Module::Part& part : module.parts) {
      if (part.is_child()) {
        collect(module.children[part.child]);
        continue;
      }
      const Node& node = graph_.nodes[part.node];
      operators_.insert(std::string(node.op->name));
      for (const ValueId input : node.inputs) {
        if (input != kNone && graph_.values[input].constant) use(input);
      }
    }
    for (const ValueId output : graph_.outputs) {
      if (&module == &root_ && graph_.values[output].constant) use(output);
    }
  }

  void use(ValueId id) {
    const Value& value = graph_.values[id];
    if (!used_.insert(id).second) return;
    out_.parameters += value.constant.numel();
    const bool is_output = std::find(graph_.outputs.begin(), graph_.outputs.end(), id) != graph_.outputs.end();
    if (!is_output && inline_constant(value.constant)) return;
    stored_.insert(id);
    file_.weights.push_back({value.name, value.constant});
  }

  void lock() {
    out_.engine = SINTER_VERSION;
    out_.format = lock::kFormat;
    out_.operators = kHashSeed;
    for (const std::string& name : operators_) {
      out_.operators = hash_text(out_.operators, StrCat(name, hex(interface_hash(*find_op("", name)))));
    }
    out_.weights = hash_weights(file_.weights);
    file_.engine = out_.engine;
    file_.format = out_.format;
    file_.operators = out_.operators;
    file_.hash = out_.weights;
  }

  void fields(const std::vector<ValueId>& ids, std::vector<Emitted::Field>& fields) {
    Names names;
    for (const ValueId id : ids)
      fields.push_back({graph_.values[id].name, names.take(identifier(graph_.values[id].name))});
  }

  // ---- texts of values ----

  std::string type_text(ValueId id) const {
    const Value& value = graph_.values[id];
    return StrCat(name_of(value.dtype), value.shape ? to_string(*value.shape, graph_.symbols) : std::string("[...]"));
  }

  std::string types_text(const std::vector<ValueId>& ids) const {
    std::string text;
    for (const ValueId id : ids) StrAppend(text, StrCat(text.empty() ? "" : ", ", type_text(id)));
    return text.empty() ? "nothing" : text;
  }

  std::string dims(const Value& value) const {
    if (!value.shape) return "sinter::Dims::any()";
    std::string text;
    for (const int64_t dim : *value.shape) {
      if (!text.empty()) text += ", ";
      StrAppend(text, is_known(dim)    ? StrCat(dim)
                      : is_symbol(dim) ? quoted(graph_.symbols[symbol_of(dim)])
                                       : std::string("\"?\""));
    }
    return StrCat("{", text, "}");
  }

  // ---- modules ----

  struct Scope {
    Names names{"weights", "sinter", "std"};
    std::map<ValueId, std::string> values;
    std::vector<std::pair<std::string, ValueId>> members;  // weights
    std::string body;
  };

  // Children first: a class is declared before what holds it.
  void module(const Module& module) {
    for (const Module& child : module.children) this->module(child);
    Scope scope;
    for (const Module& child : module.children) scope.names.take(child.member_name);
    for (const ValueId input : module.inputs) {
      scope.values[input] = scope.names.take(module.inputs.size() == 1 ? "x" : identifier(graph_.values[input].name));
    }
    for (const Module::Part& part : module.parts) {
      if (part.is_child()) {
        call(module.children[part.child], scope);
      } else {
        call(graph_.nodes[part.node], scope);
      }
    }
    std::string results;
    const std::vector<ValueId>& outputs = &module == &root_ ? graph_.outputs : module.outputs;
    for (const ValueId output : outputs)
      StrAppend(results, StrCat(results.empty() ? "" : ", ", operand(output, scope)));
    if (outputs.size() != 1) results = StrCat("{", results, "}");
    StrAppend(scope.body, StrCat("  return ", results, ";\n"));
    declare(module, scope);
    define(module, scope);
    out_.classes.push_back(module.class_name);
  }

  std::string result_type(const Module& module) const {
    const size_t count = (&module == &root_ ? graph_.outputs : module.outputs).size();
    return count == 1 ? std::string("sinter::Tensor") : StrCat("std::array<sinter::Tensor, ", count, ">");
  }

  std::string parameters(const Module& module, const Scope& scope) const {
    std::string text;
    const std::vector<ValueId>& inputs = module.inputs;
    for (const ValueId input : inputs) {
      StrAppend(text, StrCat(text.empty() ? "" : ", ", "const sinter::Tensor& ", scope.values.at(input)));
    }
    return text;
  }

  void declare(const Module& module, const Scope& scope) {
    const std::vector<ValueId>& outputs = &module == &root_ ? graph_.outputs : module.outputs;
    std::string text =
        StrCat("/// ", module.name.empty() ? StrCat("The whole of ", options_.model) : one_line(module.name), ": ",
               module.operators, " operators.\nclass ", module.class_name, " {\n public:\n  explicit ",
               module.class_name, "(const sinter::Weights& weights);\n  /// ", one_line(types_text(module.inputs)),
               " -> ", one_line(types_text(outputs)), "\n  ", result_type(module), " forward(",
               parameters(module, scope), ") const;\n");
    std::string members;
    for (const Module& child : module.children) {
      StrAppend(members, StrCat("  ", child.class_name, " ", child.member_name, "_;\n"));
    }
    for (const auto& [member, id] : scope.members) {
      StrAppend(members, StrCat("  sinter::Tensor ", member, ";  // ", one_line(type_text(id)), "\n"));
    }
    if (!members.empty()) StrAppend(text, StrCat("\n private:\n", members));
    StrAppend(declarations_, StrCat(text, "};\n\n"));
  }

  void define(const Module& module, const Scope& scope) {
    std::string inits;
    for (const Module& child : module.children) {
      StrAppend(inits, StrCat(inits.empty() ? "" : ",\n      ", child.member_name, "_(weights)"));
    }
    for (const auto& [member, id] : scope.members) {
      StrAppend(inits,
                StrCat(inits.empty() ? "" : ",\n      ", member, "(weights.at(", quoted(graph_.values[id].name), "))"));
    }
    StrAppend(definitions_, StrCat(module.class_name, "::", module.class_name, "(const sinter::Weights&",
                                   inits.empty() ? ")" : " weights)\n    : ", inits, " {}\n\n"));
    StrAppend(definitions_, StrCat(result_type(module), " ", module.class_name, "::forward(", parameters(module, scope),
                                   ") const {\n", scope.body, "}\n\n"));
  }

  std::string operand(ValueId id, Scope& scope) {
    if (id == kNone) return "{}";
    const Value& value = graph_.values[id];
    if (value.constant && !stored_.contains(id)) return *inline_constant(value.constant);
    const auto found = scope.values.find(id);
    if (found != scope.values.end()) return found->second;
    const std::string member = scope.names.take(weight_member(value.name)) + "_";
    scope.members.push_back({member, id});
    scope.values[id] = member;
    return member;
  }

  void call(const Module& child, Scope& scope) {
    std::string arguments;
    for (const ValueId input : child.inputs)
      StrAppend(arguments, StrCat(arguments.empty() ? "" : ", ", operand(input, scope)));
    std::string names;
    for (const ValueId output : child.outputs) {
      const std::string base =
          child.outputs.size() == 1 ? child.member_name + "_out" : identifier(graph_.values[output].name);
      scope.values[output] = scope.names.take(base);
      StrAppend(names, StrCat(names.empty() ? "" : ", ", scope.values[output]));
    }
    if (child.outputs.size() != 1) names = StrCat("[", names, "]");
    line(scope, StrCat("  const auto ", names, " = ", child.member_name, "_.forward(", arguments, ")"), "",
         types_text(child.outputs));
  }

  void call(const Node& node, Scope& scope) {
    const Signature signature = *find_signature(node.op->name);
    std::string arguments = operands(node, signature, scope);
    const size_t count = node.outputs.size();
    const std::string options = node_options(node, signature);
    if (options.empty()) return generic(node, scope);
    if (options != "{}") StrAppend(arguments, StrCat(arguments.empty() ? "" : ", ", options));
    std::vector<ValueId> outputs;
    for (const ValueId output : node.outputs) {
      if (output != kNone) outputs.push_back(output);
    }
    std::string result, function = signature.function;
    if (signature.variadic_outputs()) {
      result = scope.names.take(signature.function);
      for (size_t i = 0; i < count; ++i) scope.values[node.outputs[i]] = StrCat(result, "[", i, "]");
      arguments = StrCat(count, arguments.empty() ? "" : ", ", arguments);
    } else if (count == 1 &&
               (signature.outputs.size() == 1 || signature.outputs[1].kind == Parameter::Kind::optional)) {
      result = scope.names.take(signature.function);
      scope.values[node.outputs[0]] = result;
    } else {
      for (size_t i = 0; i < signature.outputs.size(); ++i) {
        const std::string name = scope.names.take(signature.outputs[i].name);
        if (i < count && node.outputs[i] != kNone) scope.values[node.outputs[i]] = name;
        StrAppend(result, StrCat(i ? ", " : "[", name));
      }
      result += "]";
      if (signature.outputs[1].kind == Parameter::Kind::optional) function += "_all";
    }
    line(scope, StrCat("  const auto ", result, " = sinter::", function, "(", arguments, ")"), options,
         types_text(outputs));
  }

  // An attribute that the newest form does not have: the same call without the function's types.
  void generic(const Node& node, Scope& scope) {
    std::string inputs, attributes;
    for (const ValueId input : node.inputs) {
      StrAppend(inputs,
                StrCat(inputs.empty() ? "" : ", ", input == kNone ? "sinter::Tensor()" : operand(input, scope)));
    }
    for (const auto& [name, value] : node.attrs) {
      StrAppend(attributes, StrCat(".set(", quoted(name), ", ", typed_attribute(value), ")"));
    }
    const std::string result = scope.names.take(identifier(node.op->name));
    std::vector<ValueId> outputs;
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i] == kNone) continue;
      scope.values[node.outputs[i]] = StrCat(result, "[", i, "]");
      outputs.push_back(node.outputs[i]);
    }
    line(scope,
         StrCat("  const auto ", result, " = sinter::apply(\"", node.op->name, "\", {", inputs,
                "}, sinter::Attributes()", attributes, ", ", node.outputs.size(), ", sinter::Source::current())"),
         "", types_text(outputs));
  }

  // A number among the operands, for which `6.0f` says enough: the tensor API gives it the type of the operand that it meets.
  bool is_number(ValueId id) const {
    return id != kNone && !stored_.contains(id) && graph_.values[id].constant.dtype() == DType::f32 &&
           graph_.values[id].constant.shape().rank() == 0;
  }

  bool numbers_are_f32(const Node& node) const {
    for (const ValueId input : node.inputs) {
      if (input != kNone && !is_number(input)) return graph_.values[input].dtype == DType::f32;
    }
    return false;
  }

  std::string operands(const Node& node, const Signature& signature, Scope& scope) {
    const bool numbers = numbers_are_f32(node);
    const bool variadic = !signature.inputs.empty() && signature.inputs.back().kind == Parameter::Kind::variadic;
    std::string text;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId input = node.inputs[i];
      StrAppend(text, StrCat(i ? ", " : "", numbers && is_number(input) ? number_literal(graph_.values[input].constant)
                                                                        : operand(input, scope)));
    }
    if (variadic) return StrCat("{", text, "}");
    for (size_t i = node.inputs.size(); i < signature.inputs.size() && !signature.attributes.empty(); ++i) {
      StrAppend(text, StrCat(i ? ", " : "", "{}"));
    }
    return text;
  }

  /// "{.group = 32}"; "{}" where there are none; nothing where the function's options cannot say it.
  std::string node_options(const Node& node, const Signature& signature) {
    std::string text;
    size_t said = 0;
    for (const AttributeKind& kind : signature.attributes) {
      const AttrValue* value = node.attrs.find(kind.name);
      if (!value || "ifsIFSt"[value->index()] != kind.type) continue;
      StrAppend(text, StrCat(said++ ? ", ." : ".", identifier(kind.name), " = ", *attribute_literal(*value)));
    }
    return said == node.attrs.size() ? StrCat("{", text, "}") : std::string();
  }

  // Breaks a long statement before its options, or after its opening parenthesis.
  void line(Scope& scope, std::string statement, const std::string& options, const std::string& comment) {
    statement += ';';
    const std::string note = StrCat("  // ", one_line(comment));
    constexpr size_t kWidth = 120;
    if (statement.size() > kWidth && options.size() > 2) {
      const size_t at = statement.find(options);
      if (at != std::string::npos && at > 0 && statement[at - 1] == ' ') statement.replace(at - 1, 1, "\n      ");
    }
    const size_t first = statement.find('\n');
    if (first == std::string::npos) {
      StrAppend(scope.body, statement.size() + note.size() <= kWidth
                                ? StrCat(statement, note, "\n")
                                : StrCat("  //", note.substr(4), "\n", statement, "\n"));
    } else {
      StrAppend(scope.body, StrCat(statement.substr(0, first), note, statement.substr(first), "\n"));
    }
  }

  // ---- files ----

  std::string banner() const {
    return StrCat("// Generated by sinter ", SINTER_VERSION, " from ", one_line(options_.model),
                  ". Changes are lost when it is generated again:\n//   sinter compile ", one_line(options_.model),
                  " -o DIR --name ", options_.name, options_.embed ? " --embed" : "", "\n");
  }

  std::string asserts() const {
    const std::string again = StrCat("run `sinter compile ", one_line(options_.model), " -o DIR` again");
    std::string out =
        StrCat("static_assert(sinter::lock::takes_engine(kLock.engine),\n              \"", options_.name,
               " was generated by sinter ", SINTER_VERSION, ", which this version does not list as compatible: ", again,
               "\");\nstatic_assert(sinter::lock::takes_format(kLock.format),\n              \"", options_.name,
               " was generated in a format that this version does not read: ", again, "\");\n");
    for (const std::string& name : operators_) {
      StrAppend(out, StrCat("static_assert(sinter::lock::operator_hash(\"", name,
                            "\") == ", hex(interface_hash(*find_op("", name))), ",\n              \"the operator ",
                            name, " is not the one that ", options_.name, " was generated for: ", again, "\");\n"));
    }
    return out;
  }

  std::string struct_of(std::string_view type, const std::vector<Emitted::Field>& fields,
                        const std::vector<ValueId>& ids) const {
    std::string out = StrCat("  struct ", type, " {\n");
    for (size_t i = 0; i < fields.size(); ++i) {
      StrAppend(out, StrCat("    sinter::HostTensor ", fields[i].field, ";  // ", one_line(type_text(ids[i])), "\n"));
    }
    return StrCat(out, "  };\n");
  }

  std::string header() const {
    std::string create =
        "  /// Opens the weights beside this code and makes the model ready. (Native builds only.)\n"
        "  static sinter::Task<sinter::Result<Model>> create(const sinter::Engine& engine);\n";
    if (options_.embed) {
      create =
          "  /// Makes the model ready; its weights are part of the program.\n"
          "  static sinter::Task<sinter::Result<Model>> create(const sinter::Engine& engine);\n";
    }
    return StrCat(
        "// SPDX-License-Identifier: Apache-2.0\n", banner(),
        "#pragma once\n\n#include <array>\n\n#include <sinter/sinter.hpp>\n\nnamespace ", options_.name,
        " {\n\n/// What this code, its weights and the library must agree on.\ninline constexpr sinter::lock::Lock "
        "kLock = {\n    \"",
        out_.engine, "\", ", out_.format, ", ", hex(out_.operators), ", ", hex(out_.weights), "};\n", asserts(), "\n",
        declarations_, "class Model {\n public:\n", struct_of("Inputs", out_.inputs, graph_.inputs),
        struct_of("Outputs", out_.outputs, graph_.outputs), "\n", create,
        "  static sinter::Task<sinter::Result<Model>> create(const sinter::Engine& engine, sinter::Weights "
        "weights);\n\n"
        "  sinter::Task<sinter::Result<Outputs>> forward(Inputs inputs) const;\n"
        "  const sinter::Session& session() const { return function_.session(); }\n\n private:\n"
        "  static sinter::Task<Model> load(sinter::Engine engine, sinter::Result<sinter::Weights> weights);\n"
        "  static sinter::Task<Outputs> run(sinter::Function function, std::vector<sinter::HostTensor> inputs);\n\n"
        "  sinter::Function function_;\n};\n\n}  // namespace ",
        options_.name, "\n");
  }

  std::string source() const {
    const std::string& name = options_.name;
    std::string includes, open;
    if (options_.embed) {
      includes = StrCat(
          "#include <cstdint>\n#include <span>\n\nnamespace ", name,
          "::embedded {\nextern const std::uint64_t kWords[];\nextern const std::size_t kBytes;\n}  // namespace ",
          name, "::embedded\n\n");
      open = "sinter::Weights::from({reinterpret_cast<const std::byte*>(embedded::kWords), embedded::kBytes}, nullptr)";
    } else {
      includes =
          "// The folder of the .weights file; the CMake fragment sets it.\n#ifndef SINTER_MODEL_FOLDER\n"
          "#define SINTER_MODEL_FOLDER \".\"\n#endif\n\n";
      open = StrCat("sinter::Weights::open(SINTER_MODEL_FOLDER \"/", name, ".weights\")");
    }
    std::string create = StrCat(
        "sinter::Task<sinter::Result<Model>> Model::create(const sinter::Engine& engine) {\n  return load(engine, ",
        open, ");\n}\n\n");
    if (!options_.embed) create = StrCat("#ifndef __wasm__\n", create.substr(0, create.size() - 1), "#endif\n\n");
    return StrCat(
        "// SPDX-License-Identifier: Apache-2.0\n", banner(), "#include \"", name,
        ".hpp\"\n\n#include <utility>\n#include <vector>\n\n", includes, "namespace ", name, " {\n\n", definitions_,
        express(), create,
        "sinter::Task<sinter::Result<Model>> Model::create(const sinter::Engine& engine, sinter::Weights weights) {\n"
        "  return load(engine, std::move(weights));\n}\n\n",
        kLoad, forward(), "}  // namespace ", name, "\n");
  }

  static constexpr std::string_view kLoad =
      "sinter::Task<Model> Model::load(sinter::Engine engine, sinter::Result<sinter::Weights> weights) {\n"
      "  auto fits = sinter::lock::check_library(kLock);\n"
      "  if (fits && weights) fits = weights->check(kLock);\n"
      "  if (!weights) co_return std::unexpected(std::move(weights).error());\n"
      "  if (!fits) co_return std::unexpected(std::move(fits).error());\n"
      "  Expression expression = express(*weights);\n"
      "  auto function = co_await sinter::Function::create(engine, std::move(expression.first), "
      "std::move(expression.second));\n"
      "  if (!function) co_return std::unexpected(std::move(function).error());\n"
      "  Model model;\n  model.function_ = std::move(*function);\n  co_return model;\n}\n\n";

  std::string express() const {
    std::string inputs, arguments, list, outputs;
    for (size_t i = 0; i < graph_.inputs.size(); ++i) {
      const Value& value = graph_.values[graph_.inputs[i]];
      const std::string variable = StrCat("input_", i);
      StrAppend(inputs, StrCat("  const auto ", variable, " = sinter::Tensor::input(", quoted(value.name), ", ",
                               dtype_literal(value.dtype), ", ", dims(value), ");\n"));
      StrAppend(list, StrCat(i ? ", " : "", variable));
    }
    for (const ValueId input : root_.inputs) {
      const size_t at = std::find(graph_.inputs.begin(), graph_.inputs.end(), input) - graph_.inputs.begin();
      StrAppend(arguments, StrCat(arguments.empty() ? "" : ", ", "input_", at));
    }
    const bool one = graph_.outputs.size() == 1;
    for (size_t i = 0; i < graph_.outputs.size(); ++i) {
      const Value& value = graph_.values[graph_.outputs[i]];
      StrAppend(outputs, StrCat(i ? ",\n           {" : "{", quoted(value.name), ", ",
                                one ? "outputs" : StrCat("outputs[", i, "]"), ", ", dims(value), "}"));
    }
    return StrCat(
        "namespace {\n\nusing Expression = std::pair<std::vector<sinter::Tensor>, std::vector<sinter::Output>>;\n\n"
        "Expression express(const sinter::Weights& weights) {\n",
        inputs, "  const auto outputs = ", root_.class_name, "(weights).forward(", arguments, ");\n  return {{", list,
        "},\n          {", outputs, "}};\n}\n\n}  // namespace\n\n");
  }

  std::string forward() const {
    std::string list, results;
    for (const auto& field : out_.inputs)
      StrAppend(list, StrCat("  list.push_back(std::move(inputs.", field.field, "));\n"));
    for (size_t i = 0; i < out_.outputs.size(); ++i) {
      StrAppend(results, StrCat("  result.", out_.outputs[i].field, " = std::move((*outputs)[", i, "]);\n"));
    }
    return StrCat(
        "sinter::Task<sinter::Result<Model::Outputs>> Model::forward(", list.empty() ? "Inputs" : "Inputs inputs",
        ") const {\n  std::vector<sinter::HostTensor> list;\n", list,
        "  return run(function_, std::move(list));\n}\n\n"
        "sinter::Task<Model::Outputs> Model::run(sinter::Function function, std::vector<sinter::HostTensor> inputs) {\n"
        "  auto outputs = co_await function.run(std::move(inputs));\n"
        "  if (!outputs) co_return std::unexpected(std::move(outputs).error());\n  Outputs result;\n",
        results, "  co_return result;\n}\n\n");
  }

  std::string embedded(const std::string& weights) const {
    std::string out =
        StrCat("// SPDX-License-Identifier: Apache-2.0\n", banner(),
               "#include <cstddef>\n#include <cstdint>\n\nnamespace ", options_.name,
               "::embedded {\n\nextern const std::uint64_t kWords[];\nextern const std::size_t kBytes;\n\n"
               "alignas(64) const std::uint64_t kWords[] = {\n");
    for (size_t at = 0; at < weights.size(); at += 8) {
      uint64_t word = 0;
      std::memcpy(&word, weights.data() + at, std::min<size_t>(8, weights.size() - at));
      StrAppend(out, StrCat(hex(word), at % 64 == 56 ? ",\n" : ","));
    }
    return StrCat(out, "};\nconst std::size_t kBytes = ", weights.size(), ";\n\n}  // namespace ", options_.name,
                  "::embedded\n");
  }

  std::string cmake() const {
    const std::string& name = options_.name;
    const std::string folder = "${CMAKE_CURRENT_LIST_DIR}/";
    return StrCat(
        "# SPDX-License-Identifier: Apache-2.0\n# find_package(sinter) first; then include this file and link the "
        "target ",
        name, ".\nadd_library(", name, " STATIC ", folder, name, ".cpp",
        options_.embed ? StrCat(" ", folder, name, ".weights.cpp") : std::string(), ")\ntarget_include_directories(",
        name, " PUBLIC ${CMAKE_CURRENT_LIST_DIR})\n",
        options_.embed ? std::string()
                       : StrCat("target_compile_definitions(", name,
                                " PRIVATE SINTER_MODEL_FOLDER=\"${CMAKE_CURRENT_LIST_DIR}\")\n"),
        "target_link_libraries(", name, " PUBLIC sinter::sinter)\n");
  }

  const Graph& graph_;
  const EmitOptions& options_;
  Module root_;
  std::set<std::string> operators_;
  std::set<ValueId> used_, stored_;
  WeightsFile file_;
  std::string declarations_, definitions_;
  Emitted out_;
};

}  // namespace

Result<Emitted> emit(const Graph& graph, const EmitOptions& options) { return Emitter(graph, options).run(); }

}  // namespace sinter::codegen
