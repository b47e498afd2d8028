// SPDX-License-Identifier: Apache-2.0
// What the parts of the pooling rows share.
#pragma once

#include "engine/ops/op_def.h"
#include "engine/ops/window.h"

namespace sinter::ops {

enum class PoolKind : uint8_t { max, average, lp };

/// By the operator's name, "MaxPool" or "GlobalMaxPool".
PoolKind pool_kind(const Node& node);

/// Steps in MaxPool's Indices per input position along each axis, by storage_order.
std::array<int64_t, kMaxSpatial> index_strides(const Node& node, const Window& window);

Result<> pool_wgsl(WgslContext& ctx);
void max_pool_cases(std::vector<OpCase>& cases);
void average_pool_cases(std::vector<OpCase>& cases);
void lp_pool_cases(std::vector<OpCase>& cases);

}  // namespace sinter::ops
