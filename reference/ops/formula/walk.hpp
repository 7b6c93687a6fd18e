// A formula read aloud: element after element, straight from its text. It shares the text with plan.hpp and
// bound.hpp and nothing else, so that a wrong index there is seen here. What a number is, and what is done to
// it, is the policy's:
//   Num                                  a number
//   begin(name)                          the equation that is being made
//   constant(x), integer(n), operand...  numbers of a text, and of indices
//   add sub mul div(a, b), function(name, x), sum(terms), largest/smallest by less(a, b)
//   cast(word or format, x), store(format, x), reads_stored(name), number(x)
// Exact numbers make it an oracle, a kernel's numbers a kernel (member.hpp).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "reference/ops/formula/plan.hpp"
#include "reference/ops/formula/text.hpp"

namespace assay::formula {

template <typename Policy>
class Walk {
 public:
  using Num = typename Policy::Num;

  struct Held {
    std::vector<std::int64_t> shape;
    bool whole = false;
    std::vector<Num> numbers, stored;  // as later lines read them; as they are stored
    std::vector<std::int64_t> integers;
    bool current = false;  // of a recurrence: this step's alone
  };

  Walk(const Text& text, const Attributes& attributes, Policy& policy)
      : t_(text), a_(attributes), p_(policy) {}

  void give(const std::string& name, std::vector<std::int64_t> shape, const std::vector<double>& values,
            bool whole) {
    Held h;
    h.shape = std::move(shape);
    h.whole = whole;
    for (const double v : values) {
      if (whole)
        h.integers.push_back(static_cast<std::int64_t>(v));
      else
        h.numbers.push_back(p_.number(v));
    }
    held_[name] = std::move(h);
  }

  // All equations. Outputs are then in held().
  void run() {
    for (std::size_t k = 0; k < t_.equations.size();) {
      const std::string& along = t_.equations[k].along;
      if (along.empty()) {
        make(t_.equations[k++], -1);
        continue;
      }
      std::size_t end = k;
      while (end < t_.equations.size() && t_.equations[end].along == along) ++end;
      for (std::size_t e = k; e < end; ++e)
        if (t_.equations[e].kind == EquationKind::state) start(t_.equations[e]);
      const std::int64_t steps = whole_of(t_.along.at(along));
      for (std::int64_t t = 0; t < steps; ++t) {
        for (std::size_t e = k; e < end; ++e)
          if (t_.equations[e].kind == EquationKind::state)
            before_[t_.equations[e].name] = held_[t_.equations[e].name];
        for (std::size_t e = k; e < end; ++e) make(t_.equations[e], t);
      }
      k = end;
    }
  }
  const Held& held(const std::string& name) const { return held_.at(name); }

 private:
  enum class Kind : std::uint8_t { whole, truth, number, outside };
  struct Value {
    Kind kind = Kind::whole;
    std::int64_t integer = 0;
    Num number{};
  };

  std::int64_t whole_of(const Node& n) const { return integer_of(n, a_); }
  bool is_attribute(const std::string& name) const { return a_.all().contains(name); }
  const AttributeLine* line(const std::string& name) const {
    for (const AttributeLine& each : t_.attributes)
      if (each.name == name) return &each;
    return nullptr;
  }

  std::int64_t range_of(const std::string& index, const std::vector<Node>& extent, const Node& body) const {
    if (!extent.empty() && is_constant(extent[0], t_)) return whole_of(extent[0]);
    std::int64_t found = -1;
    look(index, body, found);
    return found;
  }
  void look(const std::string& index, const Node& n, std::int64_t& found) const {
    if (found >= 0) return;
    if (n.kind == NodeKind::ref && !n.args.empty())
      if (const auto h = shapes_.find(n.name); h != shapes_.end())
        for (std::size_t k = 0; k < n.args.size(); ++k)
          if (n.args[k].kind == NodeKind::ref && n.args[k].args.empty() && n.args[k].name == index) {
            found = h->second[k];
            return;
          }
    for (const Node& a : n.args) look(index, a, found);
    for (const Node& a : n.extent) look(index, a, found);
  }

