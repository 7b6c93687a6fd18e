#include "cases/studies/mutants/generator/sites.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <set>

#include <fmt/format.h>

namespace assay::mutants {
namespace {

constexpr std::array<std::string_view, 11> kAssignments = {
    "=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="};
bool one_of(std::string_view t, std::initializer_list<std::string_view> list) {
  return std::ranges::find(list, t) != list.end();
}

constexpr std::size_t kValueNarrowings =
    6;  // the first of narrowings(), those that any value may get; the rest are for sums
constexpr std::size_t kOthers = 8;  // from here on: other widths

class Finder {
 public:
  Finder(const Source& source, const Rules& rules) : s_(source), rules_(rules) {}

  std::vector<Region> find() {
    mark_frozen();
    for (int i = 0; i < s_.count(); ++i) {
      if (frozen_[static_cast<std::size_t>(i)]) continue;
      literal(i);
      word(i);
      unary(i);
      binary(i);
      swapped_indices(i);
      condition(i);
      loop(i);
      statement(i);
      if (rules_.values) value(i);
      if (rules_.values) rounding(i);
    }
    return sorted();
  }

 private:
  const Source& s_;
  const Rules& rules_;
  std::vector<bool> frozen_;  // tokens that must stay as they are
  std::vector<Region> regions_;

  // Of two regions over the same tokens the outer one comes first.
  static int rank(RegionForm form) {
    return form == RegionForm::statement ? 0 : form == RegionForm::value ? 1 : 2;
  }
  const Token& at(int i) const { return s_.at(i); }
  bool is(int i, std::string_view t) const { return s_.is(i, t); }
  bool assignment(int i) const {
    return at(i).kind == TokenKind::punctuation && at(i).spaced() &&
           std::ranges::find(kAssignments, at(i).text) != kAssignments.end();
  }
  void freeze(int begin, int end) {
    for (int i = std::max(0, begin); i < end && i < s_.count(); ++i)
      frozen_[static_cast<std::size_t>(i)] = true;
  }
  int statement_end(int i) const {  // the ";" behind token i at its level, or the bracket that ends the level
    while (i < s_.count() && !is(i, ";") && !s_.closes(i)) i = s_.opens(i) ? s_.partner(i) + 1 : i + 1;
    return i;
  }

  // The name of the function whose body a brace opens: what stands in front of the first "(" of its head.
  std::string function_name(int brace) const {
    for (int j = s_.segment_start(brace); j < brace; ++j)
      if (is(j, "(") && s_.identifier(j - 1)) return at(j - 1).text;
    return "";
  }
  bool skipped(const std::string& name) const {
    return std::ranges::any_of(rules_.skipped_functions, [&](const std::string& rule) {
      return rule[0] == '*' ? name.ends_with(rule.substr(1)) : name == rule;
    });
  }

  void mark_frozen() {
    frozen_.assign(s_.tokens.size(), false);
    for (int i = 0; i < s_.count(); ++i) {
      if (s_.template_bracket(i) && s_.opens(i)) freeze(i, s_.partner(i) + 1);
      if (is(i, "static_assert") || is(i, "sizeof") || is(i, "alignas")) freeze(i, s_.partner(i + 1) + 1);
      if (is(i, "constexpr") && is(i - 1, "if")) freeze(i, s_.partner(i + 1) + 1);
      if (is(i, "case")) {
        int e = i;
        while (!(is(e, ":"))) ++e;
        freeze(i, e);
      }
      if (one_of(at(i).text, {"throw", "using", "operator", "typedef"})) freeze(i, statement_end(i));
      if (is(i, "if") && is(i + 1, "(")) {  // a guard against calls that are never made
        const int body = s_.partner(i + 1) + 1;
        if (is(body, "throw") || (is(body, "{") && is(body + 1, "throw"))) freeze(i, body + 1);
      }
      // std::vector<T> name(size): memory that is too large shows nothing, and too small is a matter of luck.
      if (is(i, "vector") && s_.context(i) == Brace::code && is(i + 1, "<") &&
          s_.identifier(s_.partner(i + 1) + 1))
        freeze(i, statement_end(i));
      if (is(i, "{") && s_.brace[static_cast<std::size_t>(i)] == Brace::enumeration) freeze(i, s_.partner(i));
      if (is(i, "{") && s_.brace[static_cast<std::size_t>(i)] == Brace::code && skipped(function_name(i)))
        freeze(s_.segment_start(i), s_.partner(i) + 1);
      if (is(i, ".") && s_.identifier(i + 1) && (is(i - 1, "{") || is(i - 1, ",")) && is(i + 2, "="))
        freeze(i, statement_end(i));
      if (is(i, "constexpr") && !is(i - 1, "if")) {
        const int end = statement_end(i);
        if (!table(i)) freeze(i, end);
      }
      // Array bounds of declarations: two names in a row in front of "[".
      if (is(i, "[") && s_.identifier(i - 1) && !is(i - 1, "return") && i >= 2 &&
          (s_.identifier(i - 2) || is(i - 2, ">") || is(i - 2, "*")) && !is(i - 2, "return") &&
          !at(i - 2).spaced())
        freeze(i, s_.partner(i) + 1);
    }
    // Heads of functions and whatever else is no initialiser at namespace level.
    for (int i = 0; i < s_.count(); ++i)
      if (!frozen_[static_cast<std::size_t>(i)] && !live(i)) frozen_[static_cast<std::size_t>(i)] = true;
  }

