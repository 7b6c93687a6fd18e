#include "cases/studies/attribution/labels.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "harness/json_list.hpp"
#include "harness/suite_text.hpp"
#include "reference/error.hpp"

namespace assay::attribution {
namespace {

constexpr std::string_view kSource =
    "#include <cmath>\n"
    "float f(float x) {\n"
    "  const float y = x * x;\n"
    "  return y + 1;\n"
    "}\n";

std::vector<LabelRow> rows(const char* text) { return parse_labels(text, "list"); }

TEST(Labels, a_line_has_the_stages_of_the_row_above_it) {
  const auto list = rows("a.cpp @ float f( @ moments\na.cpp @ return @ output\nb.cpp @ float f( @ mask\n");
  EXPECT_EQ(label(list, "a.cpp", kSource, 1, "softmax"), "");
  EXPECT_EQ(label(list, "a.cpp", kSource, 2, "softmax"), "moments");
  EXPECT_EQ(label(list, "a.cpp", kSource, 3, "softmax"), "moments");
  EXPECT_EQ(label(list, "a.cpp", kSource, 4, "softmax"), "output");
  EXPECT_EQ(label(list, "c.cpp", kSource, 4, "softmax"), "");
}

TEST(Labels, a_helper_of_several_ops_has_the_stages_of_the_op) {
  const auto list = rows("a.cpp @ float f( @ attention:qk matmul,moe:dot\n");
  EXPECT_EQ(label(list, "a.cpp", kSource, 2, "moe"), "dot");
  EXPECT_EQ(label(list, "a.cpp", kSource, 2, "attention"), "qk");
  EXPECT_EQ(label(list, "a.cpp", kSource, 2, "softmax"), "");
}

TEST(Labels, another_kernel_and_bits_that_differ_are_stages_of_their_own) {
  const auto list = rows("a.cpp @ return @ output\n");
  const auto of_kind = [&](const char* kind) {
    return label(list, mutants::Manifest{1, "a.cpp", 4, kind, "y", "z", "return y + 1;"}, kSource, "softmax");
  };
  EXPECT_EQ(of_kind("path"), "dispatch");
  EXPECT_EQ(of_kind("race"), "race");
  EXPECT_EQ(of_kind("overrun"), "output");
}

TEST(Labels, a_row_of_a_line_that_is_gone_is_refused) {
  const auto gone = rows("a.cpp @ float g( @ moments\n");
  EXPECT_THROW((void)label(gone, "a.cpp", kSource, 4, "softmax"), InputError);
  // In another order than the lines stand.
  const auto turned = rows("a.cpp @ return @ output\na.cpp @ float f( @ moments\n");
  EXPECT_THROW((void)label(turned, "a.cpp", kSource, 4, "softmax"), InputError);
  EXPECT_THROW((void)rows("a.cpp @ float f(\n"), InputError);
}

// Every label of the corpus follows from the list: the mutants of this build at their lines.
TEST(Labels, the_list_gives_the_corpus_its_labels) {
  const auto list = parse_labels(read_text(ASSAY_STAGES, "labels"), "stages.list");
  const auto manifest = mutants::read_manifest(ASSAY_MUTANTS_JSON);
  int seen = 0;
  for (const JsonRow& row : parse_json_list(read_text(ASSAY_CORPUS, "corpus"), "corpus.json")) {
    if (!row.optional_text("exhibit").empty()) continue;
    std::int64_t left = row.integer("which", 1, 1000);
    for (const auto& m : manifest)
      if (m.file == row.text("file") && m.text == row.text("text") && m.before == row.text("before") &&
          m.after == row.text("after") && --left == 0) {
        const std::string line = row.text("case");
        EXPECT_EQ(label(list, m, read_text(std::string(ASSAY_SOURCE_DIR) + "/" + m.file, "source"),
                        line.substr(0, line.find(' '))),
                  row.text("stages"))
            << row.where();
        ++seen;
      }
  }
  EXPECT_GT(seen, 0);
}

// A kill table of three mutants: one is in the corpus, one survives.
TEST(Labels, what_is_killed_and_not_in_the_corpus_is_listed) {
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / fmt::format("labels_test_{}", getpid());
  std::filesystem::create_directories(folder);
  const auto write = [&](const char* name, std::string_view text) {
    std::ofstream(folder / name) << text;
    return (folder / name).string();
  };
  write("a.cpp", kSource);
  const auto corpus = write("corpus.json", R"([{"file": "a.cpp", "text": "return y + 1;", "before": "1",
    "after": "2", "which": 1, "stages": "output", "case": "softmax rows=1"}, {"exhibit": "x", "stages": "max"}])");
  const std::string table = R"({"rows": [
    {"id": "1", "before": "1", "after": "2", "case": "softmax rows=1"},
    {"id": "2", "before": "x * x", "after": "x / x", "case": "softmax rows=2"},
    {"id": "3", "before": "x * x", "after": "x + x", "case": ""},
    {"id": "41 an_exhibit", "before": "a", "after": "b", "case": "softmax rows=3"}]})";
  const std::vector<mutants::Manifest> manifest = {
      {1, "a.cpp", 4, "constant", "1", "2", "return y + 1;"},
      {2, "a.cpp", 3, "arithmetic", "x * x", "x / x", "const float y = x * x;"},
      {3, "a.cpp", 3, "arithmetic", "x * x", "x + x", "const float y = x * x;"}};
  const auto list = rows("a.cpp @ float f( @ moments\na.cpp @ return @ output\n");
  const auto found = beyond({write("table.json", table)}, corpus, manifest, list, folder.string());
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].mutant.id, 2);
  EXPECT_EQ(found[0].stages, "moments");
  EXPECT_EQ(found[0].case_line, "softmax rows=2");
  const auto printed = parse_json_list(to_json(found), "printed");
  ASSERT_EQ(printed.size(), 1U);
  EXPECT_EQ(printed[0].text("stages"), "moments");
  EXPECT_EQ(printed[0].integer("which", 1, 1000), 1);
  // Of another build.
  std::vector<mutants::Manifest> other = manifest;
  other[1].after = "x - x";
  EXPECT_THROW((void)beyond({(folder / "table.json").string()}, corpus, other, list, folder.string()),
               InputError);
  std::filesystem::remove_all(folder);
}

TEST(Labels, halves_differ_by_what_is_changed_and_ops_that_were_looked_at_have_one) {
  std::set<std::string> halves;
  for (int i = 0; i < 64; ++i) {
    const mutants::Manifest m{i, "a.cpp", 1, "constant", std::to_string(i), "2", "return 1;"};
    halves.insert(half_of(m, 1, "attention"));
    EXPECT_EQ(half_of(m, 1, "attention"), half_of(m, 1, "quantize"));
    EXPECT_EQ(half_of(m, 1, "matmul"), "looked_at");
  }
  EXPECT_EQ(halves.size(), 2U);
}

}  // namespace
}  // namespace assay::attribution
