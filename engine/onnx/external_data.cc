// SPDX-License-Identifier: Apache-2.0
#include "engine/onnx/external_data.h"

#include "engine/base/str.h"

namespace sinter::onnx {

Result<> check_external_name(std::string_view name) {
  const auto refuse = [&](std::string_view why) {
    return fail(Code::InvalidModel, StrCat("the model keeps weights in '", name, "', ", why),
                "weights must lie in the model's folder or below it; a model that points elsewhere may be malicious");
  };
  if (name.empty()) return refuse("which is no file name");
  if (name.find('\0') != std::string_view::npos) return refuse("a name with a zero byte in it");
  if (name.front() == '/' || name.front() == '\\') return refuse("an absolute path");
  if (name.find(':') != std::string_view::npos) return refuse("a path with a drive or a protocol");
  for (size_t at = 0; at <= name.size();) {
    const size_t end = std::min(name.find_first_of("/\\", at), name.size());
    if (name.substr(at, end - at) == "..") return refuse("a path that leaves the model's folder");
    at = end + 1;
  }
  return {};
}

Result<FileBytes> ExternalFiles::open(std::string_view name) {
  std::string given;
  for (File& file : files_) {
    if (file.name == name) {
      file.used = true;
      return file.bytes;
    }
    StrAppend(given, given.empty() ? "" : ", "), StrAppend(given, file.name);
  }
  return fail(Code::Io,
              StrCat("the model needs the external data file '", name, "', which was not given",
                     given.empty() ? "" : "; given: ", given),
              "pass the file under exactly this name");
}

std::vector<std::string> ExternalFiles::unused() const {
  std::vector<std::string> names;
  for (const File& file : files_) {
    if (!file.used) names.push_back(file.name);
  }
  return names;
}

}  // namespace sinter::onnx
