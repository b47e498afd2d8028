// SPDX-License-Identifier: Apache-2.0
// The two ends that the web device shows to the module's entry points (engine/api).
#pragma once

namespace sinter::gpu {

/// Sends what every open device has gathered to the host. Every entry point calls it before it returns, so the host
/// never runs while a record waits here.
void flush_web_devices();

/// Ends the requests of one batch that have not failed; called by the entry point that the host uses when a batch is done.
void finish_web_batch(unsigned batch);

}  // namespace sinter::gpu
