// SPDX-License-Identifier: Apache-2.0
// Weights outside the model file. The model names them; a resolver gives the bytes and is the only one to touch a disk or a
// network.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/result.h"

namespace sinter::onnx {

struct FileBytes {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;  // keeps `bytes` alive
};

class ExternalData {
 public:
  virtual ~ExternalData() = default;
  /// The whole file called `name`, which `check_external_name` has passed. Called once per tensor: resolvers keep what
  /// they opened.
  virtual Result<FileBytes> open(std::string_view name) = 0;
};

/// A model may name files beside or below itself only: absolute paths, "..", drive letters and the like are InvalidModel.
Result<> check_external_name(std::string_view name);

/// Files given by name beforehand, as a page or a test does.
class ExternalFiles final : public ExternalData {
 public:
  void add(std::string name, FileBytes file) { files_.push_back({std::move(name), std::move(file)}); }
  Result<FileBytes> open(std::string_view name) override;
  /// Those that were never opened.
  std::vector<std::string> unused() const;

 private:
  struct File {
    std::string name;
    FileBytes bytes;
    bool used = false;
  };
  std::vector<File> files_;
};

/// A file mapped into memory (native builds only).
Result<FileBytes> map_file(const std::string& path);

/// Files in `folder` and below; a link that leads out of it is refused (native builds only).
std::unique_ptr<ExternalData> external_data_in(std::string folder);

}  // namespace sinter::onnx
