// SPDX-License-Identifier: Apache-2.0
// Conv on a device with many outputs: an implicit matrix product, pixels by filters. A workgroup brings 16 channels of its
// pixels and filters into workgroup memory; each thread then adds up 8 pixels by 8 filters in registers.
#include "engine/ops/conv.h"
#include "engine/ops/epilogue.h"
#include "engine/ops/spatial_wgsl.h"
#include "engine/ops/util.h"
#include "engine/wgsl/text.h"

namespace sinter::ops {
namespace {

using wgsl::unroll;
using wgsl::Writer;

constexpr uint32_t kPixels = 8;    // per thread
constexpr uint32_t kFilters4 = 2;  // per thread, in fours
constexpr uint32_t kDepth4 = 4;    // channels per round, in fours

uint32_t u(int64_t value) { return static_cast<uint32_t>(value); }

struct Block {
  uint32_t rows = 0, columns = 0;  // threads along pixels and filters

  uint32_t threads() const { return rows * columns; }
  uint32_t pixels() const { return rows * kPixels; }
  uint32_t filters4() const { return columns * kFilters4; }
  /// One more pixel than there are, so that threads which store the same pixel's channels meet different banks.
  uint32_t pitch() const { return pixels() + 1; }
  uint64_t workgroup_bytes() const { return 16ull * kDepth4 * (pitch() + 4 * filters4()); }
  int64_t count(const ConvGeometry& g) const {
    const int64_t pixels_across = g.batch * g.window.out_points();
    return (pixels_across + pixels() - 1) / pixels() * ((g.filters / 4 + filters4() - 1) / filters4());
  }
  bool fits(const wgsl::Target& target) const {
    return threads() <= target.max_invocations && workgroup_bytes() <= target.max_workgroup_bytes;
  }
};

/// The largest block of which there are enough to keep a large GPU busy.
Block choose_block(const ConvGeometry& g, const wgsl::Target& target) {
  constexpr int64_t kEnough = 192;
  for (const Block block : {Block{16, 16}, Block{8, 16}, Block{16, 8}, Block{8, 8}}) {
    if (block.fits(target) && block.count(g) >= kEnough && g.filters / 4 * 2 >= block.filters4()) return block;
  }
  return {};
}

/// `text` once per load of a thread, with `$` its number and `@` its index among all loads of the round.
std::string loads(uint32_t count, uint32_t threads, std::string_view text) {
  std::string all;
  for (uint32_t load = 0; load < count; ++load) {
    std::string one;
    for (char c : text) {
      if (c == '$') {
        StrAppend(one, load);
      } else if (c == '@') {
        one += StrCat("(lindex + ", load * threads, "u)");
      } else {
        one += c;
      }
    }
    all += one;
  }
  return all;
}

/// Where in the input each of the thread's loads begins; without a window also where it stays.
std::string pixel_positions(const Block& block, bool pointwise) {
  const uint32_t count = block.pixels() * kDepth4 / block.threads();
  if (pointwise) {
    return loads(count, block.threads(), "  let a$ = min(m0 + @ / 4u, p.pixels - 1u) * p.steps + quad;\n");
  }
  return loads(count, block.threads(),
               "  let pixel$ = min(m0 + @ / 4u, p.pixels - 1u);\n  let line$ = pixel$ / p.ow;\n"
               "  let x$ = i32(pixel$ % p.ow * p.sw) - p.left;\n  let y$ = i32(line$ % p.oh * p.sh) - p.top;\n"
               "  let b$ = line$ / p.oh * p.ih;\n");
}

std::string window_positions(const Block& block) {
  // A negative position wraps to a large one, so that one comparison checks both ends.
  return loads(block.pixels() * kDepth4 / block.threads(), block.threads(),
               "  let iy$ = u32(y$ + i32(ky * p.dh));\n  let ix$ = u32(x$ + i32(kx * p.dw));\n"
               "  let in$ = iy$ < p.ih && ix$ < p.iw;\n"
               "  let a$ = select(0u, ((b$ + iy$) * p.iw + ix$) * p.steps, in$) + quad;\n");
}

/// One round: 16 channels of one tap.
std::string round(const Block& block, bool pointwise) {
  const uint32_t threads = block.threads(), across = block.filters4();
  std::string text =
      loads(block.pixels() * kDepth4 / threads, threads,
            StrCat("    { var v = vec4<f32>(0.0);\n      if (c + quad < p.steps", pointwise ? "" : " && in$",
                   ") { v = vec4<f32>(src[a$ + c]); }\n      tile_a[quad * ", block.pitch(), "u + @ / 4u] = v; }\n"));
  text += loads(4 * kDepth4 * across / threads, threads,
                StrCat("    { let row = c * 4u + @ / ", across, "u;\n      let k = k0 + @ % ", across,
                       "u;\n      var v = vec4<f32>(0.0);\n"
                       "      if (row < p.steps * 4u && k < p.k4) { v = vec4<f32>(wt[base + row * p.k4 + k]); }\n"
                       "      tile_b[@] = v; }\n"));
  text += StrCat("    workgroupBarrier();\n    for (var q = 0u; q < ", kDepth4, "u; q += 1u) {\n      let at = q * ",
                 4 * across, "u + lid.x;\n");
  for (uint32_t channel = 0; channel < 4; ++channel) {
    text += StrCat("      let b", channel, " = tile_b[at + ", channel * across, "u];\n      let d", channel,
                   " = tile_b[at + ", channel * across + block.columns, "u];\n");
  }
  text += StrCat("      let first = q * ", block.pitch(), "u + lid.y;\n");
  for (uint32_t pixel = 0; pixel < kPixels; ++pixel) {
    text += StrCat("      let v", pixel, " = tile_a[first + ", pixel * block.rows, "u];\n");
    for (uint32_t channel = 0; channel < 4; ++channel) {
      const std::string value = StrCat("v", pixel, "[", channel, "]");
      text += StrCat("      l", pixel, " += ", value, " * b", channel, ";\n      r", pixel, " += ", value, " * d",
                     channel, ";\n");
    }
  }
  return text + "    }\n    workgroupBarrier();\n";
}

void uniforms(Writer& w, const ConvGeometry& g, bool pointwise) {
  w.u32("k4", u(g.filters / 4));
  w.u32("pixels", u(g.batch * g.window.out_points()));
  w.u32("steps", u(g.channels / 4));
  if (pointwise) return;
  window_uniforms(w, g.window);
}

}  // namespace

bool conv_tiled_fits(const ConvGeometry& g, const wgsl::Target& target) {
  if (target.software || g.group != 1 || g.channels % 16 != 0 || g.filters % 4 != 0) return false;
  const Block block = choose_block(g, target);
  return block.threads() > 0 &&
         g.batch * g.window.out_points() / block.pixels() < static_cast<int64_t>(target.max_groups);
}

Result<> conv_tiled(WgslContext& ctx, const ConvGeometry& g) {
  const Block block = choose_block(g, ctx.target);
  const auto& [depth, height, width] = g.window.axes;
  const bool pointwise = g.window.pointwise() && height.stride == 1 && width.stride == 1;
  Writer w(StrCat(pointwise ? "conv1x1" : "conv", "_tiled", block.pixels(), "x", 4 * block.filters4()), ctx.target);
  const int64_t pack = weight_pack_arg(storage(ctx, ctx.inputs[1]), true);
  bind_input(w, ctx, "src", 0, 4);
  bind_input(w, ctx, "wt", 1, 4, &kTapsFirst, pack);
  if (ctx.has(2)) bind_input(w, ctx, "bias", 2, 4, &kPadVector, pack);
  bind_output(w, ctx, "dst", 0, 4);
  const std::string_view type = wgsl::element_type(storage(ctx, ctx.outputs[0]));
  const std::string_view reusable = "src";
  declare_finish(w, ctx, 4, {&reusable, 1});
  uniforms(w, g, pointwise);

  const int64_t pixels = g.batch * g.window.out_points();
  w.grid({u((g.filters / 4 + block.filters4() - 1) / block.filters4()),
          u((pixels + block.pixels() - 1) / block.pixels()), 1},
         {block.columns, block.rows, 1});
  w.declare(StrCat("var<workgroup> tile_a: array<vec4<f32>, ", kDepth4 * block.pitch(),
                   ">;\nvar<workgroup> tile_b: array<vec4<f32>, ", 4 * kDepth4 * block.filters4(), ">;\n"));
  w.body(StrCat("  let k0 = wid.x * ", block.filters4(), "u;\n  let m0 = wid.y * ", block.pixels(),
                "u;\n  let quad = lindex % 4u;\n  let k = k0 + lid.x;\n"));
  for (uint32_t side = 0; side < kFilters4; ++side) {
    w.body(StrCat("  var start", side, " = vec4<f32>(0.0);\n"));
    if (ctx.has(2)) {
      w.body(StrCat("  if (k + ", side * block.columns, "u < p.k4) { start", side, " = vec4<f32>(bias[k + ",
                    side * block.columns, "u]); }\n"));
    }
  }
  w.body(unroll(kPixels, "  var l$ = start0;\n  var r$ = start1;\n"));
  w.body(pixel_positions(block, pointwise));
  const std::string rounds =
      StrCat("  for (var c = 0u; c < p.steps; c += ", kDepth4, "u) {\n", round(block, pointwise), "  }\n");
  if (pointwise) {
    w.body(StrCat("  let base = 0u;\n", rounds));
  } else {
    w.body(StrCat(
        "  var base = 0u;\n  for (var ky = 0u; ky < p.kh; ky += 1u) {\n  for (var kx = 0u; kx < p.kw; kx += 1u) {\n",
        window_positions(block), rounds, "  base += p.steps * 4u * p.k4;\n  }\n  }\n"));
  }
  for (uint32_t side = 0; side < kFilters4; ++side) {
    w.body(StrCat("  if (k + ", side * block.columns, "u < p.k4) {\n"));
    w.body(unroll(kPixels, StrCat("    { let pixel = m0 + lid.y + $u * ", block.rows,
                                  "u;\n      if (pixel < p.pixels) {\n        let o = pixel * p.k4 + k + ",
                                  side * block.columns, "u;\n        dst[o] = vec4<", type, ">(finish(",
                                  side == 0 ? "l" : "r", "$, o));\n      } }\n")));
    w.body("  }\n");
  }
  return emit(ctx, w);
}

}  // namespace sinter::ops
