// SPDX-License-Identifier: Apache-2.0
#include "engine/runtime/weights.h"

#include "engine/base/str.h"

namespace sinter {

Result<Tensor> Weights::packed(const plan::WeightUse& use) const {
  Tensor tensor = use.constant ? use.constant : SINTER_TRY(plan::evaluate_weight(*graph_, use.value));
  if (!use.packer) return tensor;
  auto result = use.packer->pack(tensor, use.packer_arg);
  if (!result) {
    return std::unexpected(std::move(result).error().with_context(
        StrCat("packing weight '", graph_->values[use.value].name, "' as ", use.packer->name)));
  }
  return result;
}

Result<Tensor> Weights::load(const plan::WeightUse& use, const wgsl::Target& device) {
  if (use.on_device) return wgsl::to_device(SINTER_TRY(packed(use)), device);
  if (use.constant) return packed(use);
  const auto key = std::make_tuple(use.value, use.packer, use.packer_arg);
  if (const auto at = host_.find(key); at != host_.end()) return at->second;
  Tensor tensor = SINTER_TRY(packed(use));
  host_.emplace(key, tensor);
  return tensor;
}

}  // namespace sinter
