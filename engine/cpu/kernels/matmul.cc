// SPDX-License-Identifier: Apache-2.0
// MatMul and Gemm on floats. A constant right operand is packed once, any other in each run.
#include <algorithm>
#include <bit>
#include <cstring>

#include "engine/cpu/kernels/list.h"
#include "engine/cpu/kernels/matrix.h"
#include "engine/tensor/strides.h"

namespace sinter::cpu {
namespace {

size_t align_up(size_t bytes) { return (bytes + 63) / 64 * 64; }

// ---------------------------------------------------------------------------------------------------------------------
// Packed right operands: bytes, which tells them from a tensor as it is.

struct PackOptions {
  float alpha = 1;
  bool transposed = false;
};

int64_t to_arg(PackOptions options) {
  return static_cast<int64_t>(std::bit_cast<uint32_t>(options.alpha)) | int64_t{options.transposed} << 32 |
         static_cast<int64_t>(gemm_kernels().lanes) << 40;
}

PackSource source_of(const float* data, size_t depth, size_t columns, bool transposed) {
  return {data, 1, depth, columns, 0, transposed ? 1 : columns, transposed ? depth : 1};
}

Result<Tensor> pack(const Tensor& weight, int64_t arg) {
  const bool transposed = arg >> 32 & 1;
  const size_t depth = static_cast<size_t>(weight.shape()[transposed ? 1 : 0]);
  const size_t columns = static_cast<size_t>(weight.shape()[transposed ? 0 : 1]);
  const size_t floats = packed_floats(columns, depth);
  Tensor packed =
      SINTER_TRY(Tensor::alloc(DType::u8, {static_cast<int64_t>(floats * sizeof(float))}, "a packed matrix"));
  pack_matrix(source_of(weight.data<float>().data(), depth, columns, transposed),
              std::bit_cast<float>(static_cast<uint32_t>(arg)),
              reinterpret_cast<float*>(packed.mutable_bytes().data()));
  return packed;
}

const Packer kPacker = {"cpu_matrix", &pack};

bool is_packed(const Tensor& tensor) { return tensor.dtype() == DType::u8; }

bool floats(std::span<const TensorInfo> inputs) {
  return std::all_of(inputs.begin(), inputs.end(), [](const TensorInfo& info) {
    return !info.present || (info.dtype == DType::f32 && info.shape->numel() > 0);
  });
}

// Scratch memory taken piece by piece.
class Scratch {
 public:
  explicit Scratch(std::span<std::byte> bytes) : left_(bytes) {}
  float* floats(size_t count) {
    float* at = reinterpret_cast<float*>(left_.data());
    left_ = left_.subspan(align_up(count * sizeof(float)));
    return at;
  }
  std::span<std::byte> rest() const { return left_; }

 private:
  std::span<std::byte> left_;
};

MatrixJob job_of(size_t rows, size_t depth, size_t columns) {
  MatrixJob job;
  job.rows = rows;
  job.columns = columns;
  job.k = depth;
  job.row_floats = depth;
  job.out_stride = columns;
  job.rows_fn = &matrix_rows;
  return job;
}

// ---------------------------------------------------------------------------------------------------------------------
// MatMul

// Vectors are matrices of one row (left) or one column (right); batches broadcast.
struct Product {
  size_t rows, depth, columns;
  Shape batch, a_strides, b_strides;  // of the output's batch axes, in matrices

