// SPDX-License-Identifier: Apache-2.0
#include "engine/base/result.h"

namespace sinter {

std::string_view code_name(Code code) {
  switch (code) {
    case Code::InvalidModel:
      return "InvalidModel";
    case Code::Unsupported:
      return "Unsupported";
    case Code::InvalidInput:
      return "InvalidInput";
    case Code::Io:
      return "Io";
    case Code::OutOfMemory:
      return "OutOfMemory";
    case Code::Gpu:
      return "Gpu";
    case Code::DeviceLost:
      return "DeviceLost";
    case Code::Timeout:
      return "Timeout";
    case Code::Cancelled:
      return "Cancelled";
    case Code::Internal:
      return "Internal";
  }
  return "Internal";
}

std::string to_string(const Error& error) {
  std::string text = "error[";
  text += code_name(error.code);
  text += "]: ";
  text += error.message;
  for (const std::string& context : error.chain) {
    text += "\n  while ";
    text += context;
  }
  if (!error.hint.empty()) {
    text += "\n  hint: ";
    text += error.hint;
  }
  return text;
}

std::unexpected<Error> fail(Code code, std::string message, std::string hint) {
  return std::unexpected(Error{code, std::move(message), {}, std::move(hint)});
}

}  // namespace sinter
