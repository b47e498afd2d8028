// SPDX-License-Identifier: Apache-2.0
#include "engine/passes/passes.h"

namespace sinter::passes {

Result<> eliminate_identity(Rewriter&);
Result<> fold_batchnorm(Rewriter&);
Result<> fuse_elementwise(Rewriter&);
Result<> fuse_epilogue(Rewriter&);
Result<> lower_batchnorm(Rewriter&);
Result<> to_channels_last(Rewriter&);

std::span<const Pass> all_passes() {
  static constexpr Pass kPasses[] = {
      {"eliminate_identity", Kind::simplify, "drop operators that give their input unchanged", &eliminate_identity},
      {"fold_batchnorm", Kind::fusion, "scale the weights of a Conv by the BatchNormalization after it",
       &fold_batchnorm},
      {"lower_batchnorm", Kind::fusion, "turn a lone BatchNormalization into a multiply and an add", &lower_batchnorm},
      {"to_channels_last", Kind::layout, "hold images as [N, H, W, C], with transposes only at the edges",
       &to_channels_last},
      {"fuse_epilogue", Kind::fusion, "apply bias, activation and residual inside the Conv, Gemm or MatMul before them",
       &fuse_epilogue},
      {"fuse_elementwise", Kind::fusion, "merge chains of elementwise operators into one", &fuse_elementwise},
  };
  return kPasses;
}

}  // namespace sinter::passes
