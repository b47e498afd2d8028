// SPDX-License-Identifier: Apache-2.0
#include "tests/broken/parts.h"

#include <cstdlib>
#include <vector>

#include "engine/base/str.h"
#include "engine/cpu/kernels.h"
#include "engine/cpu/kernels/list.h"
#include "engine/ops/op_def.h"
#include "engine/passes/passes.h"
#include "engine/passes/util.h"

namespace sinter::test {

Broken g_broken = Broken::nothing;

const OpDef& real_op(std::string_view name);

namespace {

Result<> run_depthwise(const plan::HostArgs& args) {
  const bool fused = !args.node.expr.empty();
  if (g_broken == Broken::fused_failure && fused) return fail(Code::Internal, "the scratch memory is too small");
  if (g_broken == Broken::fused_clamp && fused) {
    Node forgetful = args.node;
    forgetful.expr = {};
    return cpu::kDepthwiseKernel.run(plan::HostArgs{forgetful, args.inputs, args.outputs, args.scratch, args.pool});
  }
  SINTER_CHECK_OK(cpu::kDepthwiseKernel.run(args));
  if (g_broken == Broken::depthwise) {
    Tensor& y = args.outputs[0];
    set_f64(y, y.numel() - 1, get_f64(y, y.numel() - 1) + 1);
  }
  return {};
}

// Every place where the text stands becomes the other.
void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

Result<> max_pool_wgsl(WgslContext& ctx) {
  SINTER_CHECK_OK(real_op("MaxPool").wgsl(ctx));
  if (g_broken != Broken::wgsl_tail) return {};
  for (wgsl::Kernel& kernel : ctx.kernels) replace_all(kernel.text, "(i >= p.count_)", "(i + 3u >= p.count_)");
  return {};
}

Result<> conv_wgsl(WgslContext& ctx) {
  SINTER_CHECK_OK(real_op("Conv").wgsl(ctx));
  if (g_broken != Broken::wgsl_fused_clamp || ctx.node.expr.empty()) return {};
  for (wgsl::Kernel& kernel : ctx.kernels) replace_all(kernel.text, "(p.hi)", "(p.lo)");
  return {};
}

}  // namespace
}  // namespace sinter::test

namespace sinter {

#define OP(domain, name, symbol) extern const OpDef symbol;
#include "engine/ops/ops.inc"
#undef OP

namespace {

const std::vector<const OpDef*>& real_ops() {
  static const std::vector<const OpDef*> ops = {
#define OP(domain, name, symbol) &symbol,
#include "engine/ops/ops.inc"
#undef OP
  };
  return ops;
}

std::vector<const OpDef*> broken_ops() {
  static OpDef max_pool = test::real_op("MaxPool"), conv = test::real_op("Conv");
  max_pool.wgsl = &test::max_pool_wgsl;
  conv.wgsl = &test::conv_wgsl;
  std::vector<const OpDef*> ops = real_ops();
  for (const OpDef*& op : ops) {
    if (op->name == "MaxPool") op = &max_pool;
    if (op->name == "Conv") op = &conv;
  }
  return ops;
}

}  // namespace

const OpDef& test::real_op(std::string_view name) {
  for (const OpDef* op : real_ops()) {
    if (op->domain.empty() && op->name == name) return *op;
  }
  std::abort();
}

std::span<const OpDef* const> all_ops() {
  static const std::vector<const OpDef*> ops = broken_ops();
  return ops;
}

const OpDef* find_op(std::string_view domain, std::string_view name) {
  if (domain == "ai.onnx") domain = "";
  for (const OpDef* op : all_ops()) {
    if (op->name == name && op->domain == domain) return op;
  }
  return nullptr;
}

std::span<const plan::HostKernel* const> cpu::host_kernels() {
  static plan::HostKernel depthwise = kDepthwiseKernel;
  depthwise.run = &test::run_depthwise;
  static constexpr const plan::HostKernel* kKernels[] = {
      &depthwise,      &kConvKernel,        &kDepthwiseFirstKernel, &kConvFirstKernel, &kMatMulKernel, &kGemmKernel,
      &kMaxPoolKernel, &kAveragePoolKernel, &kBatchNormKernel,      &kTransposeKernel, &kMapKernel,
  };
  return kKernels;
}

namespace passes {

Result<> eliminate_identity(Rewriter&);
Result<> fold_batchnorm(Rewriter&);
Result<> fuse_elementwise(Rewriter&);
Result<> fuse_epilogue(Rewriter&);
Result<> lower_batchnorm(Rewriter&);
Result<> to_channels_last(Rewriter&);

namespace {

// Patch by patch, with the shift of 16 channels spoilt.
Result<> bad_fold(Rewriter& rewriter) {
  if (test::g_broken != test::Broken::batchnorm_fold) return fold_batchnorm(rewriter);
  Graph& graph = rewriter.graph();
  while (rewriter.open()) {
    Rewriter one(graph, 1);
    SINTER_CHECK_OK(fold_batchnorm(one));
    if (one.count() == 0) return {};
    Value& shift = graph.values[graph.values.size() - 2];  // made before the scaled weight
    if (!shift.name.ends_with("_bn_shift")) return fail(Code::Internal, StrCat("no shift but ", shift.name));
    if (shift.constant.numel() == 16) {
      for (size_t i = 0; i < 16; ++i) set_f64(shift.constant, i, get_f64(shift.constant, i) + 0.25);
    }
    Patch counted(graph);
    rewriter.apply(counted);
  }
  return {};
}

Result<> normalise_padding(Rewriter& rewriter) {
  if (test::g_broken != test::Broken::swapped_padding) return {};
  Graph& graph = rewriter.graph();
  for (NodeId id : SINTER_TRY(topological_order(graph))) {
    if (!rewriter.open()) return {};
    const Node& node = graph.nodes[id];
    const auto pads = node.attrs.ints("pads");
    if (!is_op(node, "Conv") || pads.size() != 4) continue;
    const bool strided = !node.attrs.ints("strides").empty() && node.attrs.ints("strides")[0] == 2;
    Node by = node;
    // The same for most: only where it strides does the mistake show.
    const std::vector<int64_t> same(pads.begin(), pads.end());
    by.attrs.set("pads", strided ? std::vector<int64_t>{pads[2], pads[3], pads[0], pads[1]} : same);
    Patch patch(graph);
    patch.replace(id, std::move(by));
    rewriter.apply(patch);
  }
  return {};
}

}  // namespace

std::span<const Pass> all_passes() {
  static constexpr Pass kPasses[] = {
      {"eliminate_identity", Kind::simplify, "", &eliminate_identity},
      {"normalise_padding", Kind::simplify, "", &normalise_padding},
      {"fold_batchnorm", Kind::fusion, "", &bad_fold},
      {"lower_batchnorm", Kind::fusion, "", &lower_batchnorm},
      {"to_channels_last", Kind::layout, "", &to_channels_last},
      {"fuse_epilogue", Kind::fusion, "", &fuse_epilogue},
      {"fuse_elementwise", Kind::fusion, "", &fuse_elementwise},
  };
  return kPasses;
}

}  // namespace passes
}  // namespace sinter
