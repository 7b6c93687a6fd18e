#include "reference/ops/formula/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "reference/formats/format.hpp"
#include "reference/near_names.hpp"
#include "reference/word_list.hpp"

namespace assay::formula {
namespace {

constexpr std::size_t kMostFactors = 5;

// What a function's keys are called, and what an honest kernel may be off when nothing is declared.
struct FunctionKeys {
  std::string_view name, ulp, off;
  std::string_view meaning;
};
// softplus: log(1 + e^x) by two functions. Derivation: 1 + e^x is rounded, 2^-24 absolute, log passes it with
// a slope below 1 and rounds twice: 2^-22 covers both.
constexpr FunctionKeys kFunctionKeys[] = {
    {"exp", "2", "", "error of exp"},
    {"exp2", "2", "", "error of exp2"},
    {"log", "2", "0", "error of log"},
    {"log2", "2", "0", "error of log2"},
    {"sin", "2", "0", "error of sin"},
    {"cos", "2", "0", "error of cos"},
    {"tanh", "4", "0", "error of tanh"},
    {"erf", "4", "0", "error of erf"},
    {"sigmoid", "8", "", "error of 1 / (1 + e^-x), a subnormal result flushed or not"},
    {"softplus", "8", "2.384185791015625e-07", "error of log(1 + e^x)"},
    {"sqrt", "2", "", "error of the square root"},
    {"rsqrt", "2", "", "error of the reciprocal square root"},
};

bool mentions(const Node& n, std::string_view name) {
  const auto has = [&](const Node& a) { return mentions(a, name); };
  return (n.kind == NodeKind::ref && n.name == name) || std::ranges::any_of(n.args, has) ||
         std::ranges::any_of(n.extent, has);
}

// A number, or less one.
bool is_real(const Node& n) {
  return n.kind == NodeKind::number || (n.kind == NodeKind::call && n.name == "neg" && is_real(n.args[0]));
}

bool is_integer_format(std::string_view name) {
  const ScalarFormat* f = find_scalar_format(name);
  return f != nullptr && f->kind == ScalarKind::integer;
}

Fused fused_of(std::string_view word) {
  return word == "no" ? Fused::no : word == "yes" ? Fused::yes : Fused::any;
}

Word word_of(std::string_view text) {
  static constexpr std::pair<std::string_view, Word> kWords[] = {
      {"+", Word::plus},        {"-", Word::minus},          {"*", Word::times},
      {"/", Word::over},        {"//", Word::over},          {"%", Word::modulo},
      {"min", Word::least},     {"max", Word::most},         {"<", Word::less},
      {"<=", Word::less_equal}, {">", Word::greater},        {">=", Word::greater_equal},
      {"==", Word::equal},      {"!=", Word::unequal},       {"exp", Word::exp},
      {"exp2", Word::exp2},     {"log", Word::log},          {"log2", Word::log2},
      {"sin", Word::sin},       {"cos", Word::cos},          {"tanh", Word::tanh},
      {"erf", Word::erf},       {"sigmoid", Word::sigmoid},  {"softplus", Word::softplus},
      {"sqrt", Word::sqrt},     {"rsqrt", Word::rsqrt},      {"round", Word::round},
      {"floor", Word::floor},   {"exponent", Word::exponent}};
  const auto* row = std::ranges::find(kWords, text, &std::pair<std::string_view, Word>::first);
  return row == std::end(kWords) ? Word::none : row->second;
}

// What both the list of keys and a plan are made by: one walk over the formula. Without attributes it is made
// for its keys and its mistakes alone; every size is 1 then, and nothing that depends on a size is asked.
class Maker {
 public:
  Maker(const Text& text, const Attributes* attributes, const Contract* contract)
      : text_(text), attributes_(attributes), contract_(contract) {
    global("acc", "f32", "f64|f32|f16|bf16", "every operation is rounded to it");
    global("ftz", "no", "no|yes", "subnormal numbers of acc, read or made, may be 0");
    global("round", "nearest_even", "nearest_even|nearest_away|toward_zero|stochastic",
           "rounding of outputs");
    global("overflow", "format", "format|ieee|saturate",
           "beyond a format's largest number; format: FP8, FP4 and integers saturate, others become Inf");
    plan_.flush = asked("ftz", "no") == "yes";
    plan_.overflow = asked("overflow", "format");
    const std::string round = asked("round", "nearest_even");
    plan_.round = round == "nearest_away"  ? Rounding::nearest_away
                  : round == "toward_zero" ? Rounding::toward_zero
                  : round == "stochastic"  ? Rounding::stochastic
                                           : Rounding::nearest_even;
  }

  void run() {
    for (const Size& s : text_.sizes) known(s.name, {0, 0});
    for (const Input& in : text_.inputs) {
      Tensor t;
      t.name = in.name;
      t.format = format_of(in.format, in.at);
      if (find_scalar_format(t.format) == nullptr)
        fail(in.at,
             fmt::format(
                 "{} is '{}', which has scales of its own: write its codes and its scales as inputs, so "
                 "that the formula says how a number is made of them",
                 in.name, t.format));
      t.axes = in.axes;
      for (const Node& axis : in.axes) {
        check_constant(axis, fmt::format("an axis of {}", in.name));
        t.shape.push_back(integer(axis));
      }
      t.whole = is_integer_format(t.format);
      for (const Node& end : in.range)
        if (t.whole || !is_real(end)) check_constant(end, fmt::format("the range of {}", in.name));
      t.input = true;
      plan_.tensors.push_back(std::move(t));
    }
    for (const Equation& e : text_.equations) {
      if (!e.along.empty() && (e.indices.empty() || e.indices[0].name != e.along))
        fail(e.at,
             fmt::format("{} stands below `along {}`: its first index is {}", e.name, e.along, e.along));
      if (e.kind == EquationKind::state || reads_itself(e)) declare_early(e);
    }
    for (const Equation& e : text_.equations) equation(e);
    for (const Node& r : text_.require)
      if (!is_constant(r, text_)) fail(r.at, "require speaks of sizes and attributes alone");
  }

