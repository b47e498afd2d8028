// SPDX-License-Identifier: Apache-2.0
// Tells what a file is that is not an ONNX model: the commonest failure of all is a download that fetched something else.
#include <algorithm>
#include <cstring>

#include "engine/base/str.h"
#include "engine/onnx/parse.h"

namespace sinter::onnx {
namespace {

struct Magic {
  uint8_t at;
  std::string_view bytes;
  std::string_view what;
  std::string_view hint;
};

constexpr std::string_view kUnpack = "unpack it and give the .onnx file inside";
constexpr std::string_view kConvert = "convert or export the model to ONNX";
constexpr std::string_view kSwapped = "give the .onnx file as the model; check the order of the arguments";

using namespace std::string_view_literals;
constexpr Magic kMagics[] = {
    {0, "\x1f\x8b"sv, "a gzip archive", kUnpack},
    {0, "PK\x03\x04"sv, "a zip archive (PyTorch checkpoints are such archives too)",
     "unpack it and give the .onnx file inside, or export the checkpoint to ONNX"},
    {0, "\x28\xb5\x2f\xfd"sv, "a zstd archive", kUnpack},
    {0,
     "\xfd"
     "7zXZ"sv,
     "an xz archive", kUnpack},
    {0, "7z\xbc\xaf"sv, "a 7z archive", kUnpack},
    {0, "BZh"sv, "a bzip2 archive", kUnpack},
    {4, "ORTM"sv, "a model in ONNX Runtime's own ORT format", "give the .onnx file that it was converted from"},
    {4, "TFL3"sv, "a TensorFlow Lite model", kConvert},
    {8, "{\""sv, "a safetensors file: weights without a network", kConvert},
    {0, "\x89HDF"sv, "an HDF5 file (Keras)", kConvert},
    {0, "GGUF"sv, "a GGUF model", kConvert},
    {0, "\x80\x02"sv, "a Python pickle (an old PyTorch checkpoint)", kConvert},
    {0, "\x93NUMPY"sv, "a numpy array", kSwapped},
    {0, "\x89PNG"sv, "a PNG picture", kSwapped},
    {0, "\xff\xd8\xff"sv, "a JPEG picture", kSwapped},
    {0,
     "\x7f"
     "ELF"sv,
     "a program", kSwapped},
    {0, "\0asm"sv, "a WebAssembly module", kSwapped},
};

bool starts_with_folded(std::string_view text, std::string_view lower) {
  return text.size() >= lower.size() && std::equal(lower.begin(), lower.end(), text.begin(), [](char l, char c) {
           return l == (c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c);
         });
}

/// The value of a "key value" line of a Git LFS pointer.
std::string_view lfs_line(std::string_view text, std::string_view key) {
  const size_t at = text.find(key);
  if (at == std::string_view::npos) return {};
  const size_t from = at + key.size();
  return text.substr(from, text.find('\n', from) - from);
}

}  // namespace

Result<> check_is_model(std::span<const std::byte> bytes) {
  if (bytes.empty()) {
    return fail(Code::InvalidModel, "the model file is empty (0 bytes)",
                "the download or export that should have written it did not: run it again");
  }
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), std::min<size_t>(bytes.size(), 512));
  if (text.starts_with("version https://git-lfs")) {
    const std::string_view size = lfs_line(text, "\nsize ");
    return fail(Code::InvalidModel,
                StrCat("this is a Git LFS pointer, not the model itself: ", bytes.size(), " bytes of text",
                       size.empty() ? "" : " that stand for a file of ", size, size.empty() ? "" : " bytes"),
                "run `git lfs pull` in the repository it came from, or download the file's raw content");
  }
  for (const Magic& magic : kMagics) {
    // Formats whose mark comes later begin with a length whose last byte is 0, which keeps a producer's name from being one.
    if (magic.at > 0 && (text.size() <= magic.at || text[magic.at - 1] != 0)) continue;
    if (text.substr(std::min<size_t>(magic.at, text.size())).starts_with(magic.bytes)) {
      return fail(Code::InvalidModel, StrCat("this is ", magic.what, ", not an ONNX model"), std::string(magic.hint));
    }
  }
  const size_t start = text.find_first_not_of(" \t\r\n\xef\xbb\xbf");
  const std::string_view body = start == std::string_view::npos ? std::string_view() : text.substr(start);
  for (const std::string_view tag : {"<!doctype", "<html", "<head", "<?xml", "<!--"}) {
    if (!starts_with_folded(body, tag)) continue;
    return fail(Code::InvalidModel, "this is a web page (HTML or XML), not an ONNX model",
                "the address leads to a page about the file, or to an error page: use the link to the raw file");
  }
  const bool printable = std::all_of(
      text.begin(), text.end(), [](char c) { return (c >= 0x20 && c < 0x7f) || c == '\n' || c == '\r' || c == '\t'; });
  // A model starts with a small number (its IR version), which is no printable character.
  if (printable) {
    return fail(Code::InvalidModel,
                StrCat("this is text, not an ONNX model; it begins with \"",
                       body.substr(0, std::min<size_t>(body.find_first_of("\r\n\""), 40)), "\""),
                "give the binary .onnx file");
  }
  return {};
}

}  // namespace sinter::onnx