  void start(const Equation& e) {
    Held h;
    h.current = true;
    if (const auto from = held_.find(e.source); from != held_.end()) {
      h.numbers = from->second.numbers;
      h.shape = from->second.shape;
    } else {
      std::int64_t count = 1;
      for (std::size_t k = 1; k < e.indices.size(); ++k) {
        h.shape.push_back(range_of(e.indices[k].name, e.indices[k].extent, e.value));
        count *= h.shape.back();
      }
      h.numbers.assign(static_cast<std::size_t>(count), p_.number(std::stod(e.source)));
    }
    h.shape.insert(h.shape.begin(), 1);
    std::vector<std::int64_t> full = h.shape;
    full[0] = whole_of(t_.along.at(e.along));
    shapes_[e.name] = full;
    held_[e.name] = std::move(h);
  }

  void make(const Equation& e, std::int64_t t) {
    for (const auto& [name, h] : held_)
      if (!shapes_.contains(name)) shapes_[name] = h.shape;
    p_.begin(e.name);
    e_ = &e;
    std::vector<std::int64_t> shape;
    for (const Index& i : e.indices)
      shape.push_back(i.name == e.along ? whole_of(t_.along.at(e.along))
                                        : range_of(i.name, i.extent, e.value));
    shapes_[e.name] = shape;
    const bool state = e.kind == EquationKind::state;
    std::int64_t count = 1;
    for (std::size_t k = 0; k < shape.size(); ++k) count *= t >= 0 && k == 0 ? 1 : shape[k];
    Held fresh;
    Held& to = state ? fresh : held_[e.name];
    const std::int64_t offset = t >= 0 && !state ? t * count : 0;
    if (t <= 0 || state) {
      to = {};
      to.shape = shape;
      to.current = state;
      if (state) to.shape[0] = 1;
      const std::size_t all = static_cast<std::size_t>(t >= 0 && !state ? count * shape[0] : count);
      to.numbers.resize(all), to.stored.resize(all), to.integers.resize(all);
    }
    env_.clear();
    for (std::size_t k = 0; k < e.indices.size(); ++k) env_[e.indices[k].name] = 0;
    std::string format = e.format;
    if (is_attribute(format)) format = a_.text(format);
    for (std::int64_t n = 0; n < count; ++n) {
      std::int64_t rest = n;
      for (std::size_t k = shape.size(); k-- > 0;) {
        if (t >= 0 && k == 0) {
          env_[e.indices[0].name] = t;
          continue;
        }
        env_[e.indices[k].name] = rest % shape[k];
        rest /= shape[k];
      }
      Value v = value(e.value, false);
      if (v.kind == Kind::whole && !format.empty()) {
        const ScalarFormat* f = find_scalar_format(format);
        if (f != nullptr && f->kind != ScalarKind::integer) v = {Kind::number, 0, p_.integer(v.integer)};
      }
      const auto at = static_cast<std::size_t>(offset + n);
      to.whole = v.kind == Kind::whole;
      if (to.whole) {
        to.integers[at] = v.integer;
        continue;
      }
      Num z = v.kind == Kind::outside ? p_.outside() : p_.settle(v.number);
      if (format.empty()) {
        to.numbers[at] = z;
        continue;
      }
      to.stored[at] = p_.store(format, z, e.kind == EquationKind::out);
      to.numbers[at] = p_.reads_stored(e.name) ? to.stored[at] : z;
    }
    if (state) held_[e.name] = std::move(fresh);
  }

  Num number_of(const Value& v) {
    if (v.kind == Kind::outside) return p_.outside();
    return v.kind == Kind::number ? v.number : p_.integer(v.integer);
  }

  Value value(const Node& n, bool whole) {
    switch (n.kind) {
      case NodeKind::number:
        if (n.whole) return {Kind::whole, static_cast<std::int64_t>(n.number), {}};
        return {Kind::number, 0, p_.constant(n.number)};
      case NodeKind::ref:
        return read(n);
      case NodeKind::power: {
        const Num base = p_.settle(number_of(value(n.args[0], whole)));
        Num z = base;
        for (int k = 1; k < static_cast<int>(n.number); ++k) z = p_.mul(p_.settle(z), base);
        return {Kind::number, 0, z};
      }
      case NodeKind::binary:
        return binary(n, whole);
      case NodeKind::call:
        return call(n, whole);
      case NodeKind::cast: {
        std::string word = n.name;
        if (line(word) != nullptr) word = a_.text(word);
        return {Kind::number, 0, p_.cast(word, p_.settle(number_of(value(n.args[0], false))))};
      }
      case NodeKind::reduce:
        return reduce(n);
    }
    return {};
  }

