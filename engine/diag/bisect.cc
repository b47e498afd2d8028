// SPDX-License-Identifier: Apache-2.0
#include "engine/diag/bisect.h"

#include <algorithm>
#include <set>

#include "engine/ops/print.h"
#include "engine/passes/passes.h"

namespace sinter::diag {
namespace {

using Outputs = std::vector<NamedTensor>;

// The parameters are the coroutine's own copies: it outlives the call.
Task<Outputs> outputs_of(std::shared_ptr<Engine> engine, ModelSource source, Spec spec, SessionOptions options,
                         Outputs inputs) {
  const auto session = SINTER_CO_TRY(co_await open_for(engine, source, spec, std::move(options)));
  Outputs outputs = SINTER_CO_TRY(co_await session->run(std::move(inputs), {.cancel = spec.cancel}));
  session->close();
  co_return outputs;
}

Result<bool> same(const Outputs& a, const Outputs& b, Tolerance tolerance) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (!SINTER_TRY(sinter::compare(b[i].tensor, a[i].tensor, tolerance)).equal()) return false;
  }
  return true;
}

Result<std::shared_ptr<const Graph>> graph_after(const ModelSource& source, const Spec& spec, int64_t patches) {
  SessionOptions options = options_for(spec);
  options.stop_after_patch = patches;
  return load_graph(source, options, nullptr);
}

class Bisector {
 public:
  Bisector(std::shared_ptr<Engine> engine, ModelSource source, Spec good, Spec bad, Outputs inputs, Tolerance tolerance,
           KeptRuns* kept)
      : engine_(std::move(engine)),
        source_(source),
        good_(std::move(good)),
        bad_(std::move(bad)),
        inputs_(std::move(inputs)),
        tolerance_(tolerance),
        kept_(kept) {}

  Task<BisectResult> run() {
    ++result_.runs;
    if (kept_ && kept_->outputs) {
      expected_ = *kept_->outputs;
    } else {
      expected_ = SINTER_CO_TRY(co_await outputs_of(engine_, source_, good_, options_for(good_), inputs_));
      if (kept_) kept_->outputs = expected_;
    }
    result_.warnings = doubts_about(inputs_);
    if (SINTER_CO_TRY(co_await is_right(options_for(bad_)))) {
      result_.by_nodes = true;
      ++result_.runs;  // of the good way, once more
      if (SINTER_CO_TRY(co_await is_right(options_for(bad_)))) co_return std::move(result_);
      result_.inert.clear();
    }
    if (bad_.backend == BackendChoice::reference) {  // which knows no patches
      SINTER_CO_CHECK_OK(co_await find_node());
      co_return std::move(result_);
    }
    const std::string failure = result_.failure;
    if (SINTER_CO_TRY(co_await is_right(with_patches(0)))) {
      result_.failure = failure;
      SINTER_CO_CHECK_OK(co_await find_patch());
    } else if (result_.by_nodes && result_.first) {
      name_first();  // known from the comparison just made
    } else {
      SINTER_CO_CHECK_OK(co_await find_node());
    }
    co_return std::move(result_);
  }

 private:
  SessionOptions with_patches(int64_t count) const {
    SessionOptions options = options_for(bad_);
    options.stop_after_patch = count;
    return options;
  }

  // A Timeout may come from a busy machine: only the second one in a row is believed.
  Task<Outputs> bad_outputs(SessionOptions options) {
    auto outputs = co_await outputs_of(engine_, source_, bad_, options, inputs_);
    if (!outputs && outputs.error().code == Code::Timeout) {
      outputs = co_await outputs_of(engine_, source_, bad_, std::move(options), inputs_);
    }
    co_return outputs;
  }

  // Whether the bad way, under these options, gives the expected outputs. A failure counts as wrong and is kept; what the
  // caller did wrong or asked to stop is passed on.
  Task<bool> is_right(SessionOptions options) {
    ++result_.runs;
    result_.failure.clear();
    if (result_.by_nodes) co_return co_await nodes_agree(options.stop_after_patch);
    auto outputs = co_await bad_outputs(std::move(options));
    if (outputs) co_return same(expected_, *outputs, tolerance_);
    const Code code = outputs.error().code;
    if (code == Code::Cancelled || code == Code::InvalidInput) co_return std::unexpected(std::move(outputs).error());
    result_.failure = to_string(outputs.error());
    co_return false;
  }