  Keys keys_;
  Plan plan_;

 private:
  // --- keys ---
  void global(const std::string& name, const std::string& fallback, const std::string& words,
              const std::string& meaning) {
    keys_.add(name, KeyKind::word, fallback, words, meaning);
  }
  std::string asked(const std::string& name, const std::string& fallback) const {
    return contract_ != nullptr ? std::string(contract_->text(name)) : fallback;
  }
  std::string key(const Equation& e, const std::string& what, KeyKind kind, const std::string& fallback,
                  const std::string& words, const std::string& meaning) {
    const std::string name = e.name + "." + what;
    if (!keys_.has(name)) keys_.add(name, kind, fallback, words, meaning);
    return asked(name, fallback.starts_with('@') ? asked(fallback.substr(1), "f32") : fallback);
  }
  double number_key(const std::string& what, const std::string& fallback, const std::string& words,
                    const std::string& meaning) {
    return std::strtod(key(*e_, what, KeyKind::real, fallback, words, meaning).c_str(), nullptr);
  }

  // --- names and sizes ---
  void known(const std::string& name, At at) {
    for (const AttributeLine& a : text_.attributes)
      if (a.name == name) fail(at, fmt::format("{} is a size and an attribute", name));
  }
  const AttributeLine* attribute(std::string_view name) const {
    const auto found = std::ranges::find(text_.attributes, name, &AttributeLine::name);
    return found == text_.attributes.end() ? nullptr : &*found;
  }
  bool is_size(std::string_view name) const {
    return std::ranges::find(text_.sizes, name, &Size::name) != text_.sizes.end();
  }
  std::string format_of(const std::string& name, At at) const {
    if (name.empty()) return name;
    const AttributeLine* a = attribute(name);
    if (a != nullptr && a->kind != "format") fail(at, fmt::format("{} is no format but {}", name, a->kind));
    const std::string format = a == nullptr             ? name
                               : attributes_ != nullptr ? attributes_->text(name)
                                                        : a->fallback;
    if (find_format(format) == nullptr) {
      std::vector<std::string> names = names_of(formats());
      for (const AttributeLine& each : text_.attributes)
        if (each.kind == "format") names.push_back(each.name);
      fail(at, fmt::format("no format '{}'; {}", excerpt(format), suggest(format, names)));
    }
    return format;
  }
  void check_constant(const Node& n, const std::string& what) const {
    if (!is_constant(n, text_))
      fail(n.at, fmt::format("{} is made of numbers, sizes and attributes; got {}", what, print(n)));
  }
  std::int64_t integer(const Node& n) const {
    return attributes_ != nullptr ? integer_of(n, *attributes_) : 1;
  }

  // --- equations ---
  bool reads_itself(const Equation& e) const {
    return e.kind == EquationKind::let && !e.along.empty() && mentions(e.value, e.name);
  }
  // A let of a recurrence of which more than this step's value is read.
  bool is_kept(const Equation& e) const {
    if (e.kind == EquationKind::out || reads_itself(e)) return true;
    if (e.kind == EquationKind::state) return false;
    return std::ranges::any_of(text_.equations, [&](const Equation& other) {
      return other.along != e.along && mentions(other.value, e.name);
    });
  }

  // States are read before their line, and so is a let by itself.
  void declare_early(const Equation& e) {
    Tensor t;
    t.name = e.name;
    t.along = e.along;
    t.current = e.kind == EquationKind::state;
    t.format = e.kind == EquationKind::state ? format_of(e.format, e.at) : "";
    const Input* from = nullptr;
    if (e.kind == EquationKind::state) {
      const auto found = std::ranges::find(text_.inputs, e.source, &Input::name);
      if (found != text_.inputs.end()) {
        from = &*found;
        if (from->axes.size() + 1 != e.indices.size())
          fail(e.at, fmt::format("{} has {} axes behind {}, {} has {}", e.name, e.indices.size() - 1, e.along,
                                 from->name, from->axes.size()));
      }
    }
    for (std::size_t k = 0; k < e.indices.size(); ++k) {
      const Index& i = e.indices[k];
      Node extent;
      if (i.name == e.along)
        extent = text_.along.at(e.along);
      else if (!i.extent.empty())
        extent = i.extent[0];
      else if (from != nullptr)
        extent = from->axes[k - 1];
      else
        fail(e.at, fmt::format("the range of '{}' is open: write {} < extent", i.name, i.name));
      check_constant(extent, "an extent");
      t.axes.push_back(extent);
      t.shape.push_back(k == 0 && t.current ? 1 : integer(extent));
    }
    plan_.tensors.push_back(std::move(t));
  }

