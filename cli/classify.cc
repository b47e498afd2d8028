// SPDX-License-Identifier: Apache-2.0
// sinter classify IMAGE... --model M
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <memory>
#include <numeric>

#include "cli/image.h"
#include "cli/runner.h"
#include "cli/verbs.h"
#include "engine/base/str.h"

namespace sinter::cli {
namespace {

struct Options {
  CommonOptions common;
  std::vector<std::string> images;
  std::string model, labels;
  size_t top = 5;
  int resize = 0;
  Preprocess preprocess = Preprocess::torch;
};

constexpr int kUsualSize = 224;  // for models that leave height and width open

/// How the model wants its picture.
struct PictureInput {
  std::string name;
  DType dtype = DType::f32;
  int width = 0, height = 0;
};

Result<PictureInput> picture_input(const Session& session, Preprocess preprocess) {
  const auto& inputs = session.inputs();
  const auto refuse = [&](std::string_view why) {
    std::string given;
    for (const IoInfo& info : inputs)
      StrAppend(given, StrCat(given.empty() ? "" : ", ", "'", info.name, "' ", name_of(info.dtype), shape_text(info)));
    return fail(Code::InvalidInput, StrCat("this model does not take a picture", why, "; its inputs are ", given),
                preprocess == Preprocess::uint8_nhwc ? "for uint8_nhwc it must take one uint8 tensor [N,H,W,3]"
                                                     : "it must take one float tensor [N,3,H,W]; see --preprocess");
  };
  if (inputs.size() != 1) return refuse("");
  const IoInfo& info = inputs[0];
  const bool bytes = preprocess == Preprocess::uint8_nhwc;
  if (info.shape.size() != 4 || (bytes ? info.dtype != DType::u8 : !is_float(info.dtype)))
    return refuse(" in this form");
  const std::string& channels = info.shape[bytes ? 3 : 1];
  if (channels != "3" && channels.find_first_not_of("0123456789") == std::string::npos)
    return refuse(" of three colours in this layout");
  const auto side = [](const std::string& dim) {
    return dim.find_first_not_of("0123456789") == std::string::npos && dim.size() < 6 ? std::stoi(dim) : kUsualSize;
  };
  PictureInput picture{info.name, info.dtype, side(info.shape[bytes ? 2 : 3]), side(info.shape[bytes ? 1 : 2])};
  if (picture.width == 0 || picture.height == 0) return refuse(" of any size");
  return picture;
}

/// True where the output are probabilities already: a Softmax, or one that is only reshaped or converted afterwards.
bool ends_in_softmax(const Graph& graph) {
  constexpr std::string_view kPassing[] = {"Reshape", "Flatten",   "Squeeze",        "Unsqueeze",       "Identity",
                                           "Cast",    "Transpose", "QuantizeLinear", "DequantizeLinear"};
  ValueId value = graph.outputs.empty() ? kNone : graph.outputs[0];
  while (value != kNone && graph.values[value].producer != kNone) {
    const Node& node = graph.nodes[graph.values[value].producer];
    if (node.op->name == "Softmax") return true;
    if (std::find(std::begin(kPassing), std::end(kPassing), node.op->name) == std::end(kPassing)) return false;
    value = node.inputs.empty() ? kNone : node.inputs[0];
  }
  return false;
}

Result<std::vector<std::string>> read_labels(const std::string& path) {
  std::vector<std::string> labels;
  if (path.empty()) return labels;
  std::ifstream file(path);
  if (!file) return fail(Code::Io, StrCat("cannot open the labels '", path, "'"), "check the path");
  for (std::string line; std::getline(file, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    labels.push_back(line);
  }
  return labels;
}

std::vector<double> softmax(const std::vector<double>& logits) {
  std::vector<double> powers(logits.size());
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (size_t i = 0; i < logits.size(); ++i) sum += powers[i] = std::exp(logits[i] - largest);
  for (double& power : powers) power /= sum;
  return powers;
}

struct Answer {
  Json results = Json::array();
  std::string text;
};

Answer rank(const Tensor& output, bool probabilities, const std::vector<std::string>& labels, size_t top) {
  std::vector<double> scores(output.numel());
  for (size_t i = 0; i < scores.size(); ++i) scores[i] = get_f64(output, i);
  std::vector<double> chances = probabilities ? scores : softmax(scores);
  if (probabilities && is_integer(output.dtype())) {
    // A quantised probability: its scale is lost in the output, but the classes share it.
    const double sum = std::accumulate(scores.begin(), scores.end(), 0.0);
    for (double& chance : chances) chance = sum > 0 ? chance / sum : 0;
  }
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  // NaN sorts last, so that the order stays one.
  const auto key = [&](size_t i) { return std::isnan(scores[i]) ? -HUGE_VAL : scores[i]; };
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return key(a) != key(b) ? key(a) > key(b) : a < b; });
  order.resize(std::min(top, order.size()));
  Answer answer;
  for (const size_t i : order) {
    const std::string label = i < labels.size() ? labels[i] : StrCat("class ", i);
    answer.results.push_back({{"index", i},
                              {"label", label},
                              {"probability", number(chances[i])},
                              {"logit", probabilities ? Json() : number(scores[i])}});
    char line[64];
    std::snprintf(line, sizeof line, "  %6.2f %%  ", chances[i] * 100);
    answer.text += line + label + "\n";
  }
  return answer;
}

Result<Outcome> classify(const Options& options) {
  // Everything that can be wrong with the files comes before the costly part.
  const std::vector<std::string> labels = SINTER_TRY(read_labels(options.labels));
  std::vector<Image> images;
  for (const std::string& path : options.images) images.push_back(SINTER_TRY(load_image(path)));
  const auto runner = SINTER_TRY(Runner::make(options.common));
  const auto session = SINTER_TRY(runner->open(options.model, options.common.session_options()));
  const PictureInput picture = SINTER_TRY(picture_input(*session, options.preprocess));
  const bool probabilities = ends_in_softmax(session->graph());

  Outcome outcome{Json::array()};
  std::optional<double> first_ms;
  for (size_t i = 0; i < images.size(); ++i) {
    const Image fitted = fit(images[i], picture.width, picture.height, options.resize);
    images[i] = {};
    std::vector<NamedTensor> inputs(1);
    inputs[0] = {picture.name, SINTER_TRY(image_tensor(fitted, options.preprocess, picture.dtype))};
    const double start = trace::now_ms();
    const auto outputs = SINTER_TRY(runner->wait(session->run(std::move(inputs), {.cancel = runner->cancel()})));
    const double run_ms = trace::now_ms() - start;
    if (!first_ms) first_ms = run_ms;
    const SessionReport& report = session->report();
    if (i == 0) {
      report_fallbacks(report);
      if (!labels.empty() && labels.size() != outputs[0].tensor.numel()) {
        warn(StrCat("the model has ", outputs[0].tensor.numel(), " classes, but '", options.labels, "' has ",
                    labels.size(), " labels"));
      }
    }
    if (outputs[0].tensor.numel() == 0)
      return fail(Code::InvalidModel, StrCat("the output '", outputs[0].name, "' is empty"));
    const Answer answer = rank(outputs[0].tensor, probabilities, labels, options.top);
    outcome.document.push_back(
        {{"image", options.images[i]},
         {"backend", plan::name_of(report.backend)},
         {"results", answer.results},
         {"ms", {{"load", report.load_ms}, {"prepare", report.prepare_ms}, {"first", *first_ms}, {"run", run_ms}}},
         {"cpu_steps", cpu_steps(report)}});
    if (options.common.json) continue;
    std::printf("%s (%s, %.1f ms)\n%s", options.images[i].c_str(), std::string(plan::name_of(report.backend)).c_str(),
                run_ms, answer.text.c_str());
  }
  return outcome;
}

}  // namespace

Verb add_classify(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* verb = app.add_subcommand("classify", "say what is on pictures");
  verb->add_option("IMAGE", options->images, "pictures: JPEG, PNG, BMP, GIF, PNM")->required();
  verb->add_option("--model", options->model, "the ONNX file")->required();
  verb->add_option("--labels", options->labels, "class names, one a line");
  verb->add_option("--top", options->top, "how many classes to name")->check(kPositive)->capture_default_str();
  verb->add_option("--resize", options->resize,
                   "shorter side before the centre crop (default: the model's size x 256 / 224)")
      ->check(CLI::Range(1, 16384));
  const std::map<std::string, Preprocess> names = {{"torch", Preprocess::torch},
                                                   {"caffe_bgr", Preprocess::caffe_bgr},
                                                   {"uint8_nhwc", Preprocess::uint8_nhwc},
                                                   {"unit", Preprocess::unit}};
  verb->add_option("--preprocess", options->preprocess, "torch, caffe_bgr, uint8_nhwc or unit (default torch)")
      ->transform(CLI::Transformer(names))
      ->type_name("NAME");
  add_common(*verb, options->common);
  return {verb, [options] { return classify(*options); }, [options] { return options->common.json; }};
}

}  // namespace sinter::cli