  Value read(const Node& n) {
    if (n.args.empty()) {
      if (const auto i = env_.find(n.name); i != env_.end()) return {Kind::whole, i->second, {}};
      if (is_attribute(n.name) && !held_.contains(n.name)) {
        const AttributeLine* a = line(n.name);
        if (a != nullptr && a->kind == "real") return {Kind::number, 0, p_.constant(a_.real(n.name))};
        return {Kind::whole, a_.integer(n.name), {}};
      }
    }
    const Equation* made = nullptr;
    for (const Equation& e : t_.equations)
      if (e.name == n.name) made = &e;
    const Held* h = &held_.at(n.name);
    std::int64_t at = 0;
    for (std::size_t k = 0; k < n.args.size(); ++k) {
      const Value i = value(n.args[k], true);
      if (i.kind == Kind::outside) return i;
      if (k == 0 && h->current) {
        if (e_->along == made->along && i.integer == env_.at(e_->along) - 1) h = &before_.at(n.name);
        continue;
      }
      if (i.integer < 0 || i.integer >= h->shape[k]) return {Kind::outside, 0, {}};
      at = at * h->shape[k] + i.integer;
    }
    const auto place = static_cast<std::size_t>(at);
    if (h->whole) return {Kind::whole, h->integers[place], {}};
    return {Kind::number, 0, h->numbers[place]};
  }

  static std::int64_t floored(std::int64_t a, std::int64_t b) {
    return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
  }

  Value binary(const Node& n, bool whole) {
    if ((n.name == "==" || n.name == "!=") && n.args[0].kind == NodeKind::ref)
      if (const AttributeLine* a = line(n.args[0].name); a != nullptr && a->kind == "word")
        return {Kind::truth, (a_.text(a->name) == n.args[1].name) == (n.name == "=="), {}};
    whole = whole || n.name == "%" || n.name == "//";
    const Value a = value(n.args[0], whole), b = value(n.args[1], whole);
    const std::string& op = n.name;
    if (op == "and") return {Kind::truth, a.integer != 0 && b.integer != 0, {}};
    if (op == "or") return {Kind::truth, a.integer != 0 || b.integer != 0, {}};
    if (a.kind == Kind::outside || b.kind == Kind::outside) return {Kind::outside, 0, {}};
    const bool integers = a.kind != Kind::number && b.kind != Kind::number;
    if (op == "<" || op == "<=" || op == ">" || op == ">=" || op == "==" || op == "!=") {
      bool less = false, more = false;
      if (integers) {
        less = a.integer<b.integer, more = a.integer> b.integer;
      } else {
        const Num x = p_.settle(number_of(a)), y = p_.settle(number_of(b));
        less = p_.less(x, y), more = p_.less(y, x);
        if (!p_.ordered(x, y)) return {Kind::truth, op == "!=", {}};
      }
      const bool holds = op == "<"    ? less
                         : op == "<=" ? !more
                         : op == ">"  ? more
                         : op == ">=" ? !less
                         : op == "==" ? !less && !more
                                      : less || more;
      return {Kind::truth, holds, {}};
    }
    if (integers && (whole || op != "/")) {
      const std::int64_t x = a.integer, y = b.integer;
      if ((op == "/" || op == "//" || op == "%") && y == 0) return {Kind::outside, 0, {}};
      const std::int64_t z = op == "+"   ? x + y
                             : op == "-" ? x - y
                             : op == "*" ? x * y
                             : op == "%" ? x - floored(x, y) * y
                                         : floored(x, y);
      return {Kind::whole, z, {}};
    }
    if (is_fixed(n)) return {Kind::number, 0, p_.constant(fixed(n))};
    if (op == "*") {
      std::vector<Num> factors;
      if (p_.any_product() && collect(n, whole, factors)) return {Kind::number, 0, p_.product(factors)};
    }
    const Num x = number_of(a), y = number_of(b);
    if (op == "+") return {Kind::number, 0, p_.add(x, y)};
    if (op == "-") return {Kind::number, 0, p_.sub(x, y)};
    if (op == "*") return {Kind::number, 0, p_.mul(p_.settle(x), p_.settle(y))};
    return {Kind::number, 0, p_.div(p_.settle(x), p_.settle(y))};
  }

