// SPDX-License-Identifier: Apache-2.0
// ONNX LayerNormalization (17), RMSNormalization (23), InstanceNormalization (6) and GroupNormalization (18, with scales per
// group, and 21, with scales per channel). All see the input as rows of neighbouring elements:
//   y = (x - mean) / sqrt(variance + epsilon) * scale + bias       (RMS: mean is 0)
// Statistics are exact to f32 whatever the input's type: squares of f16 values would overflow. On the device: floats whose
// scale has one element per element, channel or group.
#include <cmath>

#include "engine/ops/util.h"

namespace sinter {

using namespace ops;

namespace {

enum class Kind : uint8_t { layer, rms, instance, group };

struct Plan {
  int64_t rows = 0, length = 0;
  // Scale and bias element of element k in row r: (r % modulus) * factor + k / divisor.
  int64_t modulus = 1, factor = 0, divisor = 1;
  bool regular =
      true;  // false: scale broadcasts in another way (LayerNormalization, RMSNormalization), see scale_strides
  double epsilon = 1e-5;
};

Plan plan_of(Kind kind, const Attrs& attrs, const Shape& x, const Shape& scale) {
  Plan plan;
  plan.epsilon = attrs.f("epsilon", 1e-5f);
  if (kind == Kind::layer || kind == Kind::rms) {
    const size_t axis = *fold_axis(attrs.i("axis", -1), x.rank());
    plan.rows = x.product(0, axis);
    plan.length = x.product(axis, x.rank());
    const int64_t count = scale.numel();
    plan.regular = count == plan.length || count == 1;
    plan.divisor = count == 1 ? std::max<int64_t>(plan.length, 1) : 1;
    return plan;
  }
  const int64_t channels = x[1], spatial = x.product(2, x.rank());
  const int64_t groups = kind == Kind::group ? attrs.i("num_groups", 1) : channels;
  plan.rows = x[0] * groups;
  plan.length = channels / groups * spatial;
  plan.modulus = groups;
  const bool per_channel = scale.numel() == channels;
  plan.factor = per_channel ? channels / groups : 1;
  plan.divisor = std::max<int64_t>(1, per_channel ? spatial : plan.length);
  return plan;
}

template <Kind kind>
Result<> infer_norm(InferContext& ctx) {
  SINTER_CHECK_OK(infer_same(ctx));
  const auto& x = ctx.inputs[0].shape;
  if (!x) return {};
  if constexpr (kind == Kind::layer || kind == Kind::rms) {
    const int64_t axis = ctx.attrs().i("axis", -1);
    const auto folded = fold_axis(axis, x->rank());
    if (!folded) return bad(ctx.node, StrCat("axis ", axis, " is outside the rank of its input ", to_string(*x)));
    for (size_t i = 1; i < ctx.inputs.size(); ++i) {
      if (!ctx.has(i) || !ctx.inputs[i].shape || !x->is_static()) continue;
      const auto joined = broadcast(*x, *ctx.inputs[i].shape);
      if (!joined || !(*joined == *x)) {
        return bad(ctx.node, StrCat(i == 1 ? "scale " : "bias ", to_string(*ctx.inputs[i].shape),
                                    " does not broadcast to the input ", to_string(*x)));
      }
    }
    for (size_t i = 1; i < ctx.outputs.size(); ++i) {
      ctx.outputs[i].dtype = DType::f32;
      Shape kept = *x;
      for (size_t j = *folded; j < kept.rank(); ++j) kept[j] = 1;
      ctx.outputs[i].shape = kept;
    }
    return {};
  }
  if (x->rank() < 2) return bad(ctx.node, StrCat("needs [N, C, ...], got ", to_string(*x)));
  const int64_t channels = (*x)[1];
  const int64_t groups = kind == Kind::group ? ctx.attrs().i("num_groups", 0) : 1;
  if (groups <= 0 || (is_known(channels) && channels % groups != 0)) {
    return bad(ctx.node, StrCat("num_groups ", groups, " does not divide ", channels, " channels"));
  }
  for (size_t i = 1; i < ctx.inputs.size(); ++i) {
    const auto& given = ctx.inputs[i].shape;
    if (!given || !given->is_static() || !is_known(channels)) continue;
    if (given->rank() == 1 && ((*given)[0] == channels || (kind == Kind::group && (*given)[0] == groups))) continue;
    return bad(ctx.node, StrCat(i == 1 ? "scale " : "bias ", to_string(*given),
                                " must have one element per channel of ", to_string(*x)));
  }
  return {};
}

template <Kind kind>
Result<> reference_norm(const RefContext& ctx) {
  const Tensor& x = ctx.in(0);
  const Shape& shape = x.shape();
  const Plan plan = plan_of(kind, ctx.attrs(), shape, ctx.in(1).shape());
  const bool bias = ctx.has(2) && kind != Kind::rms;
  const StridedLoop all{shape,
                        {broadcast_strides(ctx.in(1).shape(), shape),
                         bias ? broadcast_strides(ctx.in(2).shape(), shape) : Shape::filled(shape.rank(), 0)}};
  const auto element = [&](int64_t row, int64_t k, size_t operand) {
    if (kind == Kind::instance || kind == Kind::group) return row % plan.modulus * plan.factor + k / plan.divisor;
    int64_t rest = row * plan.length + k, at = 0;
    for (size_t axis = shape.rank(); axis-- > 0; rest /= shape[axis])
      at += rest % shape[axis] * all.strides[operand][axis];
    return at;
  };
  for (int64_t row = 0; row < plan.rows; ++row) {
    const auto base = static_cast<size_t>(row * plan.length);
    double mean = 0, squares = 0;
    for (int64_t k = 0; kind != Kind::rms && k < plan.length; ++k) mean += get_f64(x, base + static_cast<size_t>(k));
    mean /= static_cast<double>(plan.length);
    if (kind == Kind::rms) mean = 0;
    for (int64_t k = 0; k < plan.length; ++k) squares += std::pow(get_f64(x, base + static_cast<size_t>(k)) - mean, 2);
    const double inverse = 1 / std::sqrt(squares / static_cast<double>(plan.length) + plan.epsilon);
    for (int64_t k = 0; k < plan.length; ++k) {
      const size_t at = base + static_cast<size_t>(k);
      double value = (get_f64(x, at) - mean) * inverse * get_f64(ctx.in(1), static_cast<size_t>(element(row, k, 0)));
      if (bias) value += get_f64(ctx.in(2), static_cast<size_t>(element(row, k, 1)));
      set_f64(ctx.out(), at, value);
    }
    if (ctx.outputs.size() > 1 && ctx.outputs[1]) set_f64(ctx.out(1), static_cast<size_t>(row), mean);
    if (ctx.outputs.size() > 2 && ctx.outputs[2]) set_f64(ctx.out(2), static_cast<size_t>(row), inverse);
  }
  return {};
}

// One workgroup per row, or one thread where rows are short. `total` adds up a value over the row.
class NormKernel {
 public:
  NormKernel(WgslContext& ctx, Kind kind, const Plan& plan)
      : ctx_(ctx),
        kind_(kind),
        plan_(plan),
        shared_(plan.length >= 64 && ctx.target.max_invocations >= 64 && !ctx.target.force_plain),
        threads_(plan.length >= 1024 && ctx.target.max_invocations >= 256 ? 256 : 64),
        writer_(StrCat(ctx.node.op->name, shared_ ? "_shared" : ""), ctx.target) {}