 public:
  bool table(int i) const {
    if (!rules_.tables || s_.context(i) == Brace::code) return false;
    const int end = statement_end(i);
    int open = -1;
    for (int j = i; j < end; ++j)
      if (is(j, "{") && open < 0) open = j;
    if (open < 0 || s_.brace[static_cast<std::size_t>(open)] != Brace::initializer) return false;
    for (int j = i; j < end; ++j)
      if (is(j, "Kernel") || is(j, "string_view")) return false;
    return true;
  }

 private:
  // Whether a token is executed: in code, in an initialiser, in a member's default or a constructor's list.
  bool live(int i) const {
    int b = i;
    for (int j = s_.enclosing_brace(i);; j = s_.enclosing_brace(j)) {
      const Brace kind = j < 0 ? Brace::name_space : s_.brace[static_cast<std::size_t>(j)];
      if (kind == Brace::code) return true;
      if (kind == Brace::enumeration) return false;
      if (kind != Brace::initializer) break;
      b = j;
    }
    // At the level of a type or a namespace: behind "=" of a declaration, or behind " : " of a constructor.
    int level = b;
    while (s_.around(level) >= 0 && !is(s_.around(level), "{")) level = s_.around(level);
    const int start = s_.segment_start(level);
    for (int j = start; j < level; j = s_.opens(j) ? s_.partner(j) + 1 : j + 1) {
      if (is(j, ":") && at(j).spaced() && is(j - 1, ")")) return true;
      if (is(j, "=") && at(j).spaced() && !is(j + 1, "default") && !is(j + 1, "delete") && !is(j - 1, ")"))
        return true;
    }
    return b != i && is(b, "{");  // T name{...}
  }

  bool control(int close) const {  // ")" of if, for, while, switch
    const int open = s_.partner(close);
    return is(close, ")") && open > 0 &&
           (one_of(at(open - 1).text, {"if", "for", "while", "switch"}) || is(open - 1, "constexpr"));
  }

  // The smallest whole expression around operator i; {0, 0} when there is none.
  std::pair<int, int> expression(int i, bool logical) const {
    int b = i, e = i + 1;
    for (int j = i - 1; j >= 0; --j) {
      if (j == s_.around(i)) break;
      const std::string& t = at(j).text;
      if ((is(j, "}") && !value_braces(s_.partner(j))) || t == "," || t == ";" || t == "return" ||
          t == "else" || t == "do")
        break;
      if (assignment(j) || (at(j).spaced() && (t == "?" || t == ":"))) break;
      if (!logical && (t == "&&" || t == "||") && at(j).space_before) break;
      if (s_.closes(j)) {
        if (control(j)) break;
        j = s_.partner(j);
      }
      b = j;
    }
    for (int j = i + 1; j < s_.count(); ++j) {
      const std::string& t = at(j).text;
      if (s_.closes(j) || t == "," || t == ";") break;
      if (assignment(j)) return {0, 0};
      if (at(j).spaced() && (t == "?" || t == ":")) break;
      if (!logical && (t == "&&" || t == "||") && at(j).space_before) break;
      if (is(j, "{") && !value_braces(j)) return {0, 0};
      if (s_.opens(j)) j = s_.partner(j);
      e = j + 1;
    }
    if (b >= i || e <= i + 1) return {0, 0};
    if (is(b, ":")) return {0, 0};
    return clean(b, e) ? std::pair{b, e} : std::pair{0, 0};
  }
  bool value_braces(int open) const {  // T{...}
    return open > 0 && is(open, "{") && s_.brace[static_cast<std::size_t>(open)] == Brace::initializer &&
           s_.identifier(open - 1) && !is(open - 1, "return");
  }
  bool clean(int b, int e) const {  // no text, no lambda: those do not survive being written twice
    for (int j = b; j < e; ++j)
      if (at(j).kind == TokenKind::string || (is(j, "{") && !value_braces(j)) ||
          one_of(at(j).text, {"to_string", "string", "substr", "starts_with"}))
        return false;
    return true;
  }

