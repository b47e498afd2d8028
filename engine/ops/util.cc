// SPDX-License-Identifier: Apache-2.0
#include "engine/ops/util.h"

namespace sinter::ops {

std::unexpected<Error> bad(const Node& node, std::string_view text, std::string_view hint) {
  return fail(Code::InvalidModel, StrCat(node.op->name, ": ", text), std::string(hint));
}

std::unexpected<Error> unsupported(const Node& node, std::string_view text, std::string_view hint) {
  return fail(Code::Unsupported, StrCat(node.op->name, ": ", text), std::string(hint));
}

Result<> infer_same(InferContext& ctx) {
  ctx.outputs[0].dtype = ctx.inputs[0].dtype;
  ctx.outputs[0].shape = ctx.inputs[0].shape;
  return {};
}

Result<> infer_broadcast(InferContext& ctx, size_t dtype_from) {
  ctx.outputs[0].dtype = ctx.inputs[dtype_from].dtype;
  std::optional<Shape> shape = ctx.inputs[0].shape;
  for (size_t i = 1; i < ctx.inputs.size() && shape; ++i) {
    if (!ctx.inputs[i].present) continue;
    if (!ctx.inputs[i].shape) {
      shape.reset();
      break;
    }
    const auto joined = broadcast(*shape, *ctx.inputs[i].shape);
    if (!joined) {
      return bad(ctx.node, StrCat("shapes ", to_string(*shape), " and ", to_string(*ctx.inputs[i].shape),
                                  " cannot be broadcast together"));
    }
    shape = joined;
  }
  ctx.outputs[0].shape = shape;
  return {};
}

std::vector<int64_t> to_ints(const Tensor& tensor) {
  std::vector<int64_t> values(tensor.numel());
  for (size_t i = 0; i < values.size(); ++i) values[i] = get_i64(tensor, i);
  return values;
}

std::optional<std::vector<int64_t>> known_ints(const InferContext& ctx, size_t i) {
  if (!ctx.has(i) || !ctx.inputs[i].constant) return std::nullopt;
  return to_ints(*ctx.inputs[i].constant);
}

wgsl::Storage storage(const WgslContext& ctx, const TensorInfo& info) {
  return wgsl::storage_of(info.dtype, ctx.target);
}

namespace {
std::string vector_type(wgsl::Storage storage, int width) {
  const std::string_view element = wgsl::element_type(storage);
  return width == 1 ? std::string(element) : StrCat("vec", width, "<", element, ">");
}
}  // namespace

void bind_input(wgsl::Writer& writer, const WgslContext& ctx, std::string_view var, uint32_t i, int width,
                const Packer* packer, int64_t packer_arg) {
  writer.input(var, i, vector_type(storage(ctx, ctx.inputs[i]), width), ctx.inputs[i].weight, packer, packer_arg);
}

void bind_output(wgsl::Writer& writer, const WgslContext& ctx, std::string_view var, uint32_t i, int width) {
  writer.output(var, i, vector_type(storage(ctx, ctx.outputs[i]), width));
}

Result<> emit(WgslContext& ctx, wgsl::Writer& writer) {
  ctx.kernels.push_back(SINTER_TRY(writer.finish()));
  return {};
}

}  // namespace sinter::ops
