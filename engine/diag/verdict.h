// SPDX-License-Identifier: Apache-2.0
// The sentence at the end of a doctor's report.
#pragma once

#include "engine/diag/doctor.h"

namespace sinter::diag {

/// Sets `healthy`, `verdict` and `hint` from everything else in the report; the first thing that is wrong decides.
void judge(DoctorReport& report, const DoctorOptions& options);

}  // namespace sinter::diag
