// What a green stands over, and what a red is for: each way of being told "all green" for nothing, beside its
// honest counterpart.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "harness/cli/program_testing.hpp"

namespace {

using program_testing::assay;
using program_testing::json_of;
using program_testing::kFaulty;
using program_testing::Outcome;
using program_testing::Scratch;
using program_testing::text_of;

Outcome softmax(const std::string& variant, const std::string& more = "") {
  return assay("run -q 'softmax rows=3 cols=8 variant=" + variant + "' " + kFaulty + " " + more);
}
bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(Trust, what_was_declared_runs) {
  const Outcome o = softmax("reneges");
  EXPECT_EQ(o.code, 1);
  EXPECT_TRUE(has(o.text, "1 refused")) << o.text;
  EXPECT_TRUE(has(o.text, "not today")) << o.text;
  EXPECT_EQ(softmax("correct").code, 0);
}

TEST(Trust, green_stands_over_judged_outputs_alone_in_every_report) {
  const Scratch scratch;
  const std::string list = scratch.file("gaps.list");
  std::ofstream(list) << "unsupported rmsnorm  # only softmax is here\n";
  const std::string reports = " --expected " + list + " --json " + scratch.file("r.json") + " --junit " +
                              scratch.file("r.xml") + " --md " + scratch.file("r.md") + " --html " +
                              scratch.file("r.html");
  const auto said_everywhere = [&](const std::string& part) {
    for (const char* report : {"r.xml", "r.md", "r.html"})
      EXPECT_TRUE(has(text_of(scratch.file(report)), part)) << report << ": " << part;
  };
  const Outcome gaps = assay("run -q 'rmsnorm rows=3 cols=8' " + kFaulty + reports);
  EXPECT_EQ(gaps.code, 3);
  EXPECT_TRUE(gaps.last_line().starts_with("nothing was judged")) << gaps.text;
  said_everywhere("nothing was judged");
  said_everywhere("0 judged, 1 not run");
  EXPECT_EQ(json_of(scratch.file("r.json"))["summary"]["outcome"], "nothing was judged");
  EXPECT_EQ(json_of(scratch.file("r.json"))["summary"]["green"], false);

  std::ofstream(list) << "distrust softmax  # an error of 120 ulps of bf16 is declared\n";
  const Outcome nothing = softmax("worthless", reports);
  EXPECT_EQ(nothing.code, 3);
  EXPECT_TRUE(nothing.last_line().starts_with("nothing was judged")) << nothing.text;
  said_everywhere("0 judged, 1 shows nothing");
  EXPECT_EQ(softmax("worthless").code, 1);

  std::ofstream(list) << "unsupported rmsnorm  # only softmax is here\n";
  const Outcome both =
      assay("run -q 'rmsnorm rows=3 cols=8' 'softmax rows=3 cols=8 variant=correct' " + kFaulty + reports);
  EXPECT_EQ(both.code, 0);
  EXPECT_TRUE(both.last_line().starts_with("all green")) << both.text;
  EXPECT_TRUE(has(both.text, "1 judged, 1 not run")) << both.text;
  said_everywhere("all green");
  said_everywhere("1 judged, 1 not run");
  EXPECT_EQ(json_of(scratch.file("r.json"))["summary"]["judged"], 1);
  EXPECT_EQ(json_of(scratch.file("r.json"))["summary"]["not_run"], 1);

  (void)softmax("inlined", reports);
  said_everywhere("1 judged, 1 unwitnessed");
  EXPECT_EQ(json_of(scratch.file("r.json"))["summary"]["unwitnessed"], 1);
}

TEST(Trust, an_error_that_leaves_no_bit_of_a_number_is_no_contract) {
  const Outcome o = softmax("boundless");
  EXPECT_EQ(o.code, 1);
  EXPECT_TRUE(has(o.text, "contract key exp_ulp=16777216: allowed: 0..65536")) << o.text;
}

TEST(Trust, a_promise_that_is_misspelt_is_an_error) {
  const Outcome o = softmax("misspells");
  EXPECT_EQ(o.code, 1);
  EXPECT_TRUE(has(o.text, "1 failed")) << o.text;
  EXPECT_TRUE(has(o.text, "no promise 'bacth'; did you mean 'batch'?")) << o.text;
}

TEST(Trust, a_path_that_nobody_could_have_seen_is_unwitnessed) {
  const Outcome told = softmax("inlined");
  EXPECT_TRUE(has(told.text, "1 of them is unwitnessed")) << told.text;
  const Outcome strict = softmax("inlined", "--strict");
  EXPECT_EQ(softmax("correct", "--strict").code, 0);
  EXPECT_EQ(strict.code, 1);
  EXPECT_TRUE(has(strict.text, "1 unwitnessed")) << strict.text;

  const std::string run = "run 'rmsnorm rows=4 cols=64 dtype=f32' --strict -b ";
  const Outcome seen = assay(run + EXAMPLE);
  EXPECT_EQ(seen.code, 0) << seen.text;
  EXPECT_FALSE(has(seen.text, "unwitnessed")) << seen.text;
  EXPECT_TRUE(has(seen.text, "watched by assay_witness_cpu (")) << seen.text;

  const Scratch scratch;
  const std::string stripped = scratch.file("stripped.so");
  ASSERT_EQ(::assay::run_command("strip -o " + stripped + " " EXAMPLE).code, 0);
  const Outcome bare = assay(run + stripped);
  EXPECT_EQ(bare.code, 1) << bare.text;
  EXPECT_TRUE(has(bare.text, "1 unwitnessed")) << bare.text;
  EXPECT_TRUE(has(bare.text, "(1 routine)")) << bare.text;  // what it exports
  const Outcome nobody = ::assay::run_command("ASSAY_WITNESS= " ASSAY_PROGRAM " " + run + EXAMPLE);
  EXPECT_EQ(nobody.code, 1) << nobody.text;
}

// It announces the kernel that it declares, and runs another one.
TEST(Trust, a_silent_fallback_is_seen) {
  const Outcome silent = softmax("silent_fallback");
  EXPECT_EQ(silent.code, 1);
  EXPECT_TRUE(has(silent.text, "declared kernel softmax_fast did not run")) << silent.text;
  EXPECT_EQ(softmax("correct").code, 0);
}

TEST(Trust, an_output_that_cannot_be_written_is_no_success) {
  EXPECT_EQ(softmax("correct", "> /dev/full").code, 125);
  EXPECT_EQ(softmax("wrong", "> /dev/full").code, 1);
  EXPECT_EQ(softmax("correct", "> /dev/null").code, 0);
}

TEST(Trust, a_configuration_that_cannot_be_read_is_an_error) {
  const Scratch scratch;
  const auto folder = [&](const std::string& name) {
    std::filesystem::create_directory(scratch.file(name));
    return scratch.file(name + "/assay.toml");
  };
  const auto in_folder = [&](const std::string& name, const std::string& more) {
    return ::assay::run_command("cd " + scratch.file(name) + " && " ASSAY_PROGRAM " " + more +
                                " run -q 'softmax rows=3 cols=8 variant=correct' " + kFaulty);
  };
  std::filesystem::create_directory(folder("folder"));
  ASSERT_EQ(mkfifo(folder("fifo").c_str(), 0600), 0);
  std::filesystem::create_symlink("nowhere.toml", folder("link"));
  for (const char* odd : {"folder", "fifo", "link"}) {
    const Outcome o = in_folder(odd, "");
    EXPECT_EQ(o.code, 2) << o.text;
    EXPECT_TRUE(has(o.text, "assay.toml of this folder cannot be read")) << o.text;
    EXPECT_EQ(in_folder(odd, "--config ''").code, 0);
  }
  folder("none");
  EXPECT_EQ(in_folder("none", "").code, 0);
}

// Four cases that say 20 MB each: what a report keeps of one is told by its own notes.
TEST(Trust, what_a_kernel_says_does_not_size_the_judge) {
  const Scratch scratch;
  const Outcome o = assay("run -q 'softmax rows=1,2 cols=8,9 variant=chatters' " + kFaulty + " --json " +
                          scratch.file("r.json"));
  EXPECT_EQ(o.code, 0) << o.text;
  EXPECT_LT(std::filesystem::file_size(scratch.file("r.json")), std::size_t{1} << 18);
  const auto report = json_of(scratch.file("r.json"));
  ASSERT_EQ(report["results"].size(), 4U);
  for (const auto& row : report["results"]) {
    EXPECT_EQ(row["announced"][0], "softmax_fast");
    EXPECT_TRUE(has(row["notes"].dump(), "kernels_left_out")) << row["notes"];
    EXPECT_TRUE(has(row["notes"].dump(), "notes_left_out")) << row["notes"];
  }
  const Outcome quiet = assay("run -q 'softmax rows=3 cols=8 variant=correct' " + kFaulty + " --json " +
                              scratch.file("r.json"));
  EXPECT_EQ(quiet.code, 0);
  EXPECT_FALSE(has(text_of(scratch.file("r.json")), "s_left_out"));
}

// Its thread strikes in some later call of the process, or, on a slow machine, in its own: never is another
// kernel red for it.
TEST(Trust, an_innocent_is_not_red_for_an_earlier_call) {
  const Scratch scratch;
  const std::string innocents = " 'softmax rows=1,2,3,4,5,6,7,8,9 cols=7,8 variant=slow' ";
  const std::string reports = "--jobs 1 " + kFaulty + " --json " + scratch.file("r.json") + " --junit " +
                              scratch.file("r.xml") + " --md " + scratch.file("r.md") + " --html " +
                              scratch.file("r.html") + " --record " + scratch.file("r.jsonl");
  const Outcome o = assay("run -q 'softmax rows=2 cols=9 variant=kills_later'" + innocents + reports);
  EXPECT_EQ(o.code, 1) << o.text;
  const auto report = json_of(scratch.file("r.json"));
  for (const auto& row : report["results"]) {
    const bool innocent = has(row["case"], "variant=slow");
    EXPECT_TRUE(!innocent || row["verdict"] == "pass") << row["case"];
  }
  if (report["results"][0]["verdict"] == "pass") {
    EXPECT_EQ(report["summary"]["disturbed"].size(), 1U);
    EXPECT_EQ(report["failures"][0]["kind"], "disturbed");
    for (const char* file : {"r.xml", "r.md", "r.html"})
      EXPECT_TRUE(has(text_of(scratch.file(file)), "disturbed by an earlier call: softmax rows=")) << file;
    EXPECT_TRUE(has(o.text, "disturbed by an earlier call: softmax rows=")) << o.text;
    EXPECT_TRUE(has(o.text, "SIGKILL")) << o.text;
    EXPECT_EQ(assay("run -q --resume " + scratch.file("r.jsonl")).code, 1);
  }
  EXPECT_EQ(assay("run -q" + innocents + kFaulty).code, 0);
}

// Its name, arguments and environment, and its parent's; the looking works, as a name that says it shows.
TEST(Trust, a_kernel_does_not_see_that_it_is_tested) {
  const std::string run = ASSAY_PROGRAM " run -q 'softmax rows=3 cols=8 variant=looks_around' " + kFaulty;
  for (const char* before : {"", "ASSAY_SUITES=" ASSAY_SUITES_FOLDER " ASSAY_OTHER=1 ",
                             "ASSAY_WITNESS= ", "ASSAY_WORKER_NAME=llama-server "}) {
    const Outcome o = ::assay::run_command(before + run);
    EXPECT_EQ(o.code, 0) << before << o.text;
  }
  const Outcome told = ::assay::run_command("ASSAY_WORKER_NAME=assay-worker " + run);
  EXPECT_EQ(told.code, 1);
  EXPECT_TRUE(has(told.text, "a test: /proc/self/cmdline /proc/self/comm")) << told.text;
}

TEST(Trust, what_a_shell_left_open_reaches_no_kernel) {
  const Scratch scratch;
  EXPECT_EQ(softmax("descriptor_9", "9>>" + scratch.file("left")).code, 0);
  EXPECT_EQ(softmax("descriptor_9").code, 0);
}

TEST(Trust, a_suite_that_is_made_has_no_inputs_that_show_nothing) {
  const Scratch scratch;
  const std::string report =
      " --json " + scratch.file("r.json") + " --budget 600 --filter 'layernorm|rmsnorm'";
  const Outcome honest = assay("run -q -b " EXAMPLE + report);
  EXPECT_EQ(honest.code, 0) << honest.text;
  const auto json = json_of(scratch.file("r.json"));
  EXPECT_GT(json["summary"]["judged"], 300);
  EXPECT_EQ(json["summary"]["shows_nothing"], 0);
  EXPECT_GT(json["summary"]["left_out"], 0);
  EXPECT_TRUE(has(honest.text, "left out of the suite that was made")) << honest.text;
  for (const auto& row : json["results"]) EXPECT_NE(row["verdict"], "distrust") << row["case"];
  // A contract under which everything shows nothing leaves nothing, and says so.
  const Outcome worthless = assay("run -q " + kFaulty + ":worthless --budget 600 --filter '" +
                                  "^softmax rows=[0-9]+ cols=[0-9]+ (fill=[a-z_]+ )?seed=1 backend=[^ ]+ "
                                  "variant=correct$'");
  EXPECT_EQ(worthless.code, 3) << worthless.text;
  EXPECT_TRUE(worthless.last_line().starts_with("nothing was judged")) << worthless.text;
  EXPECT_TRUE(has(worthless.text, "nothing was judged of softmax")) << worthless.text;
}

// A contract whose limits are beyond the values everywhere says nothing, and is no green by the side of an
// honest one, in a suite that is made as in a list of cases.
TEST(Trust, a_contract_that_says_nothing_is_no_green_beside_an_honest_one) {
  const Scratch scratch;
  const std::string reports = " --json " + scratch.file("r.json") + " --junit " + scratch.file("r.xml") +
                              " --md " + scratch.file("r.md") + " --html " + scratch.file("r.html");
  const std::string few =
      " --budget 600 --filter '^(softmax rows=[0-9]+ cols=[0-9]+ (fill=[a-z_]+ )?seed=1 "
      "backend=[^ ]+ variant=correct$|rmsnorm rows=4 )'";
  const std::string nothing = "nothing was judged of softmax of ";
  const Outcome made = assay("run -q -b " EXAMPLE " " + kFaulty + ":worthless" + few + reports);
  EXPECT_EQ(made.code, 1) << made.text;
  EXPECT_TRUE(made.last_line().starts_with("not green; ")) << made.last_line();
  EXPECT_TRUE(has(made.text, nothing)) << made.text;
  EXPECT_GT(json_of(scratch.file("r.json"))["summary"]["judged"], 0);
  EXPECT_EQ(json_of(scratch.file("r.json"))["failures"][0]["kind"], "unshown");
  for (const char* report : {"r.xml", "r.md", "r.html"})
    EXPECT_TRUE(has(text_of(scratch.file(report)), nothing)) << report;
  const Outcome honest = assay("run -q -b " EXAMPLE " " + kFaulty + few);
  EXPECT_EQ(honest.code, 0) << honest.text;
  EXPECT_TRUE(honest.last_line().starts_with("all green; ")) << honest.last_line();

  const std::string list = scratch.file("known.list");
  std::ofstream(list) << "distrust softmax  # an error of 120 ulps of bf16 is declared\n";
  const std::string two = "run -q 'rmsnorm rows=3 cols=8 backend=" EXAMPLE
                          "' 'softmax rows=3 cols=8 backend=" +
                          kFaulty.substr(kFaulty.find("-b ") + 3);
  const Outcome given = assay(two + " variant=worthless' --expected " + list);
  EXPECT_EQ(given.code, 1) << given.text;
  EXPECT_TRUE(has(given.text, nothing)) << given.text;
  EXPECT_EQ(assay(two + " variant=correct'").code, 0);
}

TEST(Trust, a_kernel_that_denies_determinism_keeps_no_bits_beside_a_fault) {
  const Scratch scratch;
  const std::string file = scratch.file("r.json");
  const auto said = [&](const std::string& variant, int seed) {
    const Outcome o = assay("run -q 'softmax rows=3 cols=8 fault=nan_value seed=" + std::to_string(seed) +
                            " variant=" + variant + "' " + kFaulty + " --json " + file);
    EXPECT_EQ(o.code, 0) << o.text;
    return std::string(json_of(file)["results"][0]["summary"]);
  };
  for (int seed = 1; seed <= 6; ++seed) {
    EXPECT_TRUE(has(said("varies", seed), "are within their limits (deterministic=no)")) << seed;
    EXPECT_TRUE(has(said("correct", seed), "keep their bits")) << seed;
  }
}

TEST(Trust, a_finding_outlives_the_budget_that_its_repetition_would_take) {
  const Outcome o = softmax("wrong_and_slow", "--budget 0.4");
  EXPECT_EQ(o.code, 1);
  EXPECT_TRUE(has(o.text, "1 wrong")) << o.text;
  EXPECT_EQ(softmax("naps", "--budget 0.4").code, 0);
}

// A mistake is told as one, with what was got, where, and what is allowed; what this machine lacks is none
// (125).
TEST(Trust, a_backend_that_is_named_wrongly_is_wrong_usage) {
  const Scratch scratch;
  const auto file = [&](const std::string& name, const std::string& text) {
    std::ofstream(scratch.file(name)) << text;
    return scratch.file(name);
  };
  const std::string kSubject = "from assay_subjects import subject\n@subject(op='softmax', contract='')\n";
  struct Row {
    std::string backend;
    int code;
    std::vector<std::string> says;
  };
  for (const Row& row :
       {Row{file("empty.so", ""), 2, {"empty.so: file too short", "allowed: a shared library"}},
        {file("text.so", std::string(999, 'x')), 2, {"text.so: invalid ELF header", "allowed: a shared"}},
        {"cpu:foo=bar", 2, {"backend 'cpu:foo=bar'", "option 'foo=bar'", "cpu has no options"}},
        {"museum:1", 2, {"option '1'", "museum has no options"}},
        {FAULTY_SOFTMAX ":absent", 125, {"cannot run here: no such device here"}},
        {file("syntax.py", "def f(:\n"), 2, {"syntax.py", "SyntaxError", "line 1"}},
        {file("name.py", "subjct(1)\n"), 2, {"NameError", "subjct", "name.py:1"}},
        {file("none.py", "import sys\n"), 2, {"registers no subject; allowed: "}},
        {file("arrays.py",
              kSubject.substr(0, kSubject.size() - 2) + ", arrays='list')\ndef f(call, x): return x\n"),
         2,
         {"arrays='list'", "torch or numpy is allowed"}},
        {file("option.py", kSubject + "def f(call, x): return x\n") + ":device=tpu",
         2,
         {"option device=tpu", "allowed: FILE, device=cpu|cuda"}},
        {file("lacks.py", "import no_such_library\n"),
         125,
         {"cannot run here", "No module named 'no_such_library'"}}}) {
    const Outcome o = assay("run -q 'softmax rows=3 cols=8' -b '" + row.backend + "'");
    EXPECT_EQ(o.code, row.code) << row.backend << ": " << o.text;
    for (const std::string& part : row.says)
      EXPECT_TRUE(has(o.text, part)) << part << " is not in " << o.text;
  }
}

TEST(Trust, on_the_console_no_variant_hides_behind_the_findings_of_another) {
  const Outcome o =
      assay("run -q -j 1 'softmax rows=3 cols=8,9,10,11,12,13,14 variant=wrong,nan,correct' " + kFaulty);
  for (const std::string variant : {"wrong", "nan"}) {
    std::size_t shown = 0;
    for (std::size_t at = 0; (at = o.text.find("\n  repro", at)) != std::string::npos; ++at)
      shown += o.text.substr(at, o.text.find('\n', at + 1) - at).ends_with("variant=" + variant + "'");
    EXPECT_EQ(shown, 5U) << variant << o.text;
    const auto listed = o.text.find("\n      7 wrong");
    ASSERT_NE(listed, std::string::npos) << o.text;
    EXPECT_TRUE(has(o.text.substr(listed), "backend=" FAULTY_SOFTMAX " variant=" + variant + "'")) << o.text;
  }
  EXPECT_FALSE(has(o.text, "variant=correct'"));
}

}  // namespace
