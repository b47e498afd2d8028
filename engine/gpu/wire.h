// SPDX-License-Identifier: Apache-2.0
// The records in which the web device speaks to its host. Device calls are gathered and cross in one call, a block of
// 32-bit words that the host (web/src/gpu.ts) decodes in one loop. A record is [op, words in all, fields...]; 64-bit
// fields are two words, low first; bytes are padded to whole words.
#pragma once

#include <cstdint>

namespace sinter::gpu::wire {

enum Op : uint32_t {
  kCreateBuffer = 1,   // id, use, size(2), label bytes, label...
  kDestroyBuffer = 2,  // id
  kWriteInline = 3,    // id, offset(2), bytes, data...
  kWriteFrom = 4,      // id, offset(2), address, bytes
  kCreatePipelines =
      5,  // request, count, { id, uniform, bindings, mask of writing bindings, label bytes, text bytes, label..., text... }
  kDestroyPipeline = 6,   // id
  kCreateBindGroup = 7,   // id, pipeline, count, { buffer, offset(2), size(2) }
  kDestroyBindGroup = 8,  // id
  kSubmit = 9,            // count, { Command }
  kRead = 10,             // request, buffer, offset(2), address, bytes
  kPushScope = 11,        //
  kPopScope = 12,         // request
  kForget = 13,           // request: nobody waits any more, the address it was given is gone
  kClose = 14,            //
};

/// What the host answers to `open`; fixed fields, then five texts, each ended by a zero byte:
/// vendor, architecture, device, description, backend.
struct OpenReply {
  uint32_t device;
  uint32_t features;  // 1 shader-f16, 2 subgroups, 4 timestamp-query, 8 a software adapter
  uint32_t max_storage_buffers;
  uint32_t max_uniform_bytes;
  uint32_t storage_alignment;
  uint32_t uniform_alignment;
  uint32_t max_groups;
  uint32_t max_invocations;
  uint32_t max_group_size[3];
  uint32_t max_workgroup_bytes;
  double max_binding_bytes;
  double max_buffer_bytes;
};
static_assert(sizeof(OpenReply) == 64);

}  // namespace sinter::gpu::wire
