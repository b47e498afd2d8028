// SPDX-License-Identifier: Apache-2.0
// sinter VERB: parses the command line, runs one verb, prints its outcome or its error.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "cli/runner.h"
#include "cli/verbs.h"
#include "engine/base/check.h"
#include "engine/base/nearest.h"
#include "engine/base/str.h"

namespace sinter::cli {
namespace {

void on_failed_check(const char* condition, const char* file, int line) {
  std::fprintf(stderr,
               "error[Internal]: a check of the engine failed: %s (%s:%d)\n"
               "  hint: this is a mistake of ours, not of the model: please report it with the command and the model\n"
               "  version: %s\n",
               condition, file, line, SINTER_VERSION);
  std::fflush(nullptr);
  std::_Exit(kInternal);
}

bool wants_json(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) == "--json") return true;
  }
  return false;
}

int usage_error(const CLI::App& app, const std::string& message, bool json) {
  const CLI::App* verb = &app;
  for (const CLI::App* used : app.get_subcommands()) verb = used;
  const std::string name = verb == &app ? "sinter" : StrCat("sinter ", verb->get_name());
  std::fprintf(stderr, "usage error: %s\n  hint: %s --help\n", message.c_str(), name.c_str());
  if (json) {
    const Json document = {
        {"error", {{"code", "Usage"}, {"message", message}, {"chain", Json::array()}, {"hint", name + " --help"}}}};
    std::printf("%s\n", dump(document).c_str());
  }
  return kUsage;
}

/// "there is no verb 'clasify'": CLI11 only says that one is required.
std::string unknown_verb(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return {};
  std::vector<std::string> names;
  for (const CLI::App* verb : app.get_subcommands({})) names.push_back(verb->get_name());
  if (std::find(names.begin(), names.end(), argv[1]) != names.end()) return {};
  const std::vector<std::string_view> candidates(names.begin(), names.end());
  const std::string_view close = nearest(argv[1], candidates);
  return StrCat("there is no verb '", argv[1], "'", close.empty() ? "" : "; did you mean ", close,
                close.empty() ? "" : "?");
}

int finish(const Result<Outcome>& outcome, bool json) {
  if (outcome) {
    if (json) std::printf("%s\n", dump(outcome->document).c_str());
    return outcome->exit;
  }
  const Error& error = outcome.error();
  std::fprintf(stderr, "%s\n%s", to_string(error).c_str(), failure_text(error).c_str());
  if (json) std::printf("%s\n", dump(to_json(error)).c_str());
  return exit_code(error.code);
}

int run(int argc, char** argv) {
  CLI::App app("Runs ONNX models on WebGPU and on the CPU, and says what failed.", "sinter");
  app.set_version_flag("--version", "sinter " SINTER_VERSION);
  app.require_subcommand(1);
  const std::vector<Verb> verbs = {add_classify(app), add_run(app),     add_inspect(app), add_test(app),
                                   add_bench(app),    add_compare(app), add_bisect(app),  add_doctor(app),
                                   add_compile(app),  add_ops(app),     add_passes(app)};
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& done) {
    return app.exit(done);
  } catch (const CLI::ParseError& error) {
    const std::string unknown = unknown_verb(app, argc, argv);
    return usage_error(app, unknown.empty() ? error.what() : unknown, wants_json(argc, argv));
  }
  for (const Verb& verb : verbs) {
    if (!verb.app->parsed()) continue;
    try {
      return finish(verb.run(), verb.json());
    } catch (const std::bad_alloc&) {
      return finish(fail(Code::OutOfMemory, "no memory left in the command line tool", "use smaller inputs"),
                    verb.json());
    }
  }
  return kUsage;
}

}  // namespace
}  // namespace sinter::cli

int main(int argc, char** argv) {
  sinter::set_check_handler(&sinter::cli::on_failed_check);
  sinter::cli::catch_interrupt();
  const int code = sinter::cli::run(argc, argv);
  if (std::fflush(stdout) != 0 || std::ferror(stdout)) {
    std::fprintf(stderr, "error[Io]: cannot write to standard output\n");
    return code ? code : sinter::cli::kRefused;
  }
  return code;
}
