// SPDX-License-Identifier: Apache-2.0
#include "engine/ops/elementwise.h"

#include <algorithm>

#include "engine/ops/util.h"
#include "engine/ops/walk.h"
#include "engine/wgsl/expr_wgsl.h"

namespace sinter::ops {

Result<Expr> expr_of(const Node& node) {
  if (!node.expr.empty()) return node.expr;
  return node.op->scalar(node);
}

// ---------------------------------------------------------------------------------------------------------------------
// Inference

namespace {

bool gives_truth(ScalarOp op) {
  switch (op) {
    case ScalarOp::logical_not:
    case ScalarOp::is_nan:
    case ScalarOp::is_inf:
    case ScalarOp::less:
    case ScalarOp::less_equal:
    case ScalarOp::greater:
    case ScalarOp::greater_equal:
    case ScalarOp::equal:
    case ScalarOp::logical_and:
    case ScalarOp::logical_or:
    case ScalarOp::logical_xor:
      return true;
    default:
      return false;
  }
}

Result<DType> same_dtype(const Node& node, DType a, DType b) {
  if (a == DType::undefined || a == b) return b;
  if (b == DType::undefined) return a;
  return bad(node, StrCat("operands have different types, ", name_of(a), " and ", name_of(b)),
             "ONNX never converts by itself: the model needs a Cast there");
}

// The dtype of the expression's result; constants take that of their partner.
Result<DType> result_dtype(const InferContext& ctx, const Expr& expr) {
  std::vector<DType> dtypes;
  for (const ExprNode& node : expr.nodes()) {
    DType dtype = DType::undefined;
    if (node.op == ScalarOp::input) {
      if (ctx.has(node.a)) dtype = ctx.inputs[node.a].dtype;
      if (dtype == DType::string) return unsupported(ctx.node, "strings are not supported");
    } else if (node.op == ScalarOp::pow) {
      dtype = dtypes[node.a] == DType::undefined ? dtypes[node.b] : dtypes[node.a];
    } else if (arity(node.op) == 1) {
      dtype = dtypes[node.a];
    } else if (arity(node.op) == 2) {
      dtype = SINTER_TRY(same_dtype(ctx.node, dtypes[node.a], dtypes[node.b]));
    } else if (arity(node.op) == 3) {
      dtype = SINTER_TRY(same_dtype(ctx.node, dtypes[node.b], dtypes[node.c]));
    }
    dtypes.push_back(gives_truth(node.op) ? DType::boolean : dtype);
  }
  return dtypes.back();
}

}  // namespace

Result<> infer_elementwise(InferContext& ctx) {
  const Expr expr = SINTER_TRY(expr_of(ctx.node));
  SINTER_CHECK_OK(infer_broadcast(ctx));
  ctx.outputs[0].dtype = SINTER_TRY(result_dtype(ctx, expr));
  return {};
}

// ---------------------------------------------------------------------------------------------------------------------
// Reference

namespace {

template <class T>
T read(const Tensor& tensor, int64_t i) {
  if constexpr (std::is_same_v<T, double>) return get_f64(tensor, static_cast<size_t>(i));
  return static_cast<T>(get_i64(tensor, static_cast<size_t>(i)));
}

template <class T>
void write(Tensor& tensor, size_t i, T value) {
  if constexpr (std::is_same_v<T, double>) {
    set_f64(tensor, i, value);
  } else {
    set_i64(tensor, i, static_cast<int64_t>(value));
  }
}

template <class T>
void evaluate(const Expr& expr, const StridedLoop& loop, std::span<const Tensor* const> operands, Tensor& out) {
  std::vector<T> values(operands.size());
  Walk walk(loop);
  for (size_t i = 0; i < out.numel(); ++i, walk.next()) {
    for (size_t k = 0; k < operands.size(); ++k) {
      if (operands[k]) values[k] = read<T>(*operands[k], walk.offset(k));
    }
    write<T>(out, i, expr.eval(std::span<const T>(values)));
  }
}

// Floats compute in double, integers in 64 bits of their signedness; bool joins whatever the others are.
enum class Domain : uint8_t { floats, signed_ints, unsigned_ints };

Domain domain_of(std::span<const DType> dtypes) {
  Domain domain = Domain::unsigned_ints;
  for (DType dtype : dtypes) {
    if (is_float(dtype)) return Domain::floats;
    if (is_signed_int(dtype)) domain = Domain::signed_ints;
  }
  return domain;
}

}  // namespace

Result<> reference_elementwise(const RefContext& ctx) {
  const Expr expr = SINTER_TRY(expr_of(ctx.node));
  Tensor& out = ctx.out();
  std::vector<const Tensor*> operands(ctx.inputs.begin(), ctx.inputs.end());
  std::vector<Shape> strides;
  std::vector<DType> dtypes{out.dtype()};
  for (size_t k = 0; k < operands.size(); ++k) {
    if (!expr.reads(static_cast<uint16_t>(k))) operands[k] = nullptr;
    strides.push_back(operands[k] ? broadcast_strides(operands[k]->shape(), out.shape())
                                  : Shape::filled(out.shape().rank(), 0));
    if (operands[k]) dtypes.push_back(operands[k]->dtype());
  }
  const StridedLoop loop = merge_axes(out.shape(), strides);
  switch (domain_of(dtypes)) {
    case Domain::floats:
      evaluate<double>(expr, loop, operands, out);
      break;
    case Domain::signed_ints:
      evaluate<int64_t>(expr, loop, operands, out);
      break;
    case Domain::unsigned_ints:
      evaluate<uint64_t>(expr, loop, operands, out);
      break;
  }
  return {};
}

// ---------------------------------------------------------------------------------------------------------------------
// WGSL

namespace {

std::string vector_of(std::string_view element, int width) {
  return width == 1 ? std::string(element) : StrCat("vec", width, "<", element, ">");
}

// One array that a kernel reads: an input of the node, or what an earlier kernel of the node left in scratch.
struct Operand {
  wgsl::Storage storage = wgsl::Storage::none;
  Shape shape;
  uint32_t index = 0;
  bool scratch = false;
  ValueId value = kNone;  // to bind a value once that is read twice
};

class MapEmitter {
 public:
  explicit MapEmitter(WgslContext& ctx) : ctx_(ctx), out_(ctx.out_shape()) {}

