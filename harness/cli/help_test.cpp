// What a newcomer reads of the program: manual, help, lists, and the end of a run.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "harness/cli/program_testing.hpp"

namespace {

using program_testing::assay;
using program_testing::kFaulty;
using program_testing::Outcome;
using program_testing::report_file;

// The lines of a text that begin with these words, blanks in front aside.
std::vector<std::string> lines_that_begin(const std::string& text, const std::string& words) {
  std::vector<std::string> found;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);)
    if (const auto at = line.find_first_not_of(' ');
        at != std::string::npos && line.compare(at, words.size(), words) == 0)
      found.push_back(line.substr(at));
  return found;
}

TEST(Manual, every_page_has_all_its_parts_and_an_example_that_passes_on_the_cpu) {
  std::istringstream rows(assay("list ops").text);
  std::size_t pages = 0;
  for (std::string row; std::getline(rows, row); ++pages) {
    const std::string name = row.substr(0, row.find(' '));
    const std::string page = assay("manual " + name).text;
    for (const std::string& part : {name + "\n", std::string("\ntensors: "), std::string("\nattributes: "),
                                    std::string("\ncontract: "), std::string("\nexample: ")})
      EXPECT_NE(page.find(part), std::string::npos) << name << ": " << part;
    EXPECT_EQ(page, assay("explain " + name).text);
    const auto examples = lines_that_begin(page, "assay run ");
    ASSERT_EQ(examples.size(), 1U) << page;
    const Outcome o = assay(examples[0].substr(6));
    EXPECT_EQ(o.code, 0) << examples[0] << "\n" << o.text;
    EXPECT_NE(assay("manual --markdown " + name).text.find("## " + name + "\n"), std::string::npos);
  }
  EXPECT_GE(pages, 13U);
  EXPECT_EQ(assay("manual sofmax").code, 2);
}

TEST(Manual, every_format_has_a_page_and_its_numbers_are_read) {
  std::istringstream rows(assay("list formats").text);
  std::string examples;
  for (std::string row; std::getline(rows, row);) {
    const std::string name = row.substr(0, row.find(' ')), page = assay("manual " + name).text;
    for (const std::string& part : {name + "\n", std::string("\nplanes: "), std::string("\nstored: ")})
      EXPECT_NE(page.find(part), std::string::npos) << name << ": " << part << page;
    const auto lines = lines_that_begin(page, "assay run ");
    ASSERT_EQ(lines.size(), 1U) << page;
    examples += " " + lines[0].substr(10, lines[0].rfind('\'') - 9);
  }
  const Outcome o = assay("run -q" + examples + " -b cpu");
  // Formats that the cpu backend does not take are unsupported; of all others it reads every byte.
  EXPECT_TRUE(std::regex_search(o.text, std::regex(R"(; \d+ cases: \d+ pass, \d+ unsupported)"))) << o.text;
}

TEST(Manual, every_matrix_unit_has_a_page_that_says_how_it_forms_a_block) {
  std::istringstream rows(assay("list units").text);
  std::size_t pages = 0;
  for (std::string row; std::getline(rows, row); ++pages) {
    const std::string name = row.substr(0, row.find(' ')), page = assay("manual " + name).text;
    for (const std::string& part :
         {name + "\n", std::string("\narithmetic: of a block\n"), std::string("\n  standing  ")})
      EXPECT_NE(page.find(part), std::string::npos) << name << ": " << part << page;
  }
  EXPECT_GE(pages, 40U);
  // What a unit's own arithmetic is told by stands on its page too.
  EXPECT_NE(assay("manual hopper_fp8_mma_sync").text.find("\n  truncate: M is the largest exponent"),
            std::string::npos);
}

TEST(Manual, a_key_has_a_page_with_each_of_its_meanings_and_the_ops_that_have_it) {
  const std::string ties = assay("manual ties").text;
  for (const char* part : {"ties\n", "\nof a contract: kv_write quantize requantize\n",
                           "\nof a contract: matmul\n", "rule|any|even|away", "half-way between two codes"})
    EXPECT_NE(ties.find(part), std::string::npos) << part << ties;
  const std::string scale = assay("manual scale").text;
  EXPECT_NE(scale.find("\nof a case: attention\n"), std::string::npos) << scale;
  EXPECT_NE(scale.find("\nof a contract: wht\n"), std::string::npos) << scale;
  const Outcome near = assay("manual tiess");
  EXPECT_EQ(near.code, 2);
  EXPECT_NE(near.text.find("no op, key, format or matrix unit 'tiess'; did you mean 'ties'?"),
            std::string::npos)
      << near.text;
}

