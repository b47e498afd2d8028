// SPDX-License-Identifier: Apache-2.0
#include "engine/gpu/shader_error.h"

#include "engine/base/str.h"

namespace sinter::gpu {
namespace {

constexpr uint64_t kContext = 2;    // lines shown before and after the marked one
constexpr size_t kMaxMessages = 4;  // the first ones explain the rest

void append_line(std::string& out, uint64_t number, std::string_view line, const ShaderMessage& message) {
  const std::string label = StrCat(number);
  const bool marked = number == message.line;
  StrAppend(out, StrCat("\n", marked ? "> " : "  ", label, " | ", line));
  if (!marked || message.column == 0 || message.column > line.size() + 1) return;
  out += "\n  ";
  out.append(label.size(), ' ');
  out += " | ";
  // Tabs stay tabs, so that the caret stands under its column.
  for (uint64_t i = 0; i + 1 < message.column; ++i) out += line[i] == '\t' ? '\t' : ' ';
  out += '^';
}

void append_excerpt(std::string& out, std::string_view wgsl, const ShaderMessage& message) {
  for (uint64_t number = 1; !wgsl.empty() && number <= message.line + kContext; ++number) {
    const size_t end = wgsl.find('\n');
    const std::string_view line = wgsl.substr(0, end);
    wgsl = end == std::string_view::npos ? std::string_view{} : wgsl.substr(end + 1);
    if (number + kContext >= message.line) append_line(out, number, line, message);
  }
}

}  // namespace

Error shader_error(std::string_view label, std::string_view wgsl, std::span<const ShaderMessage> messages,
                   std::string_view other) {
  std::string text = StrCat("compiling kernel ", label, ": ");
  if (messages.empty()) text += other.empty() ? "the device gave no reason" : other;
  size_t shown = 0;
  for (const ShaderMessage& message : messages) {
    if (shown++ == kMaxMessages) {
      StrAppend(text, StrCat("\nand ", messages.size() - kMaxMessages, " more"));
      break;
    }
    if (shown > 1) text += '\n';
    text += message.text;
    if (message.line == 0) continue;
    StrAppend(text, StrCat(" (line ", message.line, ", column ", message.column, ")"));
    append_excerpt(text, wgsl, message);
  }
  return {Code::Gpu, std::move(text), {}, "run on the CPU backend, and report this kernel"};
}

}  // namespace sinter::gpu