  Result<> run() {
    if (out_.numel() == 0) return {};
    Expr expr = SINTER_TRY(expr_of(ctx_.node));
    SINTER_CHECK_OK(collect(expr));
    const size_t limit = ctx_.target.max_storage_buffers - 1;
    while (used(expr).size() > limit) {
      const size_t cut = find_cut(expr, limit);
      if (cut == 0) {
        return unsupported(ctx_.node, StrCat("reads ", used(expr).size(), " arrays, the device binds ", limit + 1),
                           "turn fusion off");
      }
      expr = SINTER_TRY(spill(expr, cut));
    }
    return kernel(expr, false);
  }

 private:
  // Reads the operands' storage, binds scalar constants into the expression and picks the type to compute in.
  Result<> collect(Expr& expr) {
    std::vector<DType> dtypes;
    for (uint16_t k = 0; k < ctx_.inputs.size(); ++k) {
      operands_.emplace_back();
      if (!expr.reads(k)) continue;
      const TensorInfo& info = ctx_.inputs[k];
      dtypes.push_back(info.dtype);
      if (info.constant && info.shape->numel() == 1 && info.dtype != DType::i64 && info.dtype != DType::u64) {
        expr = expr.with_constant(k, get_f64(*info.constant, 0));
        continue;
      }
      // Exponents are int64 in many models; as constants they are small numbers.
      if (info.constant && info.shape->numel() == 1 && info.dtype == DType::i64 && is_float(ctx_.outputs[0].dtype)) {
        expr = expr.with_constant(k, get_f64(*info.constant, 0));
        continue;
      }
      const wgsl::Storage held = storage(ctx_, info);
      if (held == wgsl::Storage::words2 || held == wgsl::Storage::none) {
        return unsupported(ctx_.node, StrCat(name_of(info.dtype), " arithmetic runs on the host"));
      }
      operands_.back() = {held, *info.shape, k, false, k < ctx_.node.inputs.size() ? ctx_.node.inputs[k] : kNone};
    }
    const wgsl::Storage held = storage(ctx_, ctx_.outputs[0]);
    if (held == wgsl::Storage::words2 || held == wgsl::Storage::none) {
      return unsupported(ctx_.node, StrCat(name_of(ctx_.outputs[0].dtype), " arithmetic runs on the host"));
    }
    if (dtypes.empty()) dtypes.push_back(ctx_.outputs[0].dtype);
    switch (domain_of(dtypes)) {
      case Domain::floats:
        element_ = "f32";
        break;
      case Domain::signed_ints:
        element_ = "i32";
        break;
      case Domain::unsigned_ints:
        element_ = "u32";
        break;
    }
    return {};
  }

  bool same(size_t a, size_t b) const {
    return a == b || (operands_[a].value != kNone && operands_[a].value == operands_[b].value);
  }