  // The factors of a product of products. False where one of them is read outside of a tensor.
  bool collect(const Node& n, bool whole, std::vector<Num>& factors) {
    if (n.kind == NodeKind::binary && n.name == "*" && !is_fixed(n) && is_number(n, whole))
      return collect(n.args[0], whole, factors) && collect(n.args[1], whole, factors);
    if (n.kind == NodeKind::power && is_number(n, whole)) {
      for (int k = 0; k < static_cast<int>(n.number); ++k)
        if (!collect(n.args[0], whole, factors)) return false;
      return true;
    }
    const Value v = value(n, whole);
    factors.push_back(p_.settle(number_of(v)));
    return v.kind != Kind::outside;
  }

  // Numbers, sizes and attributes alone: computed ahead.
  bool is_fixed(const Node& n) const {
    if (n.kind == NodeKind::number) return true;
    if (n.kind == NodeKind::ref) return n.args.empty() && is_attribute(n.name) && !env_.contains(n.name);
    const bool made = n.kind == NodeKind::binary ||
                      (n.kind == NodeKind::call &&
                       (n.name == "neg" || n.name == "log" || n.name == "sqrt" || n.name == "rsqrt"));
    if (!made) return false;
    for (const Node& a : n.args)
      if (!is_fixed(a)) return false;
    return true;
  }
  double fixed(const Node& n) const {
    if (n.kind == NodeKind::number) return n.number;
    if (n.kind == NodeKind::ref) {
      const AttributeLine* a = line(n.name);
      return a != nullptr && a->kind == "real" ? a_.real(n.name) : static_cast<double>(a_.integer(n.name));
    }
    const double x = fixed(n.args[0]);
    if (n.kind == NodeKind::call)
      return n.name == "neg"    ? -x
             : n.name == "log"  ? std::log(x)
             : n.name == "sqrt" ? std::sqrt(x)
                                : 1 / std::sqrt(x);
    const double y = fixed(n.args[1]);
    return n.name == "+" ? x + y : n.name == "-" ? x - y : n.name == "*" ? x * y : x / y;
  }

  Value call(const Node& n, bool whole) {
    if (n.name == "where") {
      const Value c = value(n.args[0], whole);
      if (c.kind == Kind::outside) return c;
      Value chosen = value(n.args[c.integer != 0 ? 1 : 2], whole);
      // Whether the other side is a number is seen from the text.
      if (chosen.kind == Kind::whole && is_number(n.args[c.integer != 0 ? 2 : 1], whole))
        chosen = {Kind::number, 0, p_.integer(chosen.integer)};
      return chosen;
    }
    if (n.name == "not") return {Kind::truth, value(n.args[0], whole).integer == 0, {}};
    if (is_fixed(n) && n.name != "neg") return {Kind::number, 0, p_.constant(fixed(n))};
    std::vector<Value> v;
    bool integers = true;
    for (const Node& a : n.args) {
      v.push_back(value(a, whole));
      if (v.back().kind == Kind::outside) return v.back();
      integers = integers && v.back().kind == Kind::whole;
    }
    if (integers && n.name == "neg") return {Kind::whole, -v[0].integer, {}};
    if (integers && (n.name == "min" || n.name == "max" || n.name == "clamp")) {
      std::int64_t z =
          n.name == "min" ? std::min(v[0].integer, v[1].integer) : std::max(v[0].integer, v[1].integer);
      if (n.name == "clamp") z = std::min(z, v[2].integer);
      return {Kind::whole, z, {}};
    }
    if (n.name == "neg") return {Kind::number, 0, p_.negated(number_of(v[0]))};
    std::vector<Num> x;
    for (const Value& each : v) x.push_back(p_.settle(number_of(each)));
    Num z{};
    if (n.name == "abs")
      z = p_.less(x[0], p_.number(0)) ? p_.negated(x[0]) : x[0];
    else if (n.name == "min")
      z = p_.less(x[1], x[0]) ? x[1] : x[0];
    else if (n.name == "max")
      z = p_.less(x[0], x[1]) ? x[1] : x[0];
    else if (n.name == "clamp") {
      z = p_.less(x[0], x[1]) ? x[1] : x[0];
      z = p_.less(x[2], z) ? x[2] : z;
    } else
      z = p_.function(n.name, x[0]);
    return {Kind::number, 0, z};
  }

