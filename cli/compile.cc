// SPDX-License-Identifier: Apache-2.0
// sinter compile MODEL -o DIR
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>

#include "cli/runner.h"
#include "cli/verbs.h"
#include "engine/base/str.h"
#include "engine/codegen/emit.h"
#include "engine/codegen/signature.h"
#include "engine/onnx/import.h"
#include "engine/onnx/parse.h"

namespace sinter::cli {
namespace {

struct Options {
  std::string model, folder, name;
  bool embed = false;
  bool json = false;
};

std::string hex(uint64_t value) {
  char text[20];
  std::snprintf(text, sizeof text, "0x%016llx", static_cast<unsigned long long>(value));
  return text;
}

std::string check_name(const std::string& name) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  const auto in_name = [&](char c) { return letter(c) || (c >= '0' && c <= '9'); };
  const bool keyword = codegen::identifier(name) == name + "_";
  if (!name.empty() && letter(name[0]) && std::all_of(name.begin(), name.end(), in_name) && !keyword) return {};
  return StrCat("'", name, "' cannot name a C++ namespace; ", codegen::identifier(name), " could");
}

Json fields(const std::vector<codegen::Emitted::Field>& list) {
  Json out = Json::array();
  for (const auto& field : list) out.push_back({{"name", field.name}, {"field", field.field}});
  return out;
}

/// All files or none: each is written beside its place and put there once all of them are complete.
class Writer {
 public:
  explicit Writer(std::filesystem::path folder) : folder_(std::move(folder)) {}
  Writer(const Writer&) = delete;
  ~Writer() {
    std::error_code ignored;
    for (const auto& [part, path] : parts_) std::filesystem::remove(part, ignored);
    if (made_folder_) std::filesystem::remove(folder_, ignored);  // only where it is empty
  }

  Result<> open() {
    std::error_code error;
    made_folder_ = std::filesystem::create_directories(folder_, error);
    if (!error) return {};
    return fail(Code::Io, StrCat("cannot make the folder '", folder_.string(), "': ", error.message()),
                "check the path");
  }

  Result<> write(const std::string& name, const std::string& text) {
    const std::filesystem::path path = folder_ / name, part = folder_ / StrCat(".", name, ".part");
    parts_.emplace_back(part, path);
    std::ofstream file(part, std::ios::binary);
    file.write(text.data(), static_cast<std::streamsize>(text.size()));
    file.close();
    if (!file) return failed(path, std::strerror(errno));
    return {};
  }

  Result<> finish() {
    for (const auto& [part, path] : parts_) {
      if (std::filesystem::is_directory(path)) return failed(path, "a folder has that name");
    }
    for (const auto& [part, path] : parts_) {
      std::error_code error;
      std::filesystem::rename(part, path, error);
      if (error) return failed(path, error.message());
    }
    return {};
  }

 private:
  static std::unexpected<Error> failed(const std::filesystem::path& path, std::string_view why) {
    return fail(Code::Io, StrCat("cannot write '", path.string(), "': ", why), "check the path");
  }

  std::filesystem::path folder_;
  bool made_folder_ = false;
  std::vector<std::pair<std::filesystem::path, std::filesystem::path>> parts_;
};

Result<codegen::Emitted> generate(const Options& options, const std::string& name) {
  const ModelFile file = SINTER_TRY(open_model_file(options.model));
  const onnx::Model model = SINTER_TRY(onnx::parse(file.file.bytes, file.file.owner));
  const Graph graph = SINTER_TRY(onnx::import(model, {.external_data = file.external.get()}));
  return codegen::emit(
      graph, {.name = name, .model = std::filesystem::path(options.model).filename().string(), .embed = options.embed});
}

Result<Outcome> compile(const Options& options) {
  const std::filesystem::path folder = options.folder;
  const std::string name =
      options.name.empty() ? codegen::identifier(std::filesystem::path(options.model).stem().string()) : options.name;
  auto emitted = generate(options, name);
  if (!emitted) {
    return std::unexpected(std::move(emitted).error().with_context(StrCat("compiling '", options.model, "'")));
  }
  Writer writer(folder);
  SINTER_CHECK_OK(writer.open());
  Json files = Json::array();
  for (const auto& file : emitted->files) {
    SINTER_CHECK_OK(writer.write(file.name, file.text));
    files.push_back((folder / file.name).string());
  }
  SINTER_CHECK_OK(writer.finish());
  Outcome outcome{{{"files", files},
                   {"classes", emitted->classes},
                   {"parameters", emitted->parameters},
                   {"lock",
                    {{"engine", emitted->engine},
                     {"format", emitted->format},
                     {"operators", hex(emitted->operators)},
                     {"weights", hex(emitted->weights)}}},
                   {"inputs", fields(emitted->inputs)},
                   {"outputs", fields(emitted->outputs)}}};
  if (!options.json) {
    for (const auto& file : emitted->files) {
      std::printf("%s  %zu bytes\n", (folder / file.name).string().c_str(), file.text.size());
    }
    std::printf("%zu classes, %llu parameters; sinter %s, format %u, operators %s, weights %s\n",
                emitted->classes.size(), static_cast<unsigned long long>(emitted->parameters), emitted->engine.c_str(),
                emitted->format, hex(emitted->operators).c_str(), hex(emitted->weights).c_str());
  }
  return outcome;
}

}  // namespace

Verb add_compile(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* verb = app.add_subcommand("compile", "write a model as C++ source code");
  verb->add_option("MODEL", options->model, "the ONNX file")->required();
  verb->add_option("-o,--output", options->folder, "the folder to write to")->required()->type_name("DIR");
  verb->add_option("--name", options->name, "C++ namespace and file name (default: from the file's name)")
      ->check(CLI::Validator(check_name, "NAME", "name"));
  verb->add_flag("--embed", options->embed, "put the weights into the program instead of a file beside it");
  verb->add_flag("--json", options->json, "one JSON document");
  return {verb, [options] { return compile(*options); }, [options] { return options->json; }};
}

}  // namespace sinter::cli
