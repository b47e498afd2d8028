// SPDX-License-Identifier: Apache-2.0
// Where the C++ libraries end the program (a failed check of their own, no memory in a plain `new`, a pure virtual call).
// Their own versions print through stdio, which is a quarter of a small module.
#include "engine/base/check.h"

#include <string>

extern "C" [[noreturn]] void abort_message(const char* format, ...) { sinter::check_failed(format, "libc++abi", 0); }

_LIBCPP_BEGIN_NAMESPACE_STD
void __libcpp_verbose_abort(const char* format, ...) { sinter::check_failed(format, "libc++", 0); }
_LIBCPP_END_NAMESPACE_STD
