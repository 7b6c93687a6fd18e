#include "cases/studies/mutants/generator/source.hpp"

#include <array>
#include <cctype>
#include <stdexcept>

namespace assay::mutants {
namespace {

constexpr std::array<std::string_view, 22> kLong = {
    "<<=", ">>=", "...", "::", "->", "++", "--", "+=", "-=", "*=", "/=",
    "%=",  "&=",  "|=",  "^=", "==", "!=", "<=", ">=", "&&", "||", "<<"};

bool word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool blank(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }

}  // namespace

Source::Source(std::string file_name, std::string source_text)
    : file(std::move(file_name)), text(std::move(source_text)) {
  std::size_t at_line = 0;
  while (at_line <= text.size()) {
    const std::size_t end = std::min(text.find('\n', at_line), text.size());
    lines.push_back(text.substr(at_line, end - at_line));
    at_line = end + 1;
  }
  tokenize();
  match_brackets();
}

void Source::tokenize() {
  std::size_t i = 0;
  int line = 1;
  bool line_start = true;
  const auto skip_to = [&](std::size_t end) {
    for (; i < end && i < text.size(); ++i)
      if (text[i] == '\n') ++line;
  };
  while (i < text.size()) {
    const char c = text[i];
    if (blank(c)) {
      if (c == '\n') ++line, line_start = true;
      ++i;
      continue;
    }
    if (text.compare(i, 2, "//") == 0) {
      skip_to(std::min(text.find('\n', i), text.size()));
      continue;
    }
    if (text.compare(i, 2, "/*") == 0) {
      skip_to(text.find("*/", i) + 2);
      continue;
    }
    if (c == '#' && line_start) {  // a directive, with its continued lines
      std::size_t end = text.find('\n', i);
      while (end != std::string::npos && text[end - 1] == '\\') end = text.find('\n', end + 1);
      skip_to(std::min(end, text.size()));
      continue;
    }
    line_start = false;
    Token t;
    t.begin = i;
    t.line = line;
    std::size_t end = i + 1;
    if (std::isdigit(static_cast<unsigned char>(c)) ||
        (c == '.' && i + 1 < text.size() && std::isdigit(static_cast<unsigned char>(text[i + 1])))) {
      t.kind = TokenKind::number;
      while (end < text.size() &&
             (word(text[end]) || text[end] == '.' || text[end] == '\'' ||
              ((text[end] == '+' || text[end] == '-') &&
               (((text[end - 1] == 'e' || text[end - 1] == 'E') && text.compare(i, 2, "0x") != 0) ||
                text[end - 1] == 'p'))))
        ++end;
    } else if (word(c)) {
      t.kind = TokenKind::identifier;
      while (end < text.size() && word(text[end])) ++end;
    } else if (c == '"' || c == '\'') {
      t.kind = TokenKind::string;
      while (end < text.size() && text[end] != c) end += text[end] == '\\' ? 2 : 1;
      ++end;
    } else {
      t.kind = TokenKind::punctuation;
      if (c == '>' && text.compare(i, 2, ">>") == 0 && i > 0 && blank(text[i - 1])) {
        end = i + (text.compare(i, 3, ">>=") == 0 ? 3 : 2);
      } else if (c != '>' || (i > 0 && blank(text[i - 1]))) {
        for (const auto& s : kLong)
          if (text.compare(i, s.size(), s) == 0) {
            end = i + s.size();
            break;
          }
      }
    }
    t.end = end;
    t.text = text.substr(i, end - i);
    t.space_before = i > 0 && blank(text[i - 1]);
    t.space_after = end < text.size() && blank(text[end]);
    tokens.push_back(std::move(t));
    i = end;
  }
}

void Source::match_brackets() {
  match.assign(tokens.size(), -1);
  parent.assign(tokens.size(), -1);
  brace.assign(tokens.size(), Brace::none);
  angle.assign(tokens.size(), false);
  std::vector<int> open;
  const auto close = [&](int i, std::string_view expected) {
    if (open.empty() || !is(open.back(), expected))
      throw std::runtime_error(file + ":" + std::to_string(at(i).line) + ": unbalanced " + at(i).text);
    match[static_cast<std::size_t>(i)] = open.back();
    match[static_cast<std::size_t>(open.back())] = i;
    open.pop_back();
    parent[static_cast<std::size_t>(i)] = open.empty() ? -1 : open.back();
  };
  for (int i = 0; i < count(); ++i) {
    parent[static_cast<std::size_t>(i)] = open.empty() ? -1 : open.back();
    const std::string& t = at(i).text;
    if (at(i).kind != TokenKind::punctuation) continue;
    if (t == "(" || t == "[" || t == "{") {
      if (t == "{") brace[static_cast<std::size_t>(i)] = classify(i);
      open.push_back(i);
    } else if (t == "<" && !at(i).spaced() && i > 0 && at(i - 1).kind == TokenKind::identifier &&
               !is(i - 1, "operator")) {
      angle[static_cast<std::size_t>(i)] = true;
      open.push_back(i);
    } else if (t == ">" && !at(i).spaced() && !open.empty() && is(open.back(), "<")) {
      angle[static_cast<std::size_t>(i)] = true;
      close(i, "<");
    } else if (t == ")") {
      close(i, "(");
    } else if (t == "]") {
      close(i, "[");
    } else if (t == "}") {
      close(i, "{");
    }
  }
}

int Source::segment_start(int i) const {
  const int level = around(i);
  int j = i;
  while (j > 0) {
    const int p = j - 1;
    if (p == level || is(p, ";")) break;
    if (is(p, "}")) {
      const int open = partner(p);
      if (open < 0 || brace[static_cast<std::size_t>(open)] != Brace::initializer) break;
      j = open;
      continue;
    }
    j = closes(p) ? partner(p) : p;
  }
  return j;
}

Brace Source::classify(int i) const {
  const int p = i - 1;
  const int outer = enclosing_brace(i);
  const Brace around_kind = outer < 0 ? Brace::name_space : brace[static_cast<std::size_t>(outer)];
  if (p < 0) return Brace::code;
  if (is(p, "(") || is(p, ",") || is(p, "=") || is(p, "return") || is(p, "[")) return Brace::initializer;
  if (is(p, "{")) return around_kind == Brace::initializer ? Brace::initializer : Brace::code;
  if (is(p, ";") || is(p, "}") || is(p, ":"))
    return around_kind == Brace::initializer ? Brace::initializer : Brace::code;
  if (is(p, ")") || is(p, "]") || is(p, "else") || is(p, "do") || is(p, "try") || is(p, "const") ||
      is(p, "noexcept") || is(p, "mutable"))
    return Brace::code;
  for (int j = segment_start(i); j < i; ++j) {
    if (is(j, "namespace") || is(j, "extern")) return Brace::name_space;
    if (is(j, "enum")) return Brace::enumeration;
    if (around_kind != Brace::code && (is(j, "struct") || is(j, "class") || is(j, "union")) &&
        !(j > 0 && (is(j - 1, "<") || is(j - 1, ","))))
      return Brace::type;
    if (around_kind == Brace::code && j == segment_start(i) && is(j, "struct")) return Brace::type;
    if (is(j, "->") && is(j - 1, ")")) return Brace::code;
  }
  return Brace::initializer;
}

int Source::enclosing_brace(int i) const {
  int j = around(i);
  while (j >= 0 && !is(j, "{")) j = around(j);
  return j;
}

Brace Source::context(int i) const {
  const int b = enclosing_brace(i);
  return b < 0 ? Brace::name_space : brace[static_cast<std::size_t>(b)];
}

std::string Source::flat(int b, int e) const {
  std::string out;
  for (int i = b; i < e; ++i) {
    if (i > b && (at(i).space_before || at(i - 1).space_after)) out += ' ';
    out += at(i).text;
  }
  return out;
}

}  // namespace assay::mutants
