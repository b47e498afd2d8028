// SPDX-License-Identifier: Apache-2.0
#include "engine/base/check.h"

#include <cstdlib>

namespace sinter {
namespace {
CheckHandler g_handler = nullptr;
}  // namespace

void set_check_handler(CheckHandler handler) { g_handler = handler; }

void check_failed(const char* condition, const char* file, int line) {
  if (g_handler) g_handler(condition, file, line);
  std::abort();
}

}  // namespace sinter
