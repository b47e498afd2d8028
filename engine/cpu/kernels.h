// SPDX-License-Identifier: Apache-2.0
// The fast CPU kernels, and the instruction set they run on.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "engine/plan/target.h"

namespace sinter::cpu {

/// For plan::Target::host_kernels: where several accept a node, the first is the best.
std::span<const plan::HostKernel* const> host_kernels();

/// Instruction sets that this build has kernels for and this machine can run, best first: "AVX3" (AVX-512), "AVX2",
/// "SSE4"; "WASM" or "WASM_RELAXED".
std::vector<std::string_view> instruction_sets();
std::string_view instruction_set();
/// Restricts kernels to one of the above; "" lifts it. False where it is not available. Weights must be packed again after
/// a change, so this belongs before the first plan (benchmarks, tests, machines that throttle on wide vectors).
bool force_instruction_set(std::string_view name);

}  // namespace sinter::cpu
