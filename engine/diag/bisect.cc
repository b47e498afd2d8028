// SPDX-License-Identifier: Apache-2.0
#include "engine/diag/bisect.h"

#include <set>

#include "engine/ops/print.h"
#include "engine/passes/passes.h"

namespace sinter::diag {
namespace {

using Outputs = std::vector<NamedTensor>;

// The parameters are the coroutine's own copies: it outlives the call.
Task<Outputs> outputs_of(std::shared_ptr<Engine> engine, ModelSource source, SessionOptions options, Outputs inputs) {
  const auto session = SINTER_CO_TRY(co_await open_session(engine, source, std::move(options)));
  Outputs outputs = SINTER_CO_TRY(co_await session->run(std::move(inputs), {}));
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
  Bisector(std::shared_ptr<Engine> engine, ModelSource source, Spec good, Spec bad, Outputs inputs, Tolerance tolerance)
      : engine_(std::move(engine)),
        source_(source),
        good_(std::move(good)),
        bad_(std::move(bad)),
        inputs_(std::move(inputs)),
        tolerance_(tolerance) {}

  Task<BisectResult> run() {
    expected_ = SINTER_CO_TRY(co_await run_with(options_for(good_)));
    if (SINTER_CO_TRY(co_await is_right(options_for(bad_)))) co_return result_;
    const auto unpatched = SINTER_CO_TRY(co_await is_right(with_patches(0)));
    if (unpatched) {
      SINTER_CO_CHECK_OK(co_await find_patch());
    } else {
      SINTER_CO_CHECK_OK(co_await find_node());
    }
    co_return std::move(result_);
  }

 private:
  Task<Outputs> run_with(SessionOptions options) {
    ++result_.runs;
    return outputs_of(engine_, source_, std::move(options), inputs_);
  }

  SessionOptions with_patches(int64_t count) const {
    SessionOptions options = options_for(bad_);
    options.stop_after_patch = count;
    return options;
  }

  // Whether the bad way, under these options, gives the expected outputs. A failure counts as wrong and is kept; what the
  // caller did wrong or asked to stop is passed on.
  Task<bool> is_right(SessionOptions options) {
    auto outputs = co_await run_with(std::move(options));
    if (outputs) co_return same(expected_, *outputs, tolerance_);
    const Code code = outputs.error().code;
    if (code == Code::Cancelled || code == Code::InvalidInput) co_return std::unexpected(std::move(outputs).error());
    result_.failure = to_string(outputs.error());
    co_return false;
  }

  Task<> find_patch() {
    Graph graph = *SINTER_CO_TRY(graph_after(source_, bad_, 0));
    const passes::Options options{bad_.fusion, bad_.off, -1, nullptr};
    const passes::Report report = SINTER_CO_TRY(passes::run(graph, options));
    int64_t total = 0;
    for (const auto& row : report.rows) total += row.patches;
    int64_t right = 0, wrong = total;
    while (wrong - right > 1) {
      const int64_t middle = right + (wrong - right) / 2;
      if (SINTER_CO_TRY(co_await is_right(with_patches(middle)))) {
        right = middle;
      } else {
        wrong = middle;
      }
    }
    result_.kind = BisectResult::Kind::patch;
    result_.patch = wrong;
    int64_t seen = 0;
    for (const auto& row : report.rows) {
      if (wrong > seen && wrong <= seen + row.patches) result_.pass = row.pass;
      seen += row.patches;
    }
    co_return name_changed_nodes(wrong);
  }

  // The ONNX nodes behind what the patch changed.
  Result<> name_changed_nodes(int64_t patch) {
    const auto before = SINTER_TRY(graph_after(source_, bad_, patch - 1));
    const auto after = SINTER_TRY(graph_after(source_, bad_, patch));
    std::set<std::string> known;
    for (const Node& node : before->nodes) {
      if (!node.dead) known.insert(print(*before, node));
    }
    for (const Node& node : after->nodes) {
      if (node.dead || node.origins.empty() || known.contains(print(*after, node))) continue;
      if (result_.node.empty()) {
        result_.node = node.name;
        result_.op = node.op->name;
      }
      result_.nodes.insert(result_.nodes.end(), node.origins.begin(), node.origins.end());
    }
    return {};
  }

  Task<> find_node() {
    result_.kind = BisectResult::Kind::node;
    Spec good = good_, bad = bad_;
    good.stop_after_patch = bad.stop_after_patch = 0;
    const auto graph = SINTER_CO_TRY(graph_after(source_, good, 0));
    if (!result_.failure.empty()) co_return co_await find_failing_node(*graph);
    const Capture left = SINTER_CO_TRY(co_await capture(engine_, source_, good, inputs_));
    const Capture right = SINTER_CO_TRY(co_await capture(engine_, source_, bad, inputs_));
    result_.runs += 2;
    const CompareResult compared = SINTER_CO_TRY(compare_captures(*graph, left, right, tolerance_));
    if (!compared.first) co_return Result<>{};
    result_.node = compared.first->node;
    result_.op = compared.first->op;
    result_.nodes = compared.first->nodes;
    co_return Result<>{};
  }

  // The first node, in execution order, whose output cannot be computed.
  Task<> find_failing_node(const Graph& graph) {
    std::vector<NodeId> order = SINTER_CO_TRY(topological_order(graph));
    size_t right = 0, wrong = order.size();  // prefixes: the first `right` nodes run, the first `wrong` do not
    while (wrong - right > 1) {
      const size_t middle = right + (wrong - right) / 2;
      SessionOptions options = with_patches(0);
      for (size_t i = 0; i < middle; ++i) {
        const ValueId output = graph.nodes[order[i]].outputs[0];
        if (output != kNone) options.outputs.push_back(graph.values[output].name);
      }
      ++result_.runs;
      if (co_await outputs_of(engine_, source_, std::move(options), inputs_)) {
        right = middle;
      } else {
        wrong = middle;
      }
    }
    const Node& node = graph.nodes[order[wrong - 1]];
    result_.node = node.name;
    result_.op = node.op->name;
    result_.nodes = {node.name};
    co_return Result<>{};
  }

  std::shared_ptr<Engine> engine_;
  ModelSource source_;
  Spec good_, bad_;
  Outputs inputs_, expected_;
  Tolerance tolerance_;
  BisectResult result_;
};

}  // namespace

Task<BisectResult> bisect(std::shared_ptr<Engine> engine, ModelSource source, Spec good, Spec bad,
                          std::vector<NamedTensor> inputs, Tolerance tolerance) {
  Bisector bisector(std::move(engine), source, std::move(good), std::move(bad), std::move(inputs), tolerance);
  co_return co_await bisector.run();
}

}  // namespace sinter::diag
