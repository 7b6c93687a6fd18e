// Our layouts of AMD's matrix instructions against AMD's own tables:
// https://github.com/ROCm/amd_matrix_instruction_calculator at 2ef9189, matrix_calculator.py -a ARCHITECTURE
// -i INSTRUCTION -A, -B and -D -R. There element [i][k] of A and [k][j] of B lie in lanes i and j of 16, in
// the same place for each k; the tables say which k is in which place, and which row of D is which result.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "backends/hip/layouts.hpp"

namespace assay_gpu {
namespace {

using Table = std::vector<std::vector<int>>;  // by sixteen lanes, then by place in a lane

struct Described {
  std::string instruction;
  Table k, row;          // AMD's
  Table our_k, our_row;  // of each lane's sixteen, asserted to be alike in them
  int wave, depth;
};

template <class Layout>
Described described(const char* instruction, Table k, Table row) {
  Described d{instruction, std::move(k), std::move(row), {}, {}, Layout::kWave, Layout::kDepth};
  for (int lane = 0; lane < Layout::kWave; ++lane) {
    std::vector<int> ks, rows;
    for (int i = 0; i < Layout::kPerLane; ++i) ks.push_back(Layout::first_k(lane) + i);
    for (int i = 0; i < Layout::kResults; ++i) rows.push_back(Layout::row_of(lane, i));
    if (lane % 16 == 0) d.our_k.push_back(ks), d.our_row.push_back(rows);
    EXPECT_EQ(ks, d.our_k.back()) << instruction << " lane " << lane;
    EXPECT_EQ(rows, d.our_row.back()) << instruction << " lane " << lane;
  }
  return d;
}

std::vector<Described> all() {
  return {
      described<LayoutMfma8>("v_mfma_f32_16x16x32_fp8_fp8",
                             {{0, 1, 2, 3, 4, 5, 6, 7},
                              {8, 9, 10, 11, 12, 13, 14, 15},
                              {16, 17, 18, 19, 20, 21, 22, 23},
                              {24, 25, 26, 27, 28, 29, 30, 31}},
                             {{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9, 10, 11}, {12, 13, 14, 15}}),
      described<LayoutMfma16>("v_mfma_f32_16x16x16_bf16",
                              {{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9, 10, 11}, {12, 13, 14, 15}},
                              {{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9, 10, 11}, {12, 13, 14, 15}}),
      described<LayoutMfma16>("v_mfma_f32_16x16x16_f16",
                              {{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9, 10, 11}, {12, 13, 14, 15}},
                              {{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9, 10, 11}, {12, 13, 14, 15}}),
      described<LayoutMfma8>("v_mfma_i32_16x16x32_i8",
                             {{0, 1, 2, 3, 4, 5, 6, 7},
                              {8, 9, 10, 11, 12, 13, 14, 15},
                              {16, 17, 18, 19, 20, 21, 22, 23},
                              {24, 25, 26, 27, 28, 29, 30, 31}},
                             {{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9, 10, 11}, {12, 13, 14, 15}}),
      described<LayoutMfma8Short>("v_mfma_i32_16x16x16i8",
                                  {{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9, 10, 11}, {12, 13, 14, 15}},
                                  {{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9, 10, 11}, {12, 13, 14, 15}}),
      described<LayoutMfma16>("v_mfma_f32_16x16x16bf16_1k",
                              {{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9, 10, 11}, {12, 13, 14, 15}},
                              {{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9, 10, 11}, {12, 13, 14, 15}}),
      described<LayoutWmma16>("v_wmma_f32_16x16x16_f16",
                              {{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
                               {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}},
                              {{0, 2, 4, 6, 8, 10, 12, 14}, {1, 3, 5, 7, 9, 11, 13, 15}}),
      described<LayoutWmma8>("v_wmma_f32_16x16x16_fp8_fp8",
                             {{0, 1, 2, 3, 4, 5, 6, 7}, {8, 9, 10, 11, 12, 13, 14, 15}},
                             {{0, 1, 2, 3, 4, 5, 6, 7}, {8, 9, 10, 11, 12, 13, 14, 15}}),
      described<LayoutWmma16Half>("v_wmma_f32_16x16x16_bf16",
                                  {{0, 1, 2, 3, 8, 9, 10, 11}, {4, 5, 6, 7, 12, 13, 14, 15}},
                                  {{0, 1, 2, 3, 4, 5, 6, 7}, {8, 9, 10, 11, 12, 13, 14, 15}}),
  };
}

// The same places for the same k, up to one renaming of k that A and B share; with it nothing is left of the
// order but which codes meet in one instruction.
TEST(Layouts, operands_are_where_amd_says) {
  for (const Described& d : all()) {
    ASSERT_EQ(d.k.size(), d.our_k.size()) << d.instruction;
    std::vector<int> renamed(static_cast<std::size_t>(d.depth), -1);
    for (std::size_t holder = 0; holder < d.k.size(); ++holder) {
      ASSERT_EQ(d.k[holder].size(), d.our_k[holder].size()) << d.instruction;
      for (std::size_t i = 0; i < d.k[holder].size(); ++i) {
        int& name = renamed[static_cast<std::size_t>(d.our_k[holder][i])];
        EXPECT_TRUE(name == -1 || name == d.k[holder][i])
            << d.instruction << " holder " << holder << " place " << i;
        name = d.k[holder][i];
      }
    }
    std::vector<char> met(static_cast<std::size_t>(d.depth), 0);
    for (const int k : renamed) {
      ASSERT_GE(k, 0) << d.instruction;
      EXPECT_EQ(met[static_cast<std::size_t>(k)]++, 0) << d.instruction << " k " << k;
    }
    // Of all but gfx12's 16 bits the names are AMD's too.
    if (d.instruction != "v_wmma_f32_16x16x16_bf16") {
      EXPECT_EQ(d.k, d.our_k) << d.instruction;
    }
  }
}

TEST(Layouts, results_are_where_amd_says) {
  for (const Described& d : all()) EXPECT_EQ(d.row, d.our_row) << d.instruction;
}

// A row of D in the place of another, or a code of another k on one side alone, would be wrong numbers: the
// tables tell.
TEST(Layouts, another_layout_is_told_apart) {
  const Described wmma = all().back();
  EXPECT_NE(wmma.row, (described<LayoutWmma16>("v_wmma_f32_16x16x16_f16", {}, {}).our_row));
  EXPECT_NE(wmma.k, wmma.our_k);
}

}  // namespace
}  // namespace assay_gpu
