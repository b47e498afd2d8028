// SPDX-License-Identifier: Apache-2.0
// A session's weights: evaluated, packed and converted on request; packed host copies are shared by the session's plans.
#pragma once

#include <map>
#include <memory>
#include <tuple>

#include "engine/plan/plan.h"

namespace sinter {

class Weights final : public plan::WeightSource {
 public:
  explicit Weights(std::shared_ptr<const Graph> graph) : graph_(std::move(graph)) {}

  Result<Tensor> load(const plan::WeightUse& use, const wgsl::Target& device) override;

 private:
  Result<Tensor> packed(const plan::WeightUse& use) const;

  std::shared_ptr<const Graph> graph_;
  std::map<std::tuple<ValueId, const Packer*, int64_t>, Tensor> host_;
};

}  // namespace sinter
