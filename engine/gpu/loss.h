// SPDX-License-Identifier: Apache-2.0
// One loss of a device ends many operations: they all share its failure.
#pragma once

#include "engine/base/failure.h"
#include "engine/gpu/device.h"

namespace sinter::gpu {

inline Error share_loss(Device& device, Error error) {
  if (error.code != Code::DeviceLost) return error;
  if (device.loss) {
    error.failure = device.loss;
  } else {
    failure_of(error);
    device.loss = error.failure;
  }
  return error;
}

}  // namespace sinter::gpu
