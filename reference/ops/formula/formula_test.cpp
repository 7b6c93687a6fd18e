// Formulas: what a wrong text is told, which keys follow from a right one, and that no kernel of a contract
// is beyond its limits.
#include <gtest/gtest.h>

#include <cstdlib>

#include "reference/ops/formula/bound.hpp"
#include "reference/ops/formula/formula_testing.hpp"
#include "reference/ops/op_io.hpp"

namespace assay::formula {
namespace {

using namespace testing;  // NOLINT

std::string refusal(const std::string& text) {
  try {
    const FormulaOp f(text);
    return "";
  } catch (const InputError& e) {
    return e.what();
  }
}

// A right text, of which one line is replaced.
std::string with(std::string_view from, std::string_view to) {
  std::string text = R"(op scaled
sizes rows, cols
attribute eps real 0..1 = 1e-5, form word plain|half = plain
in  x[rows,cols] dtype, gamma[cols] f32, at[rows] int32 0..cols-1
let ms[r]        = mean(i: x[r,i]^2)
let inv[r]       = rsqrt(ms[r] + eps)
out y[r,i] dtype = x[r,i] * inv[r] * gamma[i]
out z[r] f32     = where(form == half, 0.5, 1) * x[r,at[r]]
example rows=3 cols=5
)";
  const auto place = text.find(from);
  EXPECT_NE(place, std::string::npos) << from;
  return text.replace(place, from.size(), to);
}

TEST(Formula, a_mistake_is_told_with_its_place_and_what_is_allowed) {
  struct Mistake {
    std::string_view from, to, told;
  };
  constexpr Mistake kMistakes[] = {
      {"op scaled", "opp scaled", "no statement 'opp'; did you mean 'op'"},
      {"op scaled\n", "", "no line `op NAME`"},
      {"rsqrt(ms", "rsqr(ms", "line 6, column 20: no function 'rsqr'; did you mean 'rsqrt'"},
      {"rsqrt(ms[r] + eps)", "rsqrt(ms[r] + eps", "expected ')', got the end of the line"},
      {"x[r,i]^2", "x[i,r]^2", "'r' goes over rows, axis 1 of inv over cols"},
      {"x[r,i]^2", "x[r,i]^2.5", "an exponent is a whole number of 1..16, got 2.5"},
      {"x[r,i]^2", "x[r,i,i]^2", "x has 2 axes, got 3"},
      {"mean(i: x", "mean(x", "expected mean(index: expression)"},
      {"ms[r] + eps", "mx[r] + eps", "'mx' is not known here; did you mean 'x'"},
      {"y[r,i] dtype =", "y[r,i] =", "out y needs a format"},
      {"y[r,i] dtype =", "y[r,i] dtyp =", "no format 'dtyp'; did you mean 'dtype'"},
      {"gamma[cols] f32", "gamma[cols] f33", "no format 'f33'"},
      {"gamma[cols] f32", "gamma[cols] q4_0", "gamma is 'q4_0', which has scales of its own"},
      {"out y[r,i]", "out ms[r,i]", "ms is defined on line 5 already"},
      {"out y[r,i]", "out x[r,i]", "x is an input"},
      {"out y[r,i] dtype", "out y[r,r] dtype", "'r' is an index of y already"},
      {"out y[r,i] dtype", "out y[r,i,k] dtype", "the range of 'k' is open: write k < extent"},
      {"eps real 0..1", "eps reel 0..1", "expected real, int, format or word, got 'reel'"},
      {"* gamma[i]\n", "* gamma[i] gamma\n", "expected the end of the line, got 'gamma'"},
      {"form == half", "form == quarter", "form is one of plain|half, got quarter"},
      {"0.5, 1) * x[r,at[r]]", "0.5, 1) * x[r,inv[r]]", "an index is an integer; inv[r] is a number"},
      {"x[r,i] * inv[r] * gamma[i]", "x[r,i] $ inv[r]", "unexpected character '$'"},
      {"let ms[r]        = mean(i: x[r,i]^2)", "let ms[r] = sum(i: x[r,i]) * sum(j < cols: x[r,j])",
       "a second sum in one equation"},
      {"rsqrt(ms[r] + eps)", "min(ms[r])", "min takes 2 arguments, got 1"},
      {"in  x[rows,cols] dtype", "in  x[rows,at] dtype",
       "an axis of x is made of numbers, sizes and attributes"},
      {"let inv[r] ", "let rows[r] ", "rows"},
      {"let inv[r]       = rsqrt(ms[r] + eps)", "let inv[r] = where(ms[r], 1, 2)",
       "the condition is a comparison"},
      {"let inv[r]       = rsqrt(ms[r] + eps)", "  let inv[r] = 1",
       "an indented line belongs to an `along` above it"},
      {"x[r,i] * inv[r] * gamma[i]", "x[r,i] * x[r,i] * x[r,i] * inv[r] * gamma[i] * eps * x[r,i]",
       "more than 5 factors"},
      {"mean(i: x[r,i]^2)", "mean(i: x[r,i]^2) % 2", "'%' stands between integers"},
  };
  EXPECT_EQ(refusal(with("op scaled", "op scaled")), "");
  for (const Mistake& m : kMistakes) {
    const std::string told = refusal(with(m.from, m.to));
    EXPECT_NE(told.find(m.told), std::string::npos) << m.to << "\n  told: " << told;
    EXPECT_NE(told.find("line "), std::string::npos) << told;
  }
}

TEST(Formula, keys_follow_from_the_formula_alone) {
  const FormulaOp f(with("op scaled", "op scaled"));
  std::string names;
  for (const KeySpec& k : f.op().contract) names += std::string(k.name) + " ";
  EXPECT_EQ(names,
            "acc ftz round overflow ms.acc ms.order ms.div_ulp ms.fma inv.acc inv.rsqrt_ulp y.acc y.products "
            "z.acc ");
  for (const Op* o : ops()) EXPECT_EQ(Contract::parse("", o->contract).text("acc"), "f32") << o->name;
}

// Every op of the library, contracts and inputs drawn: ASSAY_FORMULA_DRAWS of each (default 60).
TEST(Formula, no_member_of_a_contract_is_beyond_a_limit) {
  const char* given = std::getenv("ASSAY_FORMULA_DRAWS");
  const int draws = given != nullptr ? std::atoi(given) : 60;
  std::int64_t judged = 0;
  for (const Op* o : ops()) {
    const FormulaOp& f = *find(o->name);
    const Attributes a = Attributes::complete(o->attributes, example_of(*o));
    Dice dice(o->name.size() * 1000003 + 17);
    Tally t, plain;
    for (int k = 0; k < draws; ++k) {
      const TensorSet in = draw_inputs(*o, a, dice, static_cast<Drawn>(k % 5));
      const Contract c = Contract::parse(k < 5 ? "" : draw_contract(*o, dice), o->contract);
      Member member(o->contract, c, k % 7 == 0 ? 0 : dice.below(1u << 30) + 1);
      const std::vector<Truth> truths = o->truth(a, in, c);
      const auto made = outputs_of(f.text(), a, in, member);
      tally(truths, made, c.print(), t);
      if (k == 0) tally(truths, made, "", plain);
    }
    EXPECT_LE(t.worst, 1) << o->name << " " << t.where;
    EXPECT_GT(plain.judged, 20 * plain.unclaimed) << o->name;  // and the limits say something
    judged += t.judged;
  }
  EXPECT_GT(judged, 100'000);
}

// An output that is judged with what a kernel stored before it: codes by its own scales.
TEST(Formula, codes_are_judged_by_the_scales_that_were_stored) {
  const FormulaOp& f = *find("swiglu_quantize");
  const Op& o = f.op();
  const Attributes a = Attributes::complete(o.attributes, {{"rows", "8"}, {"cols", "64"}, {"dtype", "bf16"}});
  Dice dice(5);
  const TensorSet in = draw_inputs(o, a, dice, Drawn::gaussian);
  const Contract c = Contract::parse("scale.read=stored", o.contract);
  Member member(o.contract, c, 99);
  auto made = outputs_of(f.text(), a, in, member);
  const auto stored = [&](double scale) {
    TensorSet out;
    std::vector<float> scales, codes;
    for (const double v : made.at("scale")) scales.push_back(static_cast<float>(v * scale));
    for (const double v : made.at("code")) codes.push_back(static_cast<float>(v));
    out["scale"] = encode_tensor(format("f32"), {8}, scales);
    out["code"] = encode_tensor(format("e4m3fn"), {8, 64}, codes);
    return out;
  };
  const auto decided = [&](const std::vector<Truth>& truths) {
    return std::ranges::count(truths.at(1).limit, 0.0);
  };
  const std::vector<Truth> without = o.truth(a, in, c), given = o.truth_given(a, in, c, stored(1));
  EXPECT_GT(decided(given), decided(without));
  Tally t;
  tally(given, made, "", t);
  EXPECT_LE(t.worst, 1) << t.where;
  // Scales that are off are seen as scales, and the codes that belong to the right ones as codes of others.
  const std::vector<Truth> off = o.truth_given(a, in, c, stored(1.02));
  EXPECT_FALSE(judge(made.at("scale")[0] * 1.02, off.at(0).value[0], off.at(0).limit[0]).ok);
  Tally codes;
  tally({off.at(1)}, made, "", codes);
  EXPECT_GT(codes.worst, 1);
}

// Integers that a recurrence makes are judged at each of its steps, whatever was stored.
TEST(Formula, integers_of_a_recurrence_are_judged_at_every_step) {
  const FormulaOp f(R"(op spikes
sizes tokens, n
in x[tokens,n] f32
along t < tokens
  state v[t,i < n] f32 = 0.5 * v[t-1,i] + x[t,i] from 0
  out spike[t,i] int8 = where(v[t,i] > 0, 1, 0)
out last[i < n] f32 = v[tokens-1,i]
)");
  const Op& o = f.op();
  const Attributes a = Attributes::complete(o.attributes, {{"tokens", "5"}, {"n", "3"}});
  Dice dice(2);
  const TensorSet in = draw_inputs(o, a, dice, Drawn::gaussian);
  const Contract c = Contract::parse("", o.contract);
  TensorSet stored;
  stored["spike"] = encode_tensor(format("int8"), {5, 3}, std::vector<float>(15, 77));
  const Truth t = o.truth_given(a, in, c, stored).at(0);
  for (std::size_t i = 0; i < t.value.size(); ++i) EXPECT_FALSE(judge(77, t.value[i], t.limit[i]).ok) << i;
}

// Of equal numbers either id may stand first, but an id it is.
TEST(Formula, an_id_out_of_range_is_wrong_where_ids_tie) {
  const Op& o = op("route_topk");
  const Attributes a = Attributes::complete(o.attributes, {{"tokens", "2"}, {"experts", "4"}, {"topk", "2"}});
  TensorSet in, stored;
  in["logits"] = encode_tensor(format("f32"), {2, 4}, std::vector<float>(8, 1));
  in["bias"] = encode_tensor(format("f32"), {4}, std::vector<float>(4, 0));
  const auto truths = [&](std::int64_t id) {
    stored["id"] = integer_tensor("int32", {2, 2}, {0, id, 0, id});
    stored["w"] = encode_tensor(format("f32"), {2, 2}, std::vector<float>(4, 0.5F));
    return o.truth_given(a, in, Contract::parse("", o.contract), stored);
  };
  for (const std::int64_t id : {0, 1, 3}) {
    const Truth t = truths(id).at(0);
    EXPECT_TRUE(judge(static_cast<double>(id), t.value[1], t.limit[1]).ok);
  }
  for (const std::int64_t id : {-1, 4, 77}) {
    const Truth t = truths(id).at(0);
    EXPECT_FALSE(judge(static_cast<double>(id), t.value[1], t.limit[1]).ok) << id;
  }
  const Truth lower =
      o.truth(a, in, Contract::parse("id.ties=lower score.sigmoid_ulp=0.5", o.contract)).at(0);
  EXPECT_EQ(lower.value[1], 1);
  EXPECT_EQ(lower.limit[1], 0);
}

// Where the formula cannot be had, it says so: an index of nothing, a range that is none, sizes that do not
// fit.
TEST(Formula, a_case_without_a_meaning_is_refused) {
  const FormulaOp f(R"(op shifted
sizes n
attribute by int 0..100 = 1
require n % 2 == 0
in x[n] f32
out y[i < n] f32 = x[i + by]
)");
  const auto told = [&](const std::string& n) {
    const Op& o = f.op();
    try {
      const Attributes a = Attributes::complete(o.attributes, {{"n", n}});
      Dice dice(1);
      (void)o.truth(a, draw_inputs(o, a, dice, Drawn::gaussian), Contract::parse("", o.contract));
      return std::string();
    } catch (const InputError& e) {
      return std::string(e.what());
    }
  };
  EXPECT_NE(told("3").find("requires ((n%2)==0)"), std::string::npos) << told("3");
  EXPECT_NE(told("4").find("y[3] reads outside of a tensor"), std::string::npos) << told("4");
}

// What is not finite: by IEEE's rules where every kernel agrees, unclaimed where they do not.
TEST(Formula, nan_and_infinity_go_where_they_must) {
  const Op& o = op("swiglu");
  const Attributes a = Attributes::complete(o.attributes, {{"rows", "1"}, {"cols", "4"}});
  TensorSet in;
  const std::vector<float> gate{NAN, INFINITY, -INFINITY, 1}, up{1, 1, 1, INFINITY};
  in["gate"] = encode_tensor(format("f32"), {1, 4}, gate);
  in["up"] = encode_tensor(format("f32"), {1, 4}, up, {.overflow = Overflow::ieee});
  in["gate"] = encode_tensor(format("f32"), {1, 4}, gate, {.overflow = Overflow::ieee});
  const Truth t = o.truth(a, in, Contract::parse("", o.contract)).at(0);
  EXPECT_TRUE(std::isnan(t.value[0]) && t.limit[0] == 0);
  EXPECT_TRUE(std::isinf(t.value[1]) && t.value[1] > 0);
  EXPECT_TRUE(std::isnan(t.value[2]) && t.limit[2] == 0);  // -Inf times 0
  EXPECT_TRUE(std::isinf(t.value[3]));
}

// Nothing is left open: the interval is the kernel's number.
TEST(Formula, a_contract_that_leaves_nothing_open_is_a_replay) {
  const FormulaOp& f = *find("add_rmsnorm");
  const Op& o = f.op();
  const Attributes a =
      Attributes::complete(o.attributes, {{"rows", "4"}, {"cols", "100"}, {"dtype", "bf16"}});
  Dice dice(3);
  const TensorSet in = draw_inputs(o, a, dice, Drawn::gaussian);
  const Contract c = Contract::parse(
      "h.read=stored ms.order=sequential ms.fma=no ms.div_ulp=0.5 inv.rsqrt_ulp=0.5 y.mid=bf16 y.acc=f32",
      o.contract);
  const std::vector<Truth> truths = o.truth(a, in, c);
  for (const Truth& t : truths)
    EXPECT_EQ(std::ranges::count(t.limit, 0.0), static_cast<std::int64_t>(t.limit.size())) << t.output;
  Member member(o.contract, c, 0);
  Tally t;
  tally(truths, outputs_of(f.text(), a, in, member), "", t);
  EXPECT_LE(t.worst, 1) << t.where;
}

}  // namespace
}  // namespace assay::formula
