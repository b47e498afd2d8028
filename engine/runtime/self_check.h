// SPDX-License-Identifier: Apache-2.0
// The self-test of a device at start: a model of a few nodes (Conv, Clip, ReduceMean, Gemm), whose right values the
// reference rows give. Drivers and browsers exist that compute wrong values without an error; `auto` does not use them.
#pragma once

#include <memory>

#include "engine/async/task.h"
#include "engine/gpu/pipeline_cache.h"

namespace sinter {

/// Gpu, naming the value, where the device computes something else; the device's own error where it fails.
Task<> self_check(std::shared_ptr<gpu::PipelineCache> pipelines);

}  // namespace sinter
