// Paths with whatever a file system takes, and words that name nothing: as a user meets them.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "harness/cli/program_testing.hpp"

namespace {

using program_testing::assay;
using program_testing::Outcome;
namespace fs = std::filesystem;

// A folder that a shell, a case line and a list each would misread, and how the tests' shell is told of it.
class OddFolder {
 public:
  OddFolder() : path_(fs::temp_directory_path() / ("assay_odd_" + std::to_string(getpid())) / kName) {
    fs::create_directories(path_);
  }
  ~OddFolder() { fs::remove_all(path_.parent_path()); }
  fs::path path() const { return path_; }
  static std::string quoted(const std::string& text) {
    std::string out = "'";
    for (const char c : text) out += c == '\'' ? "'\\''" : std::string(1, c);
    return out + "'";
  }

 private:
  static constexpr const char* kName = "it's #1: a,b=\"c\"\\ 50%\t\n$x";
  fs::path path_;
};

TEST(OddNames, a_plug_in_of_any_path_is_found_and_its_repro_repeats_the_finding) {
  const OddFolder folder;
  const fs::path plugin = folder.path() / "x y.so";
  fs::copy_file(FAULTY_SOFTMAX, plugin);
  const Outcome first =
      assay("run -q 'softmax rows=3 cols=8 variant=wrong' -b " + OddFolder::quoted(plugin.string()));
  ASSERT_EQ(first.code, 1) << first.text;
  const auto at = first.text.find("  repro  assay run '");
  ASSERT_NE(at, std::string::npos) << first.text;
  const auto begin = first.text.find("run '", at);
  const std::string repro = first.text.substr(begin, first.text.find('\n', begin) - begin);
  EXPECT_NE(repro.find("it%27s%20%231%3A%20a%2Cb%3D"), std::string::npos) << repro;
  const Outcome again = assay(repro + " -q");
  EXPECT_EQ(again.code, 1) << again.text;
  EXPECT_NE(again.text.find("elements beyond the limit"), std::string::npos) << again.text;
  // So does the repro in a case file of any path.
  const fs::path suite = folder.path() / "my cases.cases";
  std::ofstream(suite) << repro.substr(5, repro.rfind('\'') - 5) << "\n";
  EXPECT_EQ(assay("run -q " + OddFolder::quoted(suite.string())).code, 1);
}

void refused(const std::string& arguments, const std::string& message) {
  const Outcome o = assay(arguments);
  EXPECT_EQ(o.code, 2) << arguments << "\n" << o.text;
  EXPECT_NE(o.text.find(message), std::string::npos) << arguments << "\n" << o.text;
}

// The first words of somebody who has seen other projects.
TEST(OddNames, a_first_mistake_is_told_what_was_meant) {
  refused("runn", "no command 'runn'; did you mean 'run'?");
  refused("list", "assay list takes what: ops | formats");
  refused("explain", "assay explain takes case: An op, or a case line");
  refused("run softmax rows=4", "quote it, as in 'softmax rows=4'");
  refused("run 'softmax rows=1 cols=2' --bakend cpu", "has no option '--bakend'; did you mean '--backend'?");
  refused("run 'softmax rows=1 cols=2 dtype=fp16'", "dtype=fp16: did you mean f16?");
  refused("run 'softmax rows=1 cols=2 fault=nan_'", "did you mean 'nan_value'?");
  refused("run 'attention heads=1 d=64 len=8 kv=fp8'", "did you mean 'e4m3fn_tensor'?");
  refused("run 'attention heads=1 head_dim=64 len=8'", "did you mean 'd'?");
  refused("run 'layer_norm rows=1 cols=8'", "did you mean 'layernorm'?");
  refused("run 'softmax rows=1 cols=2 variant=skalar' -b cpu",
          "no variant 'skalar' of softmax; did you mean 'scalar'?");
  refused("run 'softmax rows=1 cols=2 variant=fast' -b cpu", "no variant 'fast' of softmax");
}

// Twenty mistakes drawn anew: each message names what, where, and what is allowed.
TEST(OddNames, a_second_mistake_is_told_what_is_allowed) {
  const OddFolder folder;
  const auto file = [&](const std::string& name, const std::string& text) {
    std::ofstream(folder.path() / name) << text;
    return OddFolder::quoted((folder.path() / name).string());
  };
  const std::string softmax = "run 'softmax rows=1 cols=2' ";
  refused("help", "no command 'help'; did you mean '--help'?");
  refused("version", "did you mean '--version'?");
  refused("-b cpu run softmax", "-b: an option stands behind its command, as in: assay run -b");
  refused("hunt softmax -b cpu", "assay hunt needs --out: The folder for finding-N.md");
  refused("laws softmax", "assay laws needs --backend: ");
  refused("shrink 'softmax rows=1 cols=2' -b cpu", "assay shrink needs --out: The file to write");
  refused("identify", "takes case: ");
  refused("run 'softmax rows=1,cols=2'", "'rows=1,cols=2': a comma separates the values of one key");
  refused("run 'softmax 1 2'", "'1' is not key=value; keys of softmax: rows cols dtype");
  refused("run 'softmax --rows 1'", "options stand outside of the quotes");
  refused("run 'attention heads=8 kv_heads=3 d=32 len=8'",
          "case: attention: heads=8 must be a multiple of kv_heads=3");
  refused(softmax + "cpu", "'cpu' stands where a case or a suite does, and is a backend: -b cpu");
  refused(softmax + "mine.py", "is a backend: -b ./mine.py");
  refused("run --resume nowhere.jsonl", "record 'nowhere.jsonl': there is no such file");
  const std::string text = file("notes.txt", "hello\n");
  refused("run --resume " + text, "its first line is no header; allowed: what assay run --record wrote");
  refused("compare " + text + " " + text, "neither a report (assay run --json FILE) nor a record");
  refused(softmax + "-b cpu --expected nowhere.list",
          "list 'nowhere.list' cannot be read: there is no such file");
  const std::string mine = file("mine.py", R"(from assay_subjects import subject
@subject(op='softmax', contract='acc=f64', device='cpu')
def mine(call):
    return [0.5] * 2
)");
  refused("run 'rmsnorm rows=1 cols=2' -b " + mine,
          "no backend of this run has a kernel of rmsnorm; allowed: softmax");
  refused(softmax + "-b " + mine + ",device=gpu", "option device=gpu; allowed: FILE, device=cpu|cuda");
  EXPECT_TRUE(::assay::run_command("cd " + OddFolder::quoted(folder.path().string()) +
                                   " && " ASSAY_PROGRAM " " + softmax + "-b mine.py")
                  .text.find("is named by a path with a '/': -b ./mine.py") != std::string::npos);
  const Outcome none = assay(softmax + "-b cpu --filter f16");
  EXPECT_EQ(none.code, 3);
  EXPECT_NE(none.text.find("of 1 the first is: softmax rows=1 cols=2 seed=1 backend=cpu"), std::string::npos)
      << none.text;
}

TEST(OddNames, a_kernel_of_an_op_that_is_none_is_told_what_was_meant) {
  const OddFolder folder;
  const auto subjects = [&](const std::string& name, const std::vector<std::string>& ops) {
    const fs::path path = folder.path() / name;
    std::ofstream file(path);
    file << "from assay_subjects import subject\n";
    for (const std::string& op : ops)
      file << "@subject(op='" << op << "', contract='acc=f64', device='cpu')\ndef of_" << op
           << "(call):\n    return [0.5] * 2\n";
    return OddFolder::quoted(path.string());
  };
  refused("run 'softmax rows=1 cols=2' -b " + subjects("typo.py", {"sofmax"}), "op 'sofmax', which is none");
  refused("run 'softmax rows=1 cols=2' -b " + subjects("half.py", {"softmax", "rmsnrom"}),
          "did you mean 'rmsnorm'?");
  // Beside others, what looks like no other name may be a formula's that this run does not need.
  EXPECT_EQ(assay("run 'softmax rows=1 cols=2 fill=constant' -b " +
                  subjects("more.py", {"softmax", "my_own_operation"}))
                .code,
            0);
}

TEST(OddNames, a_word_that_names_nothing_is_refused_with_what_is_near) {
  refused("run sofmax", "no suite 'sofmax'");
  refused("run sofmax", "did you mean 'softmax'?");
  refused("run nosuch", "gpu/attention");  // the list
  refused("run argmax", "attribute rows must be given");
  refused("run ''", "no suite ''");
  refused("run " + std::string(5000, 'x'), "no suite 'xxx");
  refused("run " + std::string(5000, 'x') + ".cases", "cannot be read");
  refused("run ./nowhere/x.txt", "a case file is named PATH.cases");
  refused("run 'softmax rows=1 cols=2' -b './no where.so'", "no plug-in file");
  refused("run 'softmax rows=1 cols=2' -b './50%.so'", "%25 for % itself");
  refused("run 'softmax rows=1 cols=2' -b ./../", "it is a folder; allowed: a plug-in (.so)");
  refused("run 'softmax rows=1 cols=2' -b python:nowhere.py", "no file 'nowhere.py'");
  refused("run 'softmax rows=1 cols=2' --op nowhere.op", "there is no such file");
  const OddFolder folder;
  const fs::path empty = folder.path() / "empty.cases";
  std::ofstream(empty) << "# nothing\n";
  refused("run " + OddFolder::quoted(empty.string()), "empty.cases: no case line in it");
  // One source that gives nothing is not hidden behind another.
  refused("run softmax " + OddFolder::quoted(empty.string()), "no case line in it");
  refused("run 'softmax rows=1 cols=2' " + OddFolder::quoted(folder.path().string() + "/none.cases"),
          "there is no such file");
}

}  // namespace
