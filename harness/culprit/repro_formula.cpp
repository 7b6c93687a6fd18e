#include "harness/culprit/repro_formula.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

namespace assay::culprit {
namespace {

using formula::Equation;
using formula::EquationKind;
using formula::Node;
using formula::NodeKind;
using formula::Text;

const std::map<std::string_view, std::string_view>& helpers() {
  static const std::map<std::string_view, std::string_view> kAll = {
      {"exp", "def exp(x): return D(x).exp()\n"},
      {"exp2", "def exp2(x): return D(2) ** x\n"},
      {"log", "def log(x): return D(x).ln()\n"},
      {"log2", "def log2(x): return D(x).ln() / D(2).ln()\n"},
      {"sqrt", "def sqrt(x): return D(x).sqrt()\n"},
      {"rsqrt", "def rsqrt(x): return 1 / D(x).sqrt()\n"},
      {"tanh", "def tanh(x): return 1 - 2 / ((2 * x).exp() + 1)\n"},
      {"sigmoid", "def sigmoid(x): return 1 / (1 + (-x).exp())\n"},
      {"softplus", "def softplus(x): return (1 + x.exp()).ln()\n"},
      {"round", "def nearest(x): return D(x).to_integral_value(decimal.ROUND_HALF_EVEN)\n"},
      {"floor", "def floor(x): return D(x).to_integral_value(decimal.ROUND_FLOOR)\n"},
      {"exponent", "def exponent(x): return math.frexp(float(abs(x)))[1] - 1\n"},
      {"clamp", "def clamp(x, low, high): return max(low, min(x, high))\n"},
      {"erf",
       "def erf(x):\n    term, total, n = x, x, 0\n    while abs(x) < 12 and abs(term) > D(\"1e-80\"):\n     "
       "   n += 1\n"
       "        term *= -x * x / n\n        total += term / (2 * n + 1)\n"
       "    return 2 * total / PI.sqrt() if abs(x) < 12 else D(1).copy_sign(x)\n"},
      {"sin",
       "def sin(x):\n    term = total = x = D(x).remainder_near(2 * PI)\n    for n in range(3, 150, 2):\n"
       "        term *= -x * x / (n * (n - 1))\n        total += term\n    return total\n"},
      {"cos", "def cos(x): return sin(D(x) + PI / 2)\n"},
  };
  return kAll;
}
constexpr std::string_view kPi =
    "PI = D(\"3.14159265358979323846264338327950288419716939937510582097494459230781640628620899\")\n";

class Emitter {
 public:
  Emitter(const Text& text, const std::string& output) : text_(text), output_(output) {
    for (const Equation& e : text.equations) {
      for (const formula::Index& index : e.indices) indices_.insert(index.name);
      add_indices(e.value);
    }
    for (const auto& [name, extent] : text.along) indices_.insert(name);
  }

  PythonFormula all() {
    const Equation* judged = equation(output_);
    std::string body = function(*judged);
    for (std::size_t i = 0; i < wanted_.size(); ++i)
      body += function(*equation(wanted_[i]));  // which may want more
    std::string head;
    if (used_.contains("cos")) used_.insert("sin");
    if (used_.contains("sin") || used_.contains("erf")) head += kPi;
    for (const auto& [name, line] : helpers())
      if (used_.contains(name)) head += line;
    return {head + body, {stored_.begin(), stored_.end()}};
  }

 private:
  void add_indices(const Node& n) {
    if (n.kind == NodeKind::reduce) indices_.insert(n.index);
    for (const Node& arg : n.args) add_indices(arg);
  }
  const Equation* equation(std::string_view name) const {
    const auto found = std::ranges::find(text_.equations, name, &Equation::name);
    return found == text_.equations.end() ? nullptr : &*found;
  }
  bool is_input(std::string_view name) const {
    return std::ranges::find(text_.inputs, name, &formula::Input::name) != text_.inputs.end();
  }

  std::string function(const Equation& e) {
    std::string arguments;
    for (const formula::Index& index : e.indices) arguments += (arguments.empty() ? "" : ", ") + index.name;
    const bool judged = e.name == output_;
    std::string before;
    if (e.kind == EquationKind::state) {
      std::string others;
      for (std::size_t i = 1; i < e.indices.size(); ++i) others += ", " + e.indices[i].name;
      before = fmt::format("{} if {} < 0 else ",
                           is_input(e.source) ? fmt::format("at(\"{}\"{})", e.source, others)
                                              : fmt::format("D(\"{}\")", e.source),
                           e.indices[0].name);
    }
    const std::string body = before + value(e.value);
    return judged ? fmt::format("exact = lambda {}: {}\n", arguments, body)
                  : fmt::format("f_{} = functools.cache(lambda {}: {})\n", e.name, arguments, body);
  }