  void add(int b, int e, RegionForm form, int line, std::string kind, std::string before, std::string after) {
    auto found = std::ranges::find_if(
        regions_, [&](const Region& r) { return r.begin == b && r.end == e && rank(r.form) == rank(form); });
    if (found == regions_.end()) {
      regions_.push_back({b, e, form, {}});
      found = regions_.end() - 1;
    }
    if (form != RegionForm::expression) found->form = form;
    for (const auto& m : found->mutants)
      if (m.after == after) return;
    found->mutants.push_back(
        {0, line, refine(b, line, std::move(kind)), std::move(before), std::move(after)});
  }
  void replace(int b, int e, int i, int n, const std::string& with, const std::string& kind) {
    std::string after = s_.flat(b, i);
    if (i > b && at(i).space_before) after += ' ';
    after += with;
    if (i + n < e && (at(i + n - 1).space_after)) after += ' ';
    after += s_.flat(i + n, e);
    add(b, e, RegionForm::expression, at(i).line, kind, s_.flat(b, e), after);
  }

  // A change of a generic kind where it has a name of its own in the table of classes.
  std::string refine(int token, int line, std::string kind) const {
    if (!one_of(kind, {"constant", "arithmetic", "comparison", "condition"})) return kind;
    const std::string& f = s_.file;
    const std::string& text = s_.lines[static_cast<std::size_t>(line - 1)];
    const auto has = [&](std::string_view word) { return text.find(word) != std::string::npos; };
    std::string function;
    for (int b = s_.enclosing_brace(token); b >= 0; b = s_.enclosing_brace(b))
      if (s_.brace[static_cast<std::size_t>(b)] == Brace::code) function = function_name(b);
    const auto in = [&](std::initializer_list<std::string_view> names) { return one_of(function, names); };
    if (in({"scale_index", "write_scales", "write_unit_scales", "epilogue_scale"}) || has("scales["))
      return "scale";
    if (in({"visible", "gather"}) || has("mask") || has("causal")) return "mask";
    if (kind == "comparison" || kind == "condition") return kind;
    if (f.find("norm") != std::string::npos) return "variance";
    if (has("top") && (has("exp") || has("factor") || has("max"))) return "softmax";
    if (in({"for_blocks", "key_row", "query_row", "row_offset", "element_offset"}) || has("% ") ||
        has("offset"))
      return "index";
    if (kind == "constant" &&
        (f.find("codecs") != std::string::npos || f.find("blocks") != std::string::npos ||
         f.find("layouts") != std::string::npos))
      return "codec";
    return kind;
  }

  void literal(int i) {
    if (at(i).kind != TokenKind::number) {
      if (is(i, "true") || is(i, "false"))
        replace(i, i + 1, i, 1, is(i, "true") ? "false" : "true", "condition");
      return;
    }
    const std::string t = at(i).text;
    const auto put = [&](const std::string& with) { replace(i, i + 1, i, 1, with, "constant"); };
    const bool hex = t.starts_with("0x") || t.starts_with("0X");
    const bool real = t.find('.') != std::string::npos ||
                      (hex ? t.find('p') != std::string::npos : t.find('e') != std::string::npos);
    if (real) {
      const bool single = t.back() == 'F' || t.back() == 'f';
      if (std::strtod(t.c_str(), nullptr) == 0) return put(single ? "1.0F" : "1.0");
      return put(t + (single ? " * 1.01F" : " * 1.01"));
    }
    const std::size_t suffix = t.find_first_of(hex ? "uUlL" : "uUlLfF");
    const std::string ending = suffix == std::string::npos ? "" : t.substr(suffix);
    const unsigned long long n = std::strtoull(t.c_str(), nullptr, 0);
    if (hex) {
      unsigned long long top = 1;
      while (top <= n / 2) top *= 2;
      return put(fmt::format("0x{:X}{}", n ^ (i % 2 == 0 ? 1 : top), ending));
    }
    put(fmt::format("{}{}", n > 0 && i % 2 == 0 ? n - 1 : n + 1, ending));
  }

