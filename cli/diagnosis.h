// SPDX-License-Identifier: Apache-2.0
// What compare and bisect share: SPEC parsing, inputs, the injected fault.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/inputs.h"
#include "cli/report.h"
#include "cli/runner.h"
#include "engine/diag/compare.h"

namespace sinter::cli {

struct DiagnosisOptions {
  CommonOptions common;
  std::string model, a, b;
  std::vector<std::string> inputs, dims;
  uint64_t seed = 0;
};

/// MODEL, --input, --dim, --seed and the common flags.
void add_diagnosis(CLI::App& verb, DiagnosisOptions& options);

/// "backend=cpu,fusion=off,off=P+Q"; keys: backend, fusion, off, threads, dtype.
Result<diag::Spec> parse_spec(const std::string& text);

/// A model with its two specs and inputs, ready to be run; the injected fault is on the second.
struct Diagnosis {
  ModelFile file;
  std::unique_ptr<Runner> runner;
  std::shared_ptr<Engine> engine;
  diag::Spec a, b;
  std::vector<NamedTensor> inputs;
};
Result<Diagnosis> start_diagnosis(const DiagnosisOptions& options);

/// What was given, else diag::default_tolerance.
Tolerance tolerance_for(const DiagnosisOptions& options, const Diagnosis& diagnosis);

Json to_json(const diag::Difference& first);
/// Puts both into the document and onto standard error.
void add_remarks(Json& document, const std::string& inert, const std::vector<std::string>& warnings);

/// The spec as flags of other verbs: "--backend cpu --fusion off --inject 'a b=wrong'".
std::string flags_of(const diag::Spec& spec);
/// The argument as a shell takes it.
std::string quoted(const std::string& argument);

}  // namespace sinter::cli