TEST(Help, every_subcommand_has_an_example_and_every_example_runs) {
  std::vector<std::string> examples = lines_that_begin(assay("--help").text, "assay ");
  EXPECT_GE(examples.size(), 5U);
  for (const char* command : {"run", "list", "explain", "manual", "doctor", "selftest"}) {
    const auto its_own =
        lines_that_begin(assay(std::string(command) + " --help").text, std::string("assay ") + command);
    EXPECT_FALSE(its_own.empty()) << command;
    examples.insert(examples.end(), its_own.begin(), its_own.end());
  }
  for (const auto& example : examples) {
    const std::string line =
        example.substr(6, example.find("   ") - 6);  // what it shows stands behind blanks
    if (line.find("--json") != std::string::npos || line.find("--resume") != std::string::npos ||
        line == "doctor")
      continue;  // writes a file; reads one; loads every backend
    const Outcome o = assay(line + (line.starts_with("run") ? " -b cpu" : ""));
    EXPECT_EQ(o.code, 0) << example << "\n" << o.text;
  }
}

TEST(Help, shows_the_grammar_of_a_case) {
  const std::string help = assay("--help").text;
  for (const char* part : {"fill=", "seed=", "fault=", "layout=", "backend=", "variant=", "a comma is a set"})
    EXPECT_NE(help.find(part), std::string::npos) << part;
}

TEST(Lists, every_suite_says_in_a_sentence_what_it_is_for) {
  std::istringstream rows(assay("list suites").text);
  std::size_t suites = 0;
  for (std::string row; std::getline(rows, row); ++suites) {
    const auto purpose = row.find_first_not_of(' ', row.find(' '));
    EXPECT_NE(purpose, std::string::npos) << row;
    EXPECT_EQ(row.back(), '.') << row;
  }
  EXPECT_GT(suites, 20U);
}

TEST(Lists, known_findings_stand_with_their_reasons) {
  const std::string known = assay("list known").text;
  EXPECT_NE(known.find("overrun          layernorm backend=onednn layout=gaps,unaligned,far\n"),
            std::string::npos)
      << known;
  EXPECT_NE(known.find("-> rows with gaps are accepted"), std::string::npos) << known;
}

TEST(Console, a_run_of_known_findings_and_gaps_reads_green_and_names_where_they_stand) {
  const std::string list = report_file("expected");  // a directory of suites with a list of its own
  std::filesystem::create_directories(list + "/main");
  std::ofstream(list + "/main/one.cases") << "# One.\nsoftmax rows=1 cols=2\n";
  std::ofstream(list + "/expected.list") << "wrong softmax variant=wrong  # off on purpose\n"
                                         << "unsupported rmsnorm  # only softmax is here\n";
  setenv("ASSAY_SUITES", list.c_str(), 1);
  const std::string cases =
      "run 'softmax rows=3 cols=8 variant=correct,wrong' 'rmsnorm rows=3 cols=8' " + kFaulty;
  const Outcome brief = assay(cases), verbose = assay(cases + " -v");
  const Outcome red = assay("run 'softmax rows=3 cols=8 variant=wrong,nan' " + kFaulty);
  unsetenv("ASSAY_SUITES");
  std::filesystem::remove_all(list);
  EXPECT_EQ(brief.code, 0) << brief.text;
  EXPECT_NE(brief.text.find("3 cases: 1 pass, 1 known, 1 gap;"), std::string::npos) << brief.text;
  EXPECT_NE(brief.text.find(
                "known findings and gaps, and why: assay list known; case by case: -v\nall green; 3 cases: "),
            std::string::npos)
      << brief.text;
  EXPECT_EQ(brief.text.find("off on purpose"), std::string::npos) << brief.text;
  EXPECT_NE(verbose.text.find("known wrong softmax rows=3"), std::string::npos) << verbose.text;
  EXPECT_NE(verbose.text.find("off on purpose"), std::string::npos) << verbose.text;
  EXPECT_EQ(red.code, 1) << red.text;  // one of these is known, the other is not
  EXPECT_NE(red.text.find("2 cases: 1 wrong, 1 known;"), std::string::npos) << red.text;
  EXPECT_NE(red.text.find("not green"), std::string::npos) << red.text;
}

TEST(Console, formats_are_folded_into_families_and_shown_one_by_one_on_request) {
  const std::string cases =
      "run 'dequantize rows=2 cols=64 from=e4m3fn,e5m2_tok,mxfp8,nvfp4,e2m1,int8_tok,q8_0,q4_0,f16' -b cpu";
  const std::string brief = assay(cases).text, verbose = assay(cases + " --verbose").text;
  for (const char* row : {"dequantize  float      1", "            fp4        2", "            fp8        3",
                          "            ggml       2", "            int        1"})
    EXPECT_NE(brief.find(row), std::string::npos) << row << "\n" << brief;
  EXPECT_EQ(brief.find("nvfp4 f32"), std::string::npos) << brief;
  EXPECT_NE(verbose.find("nvfp4 f32"), std::string::npos) << verbose;
}

}  // namespace
