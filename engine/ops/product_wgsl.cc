// SPDX-License-Identifier: Apache-2.0
// The device kernels of the matrix product. Every kernel accumulates in f32 and ends in `finish`, the node's epilogue.
#include <algorithm>
#include <bit>

#include "engine/ops/epilogue.h"
#include "engine/ops/product.h"
#include "engine/ops/util.h"

namespace sinter::ops {

namespace {

// Replaces each $NAME by its value; longer names first in `values` where one is another's beginning.
std::string fill_in(std::string_view text, std::initializer_list<std::pair<std::string_view, std::string>> values) {
  std::string out(text);
  for (const auto& [name, value] : values) {
    for (size_t at = 0; (at = out.find(name, at)) != std::string::npos; at += value.size()) {
      out.replace(at, name.size(), value);
    }
  }
  return out;
}

class ProductKernel {
 public:
  ProductKernel(WgslContext& ctx, Product product)
      : ctx_(ctx), p_(std::move(product)), writer_("product", ctx.target) {}

  Result<> run(ProductMethod method) {
    if (p_.m == 0 || p_.n == 0 || p_.batch.numel() == 0) return {};
    const wgsl::Storage held = storage(ctx_, ctx_.outputs[0]);
    if (held != wgsl::Storage::f32 && held != wgsl::Storage::f16) {
      return unsupported(ctx_.node, StrCat(name_of(ctx_.outputs[0].dtype), " matrix products run on the host"));
    }
    simplify();
    if (p_.k == 0) return plain();
    if (method == ProductMethod::automatic) method = choose();
    const bool grid_fits = p_.batch.numel() <= ctx_.target.max_groups;
    if (!grid_fits) method = ProductMethod::plain;
    switch (method) {
      case ProductMethod::tiled:
        return tiled();
      case ProductMethod::rows:
        return rows();
      case ProductMethod::columns:
        return columns();
      default:
        return plain();
    }
  }

 private:
  // Batches that share b are more rows; one column is one row of the transposed product.
  void simplify() {
    const Shape none = Shape::filled(p_.batch.rank(), 0);
    Shape dense = row_major_strides(p_.batch);
    for (size_t i = 0; i < dense.rank(); ++i) dense[i] = p_.batch[i] == 1 ? p_.a.batch[i] : dense[i] * p_.m * p_.k;
    if (p_.b.batch == none && p_.a.batch == dense && p_.a.column == 1 && p_.a.row == p_.k && !p_.has_c) {
      p_.m *= p_.batch.numel();
      p_.batch = p_.a.batch = p_.b.batch = {};
    }
    if (p_.n == 1 && p_.m > 1) {
      std::swap(p_.m, p_.n);
      std::swap(p_.a, p_.b);
      std::swap(p_.a.row, p_.a.column);
      std::swap(p_.b.row, p_.b.column);
      std::swap(p_.c.row, p_.c.column);
    }
    if (p_.m == 1) p_.a.row = 0;
  }

  ProductMethod choose() const {
    constexpr int64_t kFewRows = 8, kLongSum = 32;
    if (ctx_.target.max_invocations < 64 || ctx_.target.force_plain) return ProductMethod::plain;
    if (p_.m <= kFewRows) {
      if (p_.k < kLongSum) return ProductMethod::plain;
      if (p_.a.column == 1 && p_.b.row == 1) return ProductMethod::rows;
      return p_.b.column == 1 ? ProductMethod::columns : ProductMethod::plain;
    }
    return p_.n > kFewRows ? ProductMethod::tiled : ProductMethod::plain;
  }

  bool batched() const { return p_.batch.numel() > 1; }

  // Whether vectors of 4 fit a matrix whose contiguous axis has `extent` elements: every other stride keeps alignment.
  bool aligned(const Matrix& matrix, int64_t extent, int64_t other) const {
    if (extent % 4 != 0 || other % 4 != 0) return false;
    return std::all_of(matrix.batch.begin(), matrix.batch.end(), [](int64_t stride) { return stride % 4 == 0; });
  }