  // Names that stand for something else of the same type.
  void word(int i) {
    if (!s_.identifier(i)) return;
    struct Swap {
      std::string_view from, to, kind;
      bool qualified;  // only behind "::"
    };
    static constexpr std::array<Swap, 24> kSwaps = {{
        {"nearbyint", "trunc", "rounding", true},
        {"nearbyint", "round", "rounding", true},
        {"nearbyint", "floor", "rounding", true},
        {"fabs", "cbrt", "arithmetic", true},
        {"exp", "exp2", "softmax", true},
        {"exp", "expm1", "softmax", true},
        {"max", "min", "arithmetic", true},
        {"min", "max", "arithmetic", true},
        {"fmax", "fmin", "arithmetic", true},
        {"fmin", "fmax", "arithmetic", true},
        {"sqrt", "cbrt", "variance", true},
        {"tanh", "atan", "arithmetic", true},
        {"isnan", "isinf", "condition", true},
        {"isfinite", "isnan", "condition", true},
        {"log", "log2", "arithmetic", true},
        {"kE4m3fn", "kE4m3fnuz", "codec", false},
        {"e4m3fn_value", "e4m3fnuz_value", "codec", false},
        {"f16_value", "bf16_value", "codec", false},
        {"f16_code", "bf16_code", "codec", false},
        {"to_f16", "to_bf16", "codec", false},
        {"from_f16", "from_bf16", "codec", false},
        {"nan_only", "finite", "codec", true},
        {"minus_zero", "nan_only", "codec", true},
        {"ieee", "finite", "codec", true},
    }};
    for (const auto& swap : kSwaps) {
      if (at(i).text != swap.from || is(i, "ieee") != (swap.from == "ieee")) continue;
      if (swap.qualified != is(i - 1, "::")) continue;
      if (s_.context(i) != Brace::code && swap.kind != "codec") continue;
      if (s_.context(i) != Brace::code && !swap.qualified) continue;  // an argument of a template
      if (swap.qualified && is(i + 1, "<")) continue;
      int b = i;
      while (is(b - 1, "::") || (s_.identifier(b - 1) && is(b, "::"))) --b;
      if (is(b - 1, "&") || is(b - 1, ".") || (s_.identifier(b - 1) && !is(b - 1, "return"))) b = i;
      if (b == i && swap.qualified) continue;
      int e = i + 1;
      if (is(e, "(")) e = s_.partner(e) + 1;
      if (!swap.qualified && is(i - 1, ".")) {  // a member: the whole postfix expression
        if (!s_.identifier(i - 2)) continue;
        b = i - 2;
      }
      if (swap.qualified && !is(b, "std") && !is(b, "Top")) continue;
      if (b > 0 && s_.around(i) != s_.around(b)) continue;
      if (s_.identifier(b - 1) && !is(b - 1, "return")) continue;
      if (clean(b, e)) replace(b, e, i, 1, std::string(swap.to), std::string(swap.kind));
    }
  }

  int postfix_end(int i) const {  // behind the primary expression at i
    if (is(i, "(")) {
      i = s_.partner(i) + 1;
    } else if (s_.identifier(i) || at(i).kind == TokenKind::number) {
      ++i;
    } else {
      return -1;
    }
    for (;;) {
      if (is(i, "::") || (is(i, ".") && s_.identifier(i + 1)) || (is(i, "->") && s_.identifier(i + 1))) {
        i += 2;
      } else if (is(i, "(") || is(i, "[") || (is(i, "<") && s_.template_bracket(i)) || value_braces(i)) {
        i = s_.partner(i) + 1;
      } else {
        return i;
      }
    }
  }

  void unary(int i) {
    if ((!is(i, "-") && !is(i, "!")) || at(i).space_after) return;
    if (s_.identifier(i - 1) && !is(i - 1, "return")) return;
    const int e = postfix_end(i + 1);
    if (e > 0 && clean(i, e)) replace(i, e, i, 1, "", is(i, "-") ? "arithmetic" : "condition");
  }

