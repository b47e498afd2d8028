// SPDX-License-Identifier: Apache-2.0
// A model's interface: its description, the check of what a caller gives, and the bindings that follow from it.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/plan/plan.h"
#include "engine/runtime/session.h"

namespace sinter {

std::vector<IoInfo> describe_values(const Graph& graph, std::span<const ValueId> ids);

/// The shapes to prepare for before any input is known: `dims` by symbol name, 1 for the rest. Nothing where an input's
/// rank is unknown. A name that is no symbol of the model is InvalidInput.
Result<std::optional<plan::Bindings>> default_bindings(const Graph& graph,
                                                       std::span<const std::pair<std::string, int64_t>> dims);

/// The given tensors in the model's order, checked by name, dtype, rank and dimensions; symbols must agree.
Result<std::vector<Tensor>> match_inputs(const Graph& graph, std::span<const NamedTensor> given);

plan::Bindings bindings_of(const std::vector<Tensor>& inputs);

bool same_bindings(const plan::Bindings& a, const plan::Bindings& b);

}  // namespace sinter
