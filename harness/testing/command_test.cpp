#include "harness/testing/command.hpp"

#include <gtest/gtest.h>

#include <csignal>

namespace assay {
namespace {

TEST(Command, keeps_the_exit_code_and_both_outputs_in_order) {
  const Outcome o = run_command("{ echo out; echo err >&2; echo last; exit 3; }");
  EXPECT_EQ(o.code, 3);
  EXPECT_EQ(o.text, "out\nerr\nlast\n");
  EXPECT_EQ(o.last_line(), "last");
  EXPECT_EQ(run_command("true").code, 0);
}

TEST(Command, a_signal_is128_and_its_number_whether_the_shell_or_its_child_died) {
  EXPECT_EQ(run_command("kill -SEGV $$").code, 128 + SIGSEGV);
  EXPECT_EQ(run_command("exec sh -c 'kill -KILL $$'").code, 128 + SIGKILL);
  EXPECT_EQ(run_command("{ sh -c 'kill -ABRT $$'; exit $?; }").code, 128 + SIGABRT);
}

TEST(Command, a_program_that_is_not_there_is_no_success) {
  EXPECT_EQ(run_command("/nowhere/at/all").code, 127);
}

}  // namespace
}  // namespace assay
