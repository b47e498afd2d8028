// SPDX-License-Identifier: Apache-2.0
// What a run tells about the time of its steps, where somebody wants to know.
#pragma once

#include "engine/cpu/exec.h"
#include "engine/gpu/exec.h"

namespace sinter {

/// Steps are numbered as in the session's plan. Measuring changes how a device is driven, so such a run is a slow one.
class StepProfile : public cpu::StepObserver, public gpu::StepTimer {
 public:
  virtual ~StepProfile() = default;
};

}  // namespace sinter
