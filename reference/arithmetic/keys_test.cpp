// The engine of every text of key=value: what a row says is what is read, printed and refused.
#include "reference/arithmetic/keys.hpp"

#include <gtest/gtest.h>

#include <functional>

#include "reference/error.hpp"

namespace assay {
namespace {

constexpr KeySpec kRows[] = {
    {"rows", KeyKind::integer, "", "1..64", "how many"},
    {"cols", KeyKind::integer, "@rows", "1..64", "of each"},
    {"pass", KeyKind::integer, "0", "0, 2..8", "terms of a pass", {}, "acc!=i32"},
    {"eps", KeyKind::real, "1e-5", "0..1", "added"},
    {"acc", KeyKind::accumulator, "f32", "", "of sums"},
    {"order", KeyKind::order, "any", "", "of sums"},
    {"out", KeyKind::rounding, "f32", "", "of the store"},
    {"x", KeyKind::format, "f32", "", "of the input"},
    {"y", KeyKind::format, "f16", "f16|bf16", "of the output"},
    {"merge", KeyKind::word, "none", "none|logs|sums", "of parts", {}, "logs: pass!=0/eps=0 order=tree"},
    {"note", KeyKind::text, "-", "", "anything"},
};
constexpr KeyTable kTable("key", kRows);

std::string said(const std::function<void()>& f) {
  try {
    f();
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}
std::string refusal(std::string_view text) {
  return said([&] { (void)kTable.complete(kTable.pairs(text)); });
}
std::string read(std::string_view text) {
  std::string all;
  for (const std::string& value : kTable.complete(kTable.pairs(text)))
    all += (all.empty() ? "" : " ") + value;
  return all;
}
void expect_said(const std::string& text, const char* part) {
  EXPECT_NE(text.find(part), std::string::npos) << text << "\nlacks: " << part;
}

TEST(Keys, every_key_has_its_value_or_the_fallback_in_one_spelling) {
  EXPECT_EQ(read("rows=08"), "8 8 0 1e-05 f32 any f32 f32 f16 none -");
  EXPECT_EQ(read(" rows=8\tcols=3/pass:2 eps=0.50 acc=hopper_fp8 order=lanes:4 merge=sums note=a,b"),
            "8 3 2 0.5 hopper_fp8 lanes:4 f32 f32 f16 sums a,b");
}

TEST(Keys, what_no_row_allows_is_refused_with_what_it_allows) {
  expect_said(refusal("rowz=3"), "no key 'rowz'; did you mean 'rows'?");
  expect_said(refusal("cols=3"), "key rows must be given: 1..64 (how many)");
  expect_said(refusal("rows=3 rows=3"), "key rows=3: it is given twice");
  expect_said(refusal("rows"), "'rows'; allowed: key=value");
  for (const char* bad : {"0", "65", "-1", "+1", "1.5", "", "3x", "99999999999999999999"})
    expect_said(refusal(std::string("rows=") + bad), "allowed: 1..64 (how many)");
  for (const char* bad : {"1", "9", "-0", "-2"})
    expect_said(refusal(std::string("rows=1 pass=") + bad), "allowed: 0, 2..8");
  for (const char* bad : {"nan", "inf", "-0", "-1", "1.001", "1e", ""})
    expect_said(refusal(std::string("rows=1 eps=") + bad), "allowed: 0..1");
  expect_said(refusal("rows=1 acc=hopper"), "allowed: f64|f32|f16|bf16|i32, or a matrix unit");
  expect_said(refusal("rows=1 order=trees"), "key order=trees: allowed: any|");
  expect_said(refusal("rows=1 out=q4_0"), "allowed: a scalar format");
  expect_said(refusal("rows=1 x=f33"), "did you mean 'f32'");
  expect_said(refusal("rows=1 y=f32"), "allowed: f16|bf16 (of the output)");
  expect_said(refusal("rows=1 merge=log"), "did you mean logs? allowed: none|logs|sums (of parts)");
  expect_said(refusal("rows=1 note="), "allowed: text without blanks");
}

TEST(Keys, what_keys_need_of_each_other_is_said_with_what_they_are) {
  EXPECT_EQ(refusal("rows=1 acc=i32"), "");  // at its fallback `pass` needs nothing
  expect_said(refusal("rows=1 acc=i32 pass=2"), "key pass=2 needs acc!=i32, not acc=i32");
  EXPECT_EQ(refusal("rows=1 merge=sums"), "");  // the condition is of logs alone
  EXPECT_EQ(refusal("rows=1 merge=logs order=tree pass=2"), "");
  EXPECT_EQ(refusal("rows=1 merge=logs order=tree eps=0"), "");
  expect_said(refusal("rows=1 merge=logs order=tree"),
              "merge=logs needs pass!=0 or eps=0, not pass=0 and eps=1e-05");
  expect_said(refusal("rows=1 merge=logs pass=2"), "merge=logs needs order=tree, not order=any");
}

TEST(Keys, a_prefix_takes_its_own_and_leaves_the_others) {
  const KeyTable sum("key", std::span(kRows).first(1), "sum.");
  EXPECT_EQ(sum.complete(sum.pairs("sum.rows=3 squares.rows=99 other=1")), std::vector<std::string>{"3"});
  expect_said(said([&] { (void)sum.complete(sum.pairs("sum.rows=99")); }), "key sum.rows=99: allowed");
}

TEST(Keys, a_plain_text_keeps_slashes_and_colons_in_its_values) {
  const std::vector<KeyPair> pairs = key_pairs("key", "note=a:1/b:2 rows=3", "", KeyText::plain);
  ASSERT_EQ(pairs.size(), 2U);
  EXPECT_EQ(pairs[0].value, "a:1/b:2");
}

TEST(Keys, defaults_that_wait_for_each_other_are_told) {
  constexpr KeySpec kRing[] = {{"a", KeyKind::word, "@b", "x|y", ""}, {"b", KeyKind::word, "@a", "x|y", ""}};
  const KeyTable ring("key", kRing);
  expect_said(said([&] { (void)ring.complete({}); }), "the default of key a refers to itself");
  EXPECT_EQ(ring.complete(ring.pairs("b=x")), (std::vector<std::string>{"x", "x"}));
}

}  // namespace
}  // namespace assay