  void binary(int i) {
    if (at(i).kind != TokenKind::punctuation || !at(i).spaced()) return;
    static const std::map<std::string, std::pair<const char*, std::vector<std::string>>> kOperators = {
        {"+", {"arithmetic", {"-"}}},   {"-", {"arithmetic", {"+"}}},  {"*", {"arithmetic", {"/"}}},
        {"/", {"arithmetic", {"*"}}},   {"%", {"index", {"/"}}},       {"<<", {"codec", {">>"}}},
        {">>", {"codec", {"<<"}}},      {"&", {"codec", {"|"}}},       {"|", {"codec", {"&"}}},
        {"^", {"codec", {"|"}}},        {"<", {"comparison", {"<="}}}, {"<=", {"comparison", {"<"}}},
        {">", {"comparison", {">="}}},  {">=", {"comparison", {">"}}}, {"==", {"comparison", {"!="}}},
        {"!=", {"comparison", {"=="}}}, {"&&", {"condition", {"||"}}}, {"||", {"condition", {"&&"}}}};
    const auto found = kOperators.find(at(i).text);
    if (found == kOperators.end()) return;
    const bool logical = is(i, "&&") || is(i, "||");
    const auto [b, e] = expression(i, logical);
    if (b == e) return;
    for (const auto& with : found->second.second) {
      if (pointer_sum(b, e) && with != "<=" && with != ">=" && with != "<" && with != ">" &&
          !(is(i, "+") && with == "-") && arithmetic(i))
        continue;
      replace(b, e, i, 1, with, in_for_header(i) ? "tile" : found->second.first);
    }
  }
  bool arithmetic(int i) const { return one_of(at(i).text, {"+", "-"}); }
  bool pointer_sum(int b, int e) const {
    for (int j = b; j < e; ++j)
      if (one_of(at(j).text, {"data", "begin", "end", "mismatch"}) && is(j + 1, "(")) return true;
    return false;
  }
  bool in_for_header(int i) const {
    const int open = s_.around(i);
    return open > 0 && is(open, "(") && is(open - 1, "for");
  }

  // f(b, j) -> f(j, b), for names of one letter that are all indices here.
  void swapped_indices(int i) {
    if (!is(i, ",") || s_.around(i) < 0 || !is(s_.around(i), "(")) return;
    const auto index = [&](int j) {
      return s_.identifier(j) && at(j).text.size() == 1 &&
             std::string("bijghste").find(at(j).text) != std::string::npos;
    };
    if (!index(i - 1) || !index(i + 1) || !(is(i - 2, ",") || is(i - 2, "(")) ||
        !(is(i + 2, ",") || is(i + 2, ")")))
      return;
    const int open = s_.around(i);
    if (!s_.identifier(open - 1) || one_of(at(open - 1).text, {"if", "for", "while", "exp"})) return;
    int b = open - 1;
    while (is(b - 1, ".") && s_.identifier(b - 2)) b -= 2;
    if (s_.identifier(b - 1) && !is(b - 1, "return")) return;
    replace(b, s_.partner(open) + 1, i - 1, 3, at(i + 1).text + ", " + at(i - 1).text, "index");
  }

  void condition(int i) {
    if (!is(i, "if") || !is(i + 1, "(") || is(i + 1, "constexpr")) return;
    const int b = i + 2, e = s_.partner(i + 1);
    for (int j = b; j < e; ++j)
      if (assignment(j) || is(j, ";")) return;
    if (!clean(b, e)) return;
    const std::string before = s_.flat(b, e);
    add(b, e, RegionForm::condition, at(b).line, "condition", before, "false");
    add(b, e, RegionForm::condition, at(b).line, "condition", before, "true");
  }

  // for (A; B; C): the last step missed or one too many, every second one left out.
  void loop(int i) {
    if (!is(i, "for") || !is(i + 1, "(")) return;
    const int open = i + 1, close = s_.partner(open);
    std::vector<int> semicolons;
    for (int j = open + 1; j < close; j = s_.opens(j) ? s_.partner(j) + 1 : j + 1)
      if (is(j, ";")) semicolons.push_back(j);
    if (semicolons.size() != 2) return;
    const int b = semicolons[0] + 1, e = semicolons[1];
    int relations = 0, logical = 0;
    for (int j = b; j < e; ++j) {
      if (at(j).spaced() && one_of(at(j).text, {"<", "<=", ">", ">="})) ++relations;
      if (is(j, "&&") || is(j, "||")) ++logical;
    }
    if (relations == 1 && logical == 0 && clean(b, e)) {
      const std::string before = s_.flat(b, e);
      add(b, e, RegionForm::expression, at(b).line, "tail", before, before + " - 1");
    }
    if (is(e + 1, "++") && close == e + 3) {
      add(e + 1, close, RegionForm::discarded, at(e + 1).line, "tile", s_.flat(e + 1, close),
          at(e + 2).text + " += 2");
    } else if (close > e + 3 && is(e + 2, "+=") && clean(e + 1, close)) {
      bool comma = false;
      for (int j = e + 1; j < close; ++j) comma = comma || is(j, ",");
      if (comma) return;
      const std::string before = s_.flat(e + 1, close), step = s_.flat(e + 3, close);
      add(e + 1, close, RegionForm::discarded, at(e + 1).line, "tile", before,
          at(e + 1).text + " += 2 * (" + step + ")");
      if (step != "1")
        add(e + 1, close, RegionForm::discarded, at(e + 1).line, "tile", before,
            at(e + 1).text + " += (" + step + " + 1) / 2");
    }
  }

