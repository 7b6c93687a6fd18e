// Each law finds the kernel that breaks it, says where, and holds for the same kernel without; parts of
// inputs are those of the smaller case; a law that nobody promised is a fact.
#include "cases/laws/laws.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "cases/laws/families.hpp"
#include "cases/lists.hpp"

namespace assay {
namespace {

const Law& law(std::string_view name) { return *std::ranges::find(laws(), name, &Law::name); }

class Lawless {
 public:
  LawResult check(std::string_view name, const std::string& line) {
    LawCall base{expand(parse_case(line)).at(0), {}};
    base.c.backend = "lawless";
    base.inputs = make_inputs(base.c, input_lists());
    return check_law(law(name), base, workers_, input_lists(), {}).value();
  }

 private:
  static BackendInfo info() {
    BackendInfo b;
    b.name = "lawless", b.file = LAWLESS;
    return b;
  }
  std::vector<BackendInfo> known_{info()};
  Workers workers_{known_};
};

TEST(Laws, each_finds_the_kernel_that_breaks_it_and_holds_for_the_one_that_does_not) {
  Lawless kernel;
  const std::pair<const char*, const char*> kBroken[] = {{"batch", "split"},
                                                         {"order", "position"},
                                                         {"padding", "strides"},
                                                         {"calls", "remembers"},
                                                         {"replay", "stale"}};
  for (const auto& [name, variant] : kBroken) {
    const std::string line = "rmsnorm rows=300 cols=997 dtype=f32 variant=";
    const LawResult good = kernel.check(name, line + "lawful"), bad = kernel.check(name, line + variant);
    EXPECT_EQ(good.outcome, LawOutcome::bitwise) << name << ": " << good.why << good.difference;
    EXPECT_FALSE(good.red()) << name;
    EXPECT_GT(good.relations, 0U) << name;
    EXPECT_TRUE(bad.promised) << name;
    EXPECT_TRUE(bad.red()) << name << ": " << bad.why;
    EXPECT_FALSE(bad.difference.empty()) << name;
    EXPECT_NE(bad.second.find("rmsnorm"), std::string::npos) << name;
    // Another order of a sum stays within the limits; the sums of other inputs do not.
    EXPECT_EQ(bad.outcome, name == std::string("replay") ? LawOutcome::broken : LawOutcome::within) << name;
  }
}

TEST(Laws, where_the_order_of_a_sum_changes_is_found_without_being_told) {
  Lawless kernel;
  const LawResult r = kernel.check("batch", "rmsnorm rows=300 cols=997 dtype=f32 variant=split");
  ASSERT_EQ(r.changes.size(), 1U);
  EXPECT_EQ(r.changes[0], "rows 112 and 113");
}

// Each path within its own limits, and as far from the other as the reference is; one that is announced and
// never taken is too near.
TEST(Laws, the_int8_path_and_the_bf16_path_of_the_same_weights_part_as_the_reference_does) {
  Lawless kernel;
  const std::string line = "matmul m=8 n=16 k=256 a=int8_tok b=int8_tok dtype=f32 variant=";
  const LawResult good = kernel.check("paths", line + "lawful"),
                  bad = kernel.check("paths", line + "one_path");
  EXPECT_EQ(good.outcome, LawOutcome::within) << good.why << good.difference;
  EXPECT_EQ(good.relations, 2U);
  EXPECT_FALSE(good.red());
  EXPECT_EQ(bad.outcome, LawOutcome::broken) << bad.why;
  EXPECT_EQ(bad.point, 2);  // f32 is as near as its sums' roundings allow; bf16 is not
  EXPECT_NE(bad.difference.find("every bit is the same"), std::string::npos) << bad.difference;
  LawCall plain{expand(parse_case("matmul m=4 n=4 k=32 a=f32 b=f32 dtype=f32")).at(0), {}};
  EXPECT_TRUE(law("paths").points(plain).empty());
}

TEST(Laws, what_nobody_promised_is_a_fact) {
  Lawless kernel;
  const LawResult r = kernel.check("batch", "rmsnorm rows=300 cols=997 dtype=f32 variant=unpromised");
  EXPECT_EQ(r.outcome, LawOutcome::within);
  EXPECT_FALSE(r.promised);
  EXPECT_FALSE(r.red());
}

TEST(Laws, each_can_be_promised_by_its_name) {
  for (const Law& law : laws()) EXPECT_TRUE(parse_promises(std::string(law.name) + "=bitwise").law(law.name));
  EXPECT_FALSE(parse_promises("deterministic=yes").law("batch"));
}

// The first rows of a case's inputs are what the case of so many rows makes itself, where a fill draws by the
// element.
TEST(Laws, a_part_of_the_inputs_is_what_its_own_line_stands_for) {
  for (const std::string line :
       {"softmax rows=9 cols=33 dtype=f16", "matmul m=9 n=5 k=64 a=int8_tok b=q8_0 dtype=f32",
        "attention batch=9 heads=4 kv_heads=2 d=32 len=20 kv=e4m3fn"}) {
    LawCall base{expand(parse_case(line)).at(0), {}};
    base.inputs = make_inputs(base.c, input_lists());
    const Relation r = law("batch").make(base, 4, input_lists());
    const Inputs own = make_inputs(r.call.c, input_lists());
    for (const auto& [name, tensor] : own.set)
      for (std::size_t p = 0; p < tensor.planes.size(); ++p)
        EXPECT_EQ(tensor.planes[p].bytes, r.call.inputs.set.at(name).planes[p].bytes)
            << line << " " << name << " " << p;
  }
}

// Value and limit know neither order nor place: the truth of a related call is the related part of the truth.
TEST(Laws, the_reference_keeps_every_law_of_its_own_inputs) {
  const std::map<std::string, std::vector<std::string>> kLines = {
      {"order",
       {"softmax rows=5 cols=33 mask=random sinks=yes",
        "attention batch=3 heads=4 kv_heads=2 d=32 len=40 page=16 lengths=ragged",
        "moe tokens=6 hidden=64 inter=32 experts=4 topk=2 a=int8_tok w=bf16"}},
      {"chunk",
       {"attention heads=4 kv_heads=2 d=32 q=9 len=40 mask=causal kv=q8_0",
        "attention heads=2 d=32 q=9 len=30 mask=window window=5 kv=e4m3fn_tok"}},
      {"heads", {"attention heads=8 kv_heads=4 d=32 len=40 kv=e4m3fn_head sinks=yes alibi=yes"}},
      {"pages",
       {"attention batch=2 heads=4 kv_heads=2 d=32 len=40 page=16 kv=e4m3fn_tok",
        "attention batch=2 heads=4 kv_heads=2 d=32 len=40 page=8 kv=q8_0 lengths=ragged"}}};
  for (const auto& [name, lines] : kLines)
    for (const auto& line : lines) {
      LawCall base{expand(parse_case(line)).at(0), {}};
      base.inputs = make_inputs(base.c, input_lists());
      const Contract contract = Contract::parse("", base.c.op->contract);
      const auto first = base.c.op->truth(base.c.attributes, base.inputs.set, contract);
      std::size_t tried = 0;
      for (const std::int64_t point : law(name).points(base)) {
        const Relation r = law(name).make(base, point, input_lists());
        const auto second = r.call.c.op->truth(r.call.c.attributes, r.call.inputs.set, contract);
        for (std::size_t n = 0; n < r.pieces.size(); ++n)
          for (const auto& p : r.pieces[n])
            for (std::int64_t i = 0; i < p.count; ++i) {
              const auto a = static_cast<std::size_t>(p.first + i),
                         b = static_cast<std::size_t>(p.second + i);
              ASSERT_LE(std::abs(first[n].value[a] - second[n].value[b]),
                        first[n].limit[a] + second[n].limit[b])
                  << name << " " << point << " " << line << " element " << a;
            }
        ++tried;
      }
      EXPECT_GT(tried, 0U) << name << " " << line;
    }
}

}  // namespace
}  // namespace assay
