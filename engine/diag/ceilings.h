// SPDX-License-Identifier: Apache-2.0
// Ceilings: what the hardware at hand can do at most, measured, and how near a step comes to it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/diag/cost.h"
#include "engine/gpu/pipeline_cache.h"
#include "engine/plan/target.h"

namespace sinter::diag {

struct Ceilings {
  struct Bandwidth {
    double bytes = 0;  // working set
    double gb_per_s = 0;
  };
  std::string of;                    // "2 threads of AVX3", "NVIDIA H200"
  double gflop_per_s = 0;            // f32 multiply-adds in registers
  std::vector<Bandwidth> bandwidth;  // of reads, by growing working set
  double dispatch_ms = 0;            // an empty dispatch; 0 on the CPU

  /// Milliseconds that the step would take at these ceilings: the slower of its arithmetic and its traffic, the latter at
  /// the bandwidth of the smallest measured set that holds it.
  double best_ms(const StepCost& cost) const;
};

/// Takes a second or so.
Ceilings cpu_ceilings(plan::ThreadPool& pool);
/// Timestamps where the device has them, otherwise waits for each submit.
Task<Ceilings> device_ceilings(std::shared_ptr<gpu::PipelineCache> pipelines);

}  // namespace sinter::diag