  // NAME[...] with its indices, or a name alone.
  std::string ref(const Node& n, bool whole) {
    std::string indices;
    for (const Node& index : n.args) indices += ", " + value(index, true);
    const Equation* e = equation(n.name);
    std::string text;
    if (is_input(n.name)) {
      text = fmt::format("at(\"{}\"{})", n.name, indices);
    } else if (e == nullptr) {  // an index, a size, an attribute, a word of one
      const auto attribute = std::ranges::find(text_.attributes, n.name, &formula::AttributeLine::name);
      if (attribute != text_.attributes.end() && attribute->kind != "real" && attribute->kind != "int")
        return fmt::format("A[\"{}\"]", n.name);
      if (attribute != text_.attributes.end() ||
          std::ranges::find(text_.sizes, n.name, &formula::Size::name) != text_.sizes.end())
        text = fmt::format("A[\"{}\"]", n.name);
      else if (indices_.contains(n.name))
        text = n.name;
      else
        return fmt::format("\"{}\"", n.name);
      return whole ? text : fmt::format("D({})", text);
    } else if (e->kind == EquationKind::out) {
      stored_.insert(n.name);
      text = fmt::format("at(\"{}\"{})", n.name, indices);
    } else {
      if (std::ranges::find(wanted_, n.name) == wanted_.end()) wanted_.push_back(n.name);
      text = fmt::format("f_{}({})", n.name, indices.empty() ? "" : indices.substr(2));
    }
    return whole ? fmt::format("int({})", text) : text;
  }

  // How many values an index takes that is read as an axis of a tensor or of a let.
  std::string extent(const std::string& index, const Node& in) {
    if (in.kind == NodeKind::ref)
      for (std::size_t axis = 0; axis < in.args.size(); ++axis) {
        const Node& arg = in.args[axis];
        if (arg.kind != NodeKind::ref || arg.name != index || !arg.args.empty()) continue;
        if (const auto input = std::ranges::find(text_.inputs, in.name, &formula::Input::name);
            input != text_.inputs.end())
          return value(input->axes.at(axis), true);
        const Equation* e = equation(in.name);
        if (e != nullptr && looked_at_.insert({in.name, axis}).second) {  // a state reads itself
          const formula::Index& its = e->indices.at(axis);
          const std::string found =
              its.extent.empty() ? extent(its.name, e->value) : value(its.extent[0], true);
          looked_at_.erase({in.name, axis});
          if (!found.empty()) return found;
        }
      }
    for (const Node& arg : in.args)
      if (std::string found = extent(index, arg); !found.empty()) return found;
    return "";
  }

  std::string value(const Node& n, bool whole = false) {
    const auto arg = [&](std::size_t i) { return value(n.args.at(i), whole); };
    switch (n.kind) {
      case NodeKind::number:
        return whole ? n.name : fmt::format("D(\"{}\")", n.name);
      case NodeKind::ref:
        return ref(n, whole);
      case NodeKind::cast:
        return arg(0);
      case NodeKind::power:
        return fmt::format("({}) ** {}", arg(0), n.number);
      case NodeKind::binary:
        return fmt::format("({} {} {})", arg(0), whole && n.name == "/" ? "//" : n.name, arg(1));
      case NodeKind::call: {
        if (n.name == "neg") return fmt::format("(-{})", arg(0));
        if (n.name == "not") return fmt::format("(not {})", arg(0));
        if (n.name == "where") return fmt::format("({} if {} else {})", arg(1), arg(0), arg(2));
        used_.insert(n.name);
        std::string list;
        for (std::size_t i = 0; i < n.args.size(); ++i) list += (i > 0 ? ", " : "") + arg(i);
        return fmt::format("{}({})", n.name == "round" ? "nearest" : n.name, list);
      }
      case NodeKind::reduce: {
        const Node& body = n.args.front();
        const std::string count = n.extent.empty() ? extent(n.index, body) : value(n.extent[0], true);
        const std::string each = value(body), range = fmt::format("range({})", count);
        if (n.name == "top")
          return fmt::format("sorted({}, key=lambda {}: -{})[{}]", range, n.index, each,
                             value(n.args.at(1), true));
        if (n.name == "argmax") return fmt::format("max({}, key=lambda {}: {})", range, n.index, each);
        if (n.name == "mean") return fmt::format("(sum({} for {} in {}) / {})", each, n.index, range, count);
        return fmt::format("{}({} for {} in {})", n.name, each, n.index, range);
      }
    }
    return "";
  }

  const Text& text_;
  const std::string& output_;
  std::vector<std::string> wanted_;
  std::set<std::string> stored_, indices_;
  std::set<std::pair<std::string, std::size_t>> looked_at_;
  std::set<std::string_view> used_;
};

}  // namespace

PythonFormula python_formula(const formula::Text& text, const std::string& output) {
  return Emitter(text, output).all();
}

}  // namespace assay::culprit