  void equation(const Equation& e) {
    e_ = &e;
    planned_ = {};
    planned_.equation = &e;
    for (const Index& i : e.indices) add_dim(i.name, i.extent, e.value, e.at);
    planned_.width = planned_.dims.size();
    acc_text_ = asked_acc(e);
    planned_.acc = {&accumulator_format(acc_text_), machine(acc_text_, plan_.flush)};
    sums_ = 0;
    int result = expression(e.value, false);
    const std::string format = format_of(e.format, e.at);
    const ScalarFormat* stored = find_scalar_format(format);
    if (!format.empty() && stored == nullptr)
      fail(e.at, fmt::format("{} is stored in '{}', which is no scalar format; write its codes and scales as "
                             "outputs of their own",
                             e.name, format));
    if (stored != nullptr && stored->kind != ScalarKind::integer) result = real(result);
    if (steps().at(result).real == false) {
      planned_.whole = true;
      if (e.kind == EquationKind::state)
        fail(e.at, fmt::format("state {} is a number, not an index", e.name));
    }
    if (stored != nullptr) planned_.format = stored;
    mark_fused();
    mark_held();
    if (result != static_cast<int>(steps().size()) - 1) {  // the result is the last step
      Step again = steps()[result];
      steps().push_back(std::move(again));
    }
    finish(e, format);
  }

  std::string asked_acc(const Equation& e) {
    if (!rounds(e.value)) return asked("acc", "f32");
    return key(e, "acc", KeyKind::word, "@acc", "f64|f32|f16|bf16",
               fmt::format("every operation of {} is rounded to it", e.name));
  }
  // Whether any of its operations may round: then it has an accumulator.
  bool rounds(const Node& n) const {
    if (n.kind == NodeKind::binary && (n.name == "+" || n.name == "-" || n.name == "*" || n.name == "/"))
      return true;
    if (n.kind == NodeKind::power) return true;
    if (n.kind == NodeKind::reduce && (n.name == "sum" || n.name == "mean")) return true;
    if (n.kind == NodeKind::call &&
        std::ranges::any_of(kFunctionKeys, [&](const FunctionKeys& f) { return f.name == n.name; }))
      return true;
    if (n.kind == NodeKind::ref) return false;  // indices
    return std::ranges::any_of(n.args, [&](const Node& a) { return rounds(a); });
  }

  // Whether every number of a format is one of the equation's accumulator.
  bool holds(std::string_view format) const {
    const ScalarFormat *from = find_scalar_format(format), &to = *planned_.acc.format;
    if (to.bits == 64 || from == nullptr) return to.bits == 64;
    if (from->kind == ScalarKind::integer) return from->bits <= to.fraction_bits + 1;
    return from->name == to.name || (to.bits == 32 && from->bits <= 19) || (to.bits == 16 && from->bits <= 8);
  }
  void mark_held() {
    for (Step& s : steps()) {
      const auto held = [&](int k) { return k < 0 || !steps()[k].real || steps()[k].held; };
      switch (s.what) {
        case Do::constant:
          s.held = planned_.acc.format->bits >= 32;
          break;
        case Do::gather: {
          const Tensor& t = plan_.tensors[s.tensor];
          const Planned* from = t.equation >= 0 ? &plan_.equations[t.equation] : nullptr;
          const bool computed =
              from != nullptr && from->acc.format == planned_.acc.format && from->steps.back().held;
          s.held = (t.input || computed) && (t.format.empty() || holds(t.format));
          break;
        }
        case Do::multiply:
          s.held = s.fused == Fused::no;
          break;
        case Do::cast:
          s.held = holds(s.to->name);
          break;
        case Do::negate:
        case Do::absolute:
        case Do::least:
        case Do::most:
        case Do::where:
        case Do::largest:
        case Do::smallest:
          s.held = held(s.args[0]) && held(s.args[1]) && held(s.args[2]);
          break;
        default:  // rounded to the accumulator
          s.held = true;
      }
    }
  }

  void finish(const Equation& e, const std::string& format) {
    if (e.kind == EquationKind::state) {
      const auto source =
          std::ranges::find_if(plan_.tensors, [&](const Tensor& t) { return t.input && t.name == e.source; });
      if (source != plan_.tensors.end())
        planned_.source = static_cast<int>(source - plan_.tensors.begin());
      else if (e.source.find_first_not_of("-0123456789.e") == std::string::npos)
        planned_.start = std::strtod(e.source.c_str(), nullptr);
      else
        fail(e.at, fmt::format("{} starts from '{}', which is no input and no number", e.name, e.source));
    }
    // A rounded result that is read again.
    if (planned_.format != nullptr && !planned_.whole) {
      const bool again = std::ranges::any_of(text_.equations, [&](const Equation& other) {
        return (&other != &e || e.kind == EquationKind::state) && mentions(other.value, e.name);
      });
      if (again) {
        const std::string word = key(e, "read", KeyKind::word, "any", "any|stored|computed",
                                     fmt::format("what later lines read of {}: rounded to its format, or "
                                                 "before that",
                                                 e.name));
        planned_.read = word == "stored" ? Read::stored : word == "computed" ? Read::computed : Read::any;
      }
    } else {
      planned_.read = Read::stored;
    }
    int index = -1;
    for (std::size_t k = 0; k < plan_.tensors.size(); ++k)
      if (plan_.tensors[k].name == e.name) index = static_cast<int>(k);
    if (index < 0) {
      index = static_cast<int>(plan_.tensors.size());
      plan_.tensors.emplace_back();
    }
    Tensor& t = plan_.tensors[index];
    t.name = e.name;
    t.format = format;
    t.along = e.along;
    t.whole = planned_.whole;
    t.current = !e.along.empty() && !is_kept(e);
    t.equation = static_cast<int>(plan_.equations.size());
    t.axes.clear();
    t.shape.clear();
    for (std::size_t k = 0; k < planned_.width; ++k) {
      t.axes.push_back(planned_.dims[k].text);
      t.shape.push_back(t.current && k == 0 ? 1 : planned_.dims[k].extent);
    }
    planned_.tensor = index;
    plan_.equations.push_back(std::move(planned_));
  }

