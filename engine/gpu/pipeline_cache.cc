// SPDX-License-Identifier: Apache-2.0
#include "engine/gpu/pipeline_cache.h"

#include <algorithm>
#include <utility>

#include "engine/base/failure.h"

namespace sinter::gpu {

PipelineCache::~PipelineCache() {
  for (auto& [text, entry] : entries_) {
    if (entry.id) device_->destroy_pipeline(entry.id);
  }
}

size_t PipelineCache::size() const {
  size_t ready = 0;
  for (auto& [text, entry] : entries_) ready += entry.id != 0;
  return ready;
}

PipelineCache::Started PipelineCache::start(const std::vector<PipelineDesc>& descs) {
  auto flight = std::make_shared<Flight>();
  std::vector<PipelineDesc> missing;
  std::vector<std::string> texts;
  for (const PipelineDesc& desc : descs) {
    if (entries_.contains(desc.wgsl)) continue;
    entries_.emplace(std::string(desc.wgsl), Entry{0, flight});
    texts.emplace_back(desc.wgsl);
    missing.push_back(desc);
  }
  compiled_ += missing.size();
  return {std::move(texts), std::move(flight), device_->create_pipelines(std::move(missing))};
}

Result<> PipelineCache::finish(Started& started, Result<std::vector<PipelineId>> ids) {
  Result<> outcome;
  if (!ids) {
    Error& error = ids.error();
    // Shared by all who wait; and a kernel that fails again in the same way fails of the same cause.
    const auto known = std::ranges::find(failed_, error.message, &Error::message);
    if (known != failed_.end()) {
      error.failure = known->failure;
    } else {
      failure_of(error);
      failed_.push_back(error);
    }
    outcome = std::unexpected(std::move(ids).error());
  }
  for (size_t i = 0; i < started.texts.size(); ++i) {
    if (ids) {
      entries_[started.texts[i]] = {(*ids)[i], nullptr};
    } else {
      entries_.erase(started.texts[i]);  // forgotten, so that a retry works
    }
  }
  for (Completion<>& waiter : started.flight->waiters) waiter.complete(outcome);
  return outcome;
}

Task<std::vector<PipelineId>> PipelineCache::get(std::vector<PipelineDesc> descs, std::shared_ptr<const void> owner) {
  Started started = start(descs);
  return collect(shared_from_this(), std::move(descs), std::move(owner), std::move(started));
}

Task<std::vector<PipelineId>> PipelineCache::collect(std::shared_ptr<PipelineCache> self,
                                                     std::vector<PipelineDesc> descs, std::shared_ptr<const void> owner,
                                                     Started started) {
  while (true) {
    Result<std::vector<PipelineId>> ids = co_await std::move(started.task);
    SINTER_CO_CHECK_OK(self->finish(started, std::move(ids)));
    // What others compile for us. Their failure may be about a kernel that we do not use: then ours is compiled here.
    bool complete = true;
    for (const PipelineDesc& desc : descs) {
      auto found = self->entries_.find(desc.wgsl);
      if (found != self->entries_.end() && found->second.flight) {
        Completion<> waiter;
        found->second.flight->waiters.push_back(waiter);
        Result<> theirs = co_await waiter;
        if (!theirs) complete = false;
      } else if (found == self->entries_.end()) {
        complete = false;
      }
    }
    if (complete) break;
    started = self->start(descs);
  }
  std::vector<PipelineId> result;
  for (const PipelineDesc& desc : descs) result.push_back(self->entries_.find(desc.wgsl)->second.id);
  co_return result;
}

}  // namespace sinter::gpu
