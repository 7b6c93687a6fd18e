#include "reference/ops/formula/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <functional>
#include <optional>

#include "reference/near_names.hpp"

namespace assay::formula {
namespace {

constexpr std::array<std::string_view, 6> kReductions = {"sum", "mean", "max", "min", "argmax", "top"};
bool is_reduction(std::string_view name) { return std::ranges::find(kReductions, name) != kReductions.end(); }

enum class Token : std::uint8_t { number, name, sign, end };
struct Word {
  Token kind = Token::end;
  std::string text;
  At at;
};

bool letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool digit(char c) { return c >= '0' && c <= '9'; }

// The words of one statement, which may go over several lines.
class Words {
 public:
  // Cuts one physical line and adds what it has. Returns whether the statement goes on: in a bracket, or
  // behind a comma.
  bool add(std::string_view line, int number) {
    std::size_t at = 0;
    const auto here = [&] { return At{number, static_cast<int>(at) + 1}; };
    while (at < line.size()) {
      const char c = line[at];
      if (c == '#') break;
      if (c == ' ' || c == '\t' || c == '\r') {
        ++at;
        continue;
      }
      std::size_t end = at + 1;
      if (letter(c)) {
        while (end < line.size() && (letter(line[end]) || digit(line[end]))) ++end;
        push(Token::name, line.substr(at, end - at), here());
      } else if (digit(c)) {
        while (end < line.size() && digit(line[end])) ++end;
        if (end + 1 < line.size() && line[end] == '.' && digit(line[end + 1]))
          for (++end; end < line.size() && digit(line[end]);) ++end;
        if (end < line.size() && (line[end] == 'e' || line[end] == 'E')) {
          std::size_t power = end + 1;
          if (power < line.size() && (line[power] == '-' || line[power] == '+')) ++power;
          if (power < line.size() && digit(line[power])) {
            for (end = power; end < line.size() && digit(line[end]);) ++end;
          }
        }
        push(Token::number, line.substr(at, end - at), here());
      } else {
        static constexpr std::array<std::string_view, 6> kPairs = {"<=", ">=", "==", "!=", "..", "//"};
        const std::string_view two = line.substr(at, 2);
        if (std::ranges::find(kPairs, two) != kPairs.end())
          end = at + 2;
        else if (std::string_view("+-*/%^()[],:=<>|").find(c) == std::string_view::npos)
          fail(here(), fmt::format("unexpected character '{}'", excerpt(line.substr(at, 1))));
        if (c == '(' || c == '[') ++depth_;
        if (c == ')' || c == ']') --depth_;
        push(Token::sign, line.substr(at, end - at), here());
      }
      at = end;
    }
    end_ = {number, static_cast<int>(line.size()) + 1};
    return depth_ > 0 || (!words_.empty() && words_.back().text == ",");
  }

  bool empty() const { return words_.empty(); }
  bool done() const { return next_ == words_.size(); }
  At at() const { return done() ? end_ : words_[next_].at; }
  const Word& peek(std::size_t ahead = 0) const {
    static const Word none;
    return next_ + ahead < words_.size() ? words_[next_ + ahead] : none;
  }
  bool sees(std::string_view sign) const { return !done() && peek().text == sign; }
  bool accept(std::string_view sign) {
    if (!sees(sign)) return false;
    ++next_;
    return true;
  }
  void need(std::string_view sign) {
    if (!accept(sign)) expected(fmt::format("'{}'", sign));
  }
  std::string take(Token kind, std::string_view what) {
    if (peek().kind != kind) expected(std::string(what));
    return words_[next_++].text;
  }
  std::string name(std::string_view what = "a name") { return take(Token::name, what); }
  std::string any(std::string_view what) {
    if (done()) expected(std::string(what));
    return words_[next_++].text;
  }
  [[noreturn]] void expected(const std::string& what) const {
    fail(at(), fmt::format("expected {}, got {}", what,
                           done() ? "the end of the line" : fmt::format("'{}'", excerpt(peek().text))));
  }