  std::vector<Step>& steps() { return planned_.steps; }

  // --- indices ---
  void add_dim(const std::string& index, const std::vector<Node>& extent, const Node& where_used, At at) {
    for (const Dim& d : planned_.dims)
      if (d.name == index) fail(at, fmt::format("'{}' is an index of {} already", index, e_->name));
    if (is_size(index) || attribute(index) != nullptr || tensor(index) >= 0)
      fail(at, fmt::format("'{}' is a name already: choose another letter for the index", index));
    if (planned_.dims.size() == kMostDims) fail(at, fmt::format("more than {} indices", kMostDims));
    Dim d;
    d.name = index;
    if (index == e_->along) {
      d.text = text_.along.at(index);
    } else if (!extent.empty() && is_constant(extent[0], text_)) {
      d.text = extent[0];
    } else if (const Node* found = find_range(index, where_used)) {
      d.text = *found;
    } else {
      check_names(where_used);
      fail(at,
           fmt::format("the range of '{0}' is open: write {0} < extent, or use it alone on an axis", index));
    }
    check_constant(d.text, fmt::format("the range of {}", index));
    d.extent = integer(d.text);
    if (d.extent < 0 ||
        (attributes_ != nullptr && d.extent == 0 && planned_.dims.size() < e_->indices.size()))
      fail(at, fmt::format("'{}' goes over {} = {}", index, print(d.text), d.extent));
    planned_.dims.push_back(std::move(d));
  }

  int tensor(std::string_view name) const {
    for (std::size_t k = 0; k < plan_.tensors.size(); ++k)
      if (plan_.tensors[k].name == name) return static_cast<int>(k);
    return -1;
  }

  // A tensor that is not known gives no range: that is told first.
  void check_names(const Node& n) const {
    if (n.kind == NodeKind::ref && !n.args.empty() && tensor(n.name) < 0) unknown(n);
    for (const auto* list : {&n.args, &n.extent})
      for (const Node& a : *list) check_names(a);
  }
  [[noreturn]] void unknown(const Node& n) const {
    std::vector<std::string> names;
    for (const Tensor& t : plan_.tensors) names.push_back(t.name);
    for (const Size& s : text_.sizes) names.push_back(s.name);
    for (const AttributeLine& a : text_.attributes) names.push_back(a.name);
    for (const Dim& d : planned_.dims) names.push_back(d.name);
    fail(n.at, fmt::format("'{}' is not known here; {}", n.name, suggest(n.name, names)));
  }

  // The extent of the first axis on which the index stands alone.
  const Node* find_range(const std::string& index, const Node& n) const {
    if (n.kind == NodeKind::ref && !n.args.empty())
      if (const int k = tensor(n.name); k >= 0) {
        const Tensor& t = plan_.tensors[k];
        for (std::size_t a = 0; a < n.args.size() && a < t.axes.size(); ++a)
          if (n.args[a].kind == NodeKind::ref && n.args[a].args.empty() && n.args[a].name == index)
            return &t.axes[a];
      }
    for (const auto* list : {&n.args, &n.extent})
      for (const Node& a : *list)
        if (const Node* found = find_range(index, a)) return found;
    return nullptr;
  }

  // --- steps ---
  int emit(Step s) {
    for (const int a : s.args)
      if (a >= 0) s.dims |= steps()[a].dims;
    steps().push_back(std::move(s));
    return static_cast<int>(steps().size()) - 1;
  }
  int whole_constant(std::int64_t v) {
    Step s;
    s.what = Do::whole;
    s.real = false;
    s.word = Word::constant;
    s.integer = v;
    return emit(std::move(s));
  }
  int real_constant(double v) {
    Step s;
    s.number = v;
    return emit(std::move(s));
  }
  bool is_whole_constant(int k) const {
    const Step& s = planned_.steps[k];
    return s.what == Do::whole && s.word == Word::constant;
  }
  bool is_number(int k) const { return planned_.steps[k].what == Do::constant || is_whole_constant(k); }
  double number_at(int k) const {
    const Step& s = planned_.steps[k];
    return s.what == Do::constant ? s.number : static_cast<double>(s.integer);
  }
  int real(int k) {
    if (steps()[k].real) return k;
    if (is_whole_constant(k)) return real_constant(number_at(k));
    if (steps()[k].what == Do::compare || steps()[k].what == Do::both || steps()[k].what == Do::either ||
        steps()[k].what == Do::invert)
      fail(e_->at, "a comparison is no number: where(condition, 1, 0) makes one of it");
    Step s;
    s.what = Do::real;
    s.args[0] = k;
    return emit(std::move(s));
  }

  int expression(const Node& n, bool whole) {
    switch (n.kind) {
      case NodeKind::number:
        if (n.whole) return whole_constant(static_cast<std::int64_t>(n.number));
        return real_constant(n.number);
      case NodeKind::ref:
        return reference(n);
      case NodeKind::binary:
        return binary(n, whole);
      case NodeKind::power: {
        const int base = real(expression(n.args[0], whole));
        int power = base;
        for (int k = 1; k < static_cast<int>(n.number); ++k) power = product(power, base);
        return power;
      }
      case NodeKind::call:
        return call(n, whole);
      case NodeKind::reduce:
        return reduce(n);
      case NodeKind::cast:
        return cast(n);
    }
    fail(n.at, "not an expression");
  }