  Result<> run() {
    bind();
    if (shared_) {
      writer_.groups(static_cast<uint64_t>(plan_.rows), threads_);
      writer_.declare(StrCat("var<workgroup> part: array<f32, ", threads_, ">;\n"));
    } else {
      writer_.linear(static_cast<uint64_t>(plan_.rows));
    }
    writer_.u32("length", static_cast<uint32_t>(plan_.length));
    writer_.u32("modulus", static_cast<uint32_t>(plan_.modulus));
    writer_.u32("factor", static_cast<uint32_t>(plan_.factor));
    writer_.u32("divisor", static_cast<uint32_t>(plan_.divisor));
    writer_.f32("epsilon", static_cast<float>(plan_.epsilon));
    writer_.body(
        StrCat("  let row = ", shared_ ? "group" : "i", ";\n  let base = row * p.length;\n  var mean = 0.0;\n"));
    if (kind_ != Kind::rms) {
      total("sum", "f32(x[base + k])");
      writer_.body("  mean = sum / f32(p.length);\n");
    }
    total("squares", "(f32(x[base + k]) - mean) * (f32(x[base + k]) - mean)");
    writer_.body(
        "  let inverse = 1.0 / sqrt(squares / f32(p.length) + p.epsilon);\n  let first = row % p.modulus * "
        "p.factor;\n");
    writer_.body(StrCat(loop(), "    let at = first + k / p.divisor;\n    y[base + k] = ", y_type_,
                        "((f32(x[base + k]) - mean) * inverse * f32(", scale_, "[at])",
                        bias_.empty() ? std::string() : StrCat(" + f32(", bias_, "[at])"), ");\n  }\n"));
    const std::string once = shared_ ? "  if (lindex == 0u) { " : "  { ";
    if (wants(1)) writer_.body(StrCat(once, "mean_out[row] = mean; }\n"));
    if (wants(2)) writer_.body(StrCat(once, "inverse_out[row] = inverse; }\n"));
    return emit(ctx_, writer_);
  }

