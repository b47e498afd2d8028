// SPDX-License-Identifier: Apache-2.0
// The operators' own cases (OpCase), each planned and run as a model of one node on every backend and compared with the
// operator's reference row.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/async/cancel.h"
#include "engine/async/task.h"
#include "engine/runtime/engine.h"

namespace sinter::diag {

/// Of one operator, or of all, on one backend.
struct CaseNumbers {
  size_t cases = 0;
  size_t passed = 0, failed = 0;
  size_t skipped = 0;      // webgpu: runs on the CPU there
  size_t own_kernels = 0;  // cpu: cases that ran on a fast kernel, not on the reference row
  double worst_abs = 0;    // largest difference from the reference
  double worst = 0;        // the same as a part of what the case tolerates; failed above 1
  std::string worst_case;  // where `worst` was
  double ms = 0;
};

struct OperatorNumbers {
  std::string op;
  CaseNumbers numbers;
};

struct CaseFailure {
  std::string op, name, reason;
};

struct BackendCases {
  plan::Backend backend = plan::Backend::reference;
  CaseNumbers total;
  std::vector<OperatorNumbers> operators;
  std::vector<CaseFailure> failures;
  std::string stopped;  // why not all cases were run
};

struct CasesOptions {
  std::vector<std::string> only;  // names of operators; empty: all
  bool cpu = true;
  bool webgpu = false;  // on the engine's open device
  CancelToken cancel;
};

/// One entry per backend: reference, then those asked for. In a build without cases (SINTER_CASES=0) there are none.
Task<std::vector<BackendCases>> run_cases(std::shared_ptr<Engine> engine, CasesOptions options);

}  // namespace sinter::diag