  int reference(const Node& n) {
    if (n.args.empty()) {
      for (std::size_t k = 0; k < planned_.dims.size(); ++k)
        if (planned_.dims[k].name == n.name) {
          Step s;
          s.what = Do::index;
          s.real = false;
          s.axis = static_cast<int>(k);
          s.dims = std::uint32_t{1} << k;
          return emit(std::move(s));
        }
      if (is_size(n.name)) return whole_constant(attributes_ != nullptr ? attributes_->integer(n.name) : 1);
      if (const AttributeLine* a = attribute(n.name)) {
        if (a->kind == "int")
          return whole_constant(attributes_ != nullptr ? attributes_->integer(n.name) : 1);
        if (a->kind == "real") return real_constant(attributes_ != nullptr ? attributes_->real(n.name) : 1);
        if (a->kind == "format") fail(n.at, fmt::format("{} is a format, not a number", n.name));
        fail(n.at, fmt::format("{} is a word: compare it, {} == WORD", n.name, n.name));
      }
    }
    if (tensor(n.name) >= 0) return gather(n);
    unknown(n);
  }

  int gather(const Node& n) {
    const int index = tensor(n.name);
    const Tensor t = plan_.tensors[index];
    if (t.axes.size() != n.args.size())
      fail(n.at, fmt::format("{} has {} ax{}, got {}", n.name, t.axes.size(),
                             t.axes.size() == 1 ? "is" : "es", n.args.size()));
    Step s;
    s.what = Do::gather;
    s.tensor = index;
    s.real = !t.whole;
    std::vector<int> indices;
    for (std::size_t k = 0; k < n.args.size(); ++k) {
      const Node& a = n.args[k];
      if (k == 0 && t.current) {
        s.previous = step_of_recurrence(n, t);
        indices.push_back(whole_constant(0));
        continue;
      }
      const int i = expression(a, true);
      if (steps()[i].real) fail(a.at, fmt::format("an index is an integer; {} is a number", print(a)));
      check_range(a, t, k);
      indices.push_back(i);
    }
    for (const int i : indices) s.dims |= steps()[i].dims;
    s.indices = std::move(indices);
    return emit(std::move(s));
  }

  // Whether the value before this step is read. Of a state: S[t-1], S[t]; behind its recurrence the last one.
  bool step_of_recurrence(const Node& n, const Tensor& t) {
    const Node& a = n.args[0];
    const bool minus_one = a.kind == NodeKind::binary && a.name == "-" &&
                           a.args[1].kind == NodeKind::number && a.args[1].number == 1;
    if (e_->along == t.along) {
      if (a.kind == NodeKind::ref && a.name == t.along) return false;
      const bool state = std::ranges::any_of(text_.equations, [&](const Equation& e) {
        return e.name == t.name && e.kind == EquationKind::state;
      });
      if (state && minus_one && print(a.args[0]) == t.along) return true;
      fail(a.at, fmt::format("{} is known at {}{} here, got {}", t.name, t.along,
                             state ? fmt::format(" and {}-1", t.along) : "", print(a)));
    }
    if (minus_one && print(a.args[0]) == print(text_.along.at(t.along))) return false;
    fail(a.at, fmt::format("behind its recurrence {} is known at {}-1 alone, got {}", t.name,
                           print(text_.along.at(t.along)), print(a)));
  }

  void check_range(const Node& a, const Tensor& t, std::size_t axis) const {
    if (a.kind != NodeKind::ref || !a.args.empty() || guarded_ > 0) return;
    for (const Dim& d : planned_.dims)
      if (d.name == a.name && print(d.text) != print(t.axes[axis]))
        fail(a.at, fmt::format("'{}' goes over {}, axis {} of {} over {}; inside where(...) it may", a.name,
                               print(d.text), axis + 1, t.name, print(t.axes[axis])));
  }