  // A value that is both operands, or an operand and the epilogue's, is bound once, so its vectors must agree. Weights
  // are read-only and may be bound twice.
  bool clash(int a_width, int b_width, int y_width) const {
    const auto& inputs = ctx_.node.inputs;
    const auto same = [&](size_t i, size_t j) {
      return i < inputs.size() && j < inputs.size() && inputs[i] == inputs[j] && inputs[i] != kNone;
    };
    const int widths[] = {a_width, b_width, 1};
    const uint32_t operands[] = {p_.a.operand, p_.b.operand, p_.c.operand};
    for (size_t i = 0; i < (p_.has_c ? 3u : 2u); ++i) {
      for (size_t j = 0; j < i; ++j) {
        if (same(operands[i], operands[j]) && widths[i] != widths[j]) return true;
      }
      for (size_t e = ctx_.node.epilogue_first; !ctx_.node.expr.empty() && e < inputs.size(); ++e) {
        if (same(operands[i], e) && widths[i] != y_width) return true;
      }
    }
    return false;
  }

  // Binds the operands as a, b, c and the result as y, and declares `finish` and `scaled`.
  void bind(int a_width, int b_width, int y_width) {
    std::vector<std::string_view> by_operand(3);
    const auto bind_matrix = [&](const Matrix& matrix, std::string_view var, int width, bool needed) -> std::string {
      if (!needed) return "";
      for (size_t i = 0; i < by_operand.size(); ++i) {
        if (!by_operand[i].empty() && ctx_.node.inputs[i] == ctx_.node.inputs[matrix.operand])
          return std::string(by_operand[i]);
      }
      bind_input(writer_, ctx_, var, matrix.operand, width);
      by_operand[matrix.operand] = var;
      return std::string(var);
    };
    a_ = bind_matrix(p_.a, "a", a_width, p_.k > 0);
    b_ = bind_matrix(p_.b, "b", b_width, p_.k > 0);
    const bool with_c = p_.has_c && p_.beta != 0;
    const std::string c = bind_matrix(p_.c, "c", 1, with_c);
    bind_output(writer_, ctx_, "y", 0, y_width);
    const int widths[] = {a_width, b_width, 1};
    const uint32_t operands[] = {p_.a.operand, p_.b.operand, p_.c.operand};
    for (size_t i = 0; i < (with_c ? 3u : 2u); ++i) {
      if (widths[i] != y_width) by_operand[operands[i]] = "";
    }
    declare_finish(writer_, ctx_, y_width, by_operand);

    writer_.u32("m", static_cast<uint32_t>(p_.m));
    writer_.u32("n", static_cast<uint32_t>(p_.n));
    writer_.u32("k", static_cast<uint32_t>(p_.k));
    writer_.u32("a_row", static_cast<uint32_t>(p_.a.row));
    writer_.u32("a_col", static_cast<uint32_t>(p_.a.column));
    writer_.u32("b_row", static_cast<uint32_t>(p_.b.row));
    writer_.u32("b_col", static_cast<uint32_t>(p_.b.column));
    writer_.f32("alpha", p_.alpha);
    if (with_c) {
      writer_.f32("beta", p_.beta);
      writer_.u32("c_row", static_cast<uint32_t>(p_.c.row));
      writer_.u32("c_col", static_cast<uint32_t>(p_.c.column));
    }
    const std::string one =
        with_c ? StrCat("p.alpha * v + p.beta * f32(", c, "[m * p.c_row + n * p.c_col])") : "p.alpha * v";
    writer_.declare(StrCat("fn scaled(v: f32, m: u32, n: u32) -> f32 { return ", one, "; }\n"));
    if (y_width == 4) {
      writer_.declare(
          "fn scaled4(v: vec4<f32>, m: u32, n: u32) -> vec4<f32> {\n  return vec4<f32>(scaled(v.x, m, n), "
          "scaled(v.y, m, n + 1u), scaled(v.z, m, n + 2u), scaled(v.w, m, n + 3u));\n}\n");
    }
    y_type_ = StrCat(y_width == 4 ? "vec4<" : "", wgsl::element_type(storage(ctx_, ctx_.outputs[0])),
                     y_width == 4 ? ">" : "");
  }

  // Emits a_at and b_at, the offsets of batch `index` in elements.
  void batch_offsets(std::string_view index) {
    if (!batched()) {
      writer_.body("  let a_at = 0u;\n  let b_at = 0u;\n");
      return;
    }
    const Shape strides[] = {p_.a.batch, p_.b.batch};
    writer_.offsets(index, merge_axes(p_.batch, strides), {"a_at", "b_at"});
  }