  // A whole statement: left out, its sum kept in a narrow format, its sign changed.
  void statement(int i) {
    if (s_.context(i) != Brace::code || s_.around(i) != s_.enclosing_brace(i)) return;
    if (!s_.identifier(i) && !is(i, "++") && !is(i, "--") && !is(i, "*")) return;
    const int p = i - 1;
    if (!starts_statement(i) ||
        one_of(at(i).text, {"if",  "for",   "while",  "switch", "return", "case",   "default",  "else",
                            "do",  "const", "auto",   "static", "using",  "struct", "template", "constexpr",
                            "try", "throw", "delete", "goto",   ";",      "{",      "}"}))
      return;
    if (is(p, "}") && s_.brace[static_cast<std::size_t>(s_.partner(p))] == Brace::initializer) return;
    const int end = statement_end(i);
    if (!is(end, ";")) return;
    for (int j = i; j < end; ++j)
      if (is(j, "{") || is(j, "trace") || at(j).kind == TokenKind::string) return;
    const bool jump = is(i, "continue") || is(i, "break");
    int assign = -1;
    for (int j = i; j < end; j = s_.opens(j) ? s_.partner(j) + 1 : j + 1)
      if (assignment(j)) {
        assign = j;
        break;
      }
    if (!jump && assign < 0) {  // a call or ++: the primary expression must reach the end
      const int from = is(i, "++") || is(i, "--") ? i + 1 : i;
      if (postfix_end(from) != end && !(is(end - 1, "++") && postfix_end(from) == end - 1)) return;
      if (from == i && !is(end - 1, ")") && !is(end - 1, "++")) return;
    }
    int target = -1;
    if (assign >= 0) {
      const int from = is(i, "*") ? i + 1 : i;
      target = postfix_end(from);
      if (target != assign) return;  // a declaration
    }
    const std::string before = s_.flat(i, end + 1);
    add(i, end + 1, RegionForm::statement, at(i).line, "statement", before, ";");
    if (assign < 0 || is(assign, "=")) return;
    int comma = assign + 1;  // `a += b, c += d`: the first of them is changed
    while (comma < end && !is(comma, ",")) comma = s_.opens(comma) ? s_.partner(comma) + 1 : comma + 1;
    const std::string left = s_.flat(i, assign), right = s_.flat(assign + 1, comma);
    const std::string rest = comma < end ? s_.flat(comma, end + 1) : ";";
    const bool narrow = floating(i, assign) && one_of(at(assign).text, {"+=", "-=", "*=", "/="});
    const std::size_t first = rules_.other_widths ? kOthers : 0;
    const std::size_t last = rules_.other_widths ? narrowings().size() : rules_.values ? kOthers : 1;
    for (std::size_t k = first; narrow && k < last; ++k)
      add(i, end + 1, RegionForm::statement, at(i).line,
          narrowings()[k].kind == "precision" ? "accumulator" : narrowings()[k].kind, before,
          fmt::format("{} = ::assay_mutants::narrow<{}>({} {} ({})){}", left, k, left, at(assign).text[0],
                      right, rest));
    if (is(assign, "+=")) {
      if (!narrow)
        for (const int bits : {8, 16})
          add(i, end + 1, RegionForm::statement, at(i).line, "accumulator", before,
              fmt::format("{} = ::assay_mutants::integer_sum<{}>({}, {}){}", left, bits, left, right, rest));
      add(i, end + 1, RegionForm::statement, at(i).line, "arithmetic", before,
          fmt::format("{} -= {}{}", left, right, rest));
    }
    if (is(assign, "*="))
      add(i, end + 1, RegionForm::statement, at(i).line, "arithmetic", before,
          fmt::format("{} /= {}{}", left, right, rest));
    if (is(assign, "/="))
      add(i, end + 1, RegionForm::statement, at(i).line, "arithmetic", before,
          fmt::format("{} *= {}{}", left, right, rest));
    if (!is(assign, "="))
      add(i, end + 1, RegionForm::statement, at(i).line, "accumulator", before,
          fmt::format("{} = ::assay_mutants::last({}, {}){}", left, left, right, rest));
  }

  // Whether tokens [b, assign) name a floating-point number: the last name outside of brackets decides.
  bool floating(int b, int assign) const {
    std::string name;
    for (int j = b; j < assign; j = s_.opens(j) ? s_.partner(j) + 1 : j + 1)
      if (s_.identifier(j)) name = at(j).text;
    const bool element = is(assign - 1, "]") || is(b, "*");
    if (element) return rules_.floats.arrays.contains(name);
    return rules_.floats.scalars.contains(name) && !rules_.floats.arrays.contains(name);
  }

