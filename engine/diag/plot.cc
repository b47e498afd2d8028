// SPDX-License-Identifier: Apache-2.0
#include "engine/diag/plot.h"

#include <algorithm>
#include <cmath>

#include "engine/base/str.h"
#include "engine/diag/svg.h"

namespace sinter::diag {
namespace {

using svg::escaped, svg::place, svg::rounded;

constexpr double kNames = 380, kPlot = 520, kRight = 110, kTop = 84, kRow = 15, kBottom = 30;
constexpr size_t kLabelLength = 53;  // characters of a node's name and operator that fit

// A name's end tells more than its beginning.
std::string label_of(const NodeRow& row) {
  const size_t room = kLabelLength - std::min(kLabelLength - 10, row.op.size() + 1);
  const std::string& name = row.node;
  return StrCat(name.size() <= room ? name : StrCat("…", name.substr(name.size() - room + 1)), " ", row.op);
}

class Plot {
 public:
  Plot(const CompareResult& result, std::string_view title) : result_(result), title_(title) {
    for (const NodeRow& row : result.nodes) {
      if (row.compared) rows_.push_back(&row);
    }
    for (const NodeRow* row : rows_) {
      for (const double value : {row->max_abs, row->max_rel}) {
        if (value <= 0 || !std::isfinite(value)) continue;
        low_ = std::min(low_, std::floor(std::log10(value)));
        high_ = std::max(high_, std::ceil(std::log10(value)));
      }
    }
    low_ = std::max(low_, -12.0);
  }

  std::string draw() {
    const double width = kNames + kPlot + kRight, height = kTop + kRow * static_cast<double>(rows_.size()) + kBottom;
    out_ = svg::open(width, height);
    text(12, 22, title_, "font-size=\"14\" font-weight=\"bold\"");
    const std::string verdict = result_.first ? StrCat("first difference: ", result_.first->node, " (",
                                                       result_.first->op, ") at [", StrJoin(result_.first->index, ","),
                                                       "]: ", result_.first->a, " against ", result_.first->b)
                                              : std::string("every compared node agrees");
    text(12, 40, verdict, result_.first ? "fill=\"#b00020\"" : "fill=\"#1b7f3b\"");
    legend();
    for (size_t i = 0; i < rows_.size(); ++i) band(*rows_[i], kTop + kRow * static_cast<double>(i));
    axis(height);
    for (size_t i = 0; i < rows_.size(); ++i) labels(*rows_[i], kTop + kRow * (static_cast<double>(i) + 0.5));
    line(&NodeRow::max_rel, "#e08a00");
    line(&NodeRow::max_abs, "#1f5fbf");
    return out_ + "</svg>\n";
  }

 private:
  void text(double x, double y, std::string_view content, std::string_view style) {
    StrAppend(out_, svg::text(x, y, content, style));
  }

  void legend() {
    text(kNames, 62, "● largest absolute error", "fill=\"#1f5fbf\"");
    text(kNames + 190, 62, "● largest relative error", "fill=\"#e08a00\"");
    text(kNames + kPlot + 12, kTop - 8, "cosine", "fill=\"#555\"");
  }

  // Zero is at the left edge, NaN and infinity at the right one.
  double x_of(double value) const {
    if (value == 0) return kNames;
    if (!std::isfinite(value)) return kNames + kPlot;
    const double at = (std::log10(value) - low_) / (high_ - low_);
    return kNames + 24 + (kPlot - 48) * std::clamp(at, 0.0, 1.0);
  }

  void axis(double height) {
    const double end = height - kBottom;
    const int step = high_ - low_ > 10 ? 2 : 1;
    const auto tick = [&](double x, std::string_view label) {
      StrAppend(out_, svg::line(x, kTop - 4, x, end, "stroke=\"#ddd\""));
      text(x, kTop - 8, label, "text-anchor=\"middle\" fill=\"#555\"");
      text(x, end + 16, label, "text-anchor=\"middle\" fill=\"#555\"");
    };
    tick(kNames, "0");
    for (int power = static_cast<int>(low_); power <= static_cast<int>(high_); power += step) {
      tick(x_of(std::pow(10.0, power)), StrCat("1e", power));
    }
    tick(kNames + kPlot, "∞");
  }

  bool is_first(const NodeRow& node) const { return result_.first && result_.first->node == node.node; }

  void band(const NodeRow& node, double top) {
    if (node.equal) return;
    StrAppend(out_,
              StrCat("<rect x=\"0\" y=\"", place(top), "\" width=\"", place(kNames + kPlot + kRight), "\" height=\"",
                     place(kRow), "\" fill=\"", is_first(node) ? "#ffc9ce" : "#fff3f4", "\"/>\n"));
  }

  void labels(const NodeRow& node, double middle) {
    text(kNames - 12, middle + 4, StrCat(is_first(node) ? "▶ " : "", label_of(node)),
         is_first(node) ? "text-anchor=\"end\" fill=\"#b00020\" font-weight=\"bold\""
                        : "text-anchor=\"end\" fill=\"#222\"");
    text(kNames + kPlot + 12, middle + 4, StrCat(static_cast<float>(std::round(node.cosine * 1e6) / 1e6)),
         "fill=\"#555\"");
  }

  void line(double NodeRow::* value, std::string_view colour) {
    std::string points, dots;
    for (size_t i = 0; i < rows_.size(); ++i) {
      const double number = rows_[i]->*value, x = x_of(number), y = kTop + kRow * (static_cast<double>(i) + 0.5);
      StrAppend(points, StrCat(i ? " " : "", place(x), ",", place(y)));
      StrAppend(dots, StrCat("<circle cx=\"", place(x), "\" cy=\"", place(y), "\" r=\"3\"><title>",
                             escaped(rows_[i]->node), ": ", rounded(number), "</title></circle>\n"));
    }
    StrAppend(out_, StrCat("<polyline points=\"", points, "\" fill=\"none\" stroke=\"", colour,
                           "\" stroke-opacity=\"0.45\"/>\n<g fill=\"", colour, "\">\n", dots, "</g>\n"));
  }

  const CompareResult& result_;
  std::string_view title_;
  std::vector<const NodeRow*> rows_;
  double low_ = -7, high_ = 0;  // powers of ten
  std::string out_;
};

}  // namespace

std::string plot_svg(const CompareResult& result, std::string_view title) { return Plot(result, title).draw(); }

}  // namespace sinter::diag