  int binary(const Node& n, bool whole) {
    // A word attribute against a word.
    if ((n.name == "==" || n.name == "!=") && n.args[0].kind == NodeKind::ref)
      if (const AttributeLine* a = attribute(n.args[0].name); a != nullptr && a->kind == "word") {
        const Node& word = n.args[1];
        if (word.kind != NodeKind::ref || !has_word(a->allowed, word.name))
          fail(word.at, fmt::format("{} is one of {}, got {}", a->name, a->allowed, print(word)));
        const bool equal = (attributes_ != nullptr ? attributes_->text(a->name) : a->fallback) == word.name;
        Step s;
        s.what = Do::compare;
        s.real = false;
        s.word = Word::equal;
        s.args = {whole_constant(equal == (n.name == "==") ? 1 : 0), whole_constant(1), -1};
        return emit(std::move(s));
      }
    if (n.name == "%" || n.name == "//") whole = true;
    int a = expression(n.args[0], whole), b = expression(n.args[1], whole);
    if (n.name == "and" || n.name == "or") {
      for (const int k : {a, b})
        if (steps()[k].real || steps()[k].what == Do::whole || steps()[k].what == Do::index)
          fail(n.at, fmt::format("'{}' stands between comparisons", n.name));
      Step s;
      s.what = n.name == "and" ? Do::both : Do::either;
      s.real = false;
      s.args = {a, b, -1};
      return emit(std::move(s));
    }
    const bool integers = !steps()[a].real && !steps()[b].real;
    if (n.name == "<" || n.name == "<=" || n.name == ">" || n.name == ">=" || n.name == "==" ||
        n.name == "!=") {
      if (!integers) a = real(a), b = real(b);
      Step s;
      s.what = Do::compare;
      s.real = false;
      s.word = word_of(n.name);
      s.args = {a, b, -1};
      return emit(std::move(s));
    }
    if (integers && (whole || n.name != "/")) {
      Step s;
      s.what = Do::whole;
      s.real = false;
      s.word = word_of(n.name);
      s.args = {a, b, -1};
      if (is_whole_constant(a) && is_whole_constant(b)) return whole_constant(fold(n, a, b));
      return emit(std::move(s));
    }
    if (n.name == "%" || n.name == "//") fail(n.at, fmt::format("'{}' stands between integers", n.name));
    if (is_number(a) && is_number(b)) {  // computed once, exactly, ahead of the kernel
      const double x = number_at(a), y = number_at(b);
      return real_constant(n.name == "+" ? x + y : n.name == "-" ? x - y : n.name == "*" ? x * y : x / y);
    }
    a = real(a), b = real(b);
    if (n.name == "*") return product(a, b);
    Step s;
    s.what = n.name == "/" ? Do::divide : n.name == "+" ? Do::add : Do::subtract;
    s.args = {a, b, -1};
    if (s.what == Do::divide)
      s.ulp =
          number_key("div_ulp", "2", std::string(kUlps), "error of a quotient, or of reciprocal and product");
    return emit(std::move(s));
  }

  std::int64_t fold(const Node& n, int a, int b) const {
    const std::int64_t x = planned_.steps[a].integer, y = planned_.steps[b].integer;
    std::int64_t z = 0;
    bool over = false;
    if (n.name == "+") over = __builtin_add_overflow(x, y, &z);
    if (n.name == "-") over = __builtin_sub_overflow(x, y, &z);
    if (n.name == "*") over = __builtin_mul_overflow(x, y, &z);
    if (over) fail(n.at, fmt::format("{} is beyond 64 bits", print(n)));
    if (n.name == "/" || n.name == "//" || n.name == "%") {
      if (y == 0) fail(n.at, fmt::format("{} divides by 0", print(n)));
      std::int64_t q = x / y;
      if (x % y != 0 && (x < 0) != (y < 0)) --q;  // toward minus infinity
      z = n.name == "%" ? x - q * y : q;
    }
    return z;
  }

  int product(int a, int b) {
    Step s;
    s.what = Do::multiply;
    s.args = {a, b, -1};
    for (const int k : {a, b}) {
      if (steps()[k].what == Do::multiply)
        s.indices.insert(s.indices.end(), steps()[k].indices.begin(), steps()[k].indices.end());
      else
        s.indices.push_back(k);
    }
    if (s.indices.size() > kMostFactors)
      fail(e_->at, fmt::format("more than {} factors in a product of {}: name a part of it by let",
                               kMostFactors, e_->name));
    if (s.indices.size() > 2 &&
        key(*e_, "products", KeyKind::word, "any", "any|written",
            "in which order a product of three and more factors is formed") == "written")
      s.indices = {a, b};
    return emit(std::move(s));
  }

  // The one step that takes this one, or -1.
  int only_user(int k) const {
    int user = -1;
    for (std::size_t u = 0; u < planned_.steps.size(); ++u)
      for (const int a : planned_.steps[u].args)
        if (a == k) {
          if (user >= 0) return -1;
          user = static_cast<int>(u);
        }
    return user;
  }

  // A product may stay unrounded where one sum, addition or difference alone takes it, behind a where() or a
  // sign or not.
  void mark_fused() {
    for (std::size_t k = 0; k < steps().size(); ++k) {
      if (steps()[k].what != Do::multiply) continue;
      int user = only_user(static_cast<int>(k));
      while (user >= 0 && (steps()[user].what == Do::where || steps()[user].what == Do::negate))
        user = only_user(user);
      if (user < 0) continue;
      const Step& s = steps()[user];
      if (s.what != Do::add && s.what != Do::subtract && s.what != Do::sum) continue;
      steps()[k].fused = fused_of(key(*e_, "fma", KeyKind::word, "any", "any|no|yes",
                                      "a product and the addition that takes it are one rounding"));
      // Of two products that are added one is fused, and the other rounded.
      const bool both = s.what != Do::sum && takes_product(s.args[0]) && takes_product(s.args[1]);
      if (both && steps()[k].fused == Fused::yes) steps()[k].fused = Fused::any;
    }
  }
  bool takes_product(int k) const {
    const Step& s = planned_.steps[k];
    if (s.what == Do::negate) return takes_product(s.args[0]);
    return s.what == Do::multiply ||
           (s.what == Do::where && (takes_product(s.args[1]) || takes_product(s.args[2])));
  }

