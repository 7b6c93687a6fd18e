// Every fault has an effect, and every requirement is judged by something that can fail.
#include <gtest/gtest.h>

#include <set>

#include "cases/lists.hpp"
#include "harness/case.hpp"
#include "harness/input_lists.hpp"
#include "harness/inputs.hpp"
#include "harness/judge.hpp"
#include "harness/plan.hpp"
#include "harness/suite_text.hpp"

namespace assay {
namespace {

std::vector<BackendInfo> backend(const char* file) {
  BackendInfo b;
  b.name = "cpu", b.file = file;
  return {b};
}

std::vector<Case> suite() {
  std::vector<Case> cases;
  for (const auto& line : read_suite(std::string(ASSAY_SUITES) + "/main/faults.cases"))
    for (const auto& c : expand(parse_case(line.text, line.where), line.where)) cases.push_back(c);
  return cases;
}

CaseResult run(const std::string& line, const char* plugin, const std::string& options) {
  const auto known = backend(plugin);
  Workers workers(known);
  Case c = expand(parse_case(line)).at(0);
  c.backend = options.empty() ? "cpu" : "cpu:" + options;
  return judge_alone(c, input_lists(), workers);
}

TEST(Faults, the_suite_has_every_fault_and_every_op_of_each_row) {
  std::set<std::pair<std::string, std::string>> seen;
  for (const auto& c : suite()) seen.emplace(c.fault, c.op->name);
  for (const auto& f : faults())
    for (const auto& o : ops()) {
      if (!applies(f, o.name) || (f.ops.empty() && o.name == "argmax")) continue;
      EXPECT_TRUE(seen.contains({std::string(f.name), std::string(o.name)})) << f.name << " on " << o.name;
    }
}

TEST(Faults, the_cpu_kernels_do_what_is_required_under_each) {
  const auto known = backend(ASSAY_CPU_PLUGIN);
  Workers workers(known);
  for (const auto& c : suite()) {
    const Inputs inputs = make_inputs(c, input_lists());
    TruthCache truths;
    const CaseResult r = Judge{inputs, truths, workers}.judge(c);
    EXPECT_EQ(r.verdict.status, Status::pass) << "assay run '" << c.line() << "'\n" << r.verdict.summary;
    if (inputs.fault == nullptr) continue;
    const std::string_view said = r.verdict.summary;
    switch (inputs.fault->requirement) {
      case Requirement::judge:
        break;
      case Requirement::contain:
        EXPECT_TRUE(said.starts_with("contained: ")) << c.line() << "\n" << said;
        break;
      case Requirement::conceal:
        EXPECT_TRUE(said.starts_with("concealed: ")) << c.line() << "\n" << said;
        break;
      case Requirement::be_wrong:
        EXPECT_TRUE(said.starts_with("caught: ")) << c.line() << "\n" << said;
        break;
    }
  }
}

// The injection replaced by one that does nothing.
TEST(Faults, an_injection_that_changes_no_byte_is_distrusted) {
  const auto known = backend(ASSAY_CPU_PLUGIN);
  Workers workers(known);
  std::set<std::string> seen;
  for (const auto& c : suite()) {
    if (c.fault == "none" || !seen.insert(c.fault).second) continue;
    Inputs inputs = make_inputs(c, input_lists());
    (inputs.corrupted.empty() ? inputs.clean : inputs.corrupted) = inputs.set;
    TruthCache truths;
    const CaseResult r = Judge{inputs, truths, workers}.judge(c);
    EXPECT_EQ(r.verdict.status, Status::distrust) << c.line();
    EXPECT_NE(r.verdict.summary.find("changed no byte"), std::string::npos) << r.verdict.summary;
  }
}

TEST(Faults, a_corruption_that_moves_nothing_is_distrusted) {
  // Full pages of an unmasked sequence may be exchanged: the keys are the same ones.
  const CaseResult r = run("attention heads=2 d=32 len=64 page=16 fault=page_swap", ASSAY_CPU_PLUGIN, "");
  EXPECT_EQ(r.verdict.status, Status::distrust) << r.verdict.summary;
}

TEST(Faults, a_corruption_that_the_kernel_never_reads_is_missed) {
  const std::string line = "attention heads=2 kv_heads=2 d=32 len=64 kv=f32 dtype=f32 fault=wrong_head";
  EXPECT_EQ(run(line, ASSAY_VIOLATING_PLUGIN, "none").verdict.status, Status::pass);
  const CaseResult r = run(line, ASSAY_VIOLATING_PLUGIN, "memory");
  EXPECT_EQ(r.verdict.status, Status::missed) << r.verdict.summary;
  EXPECT_FALSE(r.verdict.green());
}

TEST(Faults, nothing_is_caught_by_a_kernel_that_is_wrong_anyway) {
  const CaseResult r = run("attention heads=2 kv_heads=2 d=32 len=64 kv=f32 dtype=f32 fault=wrong_head",
                           ASSAY_VIOLATING_PLUGIN, "gain");
  EXPECT_EQ(r.verdict.status, Status::wrong);
  EXPECT_TRUE(r.verdict.summary.starts_with("without the corruption: ")) << r.verdict.summary;
}

TEST(Faults, a_disturbed_neighbour_of_a_nan_is_a_leak) {
  const std::string line =
      "attention heads=2 kv_heads=2 d=32 q=3 len=64 mask=causal kv=f32 dtype=f32 fill=uniform "
      "fault=nan_visible_key";
  EXPECT_EQ(run(line, ASSAY_VIOLATING_PLUGIN, "none").verdict.status, Status::pass);
  const CaseResult r = run(line, ASSAY_VIOLATING_PLUGIN, "smear_one_bit");
  EXPECT_EQ(r.verdict.status, Status::leak) << r.verdict.summary;
}

TEST(Faults, a_name_that_is_no_fault_of_the_op_is_refused_with_those_that_are) {
  EXPECT_THROW((void)find_fault(input_lists(), "nan_masked_key", "softmax"), InputError);
  EXPECT_THROW((void)find_fault(input_lists(), "nan_maskd_key", "attention"), InputError);
  EXPECT_EQ(find_fault(input_lists(), "none", "softmax"), nullptr);
}

TEST(Faults, case_lines_with_faults_are_a_fixed_point) {
  for (const auto& c : suite()) EXPECT_EQ(expand(parse_case(c.line())).at(0).line(), c.line());
}

}  // namespace
}  // namespace assay