  // The values inside, as compare looks at them.
  Task<bool> nodes_agree(int64_t patches) {
    if (!imported_) imported_ = SINTER_CO_TRY(graph_after(source_, {.backend = BackendChoice::reference}, 0));
    Spec bad = bad_;
    bad.stop_after_patch = patches;
    const Capture& left =
        *SINTER_CO_TRY(co_await capture_into(engine_, source_, good_, inputs_, &kept_runs(), nullptr));
    const Capture right = SINTER_CO_TRY(co_await capture(engine_, source_, bad, inputs_));
    const CompareResult compared = SINTER_CO_TRY(compare_captures(*imported_, left, right, tolerance_));
    if (compared.first) result_.first = compared.first;
    if (!compared.first) result_.inert = why_inert(bad_, right.report);
    co_return !compared.first;
  }

  KeptRuns& kept_runs() { return kept_ ? *kept_ : own_; }

  Task<> find_patch() {
    Graph graph = *SINTER_CO_TRY(graph_after(source_, bad_, 0));
    const passes::Options options{bad_.fusion, bad_.off, -1, nullptr};
    const passes::Report report = SINTER_CO_TRY(passes::run(graph, options));
    int64_t total = 0;
    for (const auto& row : report.rows) total += row.patches;
    int64_t right = 0, wrong = total;
    std::string failure = result_.failure;
    while (wrong - right > 1) {
      const int64_t middle = right + (wrong - right) / 2;
      if (SINTER_CO_TRY(co_await is_right(with_patches(middle)))) {
        right = middle;
      } else {
        wrong = middle;
        failure = result_.failure;
      }
    }
    result_.failure = failure;
    result_.kind = BisectResult::Kind::patch;
    result_.patch = wrong;
    int64_t seen = 0;
    for (const auto& row : report.rows) {
      if (wrong > seen && wrong <= seen + row.patches) result_.pass = row.pass;
      seen += row.patches;
    }
    co_return name_changed_nodes(wrong);
  }

  // The ONNX nodes behind what the patch changed or removed.
  Result<> name_changed_nodes(int64_t patch) {
    const auto before = SINTER_TRY(graph_after(source_, bad_, patch - 1));
    const auto after = SINTER_TRY(graph_after(source_, bad_, patch));
    const auto texts = [](const Graph& graph) {
      std::set<std::string> lines;
      for (const Node& node : graph.nodes) {
        if (!node.dead) lines.insert(print(graph, node));
      }
      return lines;
    };
    const std::set<std::string> old_lines = texts(*before), new_lines = texts(*after);
    std::set<std::string> changed;
    for (const Node& node : after->nodes) {
      if (node.dead || node.origins.empty() || old_lines.contains(print(*after, node))) continue;
      if (result_.node.empty()) {
        result_.node = node.name;
        result_.op = node.op->name;
      }
      changed.insert(node.origins.begin(), node.origins.end());
    }
    for (const Node& node : before->nodes) {
      if (node.dead || new_lines.contains(print(*before, node))) continue;
      changed.insert(node.origins.begin(), node.origins.end());
    }
    const auto imported = SINTER_TRY(graph_after(source_, {.backend = BackendChoice::reference}, 0));
    for (NodeId id : SINTER_TRY(topological_order(*imported))) {
      for (const std::string& origin : imported->nodes[id].origins) {
        if (changed.erase(origin)) result_.nodes.push_back(origin);
      }
    }
    return {};
  }

