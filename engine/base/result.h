// SPDX-License-Identifier: Apache-2.0
// Result<T>, Error and the ten stable error codes. The engine has no exceptions: every failure travels as a value.
#pragma once

#include <cstdint>
#include <expected>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sinter {

enum class Code : uint8_t {
  InvalidModel,  // the file is not the model it claims to be
  Unsupported,   // a valid request that this engine or device cannot serve; the hint says what would work
  InvalidInput,  // a wrong name, shape, dtype, option or value given by the caller
  Io,            // a file or transfer failed
  OutOfMemory,   // host or device memory; the message names bytes and limit
  Gpu,           // the device or driver refused or failed
  DeviceLost,    // the device went away; the session can be rebuilt
  Timeout,       // no progress for the configured time
  Cancelled,     // the caller's token fired
  Internal,      // a mistake of ours
};

std::string_view code_name(Code code);

struct Failure;  // engine/base/failure.h

struct Error {
  Code code = Code::Internal;
  std::string message;
  std::vector<std::string> chain;    // innermost context first: "importing node 'n12' (Conv)"
  std::string hint;                  // what would work; may be empty
  std::shared_ptr<Failure> failure;  // where it arose; null where nobody has said so
  uint32_t echo_of = 0;              // the failure that caused it and was told of before; 0: none

  Error with_context(std::string context) && {
    chain.push_back(std::move(context));
    return std::move(*this);
  }
};

/// "error[CODE]: message", then one indented line per context and a hint line.
std::string to_string(const Error& error);

template <class T = void>
using Result = std::expected<T, Error>;

[[nodiscard]] std::unexpected<Error> fail(Code code, std::string message, std::string hint = {});

}  // namespace sinter

// Evaluates to the value of a Result or returns its error from the enclosing function.
#define SINTER_TRY(expr)                                                            \
  ({                                                                                \
    auto sinter_result_ = (expr);                                                   \
    if (!sinter_result_) return std::unexpected(std::move(sinter_result_).error()); \
    std::move(*sinter_result_);                                                     \
  })

#define SINTER_CHECK_OK(expr)                                                       \
  do {                                                                              \
    auto sinter_result_ = (expr);                                                   \
    if (!sinter_result_) return std::unexpected(std::move(sinter_result_).error()); \
  } while (0)

// The same inside a coroutine that returns Task<T>.
#define SINTER_CO_TRY(expr)                                                            \
  ({                                                                                   \
    auto sinter_result_ = (expr);                                                      \
    if (!sinter_result_) co_return std::unexpected(std::move(sinter_result_).error()); \
    std::move(*sinter_result_);                                                        \
  })

#define SINTER_CO_CHECK_OK(expr)                                                       \
  do {                                                                                 \
    auto sinter_result_ = (expr);                                                      \
    if (!sinter_result_) co_return std::unexpected(std::move(sinter_result_).error()); \
  } while (0)
