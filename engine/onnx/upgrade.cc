// SPDX-License-Identifier: Apache-2.0
#include "engine/onnx/upgrade.h"

#include <algorithm>
#include <iterator>

#include "engine/base/str.h"

namespace sinter::onnx {
namespace {

struct Context {
  Graph& graph;
  int64_t opset;
  std::vector<Draft>& out;

  ValueId constant(const Draft& node, std::string_view what, Tensor tensor) {
    const ValueId id = graph.add_value(graph.fresh_name(StrCat(node.name, "_", what)), tensor.dtype(), tensor.shape());
    graph.values[id].constant = std::move(tensor);
    return id;
  }
  const Value* input(const Draft& node, size_t i) const {
    return i < node.inputs.size() && node.inputs[i] != kNone ? &graph.values[node.inputs[i]] : nullptr;
  }
};

// Attributes that became inputs: the most common difference of all, and plain data.

enum class As : uint8_t {
  ints,        // a list of integers -> int64 [n]
  one_int,     // an integer -> int64 [1]
  scalar,      // a float -> rank 0, of input 0's dtype
  scalar_f32,  // a float -> rank 0 float32
  floats,      // a list of floats -> float32 [n]
};

struct Move {
  std::string_view op;
  int before;  // opsets below this one have the attribute
  std::string_view attribute;
  uint8_t input;
  As as;
};

constexpr Move kMoves[] = {
    {"Clip", 11, "min", 1, As::scalar},
    {"Clip", 11, "max", 2, As::scalar},
    {"Dropout", 12, "ratio", 1, As::scalar_f32},
    {"Pad", 11, "pads", 1, As::ints},
    {"Pad", 11, "value", 2, As::scalar},
    {"ReduceL1", 18, "axes", 1, As::ints},
    {"ReduceL2", 18, "axes", 1, As::ints},
    {"ReduceLogSum", 18, "axes", 1, As::ints},
    {"ReduceLogSumExp", 18, "axes", 1, As::ints},
    {"ReduceMax", 18, "axes", 1, As::ints},
    {"ReduceMean", 18, "axes", 1, As::ints},
    {"ReduceMin", 18, "axes", 1, As::ints},
    {"ReduceProd", 18, "axes", 1, As::ints},
    {"ReduceSum", 13, "axes", 1, As::ints},
    {"ReduceSumSquare", 18, "axes", 1, As::ints},
    {"Slice", 10, "starts", 1, As::ints},
    {"Slice", 10, "ends", 2, As::ints},
    {"Slice", 10, "axes", 3, As::ints},
    {"Split", 13, "split", 1, As::ints},
    {"Squeeze", 13, "axes", 1, As::ints},
    {"TopK", 10, "k", 1, As::one_int},
    {"Unsqueeze", 13, "axes", 1, As::ints},
    {"Upsample", 9, "scales", 1, As::floats},
};

Result<Tensor> to_tensor(const Context& ctx, const Draft& node, const AttrValue& value, As as) {
  switch (as) {
    case As::ints:
      return Tensor::of_i64(std::get<std::vector<int64_t>>(value));
    case As::one_int: {
      const int64_t one[] = {std::get<int64_t>(value)};
      return Tensor::of_i64(one);
    }
    case As::floats: {
      const auto& values = std::get<std::vector<float>>(value);
      Tensor tensor = SINTER_TRY(Tensor::alloc(DType::f32, {static_cast<int64_t>(values.size())}));
      std::copy(values.begin(), values.end(), tensor.mutable_data<float>().begin());
      return tensor;
    }
    case As::scalar:
    case As::scalar_f32:
      break;
  }
  const Value* x = ctx.input(node, 0);
  const DType dtype = as == As::scalar && x && size_of(x->dtype) ? x->dtype : DType::f32;
  Tensor tensor = SINTER_TRY(Tensor::alloc(dtype, {}));
  set_f64(tensor, 0, std::get<float>(value));
  return tensor;
}

Result<> move_attributes(Context& ctx, Draft& node) {
  for (const Move& move : kMoves) {
    if (move.op != node.op || ctx.opset >= move.before) continue;
    const AttrValue* value = node.attrs.find(move.attribute);
    if (!value) continue;
    Tensor tensor = SINTER_TRY(to_tensor(ctx, node, *value, move.as));
    if (node.inputs.size() <= move.input) node.inputs.resize(move.input + 1, kNone);
    node.inputs[move.input] = ctx.constant(node, move.attribute, std::move(tensor));
    node.attrs.erase(move.attribute);
  }
  return {};
}

// Everything else is a rule: a function that rewrites the node in place, or appends nodes before it.

Result<> batch_normalization(Context& ctx, Draft& node) {
  if (node.attrs.i("spatial", 1) == 0) {
    return fail(Code::Unsupported, "attribute 'spatial' is 0: statistics per element rather than per channel",
                "export the model with spatial=1 or a newer opset, where that form no longer exists");
  }
  node.attrs.erase("spatial");
  // Before opset 14 further outputs are those of training; import has already dropped the ones that nobody reads.
  for (size_t i = 1; ctx.opset < 14 && i < node.outputs.size(); ++i) {
    if (node.outputs[i] == kNone) continue;
    return fail(Code::Unsupported,
                StrCat("output ", i, " ('", ctx.graph.values[node.outputs[i]].name, "') exists in training only"),
                "export the model for inference");
  }
  if (ctx.opset < 14 && node.outputs.size() > 1) node.outputs.resize(1);
  return {};
}

Result<> cast(Context&, Draft& node) {
  const AttrValue* to = node.attrs.find("to");
  const auto* name = to ? std::get_if<std::string>(to) : nullptr;
  if (!name) return {};
  constexpr std::pair<std::string_view, DType> kNames[] = {
      {"FLOAT", DType::f32},   {"UINT8", DType::u8},   {"INT8", DType::i8},    {"UINT16", DType::u16},
      {"INT16", DType::i16},   {"INT32", DType::i32},  {"INT64", DType::i64},  {"BOOL", DType::boolean},
      {"FLOAT16", DType::f16}, {"DOUBLE", DType::f64}, {"UINT32", DType::u32}, {"UINT64", DType::u64},
  };
  for (const auto& [text, dtype] : kNames) {
    if (*name != text) continue;
    node.attrs.set("to", static_cast<int64_t>(dtype));
    return {};
  }
  return fail(Code::Unsupported, StrCat("Cast to '", *name, "'"));
}

/// Before opset 13, Softmax and its like work on the input seen as a matrix: [product of dims before axis, the rest].
Result<> softmax(Context& ctx, Draft& node) {
  const Value* x = ctx.input(node, 0);
  const int64_t axis = node.attrs.i("axis", 1);
  if (!x || node.outputs.size() != 1 || node.outputs[0] == kNone) return {};  // the arity check will name what is wrong
  if (!x->shape) {
    return fail(Code::Unsupported, StrCat(node.op, " of opset ", ctx.opset, " on a tensor of unknown rank"),
                "export the model with opset 13 or newer");
  }
  const Shape shape = *x->shape;
  const DType dtype = x->dtype;
  const auto folded = fold_axis(axis, shape.rank());
  if (!folded)
    return fail(Code::InvalidModel, StrCat("axis ", axis, " is outside the rank of its input ", to_string(shape)));
  const bool rest_is_one = std::all_of(shape.begin() + *folded + 1, shape.end(), [](int64_t dim) { return dim == 1; });
  if (rest_is_one) {
    node.attrs.set("axis", static_cast<int64_t>(*folded));
    return {};
  }
  const auto value = [&](std::string_view what, DType type, Shape dims) {
    return ctx.graph.add_value(ctx.graph.fresh_name(StrCat(node.name, "_", what)), type, dims);
  };
  const ValueId input = node.inputs[0], output = node.outputs[0];
  const Shape matrix = {kUnknownDim, kUnknownDim};
  const ValueId flat = value("flat", dtype, matrix);
  const ValueId result = value("matrix", dtype, matrix);
  const ValueId dims = value("shape", DType::i64, {static_cast<int64_t>(shape.rank())});
  Attrs flatten;
  flatten.set("axis", static_cast<int64_t>(*folded));
  ctx.out.push_back({StrCat(node.name, "/flatten"), "Flatten", "", flatten, {input}, {flat}});
  node.attrs.set("axis", int64_t{1});
  ctx.out.push_back({node.name, node.op, "", node.attrs, {flat}, {result}});
  ctx.out.push_back({StrCat(node.name, "/shape"), "Shape", "", {}, {input}, {dims}});
  node = {StrCat(node.name, "/reshape"), "Reshape", "", {}, {result, dims}, {output}};
  return {};
}

Result<> split(Context& ctx, Draft& node) {
  if (!ctx.input(node, 1) && !node.attrs.has("num_outputs")) {
    node.attrs.set("num_outputs", static_cast<int64_t>(node.outputs.size()));
  }
  return {};
}

/// Upsample and Resize of opset 10 place output i at input i / scale, and take the element below.
void as_old_resize(Context& ctx, Draft& node) {
  node.op = "Resize";
  const ValueId scales = node.inputs.size() > 1 ? node.inputs[1] : kNone;
  // Where nearest shrinks, opset 10 takes the element above instead.
  bool shrinks = false;
  if (scales != kNone && ctx.graph.values[scales].constant) {
    if (const auto values = ctx.graph.values[scales].constant.aligned()) {
      for (size_t i = 0; i < values->numel(); ++i) shrinks |= get_f64(*values, i) < 1;
    }
  }
  node.inputs = {node.inputs.empty() ? kNone : node.inputs[0], kNone, scales};
  node.attrs.set("coordinate_transformation_mode", std::string("asymmetric"));
  node.attrs.set("nearest_mode", std::string(shrinks ? "ceil" : "floor"));
}

Result<> resize10(Context& ctx, Draft& node) {
  as_old_resize(ctx, node);
  return {};
}

Result<> upsample(Context& ctx, Draft& node) {
  if (node.attrs.s("mode", "nearest") == "bilinear") node.attrs.set("mode", std::string("linear"));
  as_old_resize(ctx, node);
  return {};
}

Result<> scatter(Context&, Draft& node) {
  node.op = "ScatterElements";
  return {};
}

Result<> roi_align(Context&, Draft& node) {
  if (!node.attrs.has("coordinate_transformation_mode")) {
    node.attrs.set("coordinate_transformation_mode", std::string("output_half_pixel"));
  }
  return {};
}

Result<> grid_sample(Context&, Draft& node) {
  const std::string_view mode = node.attrs.s("mode", "bilinear");
  if (mode == "bilinear") node.attrs.set("mode", std::string("linear"));
  if (mode == "bicubic") node.attrs.set("mode", std::string("cubic"));
  return {};
}

struct Rule {
  std::string_view op;
  int before;
  Result<> (*apply)(Context&, Draft&);
};

constexpr int kAlways = 1 << 20;
constexpr Rule kRules[] = {
    {"BatchNormalization", kAlways, batch_normalization},
    {"Cast", 9, cast},
    {"GridSample", 20, grid_sample},
    {"Hardmax", 13, softmax},
    {"LogSoftmax", 13, softmax},
    {"Resize", 11, resize10},
    {"RoiAlign", 16, roi_align},
    {"Scatter", kAlways, scatter},
    {"Softmax", 13, softmax},
    {"Split", 18, split},
    {"Upsample", kAlways, upsample},
};

}  // namespace

Result<> upgrade(Graph& graph, Draft draft, int64_t opset, std::vector<Draft>& out) {
  Context ctx{graph, opset, out};
  if (draft.domain.empty()) {
    SINTER_CHECK_OK(move_attributes(ctx, draft));
    for (const Rule& rule : kRules) {
      if (rule.op != draft.op || opset >= rule.before) continue;
      SINTER_CHECK_OK(rule.apply(ctx, draft));
      break;
    }
  }
  out.push_back(std::move(draft));
  return {};
}

}  // namespace sinter::onnx