  size_t batches() const { return static_cast<size_t>(batch.numel()); }
  bool shared_right() const {
    return std::all_of(b_strides.begin(), b_strides.end(), [](int64_t stride) { return stride == 0; });
  }
};

Shape batch_of(const Shape& shape) { return shape.rank() > 2 ? Shape(shape.dims().first(shape.rank() - 2)) : Shape{}; }

// A packed right operand is a plain matrix: it has no batch, and the output tells its columns.
Product product_of(const Shape& a, const Shape* b, const Shape& out) {
  Product p;
  p.depth = static_cast<size_t>(a[a.rank() - 1]);
  p.rows = a.rank() > 1 ? static_cast<size_t>(a[a.rank() - 2]) : 1;
  p.columns = b && b->rank() == 1 ? 1 : static_cast<size_t>(b ? (*b)[b->rank() - 1] : out[out.rank() - 1]);
  const Shape a_batch = batch_of(a), b_batch = b ? batch_of(*b) : Shape{};
  p.batch = *broadcast(a_batch, b_batch);
  p.a_strides = broadcast_strides(a_batch, p.batch);
  p.b_strides = broadcast_strides(b_batch, p.batch);
  // One right matrix for all batches of a dense left operand: the batches are more rows.
  if (p.shared_right() && a_batch == p.batch) {
    p.rows *= p.batches();
    p.batch = p.a_strides = p.b_strides = {};
  }
  return p;
}

bool matmul_accepts(const Node& node, std::span<const TensorInfo> inputs, std::span<const TensorInfo> outputs) {
  return floats(inputs) && inputs[0].shape->rank() > 0 && inputs[1].shape->rank() > 0 &&
         epilogue_accepted(node, inputs, outputs[0]);
}

const Packer* matmul_packer(const Node&, std::span<const TensorInfo> inputs, size_t operand, int64_t* arg) {
  if (operand != 1 || inputs[1].shape->rank() != 2) return nullptr;
  *arg = to_arg({});
  return &kPacker;
}

uint64_t matmul_scratch(const Node&, std::span<const TensorInfo> inputs, std::span<const TensorInfo> outputs,
                        unsigned threads) {
  const Product p = product_of(*inputs[0].shape, &*inputs[1].shape, *outputs[0].shape);
  const bool packed = inputs[1].weight && inputs[1].shape->rank() == 2;
  return (packed ? 0 : align_up(packed_floats(p.columns, p.depth) * sizeof(float))) +
         matrix_scratch(job_of(p.rows, p.depth, p.columns), threads);
}

Result<> matmul_run(const plan::HostArgs& args) {
  const Tensor &a = *args.inputs[0], &b = *args.inputs[1];
  const Product p = product_of(a.shape(), is_packed(b) ? nullptr : &b.shape(), args.outputs[0].shape());
  Scratch scratch(args.scratch);
  float* buffer = is_packed(b) ? nullptr : scratch.floats(packed_floats(p.columns, p.depth));
  const Epilogue epilogue = make_epilogue(args);
  MatrixJob job = job_of(p.rows, p.depth, p.columns);
  job.packed = buffer ? buffer : reinterpret_cast<const float*>(b.bytes().data());
  float* out = args.outputs[0].mutable_data<float>().data();
  const float* held = nullptr;  // the right matrix that lies packed
  for (size_t i = 0; i < p.batches(); ++i) {
    int64_t a_at = 0, b_at = 0, left = static_cast<int64_t>(i);
    for (size_t axis = p.batch.rank(); axis-- > 0;) {
      a_at += left % p.batch[axis] * p.a_strides[axis];
      b_at += left % p.batch[axis] * p.b_strides[axis];
      left /= p.batch[axis];
    }
    if (buffer) {
      const float* right = b.data<float>().data() + static_cast<size_t>(b_at) * p.depth * p.columns;
      if (right != held) pack_matrix(source_of(right, p.depth, p.columns, false), 1, buffer);
      held = right;
    }
    const size_t first = i * p.rows * p.columns;
    const MatrixRows rows{a.data<float>().data() + static_cast<size_t>(a_at) * p.rows * p.depth, p.depth};
    Epilogue part = epilogue;
    part.advance(first);
    job.rows_context = &rows;
    job.out = out + first;
    job.epilogue = &part;
    run_matrix(job, scratch.rest(), args.pool);
  }
  return {};
}

// ---------------------------------------------------------------------------------------------------------------------
// Gemm

struct GemmShape {
  size_t rows, depth, columns;
  bool trans_a, trans_b;
};

GemmShape gemm_shape(const Node& node, const Shape& a, const Shape& out) {
  const bool trans_a = node.attrs.i("transA", 0) != 0;
  return {static_cast<size_t>(out[0]), static_cast<size_t>(a[trans_a ? 0 : 1]), static_cast<size_t>(out[1]), trans_a,
          node.attrs.i("transB", 0) != 0};
}

PackOptions gemm_pack(const Node& node) { return {node.attrs.f("alpha", 1), node.attrs.i("transB", 0) != 0}; }

// C that is one row is the bias; any other C is spread over the output, which the product is then added to.
bool is_row(const Shape& c, size_t columns) {
  return static_cast<size_t>(c.numel()) == columns && c.rank() > 0 && static_cast<size_t>(c[c.rank() - 1]) == columns;
}

// Null where C is absent or weighs nothing: then its NaN does not count either.
const Tensor* addend(const plan::HostArgs& args) {
  const bool used = own_inputs(args.node) > 2 && args.node.attrs.f("beta", 1) != 0;
  return used ? args.inputs[2] : nullptr;
}

bool gemm_accepts(const Node& node, std::span<const TensorInfo> inputs, std::span<const TensorInfo> outputs) {
  return floats(inputs) && inputs[0].shape->rank() == 2 && inputs[1].shape->rank() == 2 &&
         epilogue_accepted(node, inputs, outputs[0]);
}

const Packer* gemm_packer(const Node& node, std::span<const TensorInfo>, size_t operand, int64_t* arg) {
  if (operand != 1) return nullptr;
  *arg = to_arg(gemm_pack(node));
  return &kPacker;
}

uint64_t gemm_scratch(const Node& node, std::span<const TensorInfo> inputs, std::span<const TensorInfo> outputs,
                      unsigned threads) {
  const GemmShape g = gemm_shape(node, *inputs[0].shape, *outputs[0].shape);
  uint64_t bytes = matrix_scratch(job_of(g.rows, g.depth, g.columns), threads);
  if (g.trans_a) bytes += align_up(g.rows * g.depth * sizeof(float));
  if (!inputs[1].weight) bytes += align_up(packed_floats(g.columns, g.depth) * sizeof(float));
  return bytes + align_up(g.columns * sizeof(float));
}

void transpose(const float* in, size_t rows, size_t columns, float* out) {
  for (size_t r = 0; r < rows; ++r) {
    for (size_t c = 0; c < columns; ++c) out[c * rows + r] = in[r * columns + c];
  }
}

// out = beta * C (broadcast) + what the epilogue adds.
void spread(const Tensor& c, float beta, const float* add, const GemmShape& g, float* out) {
  const Shape strides = broadcast_strides(c.shape(), {static_cast<int64_t>(g.rows), static_cast<int64_t>(g.columns)});
  for (size_t r = 0; r < g.rows; ++r) {
    const float* from = c.data<float>().data() + r * static_cast<size_t>(strides[0]);
    for (size_t i = 0; i < g.columns; ++i) {
      const size_t at = r * g.columns + i;
      out[at] = beta * from[i * static_cast<size_t>(strides[1])] + (add ? add[at] : 0.0f);
    }
  }
}

Result<> gemm_run(const plan::HostArgs& args) {
  const Tensor &a = *args.inputs[0], &b = *args.inputs[1];
  const GemmShape g = gemm_shape(args.node, a.shape(), args.outputs[0].shape());
  const PackOptions options = gemm_pack(args.node);
  Scratch scratch(args.scratch);
  MatrixJob job = job_of(g.rows, g.depth, g.columns);
  MatrixRows rows{a.data<float>().data(), g.depth};
  if (g.trans_a) {
    float* turned = scratch.floats(g.rows * g.depth);
    transpose(rows.data, g.depth, g.rows, turned);
    rows.data = turned;
  }
  if (is_packed(b)) {
    job.packed = reinterpret_cast<const float*>(b.bytes().data());
  } else {
    float* packed = scratch.floats(packed_floats(g.columns, g.depth));
    pack_matrix(source_of(b.data<float>().data(), g.depth, g.columns, g.trans_b), options.alpha, packed);
    job.packed = packed;
  }
  float* bias = scratch.floats(g.columns);
  Epilogue epilogue = make_epilogue(args);
  job.out = args.outputs[0].mutable_data<float>().data();
  if (const Tensor* c = addend(args)) {
    const float beta = args.node.attrs.f("beta", 1);
    if (is_row(c->shape(), g.columns)) {
      std::transform(c->data<float>().begin(), c->data<float>().end(), bias, [beta](float v) { return beta * v; });
      job.bias = bias;
    } else {
      spread(*c, beta, epilogue.add, g, job.out);
      epilogue.add = job.out;
    }
  }
  job.rows_context = &rows;
  job.epilogue = &epilogue;
  run_matrix(job, scratch.rest(), args.pool);
  return {};
}

}  // namespace

const plan::HostKernel kMatMulKernel = {"matmul_f32",   "MatMul",        "",         &matmul_accepts,
                                        &matmul_packer, &matmul_scratch, &matmul_run};
const plan::HostKernel kGemmKernel = {"gemm_f32", "Gemm", "", &gemm_accepts, &gemm_packer, &gemm_scratch, &gemm_run};

}  // namespace sinter::cpu
