// SPDX-License-Identifier: Apache-2.0
#include "engine/codegen/signature.h"

#include <algorithm>

#include "engine/base/str.h"

namespace sinter::codegen {
namespace {

struct Row {
  std::string_view op, inputs, outputs, attributes;
};

constexpr Row kRows[] = {
#define SIGNATURE(op, inputs, outputs, attributes) {op, inputs, outputs, attributes},
#include "engine/codegen/signatures.inc"
#undef SIGNATURE
};

const Row* find_row(std::string_view op) {
  for (const Row& row : kRows) {
    if (row.op == op) return &row;
  }
  return nullptr;
}

std::vector<std::string_view> words(std::string_view text) {
  std::vector<std::string_view> out;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    out.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

std::vector<Parameter> parameters(std::string_view text) {
  std::vector<Parameter> out;
  for (std::string_view word : words(text)) {
    Parameter parameter;
    if (word.ends_with('?')) parameter.kind = Parameter::Kind::optional;
    if (word.ends_with('*')) parameter.kind = Parameter::Kind::variadic;
    if (parameter.kind != Parameter::Kind::single) word.remove_suffix(1);
    parameter.name = identifier(word);
    out.push_back(std::move(parameter));
  }
  return out;
}

bool is_lower(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }
bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
char lower(char c) { return is_upper(c) ? static_cast<char>(c - 'A' + 'a') : c; }

// Names that would be keywords, or that read badly.
std::string function_name(std::string_view op) {
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"And", "logical_and"}, {"MatMul", "matmul"},   {"Not", "logical_not"}, {"Or", "logical_or"},
      {"PRelu", "prelu"},     {"Xor", "logical_xor"}, {"IsNaN", "is_nan"},
  };
  for (const auto& [name, function] : kNames) {
    if (name == op) return std::string(function);
  }
  return identifier(op);
}

}  // namespace

std::string Signature::options_type() const { return StrCat(op, "Options"); }

const AttributeKind* Signature::attribute(std::string_view name) const {
  for (const AttributeKind& kind : attributes) {
    if (kind.name == name) return &kind;
  }
  return nullptr;
}

std::optional<Signature> find_signature(std::string_view op) {
  const Row* row = find_row(op);
  if (!row) return std::nullopt;
  Signature signature{row->op, function_name(op), parameters(row->inputs), parameters(row->outputs), {}};
  for (const std::string_view word : words(row->attributes)) {
    const size_t colon = word.find(':');
    signature.attributes.push_back({std::string(word.substr(0, colon)), word[colon + 1]});
  }
  return signature;
}

uint64_t hash_text(uint64_t seed, std::string_view text) {
  for (const char c : text) seed = (seed ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return seed;
}

uint64_t interface_hash(const OpDef& op) {
  const Row* row = find_row(op.name);
  uint64_t hash = hash_text(kHashSeed, StrCat(op.domain, ".", op.name, "/", op.min_inputs, "-", op.max_inputs, "/",
                                              op.min_outputs, "-", op.max_outputs));
  if (row) hash = hash_text(hash, StrCat("(", row->inputs, ")(", row->outputs, ")(", row->attributes, ")"));
  return hash;
}

std::string identifier(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (!is_lower(c) && !is_upper(c)) {
      if (!out.empty() && out.back() != '_') out += '_';
      continue;
    }
    const bool starts_word = i > 0 && is_upper(c) &&
                             (is_lower(text[i - 1]) || (is_upper(text[i - 1]) && i + 1 < text.size() &&
                                                        text[i + 1] >= 'a' && text[i + 1] <= 'z'));
    if (starts_word && !out.empty() && out.back() != '_') out += '_';
    out += lower(c);
  }
  while (!out.empty() && out.back() == '_') out.pop_back();
  if (out.empty()) return "value";
  if (out[0] >= '0' && out[0] <= '9') out.insert(0, "_");
  constexpr std::string_view kKeywords[] = {
      "alignas", "and",      "asm",       "auto",     "bool",     "break",     "case",    "catch",  "char",
      "class",   "concept",  "const",     "continue", "default",  "delete",    "do",      "double", "else",
      "enum",    "explicit", "export",    "extern",   "false",    "float",     "for",     "friend", "goto",
      "if",      "inline",   "int",       "long",     "mutable",  "namespace", "new",     "not",    "operator",
      "or",      "private",  "protected", "public",   "register", "requires",  "return",  "short",  "signed",
      "sizeof",  "static",   "struct",    "switch",   "template", "this",      "throw",   "true",   "try",
      "typedef", "typeid",   "typename",  "union",    "unsigned", "using",     "virtual", "void",   "volatile",
      "while",   "xor",      "main",      "linux",    "unix",     "errno",     "assert",
  };
  if (std::find(std::begin(kKeywords), std::end(kKeywords), out) != std::end(kKeywords)) out += '_';
  return out;
}

}  // namespace sinter::codegen
