// SPDX-License-Identifier: Apache-2.0
// The few pieces that plots are drawn from.
#pragma once

#include <string>
#include <string_view>

namespace sinter::diag::svg {

/// Text with the characters escaped that mean something in XML.
std::string escaped(std::string_view text);
/// A coordinate: one decimal is enough.
std::string place(double value);
/// Three significant digits: "1.23e-5", "0.0123".
std::string rounded(double value);
/// `style`: further attributes, as they stand.
std::string text(double x, double y, std::string_view content, std::string_view style);
std::string line(double x1, double y1, double x2, double y2, std::string_view style);
/// The opening tag of a picture on white.
std::string open(double width, double height);

}  // namespace sinter::diag::svg