  Result<> plain() {
    bind(1, 1, 1);
    writer_.linear(static_cast<uint64_t>(p_.m * p_.n * p_.batch.numel()));
    writer_.body("  let n = i % p.n;\n  let m = i / p.n % p.m;\n");
    if (p_.k > 0) {
      batch_offsets("(i / (p.n * p.m))");
      writer_.body(fill_in(R"(  var v = 0.0;
  var at_a = a_at + m * p.a_row;
  var at_b = b_at + n * p.b_col;
  for (var k = 0u; k < p.k; k++) {
    v += f32($a[at_a]) * f32($b[at_b]);
    at_a += p.a_col;
    at_b += p.b_row;
  }
)",
                           {{"$a", a_}, {"$b", b_}}));
    } else {
      writer_.body("  let v = 0.0;\n");
    }
    writer_.body(StrCat("  y[i] = ", y_type_, "(finish(scaled(v, m, n), i));\n"));
    return emit(ctx_, writer_);
  }

  // One store of four neighbouring columns.
  std::string store(std::string_view value, int y_width) const {
    if (y_width == 4) {
      return StrCat("      let at = ((z * p.m + m) * p.n + n) / 4u;\n      y[at] = ", y_type_, "(finish(scaled4(",
                    value, ", m, n), at));\n");
    }
    std::string text = StrCat("      let at = (z * p.m + m) * p.n + n;\n");
    for (size_t lane = 0; lane < 4; ++lane) {
      text += StrCat("      if (n + ", lane, "u < p.n) { y[at + ", lane, "u] = ", y_type_, "(finish(scaled(", value,
                     "[", lane, "], m, n + ", lane, "u), at + ", lane, "u)); }\n");
    }
    return text;
  }

  Result<> tiled() {
    const bool a_along_k = p_.a.column == 1 && aligned(p_.a, p_.k, p_.a.row);
    const bool a_along_m = !a_along_k && p_.a.row == 1 && aligned(p_.a, p_.m, p_.a.column);
    const bool b_along_n = p_.b.column == 1 && aligned(p_.b, p_.n, p_.b.row);
    const bool b_along_k = !b_along_n && p_.b.row == 1 && aligned(p_.b, p_.k, p_.b.column);
    const int a_width = a_along_k || a_along_m ? 4 : 1, b_width = b_along_n || b_along_k ? 4 : 1;
    const int y_width = p_.n % 4 == 0 ? 4 : 1;
    if (clash(a_width, b_width, y_width)) return plain();

    // 64x64 results a workgroup where that still gives enough workgroups to fill a device, else 32x32.
    const auto groups = [&](int64_t tile) {
      return std::array<uint32_t, 3>{static_cast<uint32_t>((p_.n + tile - 1) / tile),
                                     static_cast<uint32_t>((p_.m + tile - 1) / tile),
                                     static_cast<uint32_t>(p_.batch.numel())};
    };
    const auto large = groups(64);
    constexpr uint64_t kEnough = 128;
    const bool fits = ctx_.target.max_invocations >= 256 && ctx_.target.max_workgroup_bytes >= 8192;
    const uint32_t side = fits && uint64_t{large[0]} * large[1] * large[2] >= kEnough ? 16 : 8;
    const auto grid = groups(side * 4);
    if (*std::max_element(grid.begin(), grid.end()) > ctx_.target.max_groups) return plain();
    bind(a_width, b_width, y_width);
    writer_.grid(grid, {side, side, 1});

    const std::initializer_list<std::pair<std::string_view, std::string>> names = {
        {"$tile", StrCat(side * 4, "u")},
        {"$quads", StrCat(side, "u")},
        {"$threads", StrCat(side * side, "u")},
        {"$a", a_},
        {"$b", b_}};
    writer_.declare(
        fill_in("var<workgroup> tile_a: array<vec4<f32>, $tile * 4u>;\n"
                "var<workgroup> tile_b: array<vec4<f32>, $quads * 16u>;\n",
                names));
    writer_.body("  let z = wid.z;\n");
    batch_offsets("wid.z");
    std::string text = R"(  let m0 = wid.y * $tile;
  let n0 = wid.x * $tile;
  var r0 = vec4<f32>(0.0); var r1 = r0; var r2 = r0; var r3 = r0;
  for (var k0 = 0u; k0 < p.k; k0 += 16u) {
)";
    text += a_along_k ? kLoadAAlongK : a_along_m ? kLoadAAlongM : p_.a.column == 1 ? kLoadAScalarK : kLoadAScalarM;
    text += b_along_n ? kLoadBAlongN : b_along_k ? kLoadBAlongK : p_.b.column == 1 ? kLoadBScalarN : kLoadBScalarK;
    text += R"(    workgroupBarrier();
    for (var q = 0u; q < 4u; q++) {
      let at = q * 4u * $quads + lid.x;
      let b0 = tile_b[at];
      let b1 = tile_b[at + $quads];
      let b2 = tile_b[at + 2u * $quads];
      let b3 = tile_b[at + 3u * $quads];
      let row = lid.y * 16u + q;
)";
    for (size_t r = 0; r < 4; ++r) {
      text += StrCat("      let a", r, " = tile_a[row + ", 4 * r, "u];\n      r", r, " += a", r, ".x * b0 + a", r,
                     ".y * b1 + a", r, ".z * b2 + a", r, ".w * b3;\n");
    }
    text += "    }\n    workgroupBarrier();\n  }\n  let n = n0 + lid.x * 4u;\n";
    for (size_t r = 0; r < 4; ++r) {
      text += StrCat("  {\n    let m = m0 + lid.y * 4u + ", r, "u;\n    if (m < p.m && n < p.n) {\n",
                     store(StrCat("r", r), y_width), "    }\n  }\n");
    }
    writer_.body(fill_in(text, names));
    return emit(ctx_, writer_);
  }