  Task<> find_node() {
    result_.kind = BisectResult::Kind::node;
    Spec good = good_, bad = bad_;
    good.stop_after_patch = bad.stop_after_patch = 0;
    const auto graph = SINTER_CO_TRY(graph_after(source_, {.backend = BackendChoice::reference}, 0));
    const std::vector<NodeId> order = SINTER_CO_TRY(computing(*graph));
    if (order.size() == 1) {
      name_node(*graph, order[0]);
      co_return Result<>{};
    }
    if (!result_.failure.empty()) co_return co_await search_prefixes(*graph, order, nullptr);
    Capture own;
    ++result_.runs;
    const Capture& left = *SINTER_CO_TRY(co_await capture_into(engine_, source_, good, inputs_, kept_, &own));
    ++result_.runs;
    const Capture right = SINTER_CO_TRY(co_await capture(engine_, source_, bad, inputs_));
    const CompareResult compared = SINTER_CO_TRY(compare_captures(*graph, left, right, tolerance_));
    // Right when every value is kept: what is wrong is how values share memory, so they are looked at one by one.
    if (!compared.first) co_return co_await search_prefixes(*graph, order, &left);
    result_.first = compared.first;
    name_first();
    co_return Result<>{};
  }

  void name_first() {
    result_.kind = BisectResult::Kind::node;
    result_.node = result_.first->node;
    result_.op = result_.first->op;
    result_.nodes = result_.first->nodes;
  }

  // The nodes that depend on an input, in execution order.
  static Result<std::vector<NodeId>> computing(const Graph& graph) {
    std::vector<NodeId> order = SINTER_TRY(topological_order(graph));
    const std::vector<bool> constant = constant_values(graph);
    std::erase_if(order, [&](NodeId id) {
      const ValueId output = graph.nodes[id].outputs.empty() ? kNone : graph.nodes[id].outputs[0];
      return output == kNone || constant[output];
    });
    return order;
  }

  void name_node(const Graph& graph, NodeId id) {
    const Node& node = graph.nodes[id];
    result_.node = node.origins.empty() ? node.name : node.origins[0];
    result_.op = node.op->name;
    result_.nodes = {result_.node};
  }

  // The first node, in execution order, whose output cannot be computed, or (with `expected`) is not what it should be.
  Task<> search_prefixes(const Graph& graph, std::vector<NodeId> order, const Capture* expected) {
    size_t right = 0, wrong = order.size();  // prefixes: the first `right` nodes are right, the first `wrong` are not
    while (wrong - right > 1) {
      const size_t middle = right + (wrong - right) / 2;
      SessionOptions options = with_patches(0);
      const std::string& last = graph.values[graph.nodes[order[middle - 1]].outputs[0]].name;
      if (expected) {
        options.outputs = {last};
      } else {
        for (size_t i = 0; i < middle; ++i) {
          options.outputs.push_back(graph.values[graph.nodes[order[i]].outputs[0]].name);
        }
      }
      ++result_.runs;
      const auto outputs = co_await bad_outputs(std::move(options));
      bool fine = outputs.has_value();
      if (fine && expected) {
        const auto at = expected->values.find(last);
        fine = at == expected->values.end() ||
               SINTER_CO_TRY(sinter::compare(outputs->front().tensor, at->second.tensor, tolerance_)).equal();
      }
      (fine ? right : wrong) = middle;
      if (!outputs) result_.failure = to_string(outputs.error());
    }
    name_node(graph, order[wrong - 1]);
    co_return Result<>{};
  }

  std::shared_ptr<Engine> engine_;
  ModelSource source_;
  Spec good_, bad_;
  Outputs inputs_, expected_;
  Tolerance tolerance_;
  KeptRuns* kept_;
  KeptRuns own_;
  std::shared_ptr<const Graph> imported_;
  BisectResult result_;
};

}  // namespace

std::string_view kind_name(BisectResult::Kind kind) {
  switch (kind) {
    case BisectResult::Kind::none:
      return "none";
    case BisectResult::Kind::patch:
      return "patch";
    case BisectResult::Kind::node:
      return "node";
  }
  return "";
}

Task<BisectResult> bisect(std::shared_ptr<Engine> engine, ModelSource source, Spec good, Spec bad,
                          std::vector<NamedTensor> inputs, Tolerance tolerance, KeptRuns* kept) {
  Bisector bisector(std::move(engine), source, std::move(good), std::move(bad), std::move(inputs), tolerance, kept);
  co_return co_await bisector.run();
}

}  // namespace sinter::diag
