// SPDX-License-Identifier: Apache-2.0
// What the device kernels of convolutions and pools share: operand checks and weight packers.
#pragma once

#include "engine/ops/op_def.h"
#include "engine/ops/window.h"
#include "engine/wgsl/writer.h"

namespace sinter::ops {

/// Unsupported where an operand has no device form, or is empty although the output is not.
Result<> check_device_operands(const WgslContext& ctx);
/// Unsupported where the window's arithmetic would leave 32 bits.
Result<> check_device_window(const Node& node, const Window& window);

/// The uniforms of a window over two axes: ow oh iw ih kw kh sw sh dw dh left top.
void window_uniforms(wgsl::Writer& writer, const Window& window);

/// [M, C, taps...] to [taps, C, M]: neighbouring filters lie side by side, so that threads which compute them read
/// consecutive words.
extern const Packer kTapsFirst;
/// A vector filled up with zeros to a multiple of 4.
extern const Packer kPadVector;
/// The argument of both: how elements are stored, and whether the filters are filled up to a multiple of 4.
int64_t weight_pack_arg(wgsl::Storage storage, bool pad_filters);

}  // namespace sinter::ops
