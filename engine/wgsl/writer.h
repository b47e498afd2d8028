// SPDX-License-Identifier: Apache-2.0
// Writer: builds one Kernel. Shapes, strides, bounds and alphas go into the uniform block, not into the text, so that
// kernels which differ only in them share a pipeline.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "engine/tensor/strides.h"
#include "engine/wgsl/kernel.h"

namespace sinter::wgsl {

/// WGSL element type of a storage class: "f32", "f16", "i32", "u32", "vec2<u32>".
std::string_view element_type(Storage storage);

class Writer {
 public:
  Writer(std::string_view kernel_name, const Target& target);

  // Bindings, in order. `type` is the array's element type, e.g. "f32" or "vec4<f32>". Activations live in a read-write
  // arena and weights in read-only buffers, so an input says which it is.
  void input(std::string_view var, uint32_t operand, std::string_view type, bool weight, const Packer* packer = nullptr,
             int64_t packer_arg = 0);
  void output(std::string_view var, uint32_t output, std::string_view type);
  void scratch(std::string_view var, uint32_t index, std::string_view type, bool writes);

  // Uniform fields, read in the text as p.NAME.
  void u32(std::string_view name, uint32_t value);
  void i32(std::string_view name, int32_t value);
  void f32(std::string_view name, float value);

  /// Module-scope text: helper functions, workgroup variables, constants.
  void declare(std::string_view text);
  /// The same for text that several callers may need: added once.
  void declare_once(std::string_view text);
  /// Text of main, in order. Builtins in scope: gid, lid, wid (vec3<u32>), lindex (local index, u32).
  void body(std::string_view text);

  /// One thread per item: emits `let i: u32 = ...` and the bounds check, and sets the grid, folded to two dimensions
  /// where one would exceed the device's limit.
  void linear(uint64_t items, uint32_t group = 64);
  /// One workgroup of `threads` per item: emits `let group: u32 = ...` and the bounds check, and folds the grid likewise.
  /// The z axis is left to the caller: `layers` workgroups deep.
  void groups(uint64_t items, uint32_t threads, uint32_t layers = 1);
  /// A grid of workgroups with an explicit workgroup size; the text checks its own bounds.
  void grid(std::array<uint32_t, 3> groups, std::array<uint32_t, 3> group_size);

  /// Emits `var NAME: u32` per operand of `loop`: its element offset for linear output index `index`. Negative strides
  /// work by wrap-around. The text depends on the merged rank only.
  void offsets(std::string_view index, const StridedLoop& loop, std::initializer_list<std::string_view> names);
  void offsets(std::string_view index, const StridedLoop& loop, std::span<const std::string> names);

  /// `enable f16;` is emitted when a binding's type names f16 or this was called.
  void use_f16() { f16_ = true; }

  /// Refuses (Unsupported) what the device cannot bind or launch: too many storage buffers, uniforms or groups.
  Result<Kernel> finish();

 private:
  void binding(std::string_view var, std::string_view type, Binding binding);
  void uniform(std::string_view name, std::string_view type, uint32_t bits);

  const Target& target_;
  Kernel kernel_;
  std::string fields_, bindings_, declarations_, body_;
  bool f16_ = false;
};

/// Uniform-block name helper: "d" + 3 -> "d3".
std::string indexed(std::string_view base, size_t i);

}  // namespace sinter::wgsl
