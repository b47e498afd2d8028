// SPDX-License-Identifier: Apache-2.0
// PipelineCache: the compiled pipelines of one device, by shader text. Pipelines stay until the cache goes, so a second
// load on the same device compiles none; concurrent loads share what is being compiled.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/async/completion.h"
#include "engine/gpu/device.h"

namespace sinter::gpu {

class PipelineCache : public std::enable_shared_from_this<PipelineCache> {
 public:
  explicit PipelineCache(std::shared_ptr<Device> device) : device_(std::move(device)) {}
  ~PipelineCache();
  PipelineCache(const PipelineCache&) = delete;
  PipelineCache& operator=(const PipelineCache&) = delete;

  const std::shared_ptr<Device>& device() const { return device_; }

  /// One pipeline per desc, in order; equal text gives the same one. What is missing starts to compile in the call, all at
  /// once. The task must be run to its end (spawn it): others may wait for what it compiles. What the descs refer to is
  /// kept alive by `owner`.
  Task<std::vector<PipelineId>> get(std::vector<PipelineDesc> descs, std::shared_ptr<const void> owner);

  size_t size() const;                             // pipelines that are ready
  uint64_t compiled() const { return compiled_; }  // compilations started since the cache was made

 private:
  // The pipelines that one call compiles; other calls that need one of them wait here.
  struct Flight {
    std::vector<Completion<>> waiters;
  };
  struct Entry {
    PipelineId id = 0;  // 0 while in flight
    std::shared_ptr<Flight> flight;
  };
  struct Started {
    std::vector<std::string> texts;
    std::shared_ptr<Flight> flight;
    Task<std::vector<PipelineId>> task;
  };

  Started start(const std::vector<PipelineDesc>& descs);
  Result<> finish(Started& started, Result<std::vector<PipelineId>> ids);
  static Task<std::vector<PipelineId>> collect(std::shared_ptr<PipelineCache> self, std::vector<PipelineDesc> descs,
                                               std::shared_ptr<const void> owner, Started started);

  std::shared_ptr<Device> device_;
  std::map<std::string, Entry, std::less<>> entries_;
  std::vector<Error> failed_;  // each way to fail once
  uint64_t compiled_ = 0;
};

}  // namespace sinter::gpu