  // The value of [b, e), narrowed.
  void narrowed(int b, int e, std::string_view kind) {
    if (b >= e || is(b, "{") || is(b, "[") || is(b, "&") || e == b + 1 || (is(b, "-") && e == b + 2))
      return;  // a copy
    static constexpr std::array<std::string_view, 8> kFewBits = {
        "f16_value",      "bf16_value", "e4m3fn_value", "load_f16",
        "e4m3fnuz_value", "e5m2_value", "e8m0_value",   "small_value"};
    if (s_.identifier(b) && is(b + 1, "(") && s_.partner(b + 1) == e - 1 &&
        std::ranges::find(kFewBits, at(b).text) != kFewBits.end())
      return;  // the value of a code has no bits to lose
    for (int j = b; j < e; ++j)
      if (one_of(at(j).text,
                 {"byte", "int8_t", "size", "numeric_limits", "bit_cast", "e2m1_values", "kIq4Nl", "table",
                  "pair", "Decode", "to_integer", "nearbyint", "round", "ldexp", "frexp"}))
        return;  // codes, integers, powers of two: nothing to lose either
    const int inner = is(b, "double") && is(b + 1, "{")             ? b + 1
                      : is(b, "static_cast") && is(b + 2, "double") ? b + 4
                                                                    : -1;
    if (inner > 0 && s_.partner(inner) == e - 1) return;  // a conversion
    for (int j = b; j < e; j = s_.opens(j) ? s_.partner(j) + 1 : j + 1)
      if (is(j, ",") || assignment(j) || is(j, ";")) return;
    for (const auto& r : regions_)
      if (r.begin == b && r.end == e && r.form == RegionForm::value) return;
    const std::string before = s_.flat(b, e);
    Region region{b, e, RegionForm::value, {}};
    const std::size_t first = rules_.other_widths ? kOthers : 0;
    const std::size_t last = rules_.other_widths ? narrowings().size() : kValueNarrowings;
    region.narrowing = static_cast<int>(first);
    for (std::size_t k = first; k < last; ++k) {
      const Narrowing& n = narrowings()[k];
      region.mutants.push_back(
          {0, at(b).line, n.kind == "precision" ? std::string(kind) : n.kind, before, before + " " + n.text});
    }
    regions_.push_back(std::move(region));
  }

  // The end of an initialiser that begins at token i: the "," or ";" of its level.
  int initializer_end(int i) const {
    while (i < s_.count() && !is(i, ";") && !is(i, ",") && !s_.closes(i))
      i = s_.opens(i) ? s_.partner(i) + 1 : i + 1;
    return i;
  }

  bool returns_float(int i) const {
    for (int b = s_.enclosing_brace(i); b >= 0; b = s_.enclosing_brace(b)) {
      if (s_.brace[static_cast<std::size_t>(b)] != Brace::code) return false;
      for (int j = s_.segment_start(b); j < b; ++j) {
        if (is(j, "]") && is(j + 1, "(")) return false;  // a lambda
        if (is(j, "(") && s_.identifier(j - 1) && !control(s_.partner(j)))
          return is(j - 2, "float") || is(j - 2, "double");
      }
    }
    return false;
  }

  // A code or a row is written as if it were rounded in a direction instead of to the nearest.
  void rounding(int i) {
    if (!s_.identifier(i) || !is(i + 1, "(") || s_.context(i) != Brace::code) return;
    const int close = s_.partner(i + 1);
    std::vector<int> commas;
    for (int j = i + 2; j < close; j = s_.opens(j) ? s_.partner(j) + 1 : j + 1)
      if (is(j, ",")) commas.push_back(j);
    static constexpr std::array<std::string_view, 4> kDirections = {"towards zero", "away from zero", "down",
                                                                    "up"};
    const auto direct = [&](int b, int e, const std::string& bits) {
      if (!clean(b, e)) return;
      for (std::size_t d = 0; d < kDirections.size(); ++d)
        add(b, e, RegionForm::expression, at(b).line, "rounding", s_.flat(b, e),
            fmt::format("::assay_mutants::directed<{}>({}, {})", d, s_.flat(b, e), bits));
    };
    if (is(i, "f16_code") && commas.empty()) direct(i + 2, close, "11");
    if (is(i, "bf16_code") && commas.empty()) direct(i + 2, close, "8");
    if (is(i, "small_code") && commas.size() == 1)
      direct(commas[0] + 1, close, s_.flat(i + 2, commas[0]) + ".fraction_bits + 1");
    if (is(i, "round_to_integer") && commas.size() == 2) direct(i + 2, commas[0], "0");
    if (is(i, "kernel") && is(i - 1, ".") && is(i - 2, "trace") && starts_statement(i - 2))
      add(i - 2, close + 2, RegionForm::statement, at(i).line, "path", s_.flat(i - 2, close + 2),
          "trace.kernel(\"another_kernel\");");
    if (!is(i, "write_row") || commas.size() != 4 || !starts_statement(i)) return;
    const std::string row = s_.flat(commas[1] + 1, commas[2]), count = s_.flat(commas[2] + 1, commas[3]);
    const std::string call = s_.flat(i, commas[1] + 1), target = s_.flat(commas[3], close + 1) + ";";
    const auto written = [&](const char* kind, const std::string& values, const std::string& number) {
      add(i, close + 2, RegionForm::statement, at(i).line, kind, s_.flat(i, close + 2),
          fmt::format("{} {}, {}{}", call, values, number, target));
    };
    written("overrun", row, count + " + 1");
    written("race", fmt::format("::assay_mutants::unsteady_row({}, {})", row, count), count);
    for (const char* format : {"f16", "bf16"})
      for (std::size_t d = 0; d < kDirections.size(); ++d)
        written("rounding",
                fmt::format("::assay_mutants::directed_row<{}>(\"{}\", {}, {}, {})", d, format,
                            s_.flat(commas[0] + 1, commas[1]), row, count),
                count);
  }

