// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/str.h"
#include "engine/onnx/external_data.h"

namespace sinter::onnx {
namespace {

std::unexpected<Error> io(std::string_view what, std::string_view path, int error) {
  return fail(Code::Io, StrCat(what, " '", path, "': ", strerror(error)),
              error == ENOENT ? "check the path" : "check the file and its permissions");
}

struct Descriptor {
  int fd = -1;
  ~Descriptor() {
    if (fd >= 0) close(fd);
  }
};

class FolderData final : public ExternalData {
 public:
  explicit FolderData(std::string folder) : folder_(folder.empty() ? "." : std::move(folder)) {}

  Result<FileBytes> open(std::string_view name) override {
    SINTER_CHECK_OK(check_external_name(name));
    for (const auto& [key, file] : opened_) {
      if (key == name) return file;
    }
    const std::string path = StrCat(folder_, "/", name);
    char folder[PATH_MAX], target[PATH_MAX];
    if (!realpath(folder_.c_str(), folder)) return io("cannot open the model's folder", folder_, errno);
    if (!realpath(path.c_str(), target)) return io("cannot open external data", path, errno);
    const std::string_view root(folder), real(target);
    const bool inside = root == "/" || (real.starts_with(root) && real.substr(root.size()).starts_with('/'));
    if (!inside) {
      return fail(Code::InvalidModel,
                  StrCat("external data '", path, "' is a link to '", real, "', outside the model's folder"),
                  "copy the file into the model's folder");
    }
    FileBytes file = SINTER_TRY(map_file(std::string(real)));
    opened_.push_back({std::string(name), file});
    return file;
  }

 private:
  std::string folder_;
  std::vector<std::pair<std::string, FileBytes>> opened_;
};

}  // namespace

Result<FileBytes> map_file(const std::string& path) {
  // Without O_NONBLOCK, opening a pipe would wait for a writer.
  Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.fd < 0) return io("cannot open", path, errno);
  struct stat info{};
  if (fstat(file.fd, &info) != 0) return io("cannot examine", path, errno);
  if (!S_ISREG(info.st_mode)) {
    return fail(Code::Io, StrCat("'", path, "' is ", S_ISDIR(info.st_mode) ? "a folder" : "not a regular file"),
                S_ISDIR(info.st_mode) ? "give the file inside it" : "copy its content to a file");
  }
  const auto size = static_cast<size_t>(info.st_size);
  if (size == 0) return FileBytes{};
  void* memory = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.fd, 0);
  if (memory == MAP_FAILED) return io("cannot map", path, errno);
  std::shared_ptr<const void> owner(memory, [size](const void* p) { munmap(const_cast<void*>(p), size); });
  return FileBytes{{static_cast<const std::byte*>(memory), size}, std::move(owner)};
}

std::unique_ptr<ExternalData> external_data_in(std::string folder) {
  return std::make_unique<FolderData>(std::move(folder));
}

}  // namespace sinter::onnx
