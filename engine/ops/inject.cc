// SPDX-License-Identifier: Apache-2.0
// Inject, domain "sinter": a barrier that a test of the diagnosis puts behind a node. Attribute kind:
//   wrong  y = x + max(1, |x|)      nan  y = NaN      error  the step fails      hang  the step never ends (the session's part)
// Fusion does not reach across it.
#include <cmath>
#include <limits>

#include "engine/ops/util.h"

namespace sinter {
namespace {

Result<> reference(const RefContext& ctx) {
  const std::string_view kind = ctx.attrs().s("kind", "");
  if (kind == "error") return fail(Code::Gpu, StrCat("node '", ctx.node.name, "' failed: an error was injected here"));
  const Tensor& x = ctx.in(0);
  Tensor& y = ctx.out();
  for (size_t i = 0; i < x.numel(); ++i) {
    if (kind == "nan") {
      set_f64(y, i, std::numeric_limits<double>::quiet_NaN());
    } else if (is_float(x.dtype())) {
      const double value = get_f64(x, i);
      set_f64(y, i, value + std::max(1.0, std::abs(value)));
    } else {
      const int64_t value = get_i64(x, i);
      set_i64(y, i, x.dtype() == DType::boolean ? !value : value + std::max<int64_t>(1, value < 0 ? -value : value));
    }
  }
  return {};
}

Result<> infer(InferContext& ctx) {
  if (ctx.attrs().s("kind", "") == "nan" && !is_float(ctx.inputs[0].dtype)) {
    return fail(
        Code::InvalidInput,
        StrCat("node '", ctx.node.name, "' gives ", name_of(ctx.inputs[0].dtype), ", which has no NaN to inject"),
        "inject 'wrong' there");
  }
  return ops::infer_same(ctx);
}

Result<> emit_wgsl(WgslContext& ctx) {
  const std::string_view kind = ctx.attrs().s("kind", "");
  const auto storage = ops::storage(ctx, ctx.inputs[0]);
  const bool computes = storage == wgsl::Storage::f32 || storage == wgsl::Storage::f16;
  if ((kind != "wrong" && kind != "nan") || !computes) {
    return ops::unsupported(ctx.node, StrCat("an injected '", kind, "' acts on the host"));
  }
  if (ctx.out_shape().numel() == 0) return {};
  wgsl::Writer writer(StrCat("inject_", kind), ctx.target);
  ops::bind_input(writer, ctx, "x", 0);
  ops::bind_output(writer, ctx, "y");
  writer.linear(static_cast<uint64_t>(ctx.out_shape().numel()));
  const std::string_view type = wgsl::element_type(storage);
  if (kind == "nan") {
    writer.u32("nan_", 0x7fc00000u);  // WGSL refuses a constant expression that is NaN
    writer.body(StrCat("  y[i] = ", type, "(bitcast<f32>(p.nan_));\n"));
  } else {
    writer.body(StrCat("  let v = f32(x[i]);\n  y[i] = ", type, "(v + max(1.0, abs(v)));\n"));
  }
  return ops::emit(ctx, writer);
}

void cases(std::vector<OpCase>& out) {
  for (const char* kind : {"wrong", "nan"}) {
    OpCase item;
    item.name = kind;
    item.attrs.set("kind", std::string(kind));
    item.inputs.emplace_back();
    item.inputs[0].shape = {3, 5};
    item.inputs[0].lo = -4;
    out.push_back(std::move(item));
  }
}

}  // namespace

extern const OpDef op_inject{.name = "Inject",
                             .domain = "sinter",
                             .notes = "made by fault injection, to test the diagnosis",
                             .infer = infer,
                             .reference = reference,
                             .wgsl = emit_wgsl,
                             .cases = cases};

}  // namespace sinter
