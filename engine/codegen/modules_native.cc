// SPDX-License-Identifier: Apache-2.0
#include "engine/codegen/modules.h"

#include <algorithm>
#include <map>
#include <set>

#include "engine/base/str.h"
#include "engine/codegen/signature.h"

namespace sinter::codegen {
namespace {

using Path = std::vector<std::string>;

constexpr size_t kLeastOperators = 2;  // a module of fewer says nothing
constexpr size_t kLongFlat = 12;       // a flat list of more is cut into blocks

Path split(std::string_view text, char separator) {
  Path parts;
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    if (end > 0) parts.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

/// The scope in a node's name; empty where it has none.
Path scope_of(const Node& node) {
  std::string_view name = node.origins.empty() ? std::string_view(node.name) : std::string_view(node.origins[0]);
  name = name.substr(0, name.find(';'));
  if (name.find("::") != std::string_view::npos) return {};
  const char separator = name.find('/') != std::string_view::npos ? '/' : '.';
  Path path = split(name, separator);
  if (!path.empty()) path.pop_back();
  return path;
}

/// The scope in the name of a weight that the node reads: "base_net.0.1.weight" belongs to base_net.0.
Path weight_scope(const Graph& graph, const Node& node) {
  for (const ValueId input : node.inputs) {
    if (input == kNone || !graph.values[input].constant) continue;
    Path path = split(graph.values[input].name, '.');
    if (path.size() < 3) continue;
    path.resize(path.size() - 2);
    return path;
  }
  return {};
}

std::string pascal(std::string_view text) {
  std::string out;
  bool up = true;
  for (const char c : identifier(text)) {
    if (c == '_') {
      up = true;
      continue;
    }
    out += up && c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    up = false;
  }
  if (out.empty() || (out[0] >= '0' && out[0] <= '9')) out.insert(0, "Module");
  return out;
}

class Finder {
 public:
  explicit Finder(const Graph& graph) : graph_(graph), constant_(graph.values.size()) {
    for (size_t i = 0; i < graph.values.size(); ++i) constant_[i] = static_cast<bool>(graph.values[i].constant);
  }

  Result<Module> run() {
    order_ = needed(SINTER_TRY(topological_order(graph_)));
    read_scopes();
    Module root;
    root.class_name = unique_class("Network");
    fill(root, 0, order_.size(), 0);
    if (root.children.empty() && order_.size() > kLongFlat) cut(root);
    find_borders();
    border(root, 0);
    return root;
  }

 private:
  std::vector<NodeId> needed(const std::vector<NodeId>& order) const {
    std::vector<bool> wanted(graph_.values.size());
    for (const ValueId output : graph_.outputs) wanted[output] = true;
    std::vector<NodeId> kept;
    for (size_t i = order.size(); i-- > 0;) {
      const Node& node = graph_.nodes[order[i]];
      const bool keep = std::any_of(node.outputs.begin(), node.outputs.end(),
                                    [&](ValueId output) { return output != kNone && wanted[output]; });
      if (!keep) continue;
      kept.push_back(order[i]);
      for (const ValueId input : node.inputs) {
        if (input != kNone) wanted[input] = true;
      }
    }
    std::reverse(kept.begin(), kept.end());
    return kept;
  }

  void read_scopes() {
    bool any = false;
    for (const NodeId id : order_) {
      scopes_.push_back(scope_of(graph_.nodes[id]));
      any |= !scopes_.back().empty();
    }
    if (any) return;
    // Operators without weights belong to what comes before them.
    for (size_t i = 0; i < order_.size(); ++i) {
      scopes_[i] = weight_scope(graph_, graph_.nodes[order_[i]]);
      if (scopes_[i].empty() && i > 0) scopes_[i] = scopes_[i - 1];
    }
  }

  std::string unique_class(std::string name) {
    const std::string base = name;
    for (int i = 2; !classes_.insert(name).second; ++i) name = StrCat(base, "_", i);
    return name;
  }

  // Operators [from, to) of the order, whose scopes agree in the first `depth` names.
  void fill(Module& module, size_t from, size_t to, size_t depth) {
    module.operators = to - from;
    std::set<std::string> members;
    for (size_t i = from; i < to;) {
      size_t end = i + 1;
      if (scopes_[i].size() > depth) {
        while (end < to && scopes_[end].size() > depth && scopes_[end][depth] == scopes_[i][depth]) ++end;
      }
      if (end - i < kLeastOperators) {
        for (; i < end; ++i) module.parts.push_back({order_[i], 0});
        continue;
      }
      size_t inner = depth + 1;  // scopes that hold nothing but one other
      while (same_scope(i, end, inner)) ++inner;
      if (i == from && end == to) return fill(module, from, to, inner);
      Module child;
      name(child, scopes_[i], inner, members);
      fill(child, i, end, inner);
      module.parts.push_back({kNone, module.children.size()});
      module.children.push_back(std::move(child));
      i = end;
    }
  }

  bool same_scope(size_t from, size_t to, size_t depth) const {
    for (size_t i = from; i < to; ++i) {
      if (scopes_[i].size() <= depth || scopes_[i][depth] != scopes_[from][depth]) return false;
    }
    return true;
  }

  void name(Module& module, const Path& path, size_t depth, std::set<std::string>& members) {
    // A bare number means something only after what it numbers.
    std::string label = path[depth - 1];
    for (size_t i = depth - 1; i-- > 0 && label.find_first_not_of("0123456789.") == std::string::npos;) {
      label = path[i] + "." + label;
    }
    module.name = StrJoin(std::vector<std::string>(path.begin(), path.begin() + static_cast<long>(depth)), "/");
    module.class_name = unique_class(pascal(label));
    const std::string base = identifier(label);
    module.member_name = base;
    for (int i = 2; !members.insert(module.member_name).second; ++i) module.member_name = StrCat(base, "_", i);
  }

  // Without names: between two places where one value alone is alive lies a block.
  void cut(Module& module) {
    std::vector<size_t> last_use(graph_.values.size(), 0);
    for (size_t i = 0; i < order_.size(); ++i) {
      for (const ValueId input : graph_.nodes[order_[i]].inputs) {
        if (input != kNone) last_use[input] = i;
      }
    }
    for (const ValueId output : graph_.outputs) last_use[output] = order_.size();
    std::set<ValueId> alive(graph_.inputs.begin(), graph_.inputs.end());
    module.parts.clear();
    size_t from = 0;
    for (size_t i = 0; i < order_.size(); ++i) {
      for (const ValueId output : graph_.nodes[order_[i]].outputs) {
        if (output != kNone) alive.insert(output);
      }
      std::erase_if(alive, [&](ValueId value) { return last_use[value] <= i; });
      if (alive.size() > 1 && i + 1 < order_.size()) continue;
      const size_t count = i + 1 - from;
      if (count > kLeastOperators && count < order_.size()) {
        Module block;
        block.name = StrCat("block ", module.children.size() + 1);
        block.class_name = unique_class(StrCat("Block", module.children.size() + 1));
        block.member_name = StrCat("block_", module.children.size() + 1);
        block.operators = count;
        for (size_t k = from; k <= i; ++k) block.parts.push_back({order_[k], 0});
        module.parts.push_back({kNone, module.children.size()});
        module.children.push_back(std::move(block));
      } else {
        for (size_t k = from; k <= i; ++k) module.parts.push_back({order_[k], 0});
      }
      from = i + 1;
    }
  }

  void find_borders() {
    made_at_.assign(graph_.values.size(), -1);
    last_read_.assign(graph_.values.size(), -1);
    for (size_t i = 0; i < order_.size(); ++i) {
      for (const ValueId output : graph_.nodes[order_[i]].outputs) {
        if (output != kNone) made_at_[output] = static_cast<long>(i);
      }
      for (const ValueId input : graph_.nodes[order_[i]].inputs) {
        if (input != kNone) last_read_[input] = static_cast<long>(i);
      }
    }
    for (const ValueId output : graph_.outputs) last_read_[output] = static_cast<long>(order_.size());
  }

  void border(Module& module, size_t from) {
    const long first = static_cast<long>(from), end = static_cast<long>(from + module.operators);
    std::set<ValueId> seen;
    for (size_t i = from; i < from + module.operators; ++i) {
      const Node& node = graph_.nodes[order_[i]];
      for (const ValueId input : node.inputs) {
        if (input == kNone || constant_[input] || made_at_[input] >= first || !seen.insert(input).second) continue;
        module.inputs.push_back(input);
      }
      for (const ValueId output : node.outputs) {
        if (output != kNone && last_read_[output] >= end) module.outputs.push_back(output);
      }
    }
    size_t at = from;
    for (const Module::Part& part : module.parts) {
      if (part.is_child()) border(module.children[part.child], at);
      at += part.is_child() ? module.children[part.child].operators : 1;
    }
  }

  const Graph& graph_;
  std::vector<bool> constant_;
  std::vector<NodeId> order_;
  std::vector<Path> scopes_;  // by place in the order
  std::vector<long> made_at_, last_read_;
  std::set<std::string> classes_ = {"Model", "Expression"};  // what the code around them is called
};

}  // namespace

Result<Module> find_modules(const Graph& graph) { return Finder(graph).run(); }

}  // namespace sinter::codegen