  int cast(const Node& n) {
    const int a = real(expression(n.args[0], false));
    std::string to = n.name;
    if (find_scalar_format(to) == nullptr) {
      if (const AttributeLine* line = attribute(to)) {
        if (line->kind != "format") fail(n.at, fmt::format("{} is no format but {}", to, line->kind));
        to = format_of(to, n.at);
      } else {
        if (tensor(to) >= 0 || is_size(to))
          fail(n.at, fmt::format("cast(WORD, x): {} is a name already; a new word becomes a key", to));
        to = key(*e_, to, KeyKind::word, "acc", "acc|f32|f16|bf16|e4m3fn|e5m2",
                 "format that it is rounded to; acc: it is not");
      }
    }
    if (to == "acc") return a;
    Step s;
    s.what = Do::cast;
    s.args[0] = a;
    s.to = &scalar_format(to);
    return emit(std::move(s));
  }

  int call(const Node& n, bool whole) {
    if (n.name == "where") return where(n, whole);
    std::vector<int> args;
    for (const Node& a : n.args) args.push_back(expression(a, whole));
    if (n.name == "not") {
      Step s;
      s.what = Do::invert;
      s.real = false;
      s.args[0] = args[0];
      return emit(std::move(s));
    }
    const bool integers = std::ranges::none_of(args, [&](int a) { return steps()[a].real; });
    if (n.name == "neg" && is_number(args[0]))
      return integers ? whole_constant(-steps()[args[0]].integer) : real_constant(-number_at(args[0]));
    if (integers && (n.name == "neg" || n.name == "min" || n.name == "max" || n.name == "clamp")) {
      Step s;
      s.what = Do::whole;
      s.real = false;
      if (n.name == "neg") {
        s.word = Word::minus;
        s.args = {whole_constant(0), args[0], -1};
        return emit(std::move(s));
      }
      s.word = n.name == "min" ? Word::least : Word::most;
      s.args = {args[0], args[1], -1};
      const int first = emit(s);
      if (n.name != "clamp") return first;
      s.word = Word::least;
      s.args = {first, args[2], -1};
      return emit(std::move(s));
    }
    for (int& a : args) a = real(a);
    Step s;
    s.args[0] = args[0];
    if (n.name == "neg" || n.name == "abs") {
      s.what = n.name == "neg" ? Do::negate : Do::absolute;
      return emit(std::move(s));
    }
    if (n.name == "round" || n.name == "floor" || n.name == "exponent") {
      s.what = Do::to_whole;
      s.word = word_of(n.name);
      return emit(std::move(s));
    }
    if (n.name == "min" || n.name == "max" || n.name == "clamp") {
      s.what = n.name == "min" ? Do::least : Do::most;
      s.args[1] = args[1];
      const int first = emit(s);
      if (n.name != "clamp") return first;
      s.what = Do::least;
      s.args = {first, args[2], -1};
      return emit(std::move(s));
    }
    const auto* row = std::ranges::find(kFunctionKeys, n.name, &FunctionKeys::name);
    if (is_number(args[0])) {  // computed once, ahead of the kernel
      if (n.name == "log") return real_constant(std::log(number_at(args[0])));
      if (n.name == "sqrt") return real_constant(std::sqrt(number_at(args[0])));
      if (n.name == "rsqrt") return real_constant(1 / std::sqrt(number_at(args[0])));
    }
    s.what = Do::function;
    s.word = word_of(n.name);
    s.ulp = number_key(n.name + "_ulp", std::string(row->ulp), std::string(kUlps),
                       fmt::format("{}, in units of the last place", row->meaning));
    if (!row->off.empty())
      s.off = number_key(n.name + "_abs", std::string(row->off), "0..1",
                         fmt::format("{}, absolute, beside its ulps", row->meaning));
    return emit(std::move(s));
  }

  int where(const Node& n, bool whole) {
    const int c = expression(n.args[0], whole);
    const Do kind = steps()[c].what;
    if (kind != Do::compare && kind != Do::both && kind != Do::either && kind != Do::invert)
      fail(n.args[0].at, "where(condition, a, b): the condition is a comparison");
    ++guarded_;
    int a = expression(n.args[1], whole), b = expression(n.args[2], whole);
    --guarded_;
    Step s;
    s.what = Do::where;
    s.real = steps()[a].real || steps()[b].real;
    if (s.real) a = real(a), b = real(b);
    s.args = {c, a, b};
    return emit(std::move(s));
  }

  int reduce(const Node& n) {
    add_dim(n.index, n.extent, n.args[0], n.at);
    const int axis = static_cast<int>(planned_.dims.size()) - 1;
    const bool bounded = !n.extent.empty() && !is_constant(n.extent[0], text_);
    Step s;
    s.axis = axis;
    int mask = -1;
    if (bounded) {  // the index goes over the whole axis, what is beyond the bound is left out
      Step i;
      i.what = Do::index;
      i.real = false;
      i.axis = axis;
      i.dims = std::uint32_t{1} << axis;
      const int index = emit(std::move(i)), limit = expression(n.extent[0], true);
      if (steps()[limit].real) fail(n.extent[0].at, "the bound of an index is an integer");
      Step c;
      c.what = Do::compare;
      c.real = false;
      c.word = Word::less;
      c.args = {index, limit, -1};
      mask = emit(std::move(c));
      ++guarded_;
    }
    const int body = real(expression(n.args[0], false));
    if (bounded) --guarded_;
    s.args = {body, mask, -1};
    const auto reduced = [&](Step step) {
      const int at = emit(std::move(step));
      steps()[at].dims &= ~(std::uint32_t{1} << axis);
      return at;
    };
    if (n.name == "max" || n.name == "min") {
      s.what = n.name == "max" ? Do::largest : Do::smallest;
      return reduced(std::move(s));
    }
    if (n.name == "argmax" || n.name == "top") {
      s.what = Do::top;
      s.real = false;
      s.args[2] = n.name == "top" ? expression(n.args[1], true) : whole_constant(0);
      if (steps()[s.args[2]].real) fail(n.args[1].at, "the rank of top(rank, i: x) is an integer");
      s.lower_first = key(*e_, "ties", KeyKind::word, "any", "any|lower",
                          "lower: of equal numbers the lower index goes first") == "lower";
      return reduced(std::move(s));
    }
    if (++sums_ > 1)
      fail(n.at,
           "a second sum in one equation: give the first a name of its own by `let`, so that each has "
           "its own keys");
    s.what = Do::sum;
    s.order = order_of(key(*e_, "order", KeyKind::order, "any", "", "order of its sum"));
    const int total = reduced(std::move(s));
    if (n.name == "sum") return total;
    if (bounded) fail(n.at, "a mean goes over a whole axis; divide a sum by its count");
    Step d;
    d.what = Do::divide;
    d.args = {total, real(whole_constant(planned_.dims[axis].extent)), -1};
    d.ulp =
        number_key("div_ulp", "2", std::string(kUlps), "error of a quotient, or of reciprocal and product");
    return emit(std::move(d));
  }