 private:
  void push(Token kind, std::string_view text, At at) { words_.push_back({kind, std::string(text), at}); }
  std::vector<Word> words_;
  std::size_t next_ = 0;
  int depth_ = 0;
  At end_;
};

double number_of(const std::string& text) {
  double x = 0;
  std::from_chars(text.data(), text.data() + text.size(), x);
  return x;
}

// Precedence from loosest to tightest; all to the left.
const std::vector<std::vector<std::string_view>> kLevels = {
    {"or"}, {"and"}, {"<", "<=", ">", ">=", "==", "!="}, {"+", "-"}, {"*", "/", "//", "%"}};
constexpr std::size_t kSums = 3;  // the level of + and -: extents and ranks
constexpr int kDeepest = 200;     // nested brackets, so that no text can use up the stack

class Parser {
 public:
  explicit Parser(Words& words) : w_(words) {}

  Node expression(std::size_t level = 0) {
    if (level == kLevels.size()) return unary();
    Node left = expression(level + 1);
    while (std::ranges::find(kLevels[level], w_.peek().text) != kLevels[level].end() && !w_.done()) {
      const At at = w_.at();
      const std::string op = w_.any("an operator");
      Node right = expression(level + 1);
      left = Node{NodeKind::binary, op, {std::move(left), std::move(right)}, at};
    }
    return left;
  }
  Node extent() { return expression(kSums); }

  std::vector<Node> listed(const std::string& close) {
    std::vector<Node> items;
    while (!w_.sees(close)) {
      items.push_back(expression());
      if (!w_.accept(",")) break;
    }
    w_.need(close);
    return items;
  }

 private:
  struct Depth {
    explicit Depth(Parser& p) : parser(p) {
      if (++p.depth_ > kDeepest) fail(p.w_.at(), fmt::format("more than {} nested brackets", kDeepest));
    }
    ~Depth() { --parser.depth_; }
    Depth(const Depth&) = delete;
    Depth& operator=(const Depth&) = delete;
    Parser& parser;
  };

  Node unary() {
    const Depth depth(*this);
    const At at = w_.at();
    if (w_.accept("-")) return Node{NodeKind::call, "neg", {unary()}, at};
    if (w_.accept("not")) return Node{NodeKind::call, "not", {unary()}, at};
    Node base = atom();
    if (!w_.accept("^")) return base;
    const At power_at = w_.at();
    const std::string power = w_.take(Token::number, "a whole exponent");
    Node node{NodeKind::power, "^", {std::move(base)}, at, number_of(power), true};
    if (power.find_first_not_of("0123456789") != std::string::npos || node.number < 1 || node.number > 16)
      fail(power_at, fmt::format("an exponent is a whole number of 1..16, got {}", power));
    return node;
  }

  Node atom() {
    const At at = w_.at();
    if (w_.accept("(")) {
      Node inner = expression();
      w_.need(")");
      return inner;
    }
    if (w_.peek().kind == Token::number) {
      const std::string text = w_.take(Token::number, "a number");
      Node n{NodeKind::number, text, {}, at, number_of(text)};
      n.whole = text.find_first_not_of("0123456789") == std::string::npos;
      return n;
    }
    if (w_.peek().kind != Token::name) w_.expected("a number, a name or '('");
    const std::string name = w_.name();
    if (w_.accept("[")) return Node{NodeKind::ref, name, listed("]"), at};
    if (!w_.accept("(")) return Node{NodeKind::ref, name, {}, at};
    return call(name, at);
  }

  Node call(const std::string& name, At at) {
    if (name == "cast") {
      const std::string word = w_.name("the name of the rounding");
      w_.need(",");
      Node inner = expression();
      w_.need(")");
      return Node{NodeKind::cast, word, {std::move(inner)}, at};
    }
    const bool names_index =
        w_.peek().kind == Token::name && (w_.peek(1).text == ":" || w_.peek(1).text == "<");
    if (name == "top" || (is_reduction(name) && names_index)) {
      Node node{NodeKind::reduce, name, {}, at};
      std::vector<Node> rank;
      if (name == "top") {
        rank.push_back(extent());
        w_.need(",");
      }
      node.index = w_.name("the index that is gone over");
      if (w_.accept("<")) node.extent.push_back(extent());
      w_.need(":");
      node.args.push_back(expression());
      for (Node& r : rank) node.args.push_back(std::move(r));
      w_.need(")");
      return node;
    }
    const auto& known = functions();
    const auto found = std::ranges::find(known, name, &Function::name);
    if (found == known.end()) {
      if (is_reduction(name)) fail(at, fmt::format("expected {}(index: expression)", name));
      std::vector<std::string> names = names_of(known);
      for (const auto& r : kReductions) names.emplace_back(r);
      names.emplace_back("cast");
      fail(at, fmt::format("no function '{}'; {}", excerpt(name), suggest(name, names)));
    }
    Node node{NodeKind::call, name, listed(")"), at};
    if (static_cast<int>(node.args.size()) != found->arguments)
      fail(at, fmt::format("{} takes {} argument{}, got {}", name, found->arguments,
                           found->arguments == 1 ? "" : "s", node.args.size()));
    return node;
  }

