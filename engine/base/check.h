// SPDX-License-Identifier: Apache-2.0
// SINTER_CHECK is for programmer errors only; no input may ever trigger it.
#pragma once

namespace sinter {

/// Called once with the failed condition; must not return. The default prints to stderr and aborts; the CLI and the web
/// host install their own.
using CheckHandler = void (*)(const char* condition, const char* file, int line);
void set_check_handler(CheckHandler handler);

[[noreturn]] void check_failed(const char* condition, const char* file, int line);

}  // namespace sinter

#define SINTER_CHECK(condition)                                    \
  do {                                                             \
    if (!(condition)) [[unlikely]]                                 \
      ::sinter::check_failed(#condition, __FILE_NAME__, __LINE__); \
  } while (0)
