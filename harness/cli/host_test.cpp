// What the host does to a run is no kernel's fault: limits of the shell, a judge that was stopped, files that
// are none.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "harness/cli/program_testing.hpp"

namespace {

using program_testing::kFaulty;
using program_testing::Outcome;
using program_testing::Scratch;

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }
std::string command(const std::string& variant, const std::string& more = "") {
  return ASSAY_PROGRAM " run -q 'softmax rows=3 cols=8 variant=" + variant + "' " + kFaulty + " " + more;
}
Outcome after(const std::string& limits, const std::string& variant) {
  return ::assay::run_command(limits + " && " + command(variant));
}

TEST(Host, limits_that_may_be_raised_are_raised) {
  for (const char* limit : {"-s 128", "-n 20", "-v 900000", "-d 100000", "-f 1000", "-t 20"}) {
    const Outcome o = after(std::string("ulimit -S ") + limit, "six_mebibytes_of_stack");
    EXPECT_EQ(o.code, 0) << limit << ": " << o.text;
  }
}

TEST(Host, limits_that_may_not_be_raised_are_named_and_no_kernel_is_accused) {
  for (const char* limit : {"-s 128", "-n 20", "-v 900000", "-d 100000", "-f 1000", "-t 20"}) {
    const Outcome o = after(std::string("ulimit ") + limit, "correct");
    EXPECT_EQ(o.code, 125) << limit << ": " << o.text;
    EXPECT_TRUE(has(o.text, "limits of this host are too low")) << o.text;
    EXPECT_TRUE(has(o.text, "(ulimit " + std::string(limit, 2) + ")")) << o.text;
    const Outcome doctor =
        ::assay::run_command(std::string("ulimit ") + limit + " && " ASSAY_PROGRAM " doctor");
    EXPECT_TRUE(has(doctor.text, "  too low   limits of this host")) << doctor.text;
  }
  const Outcome doctor = ::assay::run_command(ASSAY_PROGRAM " doctor");
  EXPECT_TRUE(has(doctor.text, "  limits    stack: ")) << doctor.text;
  EXPECT_FALSE(has(doctor.text, "too low")) << doctor.text;
}

TEST(Host, a_failure_under_a_limit_that_large_calls_meet_names_it) {
  const Outcome limited = after("ulimit -v 16000000", "wants_memory");
  EXPECT_EQ(limited.code, 1);
  EXPECT_TRUE(has(limited.text, "(limits of this host: address space: 15.3 GiB (ulimit -v))"))
      << limited.text;
  EXPECT_EQ(after("ulimit -v 16000000", "correct").code, 0);
  EXPECT_FALSE(has(after("true", "wants_memory").text, "limits of this host"));
}

// The nap is longer than half of the limit by the clock, 5 x 0.3 s; what stops the judge outlasts the limit.
TEST(Host, time_in_which_the_judge_was_stopped_is_not_the_kernels) {
  const Outcome o = ::assay::run_command("(exec " + command("naps", "--timeout 0.3") +
                                         ") & judge=$!; for i in 1 2; do sleep 0.5; kill -STOP $judge; sleep "
                                         "2; kill -CONT $judge; done; wait $judge");
  EXPECT_EQ(o.code, 0) << o.text;
  EXPECT_EQ(::assay::run_command(command("hang", "--timeout 0.3")).code, 1);
}

// What is no ordinary file is neither waited for nor read without an end.
TEST(Host, inputs_that_are_no_ordinary_files_are_refused) {
  const Scratch scratch;
  const auto at = [&](const std::string& name) { return scratch.file(name); };
  ASSERT_EQ(mkfifo(at("fifo").c_str(), 0600), 0);
  ASSERT_EQ(mkfifo(at("fifo.cases").c_str(), 0600), 0);
  std::filesystem::create_directory(at("folder"));
  std::filesystem::create_symlink("nowhere", at("dead"));
  std::filesystem::create_symlink("/dev/zero", at("zero.cases"));
  const std::string run = command("correct");
  for (const std::string& odd :
       {at("fifo"), at("folder"), at("dead"), std::string("/dev/zero"), std::string("/dev/full")})
    for (const std::string& line :
         {ASSAY_PROGRAM " run --resume " + odd, run + "--expected " + odd,
          ASSAY_PROGRAM " compare " + odd + " " + odd, ASSAY_PROGRAM " judge " + odd,
          ASSAY_PROGRAM " history '' " + odd,
          ASSAY_PROGRAM " --config " + odd + run.substr(sizeof ASSAY_PROGRAM - 1)}) {
      const Outcome o = ::assay::run_command("timeout 60 " + line);
      EXPECT_EQ(o.code, 2) << line << ": " << o.text;
      EXPECT_TRUE(has(o.text, odd)) << o.text;
    }
  for (const char* cases : {"fifo.cases", "zero.cases"})
    EXPECT_EQ(program_testing::assay("run -q " + at(cases) + " " + kFaulty).code, 2) << cases;
  EXPECT_EQ(::assay::run_command(run + "--record " + at("fifo")).code, 2);
  for (const char* name : {"fifo.so", "fifo.py", "fifo.op"}) ASSERT_EQ(mkfifo(at(name).c_str(), 0600), 0);
  for (const char* name : {"zero.py", "zero.op"}) std::filesystem::create_symlink("/dev/zero", at(name));
  for (const std::string& line :
       {"--op " + at("fifo.op") + " manual", "--op " + at("zero.op") + " manual",
        "run 'softmax rows=1 cols=8' -b " + at("fifo.so"), "run 'softmax rows=1 cols=8' -b " + at("fifo.py"),
        "run 'softmax rows=1 cols=8' -b " + at("zero.py")}) {
    const Outcome o = ::assay::run_command("timeout 60 " ASSAY_PROGRAM " " + line);
    EXPECT_EQ(o.code, 2) << line << ": " << o.text;
    EXPECT_TRUE(has(o.text, "no ordinary file")) << o.text;
  }

  std::ofstream(at("list")) << "unsupported rmsnorm  # only softmax is here\n";
  std::ofstream(at("assay.toml")) << "";
  std::ofstream(at("some.cases")) << "softmax rows=3 cols=8 variant=correct\n";
  EXPECT_EQ(program_testing::assay("--config " + at("assay.toml") + " run -q " + at("some.cases") + " " +
                                   kFaulty + " --expected " + at("list"))
                .code,
            0);
  const Outcome piped = ::assay::run_command("(cat " + at("fifo") + " > " + at("copy") + ") & " + run +
                                             "--record " + at("fifo") + "; wait");
  EXPECT_TRUE(has(program_testing::text_of(at("copy")), "softmax_fast")) << piped.text;
}

TEST(Host, without_proc_nothing_is_judged) {
  const std::string in = "unshare -rm sh -c 'mount -t tmpfs none /proc && exec \"$0\" \"$@\"' ";
  if (::assay::run_command(in + "true").code != 0) GTEST_SKIP() << "no namespaces here";
  for (const char* words : {" run softmax -b cpu", " doctor", " list ops", " museum"}) {
    const Outcome o = ::assay::run_command(in + ASSAY_PROGRAM + words);
    EXPECT_EQ(o.code, 125) << o.text;
    EXPECT_EQ(o.text.find("assay: there is no /proc here"), 0U) << o.text;
  }
}

}  // namespace