 private:
  bool wants(size_t i) const { return i < ctx_.node.outputs.size() && ctx_.node.outputs[i] != kNone; }

  // One value may be several operands; it is bound once.
  std::string bind_once(std::string_view var, uint32_t i) {
    static constexpr std::string_view kVars[] = {"x", "scale", "bias"};
    for (uint32_t j = 0; j < i; ++j) {
      if (ctx_.node.inputs[j] == ctx_.node.inputs[i]) return std::string(kVars[j]);
    }
    bind_input(writer_, ctx_, var, i);
    return std::string(var);
  }

  void bind() {
    bind_input(writer_, ctx_, "x", 0);
    scale_ = bind_once("scale", 1);
    if (ctx_.has(2) && kind_ != Kind::rms) bias_ = bind_once("bias", 2);
    bind_output(writer_, ctx_, "y");
    if (wants(1)) bind_output(writer_, ctx_, "mean_out", 1);
    if (wants(2)) bind_output(writer_, ctx_, "inverse_out", 2);
    y_type_ = wgsl::element_type(storage(ctx_, ctx_.outputs[0]));
  }

  std::string loop() const {
    return StrCat("  for (var k = ", shared_ ? "lindex" : "0u",
                  "; k < p.length; k += ", shared_ ? StrCat(threads_, "u") : std::string("1u"), ") {\n");
  }

  void total(std::string_view var, std::string_view value) {
    writer_.body(StrCat("  var ", var, " = 0.0;\n", loop(), "    ", var, " += ", value, ";\n  }\n"));
    if (!shared_) return;
    writer_.body(
        StrCat("  part[lindex] = ", var, ";\n  workgroupBarrier();\n  for (var half = ", threads_ / 2,
               "u; half > 0u; half = half / 2u) {\n    if (lindex < half) { part[lindex] += part[lindex + half]; }\n"
               "    workgroupBarrier();\n  }\n  ",
               var, " = part[0];\n  workgroupBarrier();\n"));
  }