  // tile_a holds four k of one row per element: [m][k / 4]. tile_b holds four columns of one k: [k][n / 4].
  static constexpr std::string_view kLoadAAlongK = R"(    for (var s = lindex; s < $tile * 4u; s += $threads) {
      let m = m0 + s / 4u;
      let k = k0 + s % 4u * 4u;
      var v = vec4<f32>(0.0);
      if (m < p.m && k < p.k) { v = vec4<f32>($a[(a_at + m * p.a_row + k) / 4u]); }
      tile_a[s] = v;
    }
)";
  static constexpr std::string_view kLoadAAlongM = R"(    for (var s = lindex; s < $tile; s += $threads) {
      let m = m0 + s % $quads * 4u;
      let k = k0 + s / $quads * 4u;
      var v = mat4x4<f32>();
      if (m < p.m) {
        let at = (a_at + k * p.a_col + m) / 4u;
        let step = p.a_col / 4u;
        if (k < p.k) { v[0] = vec4<f32>($a[at]); }
        if (k + 1u < p.k) { v[1] = vec4<f32>($a[at + step]); }
        if (k + 2u < p.k) { v[2] = vec4<f32>($a[at + 2u * step]); }
        if (k + 3u < p.k) { v[3] = vec4<f32>($a[at + 3u * step]); }
      }
      let t = transpose(v);
      let to = s % $quads * 16u + s / $quads;
      tile_a[to] = t[0];
      tile_a[to + 4u] = t[1];
      tile_a[to + 8u] = t[2];
      tile_a[to + 12u] = t[3];
    }
)";
  static constexpr std::string_view kScalarA = R"(      var v = vec4<f32>(0.0);
      if (m < p.m) {
        let at = a_at + m * p.a_row + k * p.a_col;
        if (k < p.k) { v.x = f32($a[at]); }
        if (k + 1u < p.k) { v.y = f32($a[at + p.a_col]); }
        if (k + 2u < p.k) { v.z = f32($a[at + 2u * p.a_col]); }
        if (k + 3u < p.k) { v.w = f32($a[at + 3u * p.a_col]); }
      }
)";
  static constexpr std::string_view kScalarB = R"(      var v = vec4<f32>(0.0);
      if (k < p.k) {
        let at = b_at + k * p.b_row + n * p.b_col;
        if (n < p.n) { v.x = f32($b[at]); }
        if (n + 1u < p.n) { v.y = f32($b[at + p.b_col]); }
        if (n + 2u < p.n) { v.z = f32($b[at + 2u * p.b_col]); }
        if (n + 3u < p.n) { v.w = f32($b[at + 3u * p.b_col]); }
      }
)";
  static inline const std::string kLoadAScalarK = StrCat(
      "    for (var s = lindex; s < $tile * 4u; s += $threads) {\n      let m = m0 + s / 4u;\n      let k = k0 + s % "
      "4u * "
      "4u;\n",
      kScalarA, "      tile_a[s] = v;\n    }\n");
  static inline const std::string kLoadAScalarM = StrCat(
      "    for (var s = lindex; s < $tile * 4u; s += $threads) {\n      let m = m0 + s % $tile;\n      let k = k0 + s "
      "/ "
      "$tile * 4u;\n",
      kScalarA, "      tile_a[s % $tile * 4u + s / $tile] = v;\n    }\n");
  static constexpr std::string_view kLoadBAlongN = R"(    for (var s = lindex; s < $quads * 16u; s += $threads) {
      let k = k0 + s / $quads;
      let n = n0 + s % $quads * 4u;
      var v = vec4<f32>(0.0);
      if (k < p.k && n < p.n) { v = vec4<f32>($b[(b_at + k * p.b_row + n) / 4u]); }
      tile_b[s] = v;
    }
)";
  static constexpr std::string_view kLoadBAlongK = R"(    for (var s = lindex; s < $tile; s += $threads) {
      let k = k0 + s % 4u * 4u;
      let n = n0 + s / 4u * 4u;
      var v = mat4x4<f32>();
      if (k < p.k) {
        let at = (b_at + n * p.b_col + k) / 4u;
        let step = p.b_col / 4u;
        if (n < p.n) { v[0] = vec4<f32>($b[at]); }
        if (n + 1u < p.n) { v[1] = vec4<f32>($b[at + step]); }
        if (n + 2u < p.n) { v[2] = vec4<f32>($b[at + 2u * step]); }
        if (n + 3u < p.n) { v[3] = vec4<f32>($b[at + 3u * step]); }
      }
      let t = transpose(v);
      let to = s % 4u * 4u * $quads + s / 4u;
      tile_b[to] = t[0];
      tile_b[to + $quads] = t[1];
      tile_b[to + 2u * $quads] = t[2];
      tile_b[to + 3u * $quads] = t[3];
    }
)";
  static inline const std::string kLoadBScalarN = StrCat(
      "    for (var s = lindex; s < $quads * 16u; s += $threads) {\n      let k = k0 + s / $quads;\n      let n = n0 + "
      "s % "
      "$quads * 4u;\n",
      kScalarB, "      tile_b[s] = v;\n    }\n");
  static inline const std::string kLoadBScalarK = StrCat(
      "    for (var s = lindex; s < $quads * 16u; s += $threads) {\n      let k = k0 + s % 16u;\n      let n = n0 + s "
      "/ 16u "
      "* 4u;\n",
      kScalarB, "      tile_b[s % 16u * $quads + s / 16u] = v;\n    }\n");

  // One workgroup per column and block of up to four rows; its threads split k and add up in a tree.
  Result<> rows() {
    const int width = aligned(p_.a, p_.k, p_.a.row) && aligned(p_.b, p_.k, p_.b.column) ? 4 : 1;
    if (clash(width, width, 1)) return plain();
    bind(width, width, 1);
    const uint32_t block = static_cast<uint32_t>(std::min<int64_t>(p_.m, 4));
    const uint32_t blocks = static_cast<uint32_t>((p_.m + block - 1) / block);
    writer_.declare("var<workgroup> part: array<f32, 64>;\n");
    writer_.groups(static_cast<uint64_t>(p_.n) * blocks, 64, static_cast<uint32_t>(p_.batch.numel()));
    writer_.body("  let z = wid.z;\n");
    batch_offsets("wid.z");
    std::string text = StrCat("  let n = group % p.n;\n  let m0 = group / p.n * ", block, "u;\n");
    const std::string type = width == 4 ? "vec4<f32>" : "f32";
    for (uint32_t r = 0; r < block; ++r) text += StrCat("  var r", r, " = ", type, "(0.0);\n");
    text += StrCat("  for (var k = lindex; k < p.k / ", width, "u; k += 64u) {\n    let w = ", type, "(", b_,
                   "[(b_at + n * p.b_col) / ", width, "u + k]);\n");
    // Rows past the end repeat the last one: their sums are dropped below.
    for (uint32_t r = 0; r < block; ++r) {
      text += StrCat("    r", r, " += ", type, "(", a_, "[(a_at + min(m0 + ", r, "u, p.m - 1u) * p.a_row) / ", width,
                     "u + k]) * w;\n");
    }
    text += "  }\n";
    for (uint32_t r = 0; r < block; ++r) {
      text += fill_in(R"(  part[lindex] = $sum;
  workgroupBarrier();
  for (var half = 32u; half > 0u; half = half / 2u) {
    if (lindex < half) { part[lindex] += part[lindex + half]; }
    workgroupBarrier();
  }
  if (lindex == 0u && m0 + $ru < p.m) {
    let m = m0 + $ru;
    let at = (z * p.m + m) * p.n + n;
    y[at] = $y(finish(scaled(part[0], m, n), at));
  }
  workgroupBarrier();
)",
                      {{"$sum", width == 4 ? StrCat("dot(r", r, ", vec4<f32>(1.0))") : StrCat("r", r)},
                       {"$r", StrCat(r)},
                       {"$y", y_type_}});
    }
    writer_.body(text);
    return emit(ctx_, writer_);
  }

  // A workgroup of 8 x depth threads for 8 (or 32) columns and up to four rows: b is read along n, k is split over depth.
  Result<> columns() {
    const int width = aligned(p_.b, p_.n, p_.b.row) ? 4 : 1;
    if (clash(1, width, width)) return plain();
    const uint32_t depth = std::bit_floor(std::min<uint32_t>(32, ctx_.target.max_invocations / 8));
    const uint32_t across = 8;
    const uint32_t block = static_cast<uint32_t>(std::min<int64_t>(p_.m, 4));
    const uint32_t blocks = static_cast<uint32_t>((p_.m + block - 1) / block);
    const uint64_t quads = static_cast<uint64_t>((p_.n + across * width - 1) / (across * width));
    if (quads > ctx_.target.max_groups) return plain();
    bind(1, width, width);
    writer_.grid({static_cast<uint32_t>(quads), blocks, static_cast<uint32_t>(p_.batch.numel())}, {across, depth, 1});
    const std::string type = width == 4 ? "vec4<f32>" : "f32";
    writer_.declare(StrCat("var<workgroup> part: array<", type, ", ", across * depth, ">;\n"));
    writer_.body("  let z = wid.z;\n");
    batch_offsets("wid.z");
    std::string text = StrCat("  let n = gid.x * ", width, "u;\n  let m0 = wid.y * ", block, "u;\n");
    for (uint32_t r = 0; r < block; ++r) text += StrCat("  var r", r, " = ", type, "(0.0);\n");
    text += StrCat("  if (n < p.n) {\n    for (var k = lid.y; k < p.k; k += ", depth, "u) {\n      let w = ", type, "(",
                   b_, "[(b_at + k * p.b_row + n) / ", width, "u]);\n");
    for (uint32_t r = 0; r < block; ++r) {
      text +=
          StrCat("      r", r, " += f32(", a_, "[a_at + min(m0 + ", r, "u, p.m - 1u) * p.a_row + k * p.a_col]) * w;\n");
    }
    text += "    }\n  }\n";
    for (uint32_t r = 0; r < block; ++r) {
      text += fill_in(R"(  part[lindex] = r$r;
  workgroupBarrier();
  for (var half = $depthu / 2u; half > 0u; half = half / 2u) {
    if (lid.y < half) { part[lindex] += part[lindex + half * 8u]; }
    workgroupBarrier();
  }
  if (lid.y == 0u && n < p.n && m0 + $ru < p.m) {
    let m = m0 + $ru;
    let at = ((z * p.m + m) * p.n + n) / $wu;
    y[at] = $y(finish($scaled(part[lindex], m, n), at));
  }
  workgroupBarrier();
)",
                      {{"$depth", StrCat(depth)},
                       {"$scaled", width == 4 ? "scaled4" : "scaled"},
                       {"$r", StrCat(r)},
                       {"$w", StrCat(width)},
                       {"$y", y_type_}});
    }
    writer_.body(text);
    return emit(ctx_, writer_);
  }

  WgslContext& ctx_;
  Product p_;
  wgsl::Writer writer_;
  std::string a_, b_, y_type_;
};

}  // namespace

Result<> wgsl_product(WgslContext& ctx, Product product, ProductMethod method) {
  return ProductKernel(ctx, std::move(product)).run(method);
}

}  // namespace sinter::ops
