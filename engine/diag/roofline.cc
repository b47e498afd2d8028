// SPDX-License-Identifier: Apache-2.0
#include "engine/diag/roofline.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "engine/base/str.h"
#include "engine/diag/svg.h"

namespace sinter::diag {
namespace {

constexpr double kLeft = 70, kTop = 76, kWidth = 620, kHeight = 400, kRight = 250, kBottom = 50;
constexpr double kLowest = -2, kHighest = 3.5;  // powers of ten of the intensity
constexpr std::array<std::string_view, 8> kColours = {"#1f5fbf", "#e08a00", "#1b7f3b", "#b00020",
                                                      "#7b3fbf", "#008b9a", "#9a6a00", "#555555"};

class Roofline {
 public:
  Roofline(std::span<const RooflineStep> steps, const Ceilings& ceilings) : ceilings_(ceilings) {
    for (const RooflineStep& step : steps) {
      all_ms_ += step.ms;
      best_ms_ += ceilings.best_ms(step.cost);
      ms_of_[step.op] += step.ms;
      if (step.ms > 0 && step.cost.flops > 0 && step.cost.bytes > 0) steps_.push_back(&step);
    }
    // Large dots first, so that none hides a smaller one.
    std::ranges::sort(steps_, std::ranges::greater(), &RooflineStep::ms);
    std::vector<std::pair<double, std::string>> ops;
    for (const auto& [op, ms] : ms_of_) ops.push_back({ms, op});
    std::ranges::sort(ops, std::ranges::greater());
    for (auto& [ms, op] : ops) ops_.push_back(op);
    top_ = std::ceil(std::log10(std::max(1.0, ceilings.gflop_per_s)) + 0.2);
    bottom_ = top_ - 5;
  }

  std::string draw(std::string_view title) {
    out_ = svg::open(kLeft + kWidth + kRight, kTop + kHeight + kBottom);
    text(12, 22, title, "font-size=\"14\" font-weight=\"bold\"");
    text(12, 40,
         StrCat(ceilings_.of, ": ", svg::rounded(all_ms_), " ms in all steps, ", svg::rounded(best_ms_),
                " ms at the ceilings (", svg::rounded(all_ms_ > 0 ? 100 * best_ms_ / all_ms_ : 0), " %)"),
         "fill=\"#555\"");
    axes();
    roofs();
    for (const RooflineStep* step : steps_) dot(*step);
    legend();
    return out_ + "</svg>\n";
  }

 private:
  void text(double x, double y, std::string_view content, std::string_view style) {
    StrAppend(out_, svg::text(x, y, content, style));
  }
  double x_of(double intensity) const {
    const double at = (std::log10(intensity) - kLowest) / (kHighest - kLowest);
    return kLeft + kWidth * std::clamp(at, 0.0, 1.0);
  }
  double y_of(double gflop_per_s) const {
    const double at = (std::log10(gflop_per_s) - bottom_) / (top_ - bottom_);
    return kTop + kHeight * (1 - std::clamp(at, 0.0, 1.0));
  }

  void axes() {
    const std::string_view grid = "stroke=\"#e4e4e4\"";
    for (int power = static_cast<int>(kLowest); power <= kHighest; ++power) {
      const double x = x_of(std::pow(10.0, power));
      StrAppend(out_, svg::line(x, kTop, x, kTop + kHeight, grid));
      text(x, kTop + kHeight + 16, StrCat(std::pow(10.0, power)), "text-anchor=\"middle\" fill=\"#555\"");
    }
    for (int power = static_cast<int>(bottom_); power <= top_; ++power) {
      const double y = y_of(std::pow(10.0, power));
      StrAppend(out_, svg::line(kLeft, y, kLeft + kWidth, y, grid));
      text(kLeft - 8, y + 4, StrCat(std::pow(10.0, power)), "text-anchor=\"end\" fill=\"#555\"");
    }
    text(kLeft + kWidth / 2, kTop + kHeight + 36, "FLOP per byte", "text-anchor=\"middle\"");
    text(kLeft - 58, kTop - 12, "GFLOP/s", "");
  }

