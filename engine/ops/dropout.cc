// SPDX-License-Identifier: Apache-2.0
// Dropout (ai.onnx 1-22) in inference form: the identity; the mask, where somebody reads it, is all true.
// https://onnx.ai/onnx/operators/onnx__Dropout.html
// Refused: training_mode=true with a ratio above 0.
#include <algorithm>

#include "engine/ops/cases.h"
#include "engine/ops/movement.h"
#include "engine/ops/movement_wgsl.h"
#include "engine/ops/util.h"

namespace sinter::ops {
namespace {

constexpr std::string_view kHint = "export the model for inference (model.eval())";

/// `ratio` and `training_mode` are null where absent or not known.
Result<> check_inference(const Node& node, const Tensor* ratio, const Tensor* training_mode) {
  if (training_mode == nullptr || training_mode->numel() == 0 || get_i64(*training_mode, 0) == 0) return {};
  if (ratio != nullptr && ratio->numel() > 0 && get_f64(*ratio, 0) == 0) return {};
  return unsupported(node, "training_mode is true: dropping elements at random is not supported", kHint);
}

Result<> infer_dropout(InferContext& ctx) {
  SINTER_CHECK_OK(infer_same(ctx));
  if (ctx.wants(1)) {
    ctx.outputs[1].dtype = DType::boolean;
    ctx.outputs[1].shape = ctx.inputs[0].shape;
  }
  const bool known = (!ctx.has(2) || ctx.inputs[2].constant) && (!ctx.has(1) || ctx.inputs[1].constant);
  if (known && ctx.has(2)) {
    return check_inference(ctx.node, ctx.has(1) ? ctx.inputs[1].constant : nullptr, ctx.inputs[2].constant);
  }
  if (ctx.concrete && ctx.has(2) && !ctx.inputs[2].constant) {
    return unsupported(ctx.node, "training_mode is known only while running", kHint);
  }
  return {};
}

Result<> reference_dropout(const RefContext& ctx) {
  SINTER_CHECK_OK(check_inference(ctx.node, ctx.has(1) ? &ctx.in(1) : nullptr, ctx.has(2) ? &ctx.in(2) : nullptr));
  copy_all(ctx.in(0), ctx.out());
  if (ctx.outputs.size() > 1 && ctx.node.outputs[1] != kNone) {
    const std::span<std::byte> mask = ctx.out(1).mutable_bytes();
    std::fill(mask.begin(), mask.end(), std::byte{1});
  }
  return {};
}

Result<> wgsl_dropout(WgslContext& ctx) {
  if (ctx.out_shape().numel() == 0) return {};
  SINTER_CHECK_OK(emit_alias(ctx));
  if (ctx.outputs.size() < 2 || ctx.node.outputs[1] == kNone) return {};
  wgsl::Writer w("dropout_mask", ctx.target);
  bind_output(w, ctx, "mask", 1);
  w.linear(static_cast<uint64_t>(ctx.out_shape().numel()));
  w.body("  mask[i] = 1u;\n");
  return emit(ctx, w);
}

void dropout_cases(std::vector<OpCase>& cases) {
  const OpCase::Input x = {.shape = {3, 5, 7}};
  const OpCase::Input ratio = {.shape = {}, .values = {0.5}, .constant = true};
  const OpCase::Input none = {.shape = {}, .values = {0}, .constant = true};
  const OpCase::Input no = {.dtype = DType::boolean, .shape = {}, .values = {0}, .constant = true};
  const OpCase::Input yes = {.dtype = DType::boolean, .shape = {}, .values = {1}, .constant = true};
  cases.push_back({.name = "identity", .inputs = {x}});
  cases.push_back({.name = "ratio", .inputs = {x, ratio}});
  cases.push_back({.name = "mask", .inputs = {x, ratio, no}, .outputs = 2});
  cases.push_back({.name = "training with ratio 0", .inputs = {x, none, yes}, .outputs = 2});
  cases.push_back({.name = "empty", .inputs = {{.shape = {0, 4}}}, .outputs = 2});
  cases.push_back({.name = "half", .inputs = {{.dtype = DType::f16, .shape = {9}}}, .outputs = 2});
}

}  // namespace
}  // namespace sinter::ops

namespace sinter {

extern const OpDef op_dropout;
const OpDef op_dropout = {
    .name = "Dropout",
    .max_inputs = 3,
    .max_outputs = 2,
    .notes = "inference form",
    .shape_operands = 0b110,  // a plan drops the copy only where it knows that nothing is dropped
    .alias = true,
    .infer = ops::infer_dropout,
    .reference = ops::reference_dropout,
    .wgsl = ops::wgsl_dropout,
    .cases = ops::dropout_cases,
};

}  // namespace sinter
