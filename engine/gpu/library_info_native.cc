// SPDX-License-Identifier: Apache-2.0
#include "engine/gpu/library_info_native.h"

#include "engine/gpu/library_native.h"

namespace sinter::gpu {

Result<std::string> webgpu_library_path() {
#if SINTER_HAVE_WEBGPU
  return SINTER_TRY(native::load_api())->path;
#else
  return fail(Code::Gpu, "this build has no WebGPU device");
#endif
}

}  // namespace sinter::gpu