  WgslContext& ctx_;
  Kind kind_;
  Plan plan_;
  bool shared_;
  uint32_t threads_;
  wgsl::Writer writer_;
  std::string scale_, bias_;
  std::string_view y_type_;
};

template <Kind kind>
Result<> wgsl_norm(WgslContext& ctx) {
  if (!is_float(ctx.outputs[0].dtype) || storage(ctx, ctx.outputs[0]) == wgsl::Storage::none) {
    return unsupported(ctx.node, StrCat(name_of(ctx.outputs[0].dtype), " runs on the host"));
  }
  const Plan plan = plan_of(kind, ctx.attrs(), ctx.in_shape(0), ctx.in_shape(1));
  const bool same_form = kind == Kind::rms || !ctx.has(2) || ctx.in_shape(2).numel() == ctx.in_shape(1).numel();
  if (!plan.regular || !same_form) {
    return unsupported(ctx.node, "scale and bias of different or partly broadcast shapes run on the host",
                       "expand them to the normalised shape");
  }
  if (ctx.in_shape(0).numel() == 0) return {};
  return NormKernel(ctx, kind, plan).run();
}

OpCase::Input of(Shape shape, DType dtype = DType::f32) {
  return {.dtype = dtype, .shape = shape, .lo = 0.5, .hi = 1.5};
}

template <bool bias>
void layer_cases(std::vector<OpCase>& out) {
  const struct {
    Shape x, scale;
    int64_t axis;
  } shapes[] = {{{3, 5}, {5}, -1},         {{2, 3, 70}, {70}, 2}, {{2, 1030}, {1030}, -1}, {{2, 3, 4}, {3, 4}, 1},
                {{2, 3, 4}, {2, 3, 4}, 0}, {{2, 3, 4}, {1}, -1},  {{2, 3, 4}, {3, 1}, 1},  {{0, 4}, {4}, -1}};
  for (const auto& [x, scale, axis] : shapes) {
    OpCase c{.name = StrCat(to_string(x), " scale ", to_string(scale), " axis ", axis),
             .inputs = {{.shape = x, .lo = -3, .hi = 3}, of(scale)}};
    if (bias) c.inputs.push_back(of(scale));
    c.attrs.set("axis", axis);
    out.push_back(c);
  }
  OpCase half{.name = "f16 whose squares overflow f16",
              .inputs = {{.dtype = DType::f16, .shape = {2, 66}, .values = {-795, 795, 30}}, of({66}, DType::f16)},
              .rtol = 3e-3,
              .atol = 2e-3};
  if (bias) half.inputs.push_back(of({66}, DType::f16));
  out.push_back(half);
}

void layer_norm_cases(std::vector<OpCase>& out) {
  layer_cases<true>(out);
  OpCase three{.name = "mean and deviation wanted", .inputs = {{.shape = {4, 6}}, of({6})}, .outputs = 3};
  out.push_back(three);
}

void instance_cases(std::vector<OpCase>& out) {
  for (const Shape& x : {Shape{2, 3, 5}, Shape{2, 80, 2}, Shape{1, 4, 9, 11}, Shape{1, 2, 3, 2, 5}, Shape{0, 2, 3}}) {
    out.push_back({.name = to_string(x), .inputs = {{.shape = x, .lo = -3, .hi = 3}, of({x[1]}), of({x[1]})}});
  }
}

void group_cases(std::vector<OpCase>& out) {
  for (const int64_t scales : {6, 3}) {
    OpCase c{.name = scales == 6 ? "scale per channel" : "scale per group",
             .inputs = {{.shape = {2, 6, 5, 7}, .lo = -3, .hi = 3}, of({scales}), of({scales})}};
    c.attrs.set("num_groups", int64_t{3});
    out.push_back(c);
  }
}

}  // namespace

extern const OpDef op_layer_normalization{.name = "LayerNormalization",
                                          .first_opset = 17,
                                          .min_inputs = 2,
                                          .max_inputs = 3,
                                          .max_outputs = 3,
                                          .infer = infer_norm<Kind::layer>,
                                          .reference = reference_norm<Kind::layer>,
                                          .wgsl = wgsl_norm<Kind::layer>,
                                          .cases = layer_norm_cases};

extern const OpDef op_rms_normalization{.name = "RMSNormalization",
                                        .first_opset = 23,
                                        .min_inputs = 2,
                                        .max_inputs = 2,
                                        .infer = infer_norm<Kind::rms>,
                                        .reference = reference_norm<Kind::rms>,
                                        .wgsl = wgsl_norm<Kind::rms>,
                                        .cases = layer_cases<false>};

extern const OpDef op_instance_normalization{.name = "InstanceNormalization",
                                             .first_opset = 6,
                                             .min_inputs = 3,
                                             .max_inputs = 3,
                                             .infer = infer_norm<Kind::instance>,
                                             .reference = reference_norm<Kind::instance>,
                                             .wgsl = wgsl_norm<Kind::instance>,
                                             .cases = instance_cases};

extern const OpDef op_group_normalization{.name = "GroupNormalization",
                                          .first_opset = 18,
                                          .min_inputs = 3,
                                          .max_inputs = 3,
                                          .infer = infer_norm<Kind::group>,
                                          .reference = reference_norm<Kind::group>,
                                          .wgsl = wgsl_norm<Kind::group>,
                                          .cases = group_cases};

}  // namespace sinter
