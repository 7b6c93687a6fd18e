// What holds without a GPU: silicon's vectors against the models and their neighbours, the yardstick of the
// function tables, that the comparison notices a planted change, and that it repeats.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <fstream>
#include <map>
#include <random>
#include <set>
#include <sstream>

#include "cases/studies/silicon/exact.hpp"
#include "cases/studies/silicon/exact_functions.hpp"
#include "cases/studies/silicon/report.hpp"
#include "cases/studies/silicon/self_test.hpp"
#include "cases/studies/silicon/vectors.hpp"
#include "reference/error.hpp"
#include "reference/real/mp.hpp"

namespace assay::silicon {
namespace {

std::vector<Vector> golden() {
  std::ifstream file(ASSAY_GOLDEN_DIR "/hopper_silicon.csv");
  EXPECT_TRUE(file) << ASSAY_GOLDEN_DIR;
  return read_vectors(file);
}

TEST(SiliconVectors, are_what_the_models_give) {
  const std::vector<Vector> vectors = golden();
  std::set<std::string_view> run;
  for (const Vector& v : vectors) {
    run.insert(v.how->name);
    const double model = model_result(v, matrix_unit(v.how->unit));
    EXPECT_TRUE(agrees(v, model)) << vector_line(v) << "\n  model " << std::hexfloat << model;
  }
  EXPECT_EQ(run.size(), instructions().size());
  EXPECT_GE(vectors.size(), 600U);
}

// F +-1, g x2 or /2, the other rounding, c early or late or not truncated: each Hopper unit's vectors refute
// each.
TEST(SiliconVectors, tell_every_instructions_model_from_its_neighbours) {
  const std::vector<Vector> vectors = golden();
  int told = 0;
  for (const Instruction& how : instructions()) {
    for (const Neighbour& other : neighbours(matrix_unit(how.unit))) {
      int separating = 0;
      for (const Vector& v : vectors) {
        if (v.how != &how) continue;
        const Element e = element_of(v);
        const double changed =
            other.compute({e.a, how.a_format}, {e.b, how.b_format}, static_cast<double>(e.c));
        separating += agrees(v, changed) ? 0 : 1;
      }
      EXPECT_GE(separating, 1) << how.name << " against " << other.what;
      ++told;
    }
  }
  EXPECT_GE(told, 150);
}

// Least exponents of M, decided on one side by a sliver that silicon kept and on the other by one that it
// cut.
TEST(SiliconVectors, tell_the_least_exponent_of_m_from_its_neighbours) {
  const std::vector<Vector> vectors = golden();
  for (const char* unit : {"hopper_bf16", "hopper_tf32", "hopper_f16_f16out"}) {
    for (const int step : {-1, 1}) {
      MatrixUnit other = matrix_unit(unit);
      other.least_exponent += step;
      int separating = 0;
      for (const Vector& v : vectors) {
        if (v.how->unit == unit && !agrees(v, model_result(v, other))) ++separating;
      }
      EXPECT_GE(separating, 1) << unit << " " << step;
    }
  }
}

TEST(SiliconVectors, survive_writing_and_reading) {
  const std::vector<Vector> asked = questions();
  std::string text = "# a comment\n";
  for (const Vector& v : asked) text += vector_line(v) + "\n";
  std::istringstream file(text);
  const std::vector<Vector> read = read_vectors(file);
  ASSERT_EQ(read.size(), asked.size());
  for (std::size_t i = 0; i < read.size(); ++i) {
    EXPECT_EQ(read[i].a, asked[i].a);
    EXPECT_EQ(read[i].b, asked[i].b);
    EXPECT_EQ(vector_line(read[i]), vector_line(asked[i]));
  }
  std::istringstream bad("wgmma_e4m3_e4m3;38;38;00000000\n");
  EXPECT_THROW(read_vectors(bad), InputError);
  std::istringstream unknown("wgmma_e4m3_e4m4;38;38;00000000;3f800000;one\n");
  EXPECT_THROW(read_vectors(unknown), InputError);
}

TEST(SiliconDraw, is_a_pure_function_of_instruction_seed_and_index) {
  for (const Instruction& how : instructions()) {
    const Batch x = draw_batch(how, 7, 3, 16), y = draw_batch(how, 7, 3, 16), z = draw_batch(how, 8, 3, 16);
    EXPECT_EQ(x.a, y.a);
    EXPECT_EQ(x.c, y.c);
    EXPECT_NE(x.a, z.a);
    EXPECT_EQ(draw_batch(how, 7, 2).steps, 1);
  }
}

TEST(SiliconDraw, reaches_every_family_depth_and_kind) {
  const Instruction& how = instruction("mma_bf16");
  std::set<int> rows, kinds;
  int deepest = 0;
  std::uint64_t subnormal = 0, infinite = 0, nan = 0, zero = 0;
  for (std::uint64_t index = 0; index < 64; ++index) {
    Batch batch = draw_batch(how, 1, index, 32);
    rows.insert(batch.a_family.begin(), batch.a_family.end());
    kinds.insert(batch.c_kind.begin(), batch.c_kind.end());
    deepest = std::max(deepest, draw_batch(how, 1, index).depth());
    if (index >= 8) continue;
    run_on_model(batch, matrix_unit(how.unit));
    Tally tally;
    tally.add(batch, emulate(batch, matrix_unit(how.unit)));
    EXPECT_EQ(tally.mismatches, 0U);
    subnormal += tally.subnormal, infinite += tally.infinite, nan += tally.nan, zero += tally.zero;
  }
  EXPECT_EQ(rows.size(), kRowFamilies.size());
  EXPECT_EQ(kinds.size(), kAccumulatorKinds.size());
  EXPECT_EQ(deepest, 16384);
  for (const std::uint64_t n : {subnormal, infinite, nan, zero}) EXPECT_GT(n, 100U);
}

TEST(SiliconCompare, prints_a_line_that_repeats_the_mismatch) {
  const Instruction& how = instruction("wgmma_e4m3_e4m3");
  MatrixUnit planted = matrix_unit(how.unit);
  ++planted.fraction_bits;
  Batch batch = draw_batch(how, 5, 0);
  run_on_model(batch, planted);
  Tally tally;
  tally.add(batch, emulate(batch, matrix_unit(how.unit)));
  ASSERT_GT(tally.mismatches, 0U);
  ASSERT_FALSE(tally.first.empty());
  EXPECT_EQ(tally.first[0].rfind("MISMATCH wgmma_e4m3_e4m3:5:0:", 0), 0U) << tally.first[0];
  for (const char* part : {" k=32 a=", " b=", " c=", " got=", " want="}) {
    EXPECT_NE(tally.first[0].find(part), std::string::npos) << part;
  }
  EXPECT_FALSE(tally.worst_combinations(1).empty());
}

TEST(SiliconCompare, throws_what_a_runner_throws) {
  const auto broken = []() -> Runner {
    return [](Batch&) { throw std::runtime_error("the GPU fell off the bus"); };
  };
  EXPECT_THROW(compare(instruction("mma_f16"), matrix_unit("hopper_f16"), {1, 1000, 2}, broken),
               std::runtime_error);
}

// The relative error that exact_functions.hpp claims, against MPFR.
TEST(SiliconYardstick, keeps_its_error_bounds) {
  std::mt19937_64 random(3);
  const auto check = [](double got, const mp::Real200& exact, double bound, float x) {
    if (abs(exact) < 0x1p-500) return;  // beyond what an f32 rounds to 0
    const mp::Real200 error = abs((mp::Real200(got) - exact) / exact);
    EXPECT_LE(error.convert_to<double>(), bound) << std::hexfloat << x;
  };
  for (int i = 0; i < 60000; ++i) {
    const float x = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    const float y = std::ldexp(1.0f + static_cast<float>(random() >> 40) * 0x1p-24f,
                               static_cast<int>(random() % 36) - 28) *
                    (random() % 2 == 0 ? 1.0f : -1.0f);
    for (const float v : {x, y}) {
      if (!(std::fabs(v) < 200) || v == 0) continue;
      check(exact_exp2(v), pow(mp::Real200(2), mp::Real200(v)), 0x1p-50, v);
      check(exact_exp(static_cast<double>(v)), exp(mp::Real200(v)), 0x1p-50, v);
      check(exact_tanh(v), tanh(mp::Real200(v)), 0x1p-47, v);
    }
  }
  EXPECT_EQ(exact_exp2(128.0f), 0x1p128);
  EXPECT_EQ(exact_exp2(-149.0f), 0x1p-149);
  EXPECT_TRUE(std::isnan(exact_exp2(std::numeric_limits<float>::quiet_NaN())));
  EXPECT_EQ(exact_tanh(-60.0f), -1.0);
}

TEST(SiliconTable, merges_rows_that_are_all_nearest) {
  std::vector<UlpRow> rows(512, UlpRow{1 << 23});
  rows[130] = {1 << 23, 17, 2.5f, 0x41000000, 1.5f};
  const std::string csv = table_csv(Function::ex2_approx, rows);
  EXPECT_NE(csv.find("ex2.approx.f32,+,-149..2,"), std::string::npos) << csv;
  EXPECT_NE(csv.find("ex2.approx.f32,+,3,8388608,17,2.5000,41000000,1.5000,0.0000,\n"), std::string::npos)
      << csv;
  EXPECT_NE(csv.find("ex2.approx.f32,-,-149..127,"), std::string::npos) << csv;
}

// A device that is the model agrees everywhere; one that is off by the last bit at one input is found there,
// and a failing one heard.
TEST(SiliconExact, finds_the_one_input_that_differs) {
  constexpr std::uint64_t kBegin = 0x3f000000, kCount = 300'000;
  const auto device = [](std::uint32_t off) {
    return [off]() -> Evaluate {
      return [off](Function f, const std::vector<std::uint32_t>& inputs) {
        std::vector<std::uint32_t> results;
        for (const std::uint32_t x : inputs) results.push_back(modelled(f, x) + (x == off ? 1 : 0));
        return results;
      };
    };
  };
  for (const Function f : kModelled) {
    const ExactTally same = compare_exactly(f, kBegin, kBegin + kCount, 2, device(0));
    EXPECT_EQ(same.inputs, kCount);
    EXPECT_EQ(same.differ, 0U);
    const ExactTally other = compare_exactly(f, kBegin, kBegin + kCount, 2, device(kBegin + 77));
    EXPECT_EQ(other.differ, 1U);
    EXPECT_EQ(other.first, kBegin + 77);
    EXPECT_EQ(other.got, other.want + 1);
  }
  const auto broken = []() -> Evaluate {
    return [](Function, const std::vector<std::uint32_t>&) -> std::vector<std::uint32_t> {
      throw std::runtime_error("no device");
    };
  };
  EXPECT_THROW(compare_exactly(Function::tanhf, kBegin, kBegin + kCount, 2, broken), std::runtime_error);
}

// How many results of a binade are not the nearest, on the device as the committed table counted them and by
// the model: a model that differs in few bits counts otherwise.
TEST(SiliconExact, the_models_round_as_often_as_the_h200_did) {
  std::ifstream file(ASSAY_REPORTS_DIR "/h200/function_ulp.csv");
  ASSERT_TRUE(file);
  constexpr double kYardstickUlp = 0x1p-23;
  int binades = 0;
  for (std::string line; std::getline(file, line);) {
    std::istringstream fields(line);
    std::string name, sign, exponent, inputs, not_nearest;
    for (std::string* field : {&name, &sign, &exponent, &inputs, &not_nearest})
      std::getline(fields, *field, ',');
    constexpr std::string_view kAsked = "-4 -3 -2 -1 0 1 2";
    if (name != "tanhf" || sign == "-" || kAsked.find(exponent) == std::string_view::npos) continue;
    std::uint64_t count = 0;
    const std::uint32_t first = static_cast<std::uint32_t>(std::stoi(exponent) + 127) << 23;
    for (std::uint32_t i = 0; i < 1U << 23; ++i) {
      const float x = std::bit_cast<float>(first + i);
      const auto got = static_cast<double>(std::bit_cast<float>(modelled(Function::tanhf, first + i)));
      const double exact = exact_tanh(x);
      const double off = std::fabs(got - exact) * std::ldexp(1.0, 23 - std::ilogb(exact));
      count += off <= 0.5 + kYardstickUlp ? 0U : 1U;
    }
    EXPECT_EQ(count, std::stoull(not_nearest)) << line;
    ++binades;
  }
  EXPECT_EQ(binades, 7);
}

// The committed table: every finite input of every function, and the figures that contracts are told to
// declare.
TEST(SiliconTable, of_the_h200_covers_all_inputs_and_says_what_the_report_says) {
  std::ifstream file(ASSAY_REPORTS_DIR "/h200/function_ulp.csv");
  ASSERT_TRUE(file);
  struct Total {
    std::uint64_t inputs = 0;
    double ulp = 0, relative = 0;
  };
  std::map<std::string, Total> totals;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#' || line.rfind("function,", 0) == 0) continue;
    std::vector<std::string> field;
    std::istringstream fields(line);
    for (std::string f; std::getline(fields, f, ',');) field.push_back(f);
    ASSERT_GE(field.size(), 9U) << line;
    Total& t = totals[field[0]];
    t.inputs += std::stoull(field[3]);
    t.ulp = std::max(t.ulp, std::stod(field[5]));
    t.relative = std::max(t.relative, std::stod(field[7]));
  }
  ASSERT_EQ(totals.size(), static_cast<std::size_t>(kFunctions));
  for (const auto& [name, t] : totals) EXPECT_EQ(t.inputs, 2ULL * 255 << 23) << name;
  for (const char* name : {"ex2.approx.f32", "ex2.approx.ftz.f32", "exp2f"})
    EXPECT_LE(totals[name].relative, 1.23);
  EXPECT_LE(totals["expf"].relative, 1.28);
  EXPECT_GT(totals["expf"].relative, 1.0);  // exp_ulp=1 would be too little
}

}  // namespace
}  // namespace assay::silicon