  const Text& text_;
  const Attributes* attributes_;
  const Contract* contract_;
  const Equation* e_ = nullptr;
  Planned planned_;
  std::string acc_text_ = "f32";
  int sums_ = 0, guarded_ = 0;
};

}  // namespace

const ScalarFormat& accumulator_format(std::string_view name) {
  static const ScalarFormat kF64{.name = "f64",
                                 .kind = ScalarKind::floating,
                                 .bits = 64,
                                 .storage_bytes = 8,
                                 .exponent_bits = 11,
                                 .fraction_bits = 52,
                                 .bias = 1023,
                                 .is_signed = true,
                                 .specials = Specials::ieee,
                                 .max_finite = std::numeric_limits<double>::max()};
  return name == "f64" ? kF64 : scalar_format(name);
}

void Keys::add(const std::string& name, KeyKind kind, const std::string& fallback, const std::string& words,
               const std::string& meaning) {
  const auto kept = [&](const std::string& text) -> std::string_view { return texts_.emplace_back(text); };
  rows_.push_back({kept(name), kind, kept(fallback), kept(words), kept(meaning)});
}

bool Keys::has(std::string_view name) const {
  return std::ranges::find(rows_, name, &KeySpec::name) != rows_.end();
}

Outline outline_of(const Text& text) {
  Maker maker(text, nullptr, nullptr);
  maker.run();
  Outline outline{std::move(maker.keys_), {}};
  for (const Tensor& t : maker.plan_.tensors) outline.axes[t.name] = t.axes;
  return outline;
}

Plan plan_of(const Text& text, const Attributes& attributes, const Contract& contract) {
  Maker maker(text, &attributes, &contract);
  maker.run();
  return std::move(maker.plan_);
}

bool is_constant(const Node& n, const Text& text) {
  if (n.kind == NodeKind::number) return true;
  if (n.kind == NodeKind::ref) {
    if (!n.args.empty()) return false;
    if (std::ranges::find(text.sizes, n.name, &Size::name) != text.sizes.end()) return true;
    const auto a = std::ranges::find(text.attributes, n.name, &AttributeLine::name);
    return a != text.attributes.end() && a->kind == "int";
  }
  const bool made = n.kind == NodeKind::binary ||
                    (n.kind == NodeKind::call && (n.name == "neg" || n.name == "min" || n.name == "max"));
  return made && std::ranges::all_of(n.args, [&](const Node& a) { return is_constant(a, text); });
}

std::int64_t integer_of(const Node& n, const Attributes& attributes) {
  if (n.kind == NodeKind::number) return static_cast<std::int64_t>(n.number);
  if (n.kind == NodeKind::ref) return attributes.integer(n.name);
  std::vector<std::int64_t> v;
  for (const Node& a : n.args) v.push_back(integer_of(a, attributes));
  if (n.name == "neg") return -v[0];
  if (n.name == "min") return std::min(v[0], v[1]);
  if (n.name == "max") return std::max(v[0], v[1]);
  std::int64_t z = 0;
  bool over = false;
  if (n.name == "+") over = __builtin_add_overflow(v[0], v[1], &z);
  if (n.name == "-") over = __builtin_sub_overflow(v[0], v[1], &z);
  if (n.name == "*") over = __builtin_mul_overflow(v[0], v[1], &z);
  if (n.name == "/" || n.name == "//" || n.name == "%") {
    if (v[1] == 0) fail(n.at, fmt::format("{} divides by 0", print(n)));
    std::int64_t q = v[0] / v[1];
    if (v[0] % v[1] != 0 && (v[0] < 0) != (v[1] < 0)) --q;
    z = n.name == "%" ? v[0] - q * v[1] : q;
  }
  if (n.name == "<") z = v[0] < v[1];
  if (n.name == "<=") z = v[0] <= v[1];
  if (n.name == ">") z = v[0] > v[1];
  if (n.name == ">=") z = v[0] >= v[1];
  if (n.name == "==") z = v[0] == v[1];
  if (n.name == "!=") z = v[0] != v[1];
  if (n.name == "and") z = v[0] != 0 && v[1] != 0;
  if (n.name == "or") z = v[0] != 0 || v[1] != 0;
  if (over) fail(n.at, fmt::format("{} is beyond 64 bits", print(n)));
  return z;
}

}  // namespace assay::formula