  // The distinct arrays that an expression reads, in the order of their first use.
  std::vector<uint16_t> used(const Expr& expr, size_t nodes = SIZE_MAX) const {
    std::vector<uint16_t> found;
    for (size_t i = 0; i < std::min(nodes, expr.nodes().size()); ++i) {
      const ExprNode& node = expr.nodes()[i];
      if (node.op != ScalarOp::input) continue;
      if (std::none_of(found.begin(), found.end(), [&](uint16_t k) { return same(k, node.a); }))
        found.push_back(node.a);
    }
    return found;
  }

  // The last node whose own subexpression fits the limit and is all that later nodes take from before it (other than
  // inputs and constants, which can be read again).
  size_t find_cut(const Expr& expr, size_t limit) const {
    const auto nodes = expr.nodes();
    size_t best = 0;
    for (size_t cut = 1; cut + 1 < nodes.size(); ++cut) {
      if (arity(nodes[cut].op) == 0) continue;
      if (used(expr, cut + 1).size() > limit) break;
      bool clean = true;
      for (size_t i = cut + 1; i < nodes.size(); ++i) {
        const uint16_t refs[] = {nodes[i].a, nodes[i].b, nodes[i].c};
        for (int r = 0; r < arity(nodes[i].op); ++r) clean &= refs[r] >= cut || arity(nodes[refs[r]].op) == 0;
      }
      if (clean && used(expr, cut + 1).size() > 1) best = cut;
    }
    return best;
  }

  // Computes nodes [0, cut] into scratch; what remains reads that as one more operand.
  Result<Expr> spill(const Expr& expr, size_t cut) {
    const auto nodes = expr.nodes();
    Expr head;
    for (size_t i = 0; i <= cut; ++i) head.push(nodes[i]);
    SINTER_CHECK_OK(kernel(head, true));
    const auto slot = static_cast<uint16_t>(operands_.size());
    operands_.push_back({wgsl::Storage::f32, out_, static_cast<uint32_t>(ctx_.scratch.size() - 1), true, kNone});
    if (element_ == "i32") operands_.back().storage = wgsl::Storage::i32;
    if (element_ == "u32") operands_.back().storage = wgsl::Storage::u32;
    Expr rest;
    std::vector<uint16_t> at(nodes.size());
    for (size_t i = 0; i < nodes.size(); ++i) {
      ExprNode node = nodes[i];
      if (i == cut) {
        at[i] = rest.input(slot);
        continue;
      }
      if (i < cut && arity(node.op) > 0) continue;
      if (arity(node.op) > 0) node.a = at[node.a];
      if (arity(node.op) > 1) node.b = at[node.b];
      if (arity(node.op) > 2) node.c = at[node.c];
      at[i] = rest.push(node);
    }
    return drop_unused(rest);
  }

  // Leaves that only the spilled part read would be bound again for nothing.
  static Expr drop_unused(const Expr& expr) {
    const auto nodes = expr.nodes();
    std::vector<bool> live(nodes.size(), false);
    live.back() = true;
    for (size_t i = nodes.size(); i-- > 0;) {
      if (!live[i]) continue;
      const uint16_t refs[] = {nodes[i].a, nodes[i].b, nodes[i].c};
      for (int r = 0; r < arity(nodes[i].op); ++r) live[refs[r]] = true;
    }
    Expr kept;
    std::vector<uint16_t> at(nodes.size());
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (!live[i]) continue;
      ExprNode node = nodes[i];
      if (arity(node.op) > 0) node.a = at[node.a];
      if (arity(node.op) > 1) node.b = at[node.b];
      if (arity(node.op) > 2) node.c = at[node.c];
      at[i] = kept.push(node);
    }
    return kept;
  }

  Result<> kernel(const Expr& expr, bool to_scratch) {
    const std::vector<uint16_t> reads = used(expr);
    std::vector<Shape> strides;
    for (uint16_t k : reads) strides.push_back(broadcast_strides(operands_[k].shape, out_));
    const StridedLoop loop = merge_axes(out_, strides);
    const int width = vector_width(loop);
    wgsl::Writer writer(StrCat(ctx_.node.op->name, width == 4 ? "_vec4" : ""), ctx_.target);
    const std::string type = vector_of(element_, width);

    std::vector<bool> constant_inside;  // the same element for all lanes of a vector
    for (size_t i = 0; i < reads.size(); ++i) {
      const Operand& operand = operands_[reads[i]];
      constant_inside.push_back(loop.dims.rank() == 0 || loop.strides[i][loop.dims.rank() - 1] == 0);
      bind(writer, operand, StrCat("v", i), constant_inside.back() ? 1 : width);
    }
    const wgsl::Storage held = to_scratch ? scratch_output(writer, type) : bind_result(writer, width);
    writer.linear(static_cast<uint64_t>(out_.numel() / width));
    const std::vector<std::string> at = offsets(writer, loop, width);

    std::vector<std::string> names(operands_.size(), StrCat(type, "(0)"));
    for (size_t i = 0; i < reads.size(); ++i) {
      const std::string name = StrCat("a", i);
      writer.body(StrCat("  let ", name, " = ", type, "(", constant_inside[i] && width > 1 ? StrCat(element_, "(") : "",
                         "v", i, "[", at[i], "]", constant_inside[i] && width > 1 ? ")" : "", ");\n"));
      for (size_t k = 0; k < operands_.size(); ++k) {
        if (same(k, reads[i])) names[k] = name;
      }
    }
    names.resize(std::max<size_t>(expr.input_count(), 1), StrCat(type, "(0)"));
    const std::string value = wgsl::print_expr(writer, expr, names, type);
    writer.body(StrCat("  let r = ", value, ";\n  y[i] = ", to_scratch ? "r" : narrowed(held, width), ";\n"));
    return emit(ctx_, writer);
  }

