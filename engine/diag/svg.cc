// SPDX-License-Identifier: Apache-2.0
#include "engine/diag/svg.h"

#include <cmath>

#include "engine/base/str.h"

namespace sinter::diag::svg {

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '&') {
      out += "&amp;";
    } else if (c == '"') {
      out += "&quot;";
    } else {
      out += c;
    }
  }
  return out;
}

std::string place(double value) { return StrCat(std::round(value * 10) / 10); }

std::string rounded(double value) {
  if (value == 0 || !std::isfinite(value)) return StrCat(value);
  const double unit = std::pow(10.0, std::floor(std::log10(std::abs(value))) - 2);
  return StrCat(static_cast<float>(std::round(value / unit) * unit));
}

std::string text(double x, double y, std::string_view content, std::string_view style) {
  return StrCat("<text x=\"", place(x), "\" y=\"", place(y), "\" ", style, ">", escaped(content), "</text>\n");
}

std::string line(double x1, double y1, double x2, double y2, std::string_view style) {
  return StrCat("<line x1=\"", place(x1), "\" y1=\"", place(y1), "\" x2=\"", place(x2), "\" y2=\"", place(y2), "\" ",
                style, "/>\n");
}

std::string open(double width, double height) {
  return StrCat("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ", place(width), " ", place(height),
                "\" width=\"", place(width), "\" height=\"", place(height),
                "\" font-family=\"ui-monospace, Menlo, Consolas, monospace\" font-size=\"11\">\n",
                "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n");
}

}  // namespace sinter::diag::svg
