// One step of each formula altered, everywhere: whether the default contract's limits see it on drawn inputs.
// What is altered is the text itself, read aloud by the plain kernel; the limits are those of the right text.
#include <gtest/gtest.h>

#include <functional>

#include "reference/ops/formula/formula_testing.hpp"

namespace assay::formula {
namespace {

using namespace testing;  // NOLINT

struct Altered {
  std::string what;
  Text text;
};

Node number(double x) {
  Node n{NodeKind::number, std::to_string(x), {}, {}, x};
  return n;
}
Node scaled(Node x, double by) { return Node{NodeKind::binary, "*", {number(by), std::move(x)}, {}}; }

// Every way to alter one node.
std::vector<std::pair<std::string, Node>> altered(const Node& n) {
  std::vector<std::pair<std::string, Node>> all;
  const auto add = [&](const std::string& what, Node node) { all.emplace_back(what, std::move(node)); };
  if (n.kind == NodeKind::binary && (n.name == "+" || n.name == "-")) {
    add("the second operand is left out", n.args[0]);
    Node other = n;
    other.name = n.name == "+" ? "-" : "+";
    add("the sign is turned", other);
  }
  if (n.kind == NodeKind::binary && n.name == "*") {
    add("the first factor is left out", n.args[1]);
    add("the second factor is left out", n.args[0]);
  }
  if (n.kind == NodeKind::binary && n.name == "/") {
    add("the divisor is left out", n.args[0]);
    add("2 % off", scaled(n, 1.02));
  }
  if (n.kind == NodeKind::call) {
    static const std::map<std::string, std::string> kOther = {
        {"exp", "exp2"},         {"exp2", "exp"}, {"sin", "cos"},    {"cos", "sin"},    {"sigmoid", "tanh"},
        {"tanh", "erf"},         {"erf", "tanh"}, {"rsqrt", "sqrt"}, {"sqrt", "rsqrt"}, {"log", "log2"},
        {"softplus", "sigmoid"}, {"min", "max"},  {"max", "min"}};
    if (const auto found = kOther.find(n.name); found != kOther.end()) {
      Node other = n;
      other.name = found->second;
      add(n.name + " is " + found->second, other);
    }
    if (n.name == "abs" || n.name == "neg" || n.name == "clamp") add(n.name + " is left out", n.args[0]);
    if (n.name == "where") {
      Node other = n;
      std::swap(other.args[1], other.args[2]);
      add("the condition is turned", other);
    }
  }
  if (n.kind == NodeKind::power) {
    Node other = n;
    other.number += 1;
    add("a power more", other);
  }
  if (n.kind == NodeKind::reduce && (n.name == "max" || n.name == "min")) {
    Node other = n;
    other.name = n.name == "max" ? "min" : "max";
    add(n.name + " is " + other.name, other);
  }
  if (n.kind == NodeKind::reduce && (n.name == "sum" || n.name == "mean")) {
    // Its first term is left out: where(index > 0, term, 0).
    Node other = n;
    Node first{NodeKind::binary, ">", {Node{NodeKind::ref, n.index, {}, {}}, number(0)}, {}};
    first.args[1].whole = true;
    other.args[0] = Node{NodeKind::call, "where", {first, n.args[0], number(0)}, {}};
    add("its first term is left out", other);
  }
  return all;
}

void gather(const Node& n, const std::function<Node(Node)>& whole, const std::string& of, bool index,
            std::vector<std::pair<std::string, Node>>& all) {
  if (!index)
    for (auto& [what, node] : altered(n)) all.emplace_back(of + ": " + what, whole(std::move(node)));
  for (std::size_t k = 0; k < n.args.size(); ++k)
    gather(
        n.args[k],
        [&, k](Node inner) {
          Node copy = n;
          copy.args[k] = std::move(inner);
          return whole(std::move(copy));
        },
        of, index || n.kind == NodeKind::ref, all);
}

std::vector<Altered> altered(const Text& text) {
  std::vector<Altered> all;
  for (std::size_t k = 0; k < text.equations.size(); ++k) {
    const Equation& e = text.equations[k];
    std::vector<std::pair<std::string, Node>> values;
    gather(e.value, [](Node n) { return n; }, e.name, false, values);
    for (auto& [what, value] : values) {
      Altered a{what, text};
      a.text.equations[k].value = std::move(value);
      all.push_back(std::move(a));
    }
  }
  return all;
}

TEST(FormulaFaults, an_altered_step_is_seen) {
  int seen = 0, all = 0;
  std::string unseen;
  for (const Op* o : ops()) {
    const FormulaOp& f = *find(o->name);
    auto given = example_of(*o);
    if (given.contains("dtype")) given["dtype"] = "f32";
    const Attributes a = Attributes::complete(o->attributes, given);
    const Contract c = Contract::parse("", o->contract);
    struct Input {
      TensorSet in;
      std::vector<Truth> truths;
    };
    std::vector<Input> inputs;
    Dice dice(11);
    for (int k = 0; k < 4; ++k) {
      TensorSet in = draw_inputs(*o, a, dice,
                                 k == 2   ? Drawn::carrier
                                 : k == 3 ? Drawn::few
                                          : Drawn::gaussian);
      std::vector<Truth> truths = o->truth(a, in, c);
      inputs.push_back({std::move(in), std::move(truths)});
    }
    for (const Altered& wrong : altered(f.text())) {
      bool caught = false;
      try {
        for (const Input& i : inputs) {
          Member member(o->contract, c, 0);
          Tally t;
          const auto made = outputs_of(wrong.text, a, i.in, member);  // one without a meaning throws
          bool fits = true;
          for (const Truth& truth : i.truths)
            fits = fits && made.at(truth.output).size() == truth.value.size();
          if (fits) tally(i.truths, made, "", t);
          caught = caught || !fits || t.worst > 1;
        }
      } catch (const std::exception&) {
        continue;  // no kernel
      }
      ++all;
      seen += caught;
      if (!caught) unseen += "  " + std::string(o->name) + " " + wrong.what + "\n";
    }
  }
  std::cout << seen << " of " << all << " altered steps are seen; not these:\n" << unseen;
  RecordProperty("seen", seen);
  RecordProperty("all", all);
  EXPECT_GT(all, 300);
  EXPECT_GE(seen, 0.9 * all);
}

}  // namespace
}  // namespace assay::formula
