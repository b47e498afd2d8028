// SPDX-License-Identifier: Apache-2.0
// The kernels by name, for kernels.cc and for kernels that build on another one.
#pragma once

#include "engine/plan/target.h"

namespace sinter::cpu {

extern const plan::HostKernel kConvKernel;
extern const plan::HostKernel kDepthwiseKernel;
extern const plan::HostKernel kMapKernel;
extern const plan::HostKernel kMatMulKernel;
extern const plan::HostKernel kGemmKernel;
extern const plan::HostKernel kMaxPoolKernel;
extern const plan::HostKernel kAveragePoolKernel;
extern const plan::HostKernel kGlobalAveragePoolKernel;
extern const plan::HostKernel kSoftmaxKernel;
extern const plan::HostKernel kLogSoftmaxKernel;
extern const plan::HostKernel kTransposeKernel;
extern const plan::HostKernel kBatchNormKernel;
extern const plan::HostKernel kDepthwiseFirstKernel;
extern const plan::HostKernel kConvFirstKernel;
extern const plan::HostKernel kMaxPoolFirstKernel;
extern const plan::HostKernel kAveragePoolFirstKernel;
extern const plan::HostKernel kGlobalAveragePoolFirstKernel;

}  // namespace sinter::cpu