  // One diagonal for each measured working set, up to the arithmetic's ceiling.
  void roofs() {
    const double peak = ceilings_.gflop_per_s;
    StrAppend(out_, svg::line(kLeft, y_of(peak), kLeft + kWidth, y_of(peak), "stroke=\"#222\""));
    text(kLeft + kWidth, y_of(peak) - 6, StrCat(svg::rounded(peak), " GFLOP/s"), "text-anchor=\"end\" fill=\"#222\"");
    for (const Ceilings::Bandwidth& at : ceilings_.bandwidth) {
      const double from = std::max(std::pow(10.0, kLowest), std::pow(10.0, bottom_) / at.gb_per_s);
      const double ridge = peak / at.gb_per_s;
      StrAppend(out_, StrCat("<g stroke=\"#999\" stroke-dasharray=\"4 3\"><title>", svg::rounded(at.gb_per_s),
                             " GB/s from ", size_text(at.bytes), "</title>",
                             svg::line(x_of(from), y_of(from * at.gb_per_s), x_of(ridge), y_of(peak), ""), "</g>\n"));
    }
  }

  static std::string size_text(double bytes) {
    return bytes >= 1 << 20 ? StrCat(bytes / (1 << 20), " MiB") : StrCat(bytes / 1024, " KiB");
  }

  std::string_view colour(std::string_view op) const {
    const auto at = static_cast<size_t>(std::ranges::find(ops_, op) - ops_.begin());
    return kColours[std::min(at, kColours.size() - 1)];
  }

  void dot(const RooflineStep& step) {
    const double gflop_per_s = step.cost.flops / step.ms * 1e-6;
    StrAppend(out_,
              StrCat("<circle cx=\"", svg::place(x_of(step.cost.flops / step.cost.bytes)), "\" cy=\"",
                     svg::place(y_of(gflop_per_s)), "\" r=\"",
                     svg::place(3 + 22 * std::sqrt(all_ms_ > 0 ? step.ms / all_ms_ : 0)), "\" fill=\"", colour(step.op),
                     "\" fill-opacity=\"0.55\"><title>", svg::escaped(step.node), " (", svg::escaped(step.op), ", ",
                     svg::escaped(step.kernel), "): ", svg::rounded(step.ms), " ms, ", svg::rounded(gflop_per_s),
                     " GFLOP/s, ", svg::rounded(100 * ceilings_.best_ms(step.cost) / step.ms),
                     " % of the ceiling</title></circle>\n"));
  }

  void legend() {
    double y = kTop + 12;
    const auto row = [&](std::string_view mark, std::string_view style, std::string_view content) {
      text(kLeft + kWidth + 16, y, mark, style);
      text(kLeft + kWidth + 30, y, content, "fill=\"#222\"");
      y += 16;
    };
    for (size_t i = 0; i < std::min(ops_.size(), kColours.size()); ++i) {
      row("●", StrCat("fill=\"", kColours[i], "\""),
          StrCat(i + 1 == kColours.size() && ops_.size() > kColours.size() ? "others, " : "", ops_[i], " ",
                 svg::rounded(ms_of_[ops_[i]]), " ms"));
    }
    y += 8;
    for (const Ceilings::Bandwidth& at : ceilings_.bandwidth) {
      row("┄", "fill=\"#999\"", StrCat(svg::rounded(at.gb_per_s), " GB/s, ", size_text(at.bytes)));
    }
    if (ceilings_.dispatch_ms > 0) {
      row("", "", StrCat("empty dispatch ", svg::rounded(ceilings_.dispatch_ms * 1000), " µs"));
    }
  }

  const Ceilings& ceilings_;
  std::vector<const RooflineStep*> steps_;
  std::map<std::string, double> ms_of_;  // by operator
  std::vector<std::string> ops_;         // slowest first
  double all_ms_ = 0, best_ms_ = 0, top_ = 3, bottom_ = -2;
  std::string out_;
};

}  // namespace

std::string roofline_svg(std::span<const RooflineStep> steps, const Ceilings& ceilings, std::string_view title) {
  return Roofline(steps, ceilings).draw(title);
}

}  // namespace sinter::diag