  Words& w_;
  int depth_ = 0;
};

// The text of a range or a list of words up to `stop` or the next comma: "1e-30..1", "f32|f16|bf16".
std::string run_of(Words& w, std::string_view stop) {
  std::string text;
  while (!w.done() && !w.sees(",") && !w.sees(stop)) text += w.any("a value");
  return text;
}

// Whether a statement stands at the margin: a bracket before it was left open.
bool begins_statement(std::string_view text) {
  static constexpr std::array<std::string_view, 9> kStatements = {
      "op ", "sizes ", "attribute ", "in ", "let ", "out ", "along ", "require ", "example "};
  return std::ranges::any_of(kStatements, [&](std::string_view s) { return text.starts_with(s); });
}

class Statements {
 public:
  void statement(Words& w, bool indented) {
    const At at = w.at();
    Parser p(w);
    const std::string word = w.name("a statement");
    if (indented && t_.along.empty()) fail(at, "an indented line belongs to an `along` above it");
    if (!indented) along_.clear();
    if (word == "op") {
      t_.name = w.name("the name of an op");
    } else if (word == "sizes") {
      do {
        const std::string name = w.name("the name of a size");
        const std::string range = run_of(w, ",");
        t_.sizes.push_back({name, range.empty() ? "1..16777216" : range});
      } while (w.accept(","));
    } else if (word == "attribute") {
      attributes(w);
    } else if (word == "in") {
      inputs(w, p);
    } else if (word == "require") {
      t_.require.push_back(p.expression());
    } else if (word == "along") {
      along_ = w.name("the index of the recurrence");
      w.need("<");
      if (!t_.along.emplace(along_, p.extent()).second)
        fail(at, fmt::format("'{}' is the index of another recurrence already", along_));
    } else if (word == "let" || word == "out" || word == "state") {
      equation(w, p, word, at);
    } else {
      fail(at, fmt::format("no statement '{}'; {}", excerpt(word),
                           suggest(word, {"op", "sizes", "attribute", "in", "let", "out", "state", "along",
                                          "require", "example"})));
    }
    if (!w.done()) w.expected("the end of the line");
  }

  Text t_;

 private:
  void attributes(Words& w) {
    do {
      AttributeLine a;
      a.name = w.name("the name of an attribute");
      const At at = w.at();
      a.kind = w.name("real, int, format or word");
      static constexpr std::array<std::string_view, 4> kKinds = {"real", "int", "format", "word"};
      if (std::ranges::find(kKinds, a.kind) == kKinds.end())
        fail(at, fmt::format("expected real, int, format or word, got '{}'", excerpt(a.kind)));
      a.allowed = run_of(w, "=");
      w.need("=");
      a.fallback = run_of(w, ",");
      if (a.fallback.empty()) w.expected("a value");
      t_.attributes.push_back(std::move(a));
    } while (w.accept(","));
  }

  void inputs(Words& w, Parser& p) {
    do {
      Input in;
      in.name = w.name("the name of an input");
      if (w.accept("[")) in.axes = p.listed("]");
      in.at = w.at();
      in.format = w.name("a format");
      if (!w.done() && !w.sees(",")) {
        in.range.push_back(p.extent());
        w.need("..");
        in.range.push_back(p.extent());
        in.distinct = w.accept("distinct");
      }
      t_.inputs.push_back(std::move(in));
    } while (w.accept(","));
  }

