// SPDX-License-Identifier: Apache-2.0
// What operator files share: error texts, axis and broadcast inference, the reference loops' helpers, WGSL binding.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/base/str.h"
#include "engine/ops/op_def.h"
#include "engine/wgsl/writer.h"

namespace sinter::ops {

/// "Conv: input 1 (W)": InvalidModel for wrong structure, with the shapes in the text.
std::unexpected<Error> bad(const Node& node, std::string_view text, std::string_view hint = {});
std::unexpected<Error> unsupported(const Node& node, std::string_view text, std::string_view hint = {});

/// output[0] = input[0]'s dtype and shape.
Result<> infer_same(InferContext& ctx);
/// output[0] has the broadcast shape of all inputs and input `dtype_from`'s dtype.
Result<> infer_broadcast(InferContext& ctx, size_t dtype_from = 0);

/// The int64/int32 values of operand i where they are known at inference time.
std::optional<std::vector<int64_t>> known_ints(const InferContext& ctx, size_t i);
/// The values of an integer tensor.
std::vector<int64_t> to_ints(const Tensor& tensor);

/// Binds operand i under `var` with its natural element type (vector width 1, 2 or 4), as weight or activation.
void bind_input(wgsl::Writer& writer, const WgslContext& ctx, std::string_view var, uint32_t i, int width = 1,
                const Packer* packer = nullptr, int64_t packer_arg = 0);
void bind_output(wgsl::Writer& writer, const WgslContext& ctx, std::string_view var, uint32_t i = 0, int width = 1);
wgsl::Storage storage(const WgslContext& ctx, const TensorInfo& info);
/// Finishes the writer and appends the kernel.
Result<> emit(WgslContext& ctx, wgsl::Writer& writer);

}  // namespace sinter::ops
