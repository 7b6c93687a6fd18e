// Algebra of scales, and of the sums that are made under them: relations of two calls, each within its own
// limits.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "cases/laws/laws.hpp"
#include "cases/studies/properties/families.hpp"
#include "reference/formats/scaled.hpp"

namespace assay::property_families {
namespace {

using properties::a_case;
using properties::accused;
using properties::elements;

// A case of the subject with inputs of the property's own, judged, and its first output as numbers.
struct Made {
  Case c;
  std::vector<double> out;
  Truth truth;
  Verdict broken;
};
Made made(Subject& subject, const Case& c, const Inputs& inputs) {
  Made m{c, {}, {}, {}};
  const auto [result, outputs] = subject.judged(c, inputs);
  m.broken = accused(result);
  if (m.broken || outputs.empty()) return m;
  const Contract contract = Contract::parse(result.contract, c.op->contract);
  m.truth = c.op->truth(c.attributes, inputs.set, contract).at(0);
  m.out = decode_output(outputs.at(m.truth.output));
  return m;
}

// second = factor first, within both limits. Where a limit claims nothing, nothing is; and where the
// reference itself does not keep the relation on these inputs, it is none.
Verdict same_times(const Made& first, const Made& second, double factor) {
  for (std::size_t i = 0; i < first.out.size() && i < second.out.size(); ++i) {
    const double allowed = factor * first.truth.limit[i] + second.truth.limit[i];
    if (std::isinf(allowed)) continue;
    const bool relation = std::fabs(second.truth.value[i] - factor * first.truth.value[i]) <= allowed;
    if (!relation) throw NotTaken{"the reference gives other values: no relation"};
    const double want = factor * first.out[i], got = second.out[i];
    const bool ok = std::fabs(got - want) <= allowed;
    if (!ok)
      return Broken{fmt::format("element {}: {:.9g} and {:.9g} x {:g}, apart by more than {:.3g}", i, got,
                                first.out[i], factor, allowed),
                    second.c.line()};
  }
  return std::nullopt;
}

// Its scales, where they are a plane of their own: in f32, or as powers of two.
Plane* scales_of(TensorSet& set, const std::string& tensor) {
  for (Plane& p : set.at(tensor).planes)
    if (p.spec.suffix == ".scale" && (p.spec.format == "f32" || p.spec.format == "e8m0")) return &p;
  return nullptr;
}
Plane& scales_in(TensorSet& set, const std::string& tensor) {
  Plane* plane = set.contains(tensor) ? scales_of(set, tensor) : nullptr;
  if (plane == nullptr)
    throw InputError(InputErrorKind::bad_value,
                     "tensor=" + tensor + " has no plane of scales in f32 or e8m0");
  return *plane;
}
std::span<float> numbers_of(Plane& p) {
  return {reinterpret_cast<float*>(p.bytes.data()), p.bytes.size() / sizeof(float)};
}
// Times 2^k. A power of two that would leave e8m0 is left as it is, and so is the relation.
void multiply(Plane& p, int k) {
  if (p.spec.format == "f32") {
    for (float& v : numbers_of(p)) v = std::ldexp(v, k);
    return;
  }
  for (std::byte& code : p.bytes) {
    const int moved = std::to_integer<int>(code) + k;
    if (moved < 1 || moved > 254) throw NotTaken{"a scale at the end of e8m0"};
    code = static_cast<std::byte>(moved);
  }
}

std::string line_of(const Step& s) {
  Step line{s.text("op"), {}};
  for (const auto& [key, value] : s.values)
    if (key != "op" && key != "tensor" && key != "times" && key != "to") line.values.emplace_back(key, value);
  return line.print();
}

Case with(const Case& c, const std::string& key, const std::string& value) {
  auto attributes = c.attributes.all();
  attributes[key] = value;
  Case other = c;
  other.attributes = Attributes::complete(c.op->attributes, attributes);
  return other;
}

// All scales of one tensor times 2^k: the outputs times 2^k.
Verdict check_times(Subject& subject, const Step& s) {
  const Case c = a_case(line_of(s));
  Inputs inputs = make_inputs(c, input_lists());
  const Made first = made(subject, c, inputs);
  if (first.broken) return first.broken;
  const auto k = static_cast<int>(s.integer("times", -8, 8));
  const double factor = std::ldexp(1.0, k);
  multiply(scales_in(inputs.set, s.text("tensor")), k);
  const Made second = made(subject, c, inputs);
  if (second.broken) return second.broken;
  return same_times(first, second, factor);
}

// The same codes under scales that are all the same, whatever they span.
Verdict check_spans(Subject& subject, const Step& s) {
  const std::string& tensor = s.text("tensor");
  const Case c = a_case(line_of(s));
  Inputs inputs = make_inputs(c, input_lists());
  const auto scales = numbers_of(scales_in(inputs.set, tensor));
  const float one = scales[0];
  std::ranges::fill(scales, one);
  const Made first = made(subject, c, inputs);
  if (first.broken) return first.broken;
  const Case wide = with(c, tensor, s.text("to"));
  Inputs other = make_inputs(wide, input_lists());
  for (const auto& [name, encoded] : inputs.set)
    if (name != tensor) other.set.at(name) = encoded;
  other.set.at(tensor).planes[0].bytes = inputs.set.at(tensor).planes[0].bytes;
  std::ranges::fill(numbers_of(scales_in(other.set, tensor)), one);
  const Made second = made(subject, wide, other);
  if (second.broken) return second.broken;
  return same_times(first, second, 1);
}

// Every key and value twice: two halves of a sum that are alike, merged. The bytes of a tensor of one
// sequence stand token behind token in every plane that follows tokens.
Verdict check_merge(Subject& subject, const Step& s) {
  const Case c = a_case(line_of(s));
  const std::int64_t length = c.attributes.integer("len");
  const Case twice = with(c, "len", number(2 * length));
  const Inputs inputs = make_inputs(c, input_lists());
  Inputs doubled = make_inputs(twice, input_lists());
  doubled.set.at("q") = inputs.set.at("q");
  for (const char* name : {"k", "v"}) {
    auto& planes = doubled.set.at(name).planes;
    for (std::size_t p = 0; p < planes.size(); ++p) {
      const auto& from = inputs.set.at(name).planes[p].bytes;
      auto& to = planes[p].bytes;
      const bool follows = to.size() == 2 * from.size();
      std::ranges::copy(from, to.begin());
      if (follows) std::ranges::copy(from, to.begin() + static_cast<std::ptrdiff_t>(from.size()));
    }
  }
  const Made first = made(subject, c, inputs), second = made(subject, twice, doubled);
  if (first.broken) return first.broken;
  if (second.broken) return second.broken;
  return same_times(first, second, 1);
}

// What `assay laws` holds of the case: the same keys on other pages.
Verdict check_pages(Subject& subject, const Step& s) {
  LawCall base{a_case(line_of(s)), {}};
  subject.last_line = base.c.line();
  base.c.backend = subject.backend();
  base.inputs = make_inputs(base.c, input_lists());
  const auto all = laws();
  const auto& law = *std::ranges::find(all, "pages", &Law::name);
  const auto r = check_law(law, base, subject.workers(), input_lists(), subject.options());
  if (!r) throw InputError(InputErrorKind::bad_value, "pages: attention with page= is allowed");
  if (r->outcome == LawOutcome::not_run) throw NotTaken{r->why};
  if (r->red()) return Broken{"the same keys on other pages: " + r->difference, base.c.line()};
  return std::nullopt;
}

// One token: a scale of a token is one of the request. One head: so is a scale of a head. A calibration on
// the request itself: so is that. Where the scales cover the same, so do the codes.
Verdict check_policies(Subject& subject, const Step& s) {
  const std::string& policy = s.text("policy");
  const bool token = policy == "token", head = policy == "head", itself = policy == "calibrated";
  if (!token && !head && !itself)
    throw InputError(InputErrorKind::bad_value,
                     "policies policy=" + policy + ": token, head or calibrated is allowed");
  const std::string common = fmt::format(
      "kv_write tokens={} heads={} d={} dtype=f32 seed={}", token ? 1 : s.integer("tokens", 1, 64),
      head ? 1 : s.integer("heads", 1, 16), s.integer("d", 1, 256), s.integer("seed", 1, 1'000'000));
  const std::string element = s.text("element");
  const Case whole = a_case(fmt::format("{} to={}_tensor policy=request", common, element));
  const Case other = a_case(fmt::format("{} to={}_{} policy={}", common, element,
                                        token  ? "tok"
                                        : head ? "head"
                                               : "tensor",
                                        policy));
  const Inputs inputs = make_inputs(whole, input_lists());
  Inputs same = make_inputs(other, input_lists());
  same.set.at("x") = inputs.set.at("x");
  if (itself) same.set.at("first") = inputs.set.at("x");
  const Made first = made(subject, whole, inputs), second = made(subject, other, same);
  if (first.broken) return first.broken;
  if (second.broken) return second.broken;
  return same_times(first, second, 1);
}

struct Relation {
  std::string_view name;
  Verdict (*check)(Subject&, const Step&);
};
constexpr Relation kRelations[] = {{"times", check_times},
                                   {"spans", check_spans},
                                   {"merge", check_merge},
                                   {"pages", check_pages},
                                   {"policies", check_policies}};

// One that a subject can be asked: the step with all that does not vary.
struct Kind {
  Step step;
  bool attends;
};

}  // namespace

Draws draw_scales(Subject& subject, std::uint64_t) {
  std::vector<Kind> kinds;
  std::string why;
  const auto add = [&](const std::string& relation, const std::string& line, const std::string& tensor,
                       const std::string& to) {
    try {
      (void)taken(subject, {line});
    } catch (const NotTaken& e) {
      if (why.empty()) why = e.why;
      return;
    }
    Step s{relation, {}};
    const Step parsed = properties::parse_steps(line)[0];
    s.values.emplace_back("op", parsed.name);
    s.values.insert(s.values.end(), parsed.values.begin(), parsed.values.end());
    if (!tensor.empty()) s.values.emplace_back("tensor", tensor);
    if (!to.empty()) s.values.emplace_back("to", to);
    kinds.push_back({std::move(s), parsed.name == "attention"});
  };
  const auto add_policies = [&](const std::string& element, const std::string& policy,
                                const std::string& kind) {
    const std::string line = "kv_write tokens=1 heads=1 d=32 dtype=f32 to=" + element;
    try {
      (void)taken(subject, {line + "_tensor policy=request"});
      (void)taken(subject, {line + "_" + kind + " policy=" + policy});
    } catch (const NotTaken&) {
      return;
    }
    kinds.push_back({{"policies",
                      {{"element", element},
                       {"policy", policy},
                       {"tokens", "1"},
                       {"heads", "1"},
                       {"d", "32"},
                       {"seed", "1"}}},
                     false});
  };
  const std::string read = "attention heads=2 kv_heads=1 d=32 len=8 dtype=f32 seed=1 kv=";
  for (const Format& f : formats()) {
    const std::string name(f.name);
    const auto planes_of_it = planes(f, {2, 256});
    if (std::ranges::any_of(planes_of_it, [](const PlaneSpec& p) {
          return p.suffix == ".scale" && (p.format == "f32" || p.format == "e8m0");
        })) {
      add("times", "dequantize rows=2 cols=32 dtype=f32 seed=1 from=" + name, "x", "");
      add("times", read + name, "v", "");
      for (const Format& g : formats())
        if (g.kind == FormatKind::scaled && g.element == f.element && g.axis < f.axis) {
          // The two must both be taken.
          try {
            (void)taken(subject, {read + std::string(g.name)});
            add("spans",
                fmt::format("attention heads=2 kv_heads=1 d=32 len=8 dtype=f32 seed=1 k={} v={}", name, name),
                "v", std::string(g.name));
          } catch (const NotTaken&) {
          }
        }
    }
    if (f.kind == FormatKind::scaled && f.axis == ScaleAxis::tensor)
      for (const auto& [policy, kind] :
           {std::pair{"token", "tok"}, {"head", "head"}, {"calibrated", "tensor"}})
        add_policies(std::string(f.element), policy, kind);
    add("merge", read + name, "", "");
    add("pages", read + name + " page=4", "", "");
  }
  if (kinds.empty()) throw NotTaken{why};
  return always(rc::gen::exec([kinds = std::move(kinds)] {
    Kind kind = one_of(kinds);
    const auto set = [&](const char* key, const std::string& value) {
      for (auto& [name, text] : kind.step.values)
        if (name == key) text = value;
    };
    set("seed", number(drawn(1, 1000)));
    if (kind.attends) {
      const std::int64_t kv_heads = drawn(1, 3);
      set("kv_heads", number(kv_heads));
      set("heads", number(kv_heads * drawn(1, 2)));
      set("len", number(drawn(1, 48)));
    } else {
      for (const char* key : {"rows", "tokens", "heads"}) set(key, number(drawn(1, 6)));
    }
    if (kind.step.name == "times") kind.step.values.emplace_back("times", number(drawn(0, 8) - 4));
    return Steps{kind.step};
  }));
}

Verdict check_scales(Subject& subject, const Steps& steps) {
  if (steps.size() == 1)
    for (const Relation& r : kRelations)
      if (r.name == steps[0].name) return r.check(subject, steps[0]);
  throw InputError(InputErrorKind::bad_value,
                   "a draw of scales is one step: times, spans, merge, pages or policies is allowed");
}

}  // namespace assay::property_families
