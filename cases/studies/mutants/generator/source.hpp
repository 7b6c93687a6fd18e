// A C++ source as tokens with just enough structure to mutate it: brackets matched, template brackets told
// from comparisons, and what kind of thing each brace opens. It leans on the project's formatting:
// clang-format puts blanks around binary operators and none inside template brackets.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace assay::mutants {

enum class TokenKind { identifier, number, string, punctuation };

struct Token {
  TokenKind kind;
  std::string text;
  std::size_t begin = 0, end = 0;  // in the source's bytes
  int line = 0;
  bool space_before = false, space_after = false;
  bool spaced() const { return space_before && space_after; }
};

enum class Brace { none, code, initializer, type, name_space, enumeration };

struct Source {
  explicit Source(std::string file_name, std::string source_text);

  std::string file, text;
  std::vector<std::string> lines;
  std::vector<Token> tokens;  // comments and preprocessor lines are not tokens
  std::vector<int> match;     // of each bracket its partner, -1 otherwise
  std::vector<int> parent;    // innermost open bracket around a token, -1 at the top
  std::vector<Brace> brace;   // of each "{" what it opens
  std::vector<bool> angle;    // "<" and ">" that are template brackets

  int count() const { return static_cast<int>(tokens.size()); }
  bool is(int i, std::string_view t) const {
    return i >= 0 && i < count() && tokens[static_cast<std::size_t>(i)].text == t;
  }
  const Token& at(int i) const { return tokens[static_cast<std::size_t>(i)]; }
  bool identifier(int i) const { return i >= 0 && i < count() && at(i).kind == TokenKind::identifier; }
  int partner(int i) const { return match[static_cast<std::size_t>(i)]; }
  int around(int i) const { return parent[static_cast<std::size_t>(i)]; }
  bool opens(int i) const { return partner(i) > i; }
  bool closes(int i) const { return partner(i) >= 0 && partner(i) < i; }
  bool template_bracket(int i) const { return angle[static_cast<std::size_t>(i)]; }
  // The innermost brace around a token and what it opens.
  int enclosing_brace(int i) const;
  Brace context(int i) const;
  // First token of what ends in front of token i at its level: behind the last ";", "{" or "}".
  int segment_start(int i) const;
  // Tokens [b, e) in one line, single blanks where the source has any.
  std::string flat(int b, int e) const;

 private:
  void tokenize();
  void match_brackets();
  Brace classify(int i) const;
};

}  // namespace assay::mutants