  bool starts_statement(int i) const {
    return is(i - 1, ";") || is(i - 1, "{") || is(i - 1, "}") || (is(i - 1, ")") && control(i - 1)) ||
           is(i - 1, "else");
  }

  // Values of floating-point type: initialisers, right-hand sides, results, calls, arguments of elementary
  // functions.
  void value(int i) {
    const std::string& text = s_.lines[static_cast<std::size_t>(at(i).line - 1)];
    const std::string_view kind = text.find("scale") != std::string::npos ? "scale" : "precision";
    if (s_.context(i) != Brace::code) return;
    if ((is(i, "float") || is(i, "double")) && s_.identifier(i + 1)) {
      for (int name = i + 1; s_.identifier(name) && is(name + 1, "=");) {
        const int end = initializer_end(name + 2);
        narrowed(name + 2, end, kind);
        name = is(end, ",") ? end + 1 : s_.count();
      }
    } else if (is(i, "return") && returns_float(i)) {
      narrowed(i + 1, statement_end(i), kind);
    } else if (is(i, "=") && at(i).spaced()) {
      const int start = s_.segment_start(i);
      if (start < i && !s_.identifier(start - 1) && floating(start, i) && !is(start, "float") &&
          !is(start, "double") && !is(start, "const") && !is(start, "for"))
        narrowed(i + 1, initializer_end(i + 1), kind);
    } else if (is(i, "(") && s_.identifier(i - 1) && is(i - 2, "::") && is(i - 3, "std") &&
               one_of(at(i - 1).text, {"exp", "log", "log2", "tanh", "sqrt"})) {
      narrowed(i + 1, s_.partner(i), is(i - 1, "exp") ? "softmax" : kind);
    } else if (s_.identifier(i) && is(i + 1, "(") && rules_.floats.functions.contains(at(i).text) &&
               !starts_statement(i)) {
      int b = i;
      while (is(b - 1, ".") && s_.identifier(b - 2)) b -= 2;
      if (!s_.identifier(b - 1) || is(b - 1, "return"))
        if (!is(b - 1, "::") && !is(b - 1, ">") && !is(b - 1, "*") && !is(b - 1, "&") && !starts_statement(b))
          narrowed(b, s_.partner(i + 1) + 1, at(i).text == "f32_at" ? "scale" : kind);
    }
  }

  std::vector<Region> sorted() {
    std::ranges::sort(regions_, [](const Region& a, const Region& b) {
      return a.begin != b.begin ? a.begin < b.begin
             : a.end != b.end   ? a.end > b.end
                                : rank(a.form) < rank(b.form);
    });
    std::vector<Region> result;
    std::vector<int> ends;
    for (auto& r : regions_) {
      while (!ends.empty() && ends.back() <= r.begin) ends.pop_back();
      if (!ends.empty() && r.end > ends.back()) continue;  // would cut across another
      ends.push_back(r.end);
      result.push_back(std::move(r));
    }
    return result;
  }
};

}  // namespace

std::vector<Region> find_regions(const Source& source, const Rules& rules) {
  return Finder(source, rules).find();
}

bool is_table(const Source& source, int i) {
  const Rules all;
  return Finder(source, all).table(i);
}

}  // namespace assay::mutants