  void equation(Words& w, Parser& p, const std::string& word, At at) {
    Equation e;
    e.kind = word == "let" ? EquationKind::let : word == "out" ? EquationKind::out : EquationKind::state;
    e.at = at;
    e.along = along_;
    e.name = w.name("the name of what is defined");
    if (w.accept("[")) {
      while (!w.sees("]")) {
        Index i{w.name("an index"), {}};
        if (w.accept("<")) i.extent.push_back(p.extent());
        e.indices.push_back(std::move(i));
        if (!w.accept(",")) break;
      }
      w.need("]");
    }
    if (!w.sees("=")) e.format = w.name("a format or '='");
    w.need("=");
    e.value = p.expression();
    if (e.kind == EquationKind::state) {
      if (along_.empty()) fail(at, "a state stands below an `along`");
      if (e.format.empty()) fail(at, fmt::format("state {} needs a format", e.name));
      w.need("from");
      const std::string sign = w.accept("-") ? "-" : "";
      e.source = sign + w.any("an input or a number");
    }
    if (e.kind == EquationKind::out && e.format.empty())
      fail(at, fmt::format("out {} needs a format, behind its brackets", e.name));
    for (const Equation& other : t_.equations)
      if (other.name == e.name)
        fail(at, fmt::format("{} is defined on line {} already", e.name, other.at.line));
    for (const Input& in : t_.inputs)
      if (in.name == e.name) fail(at, fmt::format("{} is an input", e.name));
    t_.equations.push_back(std::move(e));
  }

  std::string along_;
};

}  // namespace

void fail(At at, const std::string& message) {
  throw InputError(InputErrorKind::bad_value,
                   fmt::format("line {}, column {}: {}", at.line, at.column, message));
}

const std::vector<Function>& functions() {
  static const std::vector<Function> kFunctions = {
      {"exp", 1},   {"exp2", 1},     {"log", 1},      {"log2", 1}, {"sin", 1},   {"cos", 1},  {"tanh", 1},
      {"erf", 1},   {"sigmoid", 1},  {"softplus", 1}, {"sqrt", 1}, {"rsqrt", 1}, {"abs", 1},  {"round", 1},
      {"floor", 1}, {"exponent", 1}, {"min", 2},      {"max", 2},  {"clamp", 3}, {"where", 3}};
  return kFunctions;
}

std::string print(const Node& n) {
  std::string text;
  const auto list = [&](const std::vector<Node>& nodes) {
    for (std::size_t i = 0; i < nodes.size(); ++i) text += (i > 0 ? "," : "") + print(nodes[i]);
  };
  switch (n.kind) {
    case NodeKind::number:
      return n.name;
    case NodeKind::ref:
      text = n.name;
      if (!n.args.empty()) text += "[", list(n.args), text += "]";
      return text;
    case NodeKind::binary:
      return fmt::format("({}{}{})", print(n.args[0]), n.name, print(n.args[1]));
    case NodeKind::power:
      return fmt::format("{}^{}", print(n.args[0]), n.number);
    case NodeKind::call:
    case NodeKind::cast:
    case NodeKind::reduce:
      text = n.name + "(" + n.index;
      if (!n.extent.empty()) text += "<" + print(n.extent[0]);
      if (!n.index.empty()) text += ":";
      list(n.args);
      return text + ")";
  }
  return text;
}

Text parse(std::string_view text) {
  Statements s;
  s.t_.source = text;
  Words words;
  bool indented = false;
  int number = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(text.size(), end + 1));
    ++number;
    if (words.empty()) {
      indented = !line.empty() && (line.front() == ' ' || line.front() == '\t');
      const std::size_t first = line.find_first_not_of(" \t\r");
      if (first != std::string_view::npos && line.substr(first).starts_with("example ")) {
        const std::size_t stop = std::min(line.find('#'), line.size());
        const std::string_view rest = line.substr(first + 8, stop - first - 8);
        s.t_.example = rest.substr(0, rest.find_last_not_of(" \t\r") + 1);
        continue;
      }
      if (s.t_.name.empty() && line.starts_with("op "))
        if (const auto comment = line.find('#'); comment != std::string_view::npos)
          s.t_.comment = line.substr(std::min(line.find_first_not_of("# ", comment), line.size()));
    }
    if (words.add(line, number) && !text.empty() && !begins_statement(text)) continue;
    if (!words.empty()) s.statement(words, indented);
    words = {};
  }
  if (s.t_.name.empty()) fail({1, 1}, "no line `op NAME`");
  const bool output =
      std::ranges::any_of(s.t_.equations, [](const Equation& e) { return e.kind == EquationKind::out; });
  if (!output) fail({number, 1}, "no line `out ...`: an op has at least one output");
  return s.t_;
}

}  // namespace assay::formula