  // Whether an expression is a number whatever its indices are.
  bool is_number(const Node& n, bool whole) const {
    switch (n.kind) {
      case NodeKind::number:
        return !n.whole;
      case NodeKind::ref: {
        if (n.args.empty() && env_.contains(n.name)) return false;
        if (const auto h = held_.find(n.name); h != held_.end()) return !h->second.whole;
        const AttributeLine* a = line(n.name);
        return a != nullptr && a->kind == "real";
      }
      case NodeKind::binary:
        return (n.name == "/" && !whole) || is_number(n.args[0], whole) || is_number(n.args[1], whole);
      case NodeKind::call: {
        if (n.name == "where") return is_number(n.args[1], whole) || is_number(n.args[2], whole);
        const bool kept = n.name == "neg" || n.name == "min" || n.name == "max" || n.name == "clamp";
        if (!kept) return n.name != "not";
        for (const Node& a : n.args)
          if (is_number(a, whole)) return true;
        return false;
      }
      case NodeKind::reduce:
        return n.name != "top" && n.name != "argmax";
      case NodeKind::power:
      case NodeKind::cast:
        return true;
    }
    return true;
  }

  Value reduce(const Node& n) {
    const std::int64_t count = range_of(n.index, n.extent, n.args[0]);
    const bool bounded = !n.extent.empty() && !is_constant(n.extent[0], t_);
    const std::int64_t stop = bounded ? value(n.extent[0], true).integer : count;
    std::vector<Num> terms;
    bool outside = false;
    for (std::int64_t k = 0; k < count && k < stop; ++k) {
      env_[n.index] = k;
      const Value v = value(n.args[0], false);
      outside = outside || v.kind == Kind::outside;
      terms.push_back(number_of(v));
    }
    env_.erase(n.index);
    if (outside) return {Kind::outside, 0, {}};
    if (n.name == "sum") return {Kind::number, 0, p_.sum(terms)};
    if (n.name == "mean") return {Kind::number, 0, p_.div(p_.settle(p_.sum(terms)), p_.integer(count))};
    for (Num& z : terms) z = p_.settle(z);
    if (n.name == "max" || n.name == "min") {
      Num z = terms.at(0);
      for (const Num& each : terms)
        if (n.name == "max" ? p_.less(z, each) : p_.less(each, z)) z = each;
      return {Kind::number, 0, z};
    }
    const std::int64_t rank = n.name == "top" ? value(n.args[1], true).integer : 0;
    std::vector<std::int64_t> ids;
    for (std::size_t k = 0; k < terms.size(); ++k) ids.push_back(static_cast<std::int64_t>(k));
    std::stable_sort(ids.begin(), ids.end(), [&](std::int64_t a, std::int64_t b) {
      return p_.less(terms[static_cast<std::size_t>(b)], terms[static_cast<std::size_t>(a)]);
    });
    if (rank < 0 || rank >= static_cast<std::int64_t>(ids.size())) return {Kind::outside, 0, {}};
    return {Kind::whole, ids[static_cast<std::size_t>(rank)], {}};
  }

  const Text& t_;
  const Attributes& a_;
  Policy& p_;
  const Equation* e_ = nullptr;
  std::map<std::string, std::int64_t> env_;
  std::map<std::string, Held> held_, before_;
  std::map<std::string, std::vector<std::int64_t>> shapes_;
};

}  // namespace assay::formula
