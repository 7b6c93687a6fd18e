#include "reference/arithmetic/contract.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <array>
#include <string>

#include "reference/arithmetic/accumulator.hpp"
#include "reference/error.hpp"

namespace assay {
namespace {

constexpr auto kKeys = std::to_array<KeySpec>({
    {"qk", KeyKind::accumulator, "f32", "", "scores"},
    {"chunk", KeyKind::integer, "64", "", "keys a step"},
    {"p", KeyKind::rounding, "f32", "", "weights' format"},
    {"exp_ulp", KeyKind::real, "2", "", "error of exp"},
    {"order", KeyKind::order, "any", "", "order of the sum"},
    {"exp", KeyKind::word, "e", "e|base2", "which exponential"},
    {"out", KeyKind::rounding, "", "", "the output's format"},
});

std::string refusal(std::string_view text, InputErrorKind kind) {
  try {
    Contract::parse(text, kKeys);
  } catch (const InputError& e) {
    EXPECT_EQ(e.kind(), kind) << text;
    return e.what();
  }
  ADD_FAILURE() << "accepted: " << text;
  return "";
}

TEST(Contract, prints_every_key_in_the_lists_order_with_defaults) {
  const Contract c = Contract::parse(" out=bf16   qk=hopper_fp8\tchunk=0128 ", kKeys);
  EXPECT_EQ(c.print(), "qk=hopper_fp8 chunk=128 p=f32 exp_ulp=2 order=any exp=e out=bf16");
  EXPECT_EQ(c.integer("chunk"), 128);
  EXPECT_EQ(c.number("exp_ulp"), 2);
  EXPECT_EQ(c.text("qk"), "hopper_fp8");
}

TEST(Contract, takes_every_scalar_accumulator_and_every_matrix_unit) {
  std::vector<std::string> names{"f64", "f32", "f16", "bf16", "i32"};
  for (const MatrixUnit& unit : matrix_units()) names.emplace_back(unit.name);
  for (const std::string& name : names) {
    EXPECT_EQ(Contract::parse("out=f16 qk=" + name, kKeys).text("qk"), name);
    EXPECT_EQ(accumulator(name).name, name);
  }
}

TEST(Contract, names_what_it_refuses_and_what_is_allowed) {
  EXPECT_NE(refusal("out=f16 qq=f32", InputErrorKind::unknown_name)
                .find("'qq'; did you mean 'qk'? allowed: qk chunk"),
            std::string::npos);
  EXPECT_NE(refusal("out=f16 qk=hopper_fp9", InputErrorKind::bad_value).find("qk=hopper_fp9"),
            std::string::npos);
  EXPECT_NE(refusal("out=f16 p=e4m3", InputErrorKind::bad_value).find("p=e4m3"), std::string::npos);
  for (const char* bad : {"0", "-1", "1.5", "", "12x", "2147483648", "+1", "99999999999999999999"}) {
    refusal(std::string("out=f16 chunk=") + bad, InputErrorKind::bad_value);
  }
  for (const char* bad : {"-1", "nan", "inf", "", "1e", "2ulp", "-0", "+1", "2147483648", "1e300"}) {
    refusal(std::string("out=f16 exp_ulp=") + bad, InputErrorKind::bad_value);
  }
  for (const char* bad : {"e|base2", "", "Base2"})
    refusal(std::string("out=f16 exp=") + bad, InputErrorKind::bad_value);
  for (const char* bad : {"any|tree", "", "Tree", "tree:2", "lanes", "lanes:", "lanes:0", "lanes:-1",
                          "lanes:032", "blocks:1.5", "depth:2147483648", "depth: 4", "depth:4x"})
    refusal(std::string("out=f16 order=") + bad, InputErrorKind::bad_value);
  refusal("qk=f32", InputErrorKind::bad_value);           // `out` is required
  refusal("out=f16 out=f16", InputErrorKind::bad_value);  // twice
  refusal("out", InputErrorKind::bad_value);              // no value
  refusal("out=f16 =3", InputErrorKind::unknown_name);
  const Contract c = Contract::parse("out=f16", kKeys);
  EXPECT_THROW(static_cast<void>(c.text("pv")), InputError);
  EXPECT_THROW(static_cast<void>(c.integer("qk")), InputError);
}

RC_GTEST_PROP(Contract, parse_and_print_are_a_fixed_point, ()) {
  const auto units = matrix_units();
  std::vector<std::string> words;
  if (*rc::gen::arbitrary<bool>()) {
    words.push_back("qk=" + std::string(units[*rc::gen::inRange<std::size_t>(0, units.size())].name));
  }
  if (*rc::gen::arbitrary<bool>()) words.push_back("chunk=" + std::to_string(*rc::gen::inRange(1, 1 << 30)));
  if (*rc::gen::arbitrary<bool>()) {
    const double x =
        std::ldexp(static_cast<double>(*rc::gen::inRange(0, 1 << 30)), *rc::gen::inRange(-60, 1));
    words.push_back("exp_ulp=" + std::to_string(x));
  }
  if (*rc::gen::arbitrary<bool>())
    words.push_back(std::string("order=") +
                    *rc::gen::element("any", "sequential", "tree", "lanes:32", "blocks:128", "depth:7"));
  words.push_back(std::string("out=") + *rc::gen::element("f16", "bf16", "f32", "e4m3fn"));
  std::string text;
  for (std::size_t i = words.size(); i-- > 0;) text += words[i] + " ";
  const Contract parsed = Contract::parse(text, kKeys);
  RC_ASSERT(Contract::parse(parsed.print(), kKeys) == parsed);
  RC_ASSERT(Contract::parse(parsed.print(), kKeys).print() == parsed.print());
}

}  // namespace
}  // namespace assay
