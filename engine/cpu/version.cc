// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/version.h"

#include "engine/base/str.h"
#include "engine/cpu/kernels/targets.h"
#include "hwy/highway.h"

namespace sinter::cpu {

std::string highway_version() { return StrCat(HWY_MAJOR, ".", HWY_MINOR, ".", HWY_PATCH); }

}  // namespace sinter::cpu
