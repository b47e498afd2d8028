// SPDX-License-Identifier: Apache-2.0
// Epilogue: what operators with accepts_epilogue do to their result before it is stored, on the host and in WGSL.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/ops/op_def.h"
#include "engine/wgsl/writer.h"

namespace sinter::ops {

/// The epilogue of a reference kernel.
class HostEpilogue {
 public:
  /// Internal where an operand does not have the output's shape.
  static Result<HostEpilogue> make(const RefContext& ctx);
  /// The final value of output element `i`, whose plain result is `value`.
  double operator()(double value, size_t i);

 private:
  const Expr* expr_ = nullptr;
  std::vector<const Tensor*> operands_;
  std::vector<double> values_;
};

/// The epilogue of a WGSL kernel: declares `fn finish(v: T, i: u32) -> T` with T = f32 (width 1) or vec4<f32> (width 4),
/// where `i` is the output element's index in units of `width`. Every clamp, relu and identity is the same text, so that
/// kernels which differ in them only share a pipeline. Call it after the operator's own bindings; `bound` names the
/// variables of operands 0, 1, ... already bound with that width ("" for others), because one value must not be bound
/// twice.
void declare_finish(wgsl::Writer& writer, const WgslContext& ctx, int width, std::span<const std::string_view> bound);

}  // namespace sinter::ops
