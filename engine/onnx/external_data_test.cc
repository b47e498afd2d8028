// SPDX-License-Identifier: Apache-2.0
#include "engine/onnx/external_data.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "engine/onnx/import.h"
#include "engine/onnx/parse.h"
#include "tests/support/onnx_writer.h"

namespace sinter::onnx {
namespace {

using ::testing::HasSubstr;
namespace t = ::sinter::test;

class TempFolder {
 public:
  TempFolder() {
    std::string name = "/tmp/sinter-external-XXXXXX";
    path_ = mkdtemp(name.data());
  }
  ~TempFolder() {
    for (const std::string& file : files_) unlink(file.c_str());
    rmdir(path_.c_str());
  }
  const std::string& path() const { return path_; }
  std::string write(const std::string& name, std::string_view content) {
    std::ofstream(at(name), std::ios::binary) << content;
    return at(name);
  }
  std::string at(const std::string& name) {
    files_.push_back(path_ + "/" + name);
    return files_.back();
  }

 private:
  std::string path_;
  std::vector<std::string> files_;
};

/// A model whose only output is a weight of two floats in another file.
std::string model_with(std::string_view location, std::string_view offset, std::string_view length) {
  t::Message weight;
  weight.varint(1, 2).varint(2, 1).text(8, "w");
  const auto entry = [&](std::string_view key, std::string_view value) {
    if (!value.empty()) weight.message(13, t::Message().text(1, key).text(2, value));
  };
  entry("location", location);
  entry("offset", offset);
  entry("length", length);
  weight.varint(14, 1);
  t::ModelWriter writer;
  writer.initializers = {weight};
  writer.outputs = {t::value_info("w", DType::f32, {int64_t{2}})};
  return writer.bytes();
}

Result<Graph> import_with(const std::string& bytes, ExternalData* external) {
  const t::Blob blob(bytes);
  const Model model = SINTER_TRY(parse(blob.bytes(), blob.text));
  return import(model, {.external_data = external});
}

std::string message_with(const std::string& bytes, ExternalData* external) {
  const auto graph = import_with(bytes, external);
  return graph ? "accepted" : graph.error().message;
}

const std::string kFloats("\0\0\x80\x3f\0\0\0\x40\0\0\x40\x40", 12);  // 1, 2, 3

TEST(ExternalData, IsReadAtItsOffset) {
  TempFolder folder;
  folder.write("weights.bin", kFloats);
  const auto external = external_data_in(folder.path());
  const auto graph = import_with(model_with("weights.bin", "4", "8"), external.get());
  ASSERT_TRUE(graph) << to_string(graph.error());
  const Tensor weight = *graph->values[graph->find_value("w")].constant.aligned();
  EXPECT_EQ(get_f64(weight, 0), 2);
  EXPECT_EQ(get_f64(weight, 1), 3);
}

TEST(ExternalData, GivenByNameWithoutADisk) {
  ExternalFiles files;
  const t::Blob blob(kFloats);
  files.add("weights.bin", {blob.bytes(), blob.text});
  EXPECT_EQ(message_with(model_with("weights.bin", "", ""), &files), "accepted");
  EXPECT_THAT(message_with(model_with("other.bin", "", ""), &files),
              HasSubstr("'other.bin', which was not given; given: weights.bin"));
  EXPECT_THAT(message_with(model_with("weights.bin", "", ""), nullptr), HasSubstr("no files were given"));
}

TEST(ExternalData, MustHoldWhatTheTensorNeeds) {
  ExternalFiles files;
  const t::Blob blob(kFloats);
  files.add("w.bin", {blob.bytes(), blob.text});
  EXPECT_THAT(message_with(model_with("w.bin", "8", ""), &files),
              HasSubstr("truncated at byte 12: initialiser 'w' needs 8 bytes from byte 8"));
  EXPECT_THAT(message_with(model_with("w.bin", "18446744073709551615", ""), &files), HasSubstr("truncated at byte 12"));
  EXPECT_THAT(message_with(model_with("w.bin", "0", "4"), &files),
              HasSubstr("has 4 bytes, but its shape and type need 8"));
  EXPECT_THAT(message_with(model_with("w.bin", "x", ""), &files), HasSubstr("offset is not a number"));
  EXPECT_THAT(message_with(model_with("", "0", ""), &files), HasSubstr("names no file"));
}

TEST(ExternalData, PathsOutsideTheModelsFolderAreRefused) {
  for (const std::string_view name :
       {"../w.bin", "a/../../w.bin", "/etc/passwd", "..\\w.bin", "C:\\w.bin", "file:w.bin", "\\\\host\\w"}) {
    const auto checked = check_external_name(name);
    ASSERT_FALSE(checked) << name;
    EXPECT_EQ(checked.error().code, Code::InvalidModel);
    EXPECT_THAT(checked.error().message, HasSubstr(name));
    TempFolder folder;
    EXPECT_EQ(external_data_in(folder.path())->open(name).error().code, Code::InvalidModel);
  }
  for (const std::string_view name : {"w.bin", "sub/w.bin", "w..bin", "..w", ".hidden"})
    EXPECT_TRUE(check_external_name(name)) << name;
}

TEST(ExternalData, LinksOutOfTheFolderAreRefused) {
  TempFolder outside, folder;
  const std::string secret = outside.write("secret", kFloats);
  ASSERT_EQ(symlink(secret.c_str(), folder.at("link").c_str()), 0);
  const auto opened = external_data_in(folder.path())->open("link");
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Code::InvalidModel);
  EXPECT_THAT(opened.error().message, HasSubstr("outside the model's folder"));

  folder.write("real", kFloats);
  ASSERT_EQ(symlink("real", folder.at("inside").c_str()), 0);
  EXPECT_TRUE(external_data_in(folder.path())->open("inside"));
}

TEST(ExternalData, MissingFilesAndFoldersAreNamed) {
  TempFolder folder;
  const auto missing = external_data_in(folder.path())->open("nowhere.bin");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Code::Io);
  EXPECT_THAT(missing.error().message, HasSubstr("nowhere.bin': No such file"));
  EXPECT_THAT(map_file(folder.path()).error().message, HasSubstr("is a folder"));
  ASSERT_EQ(mkfifo(folder.at("pipe").c_str(), 0600), 0);
  EXPECT_THAT(map_file(folder.path() + "/pipe").error().message, HasSubstr("not a regular file"));
}

}  // namespace
}  // namespace sinter::onnx
