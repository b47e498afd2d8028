// SPDX-License-Identifier: Apache-2.0
#include "engine/ops/product.h"

#include "engine/ops/epilogue.h"
#include "engine/ops/walk.h"

namespace sinter::ops {

namespace {

template <class T>
void multiply(const Product& p, std::span<const T> a, std::span<const T> b, auto&& store) {
  const Shape strides[] = {p.a.batch, p.b.batch};
  const StridedLoop loop = merge_axes(p.batch, strides);
  Walk walk(loop);
  size_t at = 0;
  for (int64_t z = 0; z < p.batch.numel(); ++z, walk.next()) {
    for (int64_t m = 0; m < p.m; ++m) {
      for (int64_t n = 0; n < p.n; ++n) {
        const T* x = a.data() + walk.offset(0) + m * p.a.row;
        const T* y = b.data() + walk.offset(1) + n * p.b.column;
        T sum = 0;
        for (int64_t k = 0; k < p.k; ++k) sum += x[k * p.a.column] * y[k * p.b.row];
        store(at++, m, n, sum);
      }
    }
  }
}

}  // namespace

Result<> reference_product(const RefContext& ctx, const Product& p) {
  Tensor& out = ctx.out();
  const Tensor* c = p.has_c && p.beta != 0 ? ctx.inputs[p.c.operand] : nullptr;
  HostEpilogue finish = SINTER_TRY(HostEpilogue::make(ctx));
  const auto scaled = [&](double sum, int64_t m, int64_t n) {
    double value = p.alpha * sum;
    if (c) value += p.beta * get_f64(*c, static_cast<size_t>(m * p.c.row + n * p.c.column));
    return value;
  };
  if (is_float(out.dtype())) {
    const Tensor a = SINTER_TRY(convert(ctx.in(p.a.operand), DType::f64));
    const Tensor b = SINTER_TRY(convert(ctx.in(p.b.operand), DType::f64));
    multiply<double>(p, a.data<double>(), b.data<double>(), [&](size_t at, int64_t m, int64_t n, double sum) {
      set_f64(out, at, finish(scaled(sum, m, n), at));
    });
    return {};
  }
  // Integer products wrap, so they are summed unsigned; alpha and beta are floats even there.
  const Tensor a = SINTER_TRY(convert(ctx.in(p.a.operand), DType::i64));
  const Tensor b = SINTER_TRY(convert(ctx.in(p.b.operand), DType::i64));
  const bool exact = p.alpha == 1 && p.beta == 1;
  multiply<uint64_t>(p, a.data<uint64_t>(), b.data<uint64_t>(), [&](size_t at, int64_t m, int64_t n, uint64_t sum) {
    if (!exact) return set_f64(out, at, scaled(static_cast<double>(static_cast<int64_t>(sum)), m, n));
    if (c) sum += static_cast<uint64_t>(get_i64(*c, static_cast<size_t>(m * p.c.row + n * p.c.column)));
    set_i64(out, at, static_cast<int64_t>(sum));
  });
  return {};
}

}  // namespace sinter::ops
