// What a fill was made for it shows in 99 of 100 seeds, of a small case; the kernel without the defect is
// accused of nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "cases/lists.hpp"
#include "cases/studies/planted/measure.hpp"
#include "harness/input_lists.hpp"
#include "harness/inputs.hpp"
#include "harness/smallest_seen.hpp"
#include "harness/suites.hpp"
#include "reference/error.hpp"

namespace assay::planted {
namespace {

Measured measured(const std::string& line, const std::vector<std::string>& fills,
                  const std::string& contract = "") {
  Effort effort;
  effort.scouts = 1, effort.fills = 9, effort.only = fills;
  const Measured all = measure({line, contract, "", ""}, effort);
  EXPECT_EQ(all.accused, 0) << line << ": " << all.first_accused;
  return all;
}
const Found& of(const Measured& all, Kind kind) { return *std::ranges::find(all.found, kind, &Found::kind); }

// What stands in the table for the fill that was made for a defect, and for the customary one.
void sees(const std::string& line, Kind kind, const std::string& fill, const std::string& contract = "") {
  const Measured with = measured(line, {fill}, contract);
  EXPECT_TRUE(of(with, kind).asked.good()) << line << " " << fill << ": " << of(with, kind).asked.seen;
}
void shows(const std::string& line, Kind kind, const std::string& fill, const std::string& contract = "") {
  sees(line, kind, fill, contract);
  const Measured without = measured(line, {"gaussian"}, contract);
  EXPECT_FALSE(of(without, kind).asked.good()) << line << " shows without " << fill;
}

TEST(Planted, one_key_of_many_is_missed) {
  shows("attention heads=2 kv_heads=1 d=32 len=2048 kv=bf16 dtype=bf16", Kind::terms, "roll_call");
  shows("attention heads=2 kv_heads=1 d=64 len=2048 kv=f16 dtype=f16", Kind::terms, "roll_call",
        "qk=hopper_f16 p=f16 pv=hopper_f16 split=128 merge=once");
}

// How many keys the summary of a made suite says that are seen, from the limits alone, against kernels that
// lose one.
TEST(Planted, a_lost_key_that_the_summary_names_is_seen_in_every_seed) {
  const auto keys = [](const std::string& line, const std::string& contract,
                       const std::string& fill = "roll_call") {
    Case c = expand(parse_case(line)).at(0);
    c.fill = fill;
    const Inputs inputs = make_inputs(c, input_lists());
    const auto truth = c.op->truth(c.attributes, inputs.set, Contract::parse(contract, c.op->contract));
    return find_fill(input_lists(), c.fill, c.op->name)
        .terms_seen(c.attributes, sharpness(truth, inputs.tensors).loosest);
  };
  const std::string shape = "attention heads=2 kv_heads=1 d=64 len=1024 ";
  for (const char* formats : {"kv=bf16 dtype=bf16", "kv=f32 dtype=f32", "kv=q4_0 dtype=f32"}) {
    for (const std::string fill : {"roll_call", "embedded_roll_call"}) {
      EXPECT_EQ(keys(shape + formats, "", fill), 1) << formats << " " << fill;
      sees(shape + formats, Kind::terms, fill);
    }
  }
  // Where a key is within the limit, one is not named, and where keys are not alike, none.
  EXPECT_NE(keys("attention heads=2 kv_heads=1 d=64 len=8192 kv=bf16 dtype=bf16", "pv=bf16 pv_order=tree"),
            1);
  EXPECT_FALSE(keys(shape + "kv=f32 dtype=f32 alibi=yes", ""));
}

TEST(Planted, the_list_of_the_summary_is_that_of_the_study) {
  const auto rows = read_suite(suites_directory() + "/planted.list");
  const SmallestSeen readable(rows, input_lists());
  std::vector<std::string> listed, studied;
  for (const SuiteLine& row : rows) listed.push_back(row.text.substr(0, row.text.find(" => ")));
  for (const Subject& subject : subjects()) studied.push_back(subject.line);
  EXPECT_EQ(listed, studied);
  EXPECT_THROW(SmallestSeen({{"softmax rows=2 cols=3 => terms=1", "here"}}, input_lists()), InputError);
  EXPECT_THROW(SmallestSeen({{"softmax rows=2 cols=3 => terms=1 bits=2:x", "here"}}, input_lists()),
               InputError);
}

TEST(Planted, one_term_of_many_is_missed) {
  shows("matmul m=2 n=64 k=512 a=bf16 b=bf16 dtype=bf16", Kind::terms, "roll_call");
  shows("matmul m=2 n=64 k=512 a=f32 b=q4_0 path=q8_1 dtype=f32", Kind::terms, "roll_call");
  sees("softmax rows=32 cols=512 dtype=bf16", Kind::terms, "roll_call");
  sees("rmsnorm rows=32 cols=512 dtype=f32", Kind::terms, "roll_call");
  shows("quantize rows=2 cols=256 to=mxfp4", Kind::terms, "roll_call");
}

TEST(Planted, one_bit_of_a_sum_is_missed) {
  shows("matmul m=2 n=16 k=1024 a=f32 b=f32 dtype=f32", Kind::bits, "front_load");
  shows("rmsnorm rows=4 cols=1024 dtype=f32", Kind::bits, "front_load");
}

// A lost bit of a sum whose every order is right is within the limit of one that was declared in bf16.
TEST(Planted, what_cannot_be_seen_is_said_not_to_be) {
  const Measured all = measured("attention heads=2 kv_heads=1 d=32 len=512 kv=bf16 dtype=bf16",
                                {"front_load"}, "qk=hopper_bf16 p=bf16 pv=hopper_bf16 split=128 merge=once");
  const Found& bits = of(all, Kind::bits);
  EXPECT_EQ(bits.asked.seen, 0);
  EXPECT_LE(bits.asked.moved, 1);
  EXPECT_LT(bits.smallest, 23);
  EXPECT_NE(table_row(all).find("23 bits in 0 of 100"), std::string::npos) << table_row(all);
}

TEST(Planted, unknown_fills_are_refused) {
  Effort effort;
  effort.only = {"roll_cal"};
  EXPECT_THROW((void)measure({"softmax rows=2 cols=8", "", "", ""}, effort), InputError);
}

// Every op and format at the sizes of engines: one key, one block, 2 % of a scale. What is not seen is named
// in reports/results/planted.md, and nothing else may be missed.
TEST(Planted, engine_sizes) {
  if (std::getenv("ASSAY_NIGHTLY") == nullptr) GTEST_SKIP() << "a quarter of an hour: ASSAY_NIGHTLY=1";
  Effort effort;
  effort.scouts = 1, effort.made = true;
  for (const Subject& subject : subjects()) {
    const Measured all = measure(subject, effort);
    EXPECT_EQ(all.accused, 0) << subject.line << ": " << all.first_accused;
    for (const Found& found : all.found)
      EXPECT_TRUE(found.asked.good() || found.kind == Kind::bits || !subject.unseen.empty())
          << subject.line << " (" << subject.contract << "): " << table_row(all);
  }
}

}  // namespace
}  // namespace assay::planted