  void bind(wgsl::Writer& writer, const Operand& operand, std::string_view var, int width) {
    const std::string type = vector_of(wgsl::element_type(operand.storage), width);
    if (operand.scratch) {
      writer.scratch(var, operand.index, type, false);
    } else {
      writer.input(var, operand.index, type, ctx_.inputs[operand.index].weight);
    }
  }

  wgsl::Storage scratch_output(wgsl::Writer& writer, std::string_view type) {
    ctx_.scratch.push_back({static_cast<uint64_t>(out_.numel()) * 4});
    writer.scratch("y", static_cast<uint32_t>(ctx_.scratch.size() - 1), type, true);
    return wgsl::Storage::none;
  }

  wgsl::Storage bind_result(wgsl::Writer& writer, int width) {
    bind_output(writer, ctx_, "y", 0, width);
    return storage(ctx_, ctx_.outputs[0]);
  }

  // Four elements at a time where every operand is contiguous or constant along the innermost merged axis.
  int vector_width(const StridedLoop& loop) const {
    const size_t rank = loop.dims.rank();
    if (rank == 0 || loop.dims[rank - 1] % 4 != 0) return 1;
    for (const Shape& strides : loop.strides) {
      if (strides[rank - 1] > 1) return 1;
      for (size_t axis = 0; axis + 1 < rank; ++axis) {
        if (strides[rank - 1] == 1 && strides[axis] % 4 != 0) return 1;
      }
    }
    return 4;
  }

  // Index text per operand: `i` where it is as dense as the output, 0 where it is one element, else computed.
  std::vector<std::string> offsets(wgsl::Writer& writer, const StridedLoop& loop, int width) {
    const size_t rank = loop.dims.rank();
    StridedLoop general{loop.dims, {}};
    if (rank > 0) general.dims[rank - 1] /= width;
    std::vector<std::string> at, names;
    const Shape dense = row_major_strides(loop.dims);
    for (const Shape& own : loop.strides) {
      if (own == dense) {
        at.push_back("i");
      } else if (own == Shape::filled(rank, 0)) {
        at.push_back("0");
      } else {
        Shape strides = own;
        for (size_t axis = 0; axis + 1 < rank; ++axis) {
          if (own[rank - 1] == 1) strides[axis] /= width;
        }
        general.strides.push_back(strides);
        names.push_back(StrCat("o", names.size()));
        at.push_back(names.back());
      }
    }
    if (!names.empty()) writer.offsets("i", general, names);
    return at;
  }

  // `r` as the output's storage holds it: narrow integers wrap, bool is 0 or 1.
  std::string narrowed(wgsl::Storage held, int width) const {
    const std::string type = vector_of(wgsl::element_type(held), width);
    const std::string shift = vector_of("u32", width);
    const std::string r = StrCat(type, "(r)");
    switch (ctx_.outputs[0].dtype) {
      case DType::boolean:
        return StrCat(type, "(r != ", vector_of(element_, width), "(0))");
      case DType::u8:
        return StrCat(r, " & ", type, "(255u)");
      case DType::u16:
        return StrCat(r, " & ", type, "(65535u)");
      case DType::i8:
        return StrCat("(", r, " << ", shift, "(24u)) >> ", shift, "(24u)");
      case DType::i16:
        return StrCat("(", r, " << ", shift, "(16u)) >> ", shift, "(16u)");
      default:
        return r;
    }
  }

  WgslContext& ctx_;
  const Shape& out_;
  std::vector<Operand> operands_;
  std::string_view element_ = "f32";
};

}  // namespace

Result<> wgsl_elementwise(WgslContext& ctx) { return MapEmitter(ctx).run(); }

}  // namespace sinter::ops
