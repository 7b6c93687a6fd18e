// What reads text refuses what it cannot mean, and says where, what, and what is allowed.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "cases/lists.hpp"
#include "harness/backend_names.hpp"
#include "harness/backends.hpp"
#include "harness/case.hpp"
#include "harness/expectations.hpp"
#include "harness/plan.hpp"
#include "harness/studies.hpp"
#include "harness/suite_text.hpp"
#include "harness/testing/command.hpp"

namespace assay {
namespace {

namespace fs = std::filesystem;

template <typename Read>
std::string refusal_of(const Read& read) {
  try {
    read();
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

// Each part stands in the message.
void expect_parts(const std::string& message, const std::vector<std::string>& parts) {
  for (const auto& part : parts)
    EXPECT_NE(message.find(part), std::string::npos) << part << " in: " << message;
}

class Folder {
 public:
  Folder() : path_(fs::temp_directory_path() / ("assay_text_" + std::to_string(getpid()))) {
    fs::create_directories(path_);
  }
  ~Folder() { fs::remove_all(path_); }
  std::string file(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / name, std::ios::binary) << text;
    return (path_ / name).string();
  }
  fs::path path() const { return path_; }

 private:
  fs::path path_;
};

TEST(SuiteText, lines_are_joined_and_comments_and_line_ends_are_not_text) {
  const auto lines = parse_suite("# why\nsoftmax rows=1 \\\n  cols=2 # here\r\n\n\tdot x=1\r\n", "x.cases");
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0].text, "softmax rows=1    cols=2");
  EXPECT_EQ(lines[0].where, "x.cases:2");
  EXPECT_EQ(lines[1].where, "x.cases:5");
}

TEST(SuiteText, what_is_no_suite_is_refused_with_its_name) {
  expect_parts(refusal_of([] { (void)parse_suite("", "x.cases"); }), {"x.cases: no case line in it"});
  expect_parts(refusal_of([] { (void)parse_suite("# a\n\n#b", "x.cases"); }),
               {"x.cases: no case line in it"});
  expect_parts(refusal_of([] { (void)parse_suite("a\nb \\\n", "x.cases"); }), {"x.cases:2", "continued"});
  expect_parts(refusal_of([] { (void)parse_suite(std::string("a\nb\0c", 5), "x.cases"); }),
               {"x.cases:2", "0x00"});
  EXPECT_TRUE(text_lines("# a list may be empty\n", "x.list").empty());
}

TEST(SuiteText, a_path_that_is_no_file_of_text_is_refused_with_the_reason) {
  const Folder folder;
  const auto refused = [](const std::string& path) { return refusal_of([&] { (void)read_suite(path); }); };
  fs::create_directory(folder.path() / "x.cases");
  expect_parts(refused((folder.path() / "x.cases").string()), {"x.cases'", "directory"});
  expect_parts(refused((folder.path() / "none.cases").string()), {"none.cases'", "no such file"});
  expect_parts(refused("/dev/zero"), {"no regular file"});
  expect_parts(refused(std::string(5000, 'x')), {"cannot be read"});
  const std::string shut = folder.file("shut.cases", "softmax rows=1 cols=2\n");
  EXPECT_EQ(read_suite(shut).size(), 1U);
  if (geteuid() != 0) {  // root reads everything
    fs::permissions(shut, fs::perms::none);
    expect_parts(refused(shut), {"shut.cases'", "Permission denied"});
  }
  const std::string odd = folder.file("it's #1, a:b\t.cases", "softmax rows=1 cols=2\n");
  EXPECT_EQ(read_suite(odd)[0].where, odd + ":1");
}

TEST(CaseCount, is_bounded_and_cannot_overflow) {
  std::string values;
  for (int i = 1; i <= 256; ++i) values += (i > 1 ? "," : "") + std::to_string(i);
  const std::string most = "softmax rows=" + values + " cols=" + values;
  EXPECT_EQ(case_count(parse_case(most)), 65536U);
  EXPECT_EQ(expand(parse_case(most)).size(), 65536U);
  expect_parts(refusal_of([&] { (void)expand(parse_case(most + " dtype=f32,f16", "x:1"), "x:1"); }),
               {"x:1", "131072 cases", "65536"});
  // 2^72 cases of nine sets of 2^8.
  CaseSet set = parse_case("attention heads=1");
  for (int i = 0; i < 9; ++i) set.sets.emplace_back("d", std::vector<std::string>(256, "1"));
  EXPECT_EQ(case_count(set), UINT64_MAX);
  expect_parts(refusal_of([&] { (void)expand(set); }), {"more than 18446744073709551615"});
}

TEST(Tensors, that_no_process_can_address_are_refused_before_anything_is_multiplied) {
  const auto refused = [](const char* line) { return refusal_of([&] { (void)expand(parse_case(line)); }); };
  expect_parts(refused("attention batch=65536 heads=65536 d=65536 q=1048576 len=4194304"),
               {"too many elements"});
  expect_parts(refused("attention heads=65536 d=65536 len=4194304"), {"2^47 bytes"});
  EXPECT_EQ(refused("argmax rows=1048576 cols=16777216"),
            "");  // 2^46 bytes can be counted: the judge says too_big
}

TEST(Numbers, are_read_exactly_and_without_a_sign_that_is_not_allowed) {
  for (const char* bad : {"+4", "-0", "4.0", "0x4", "4e0", "99999999999999999999", "", " "})
    EXPECT_NE(refusal_of([&] { (void)expand(parse_case(std::string("softmax cols=2 rows=") + bad)); }), "")
        << bad;
  for (const char* bad : {"-0", "-1", "nan", "inf", "1e999"})
    EXPECT_NE(
        refusal_of([&] { (void)expand(parse_case(std::string("softmax rows=1 cols=2 softcap=") + bad)); }),
        "")
        << bad;
  EXPECT_EQ(expand(parse_case("softmax rows=0004 cols=2"))[0].line(), "softmax rows=4 cols=2 seed=1");
  expect_parts(
      refusal_of([] { (void)expand(parse_case("softmax rows=1 cols=2 seed=18446744073709551616")); }),
      {"seed=18446744073709551616", "0..18446744073709551615"});
}

TEST(Messages, do_not_repeat_a_long_text) {
  const std::string text(1 << 20, 'x');
  for (const std::string& line :
       {text, "softmax " + text, "softmax rows=" + text, "softmax " + text + "=1",
        "softmax rows=1 cols=2 variant=" + text, "softmax rows=1 cols=1 fill=" + text}) {
    const std::string message = refusal_of([&] { (void)expand(parse_case(line)); });
    EXPECT_FALSE(message.empty());
    EXPECT_LT(message.size(), 2000U) << message.substr(0, 200);
  }
}

TEST(Expectations, are_in_the_spelling_of_cases_or_refused) {
  const auto list = parse_expectations("wrong\tsoftmax rows=08 backend=./a%2fb.so # why\r\n", "x.list");
  ASSERT_EQ(list.size(), 1U);
  EXPECT_EQ(list[0].set.print(), "softmax rows=8 backend=./a/b.so");
  EXPECT_EQ(list[0].reason, "why");
  Case c = expand(parse_case("softmax rows=8 cols=2"))[0];
  c.backend = "./a/b.so";
  EXPECT_TRUE(matches(list[0].set, c));
  const auto either = parse_expectations("leak,nondeterministic softmax rows=8 # why", "x.list");
  for (const auto& [status, is_explained] :
       {std::pair(Status::leak, true), std::pair(Status::nondeterministic, true),
        std::pair(Status::wrong, false)}) {
    Verdict verdict;
    verdict.status = status;
    EXPECT_EQ(explains(either.at(0), c, verdict), is_explained) << to_string(status);
  }
  const auto refused = [](const char* text) {
    return refusal_of([&] { (void)parse_expectations(text, "x.list"); });
  };
  // Each of these would have matched no case, and nobody would have known.
  expect_parts(refused("wrong softmax dtype=f99 # why"), {"x.list:1", "f99"});
  expect_parts(refused("wrong * rows=0 # why"), {"x.list:1", "rows=0"});
  expect_parts(refused("wrong * seed=x # why"), {"seed=x"});
  expect_parts(refused("wrong softmax dtype=!f16,f32 # why"), {"mixes"});
  expect_parts(refused("wrong softmax rows=8,08 # why"), {"repeats"});
  expect_parts(refused("wrong softmax rows=8"), {"reason"});
  expect_parts(refused("rong softmax rows=8 # why"), {"did you mean 'wrong'"});
  expect_parts(refused("wrong, softmax rows=8 # why"), {"no verdict ''"});
}

TEST(JsonLists, name_the_row_and_what_is_allowed) {
  const auto refused = [](const std::string& text) {
    return refusal_of([&] { (void)parse_backend_list(text, "backends.json"); });
  };
  const auto row = [](const std::string& name, const std::string& alignment, const std::string& more) {
    return R"({"name": )" + name + R"(, "not_built": "", "install": "", "alignment": )" + alignment +
           R"(, "default": true, "stranger": false, "file": "x.so")" + more + "}";
  };
  EXPECT_EQ(refused("[" + row("\"a\"", "64", "") + "]"), "");
  expect_parts(refused("["), {"backends.json", "a list of objects in JSON"});
  expect_parts(refused("{}"), {"it is object, no list"});
  expect_parts(refused("[3]"), {"row 1", "number"});
  expect_parts(refused("[{}]"), {"row 1", "there is no 'name'"});
  expect_parts(refused("[" + row("3", "0", "") + "]"), {"row 1", "'name' is 3", "a text"});
  expect_parts(refused("[" + row("\"a b\"", "0", "") + "]"), {"'name' is 'a b'"});
  expect_parts(refused("[" + row("\"a\"", "0", "") + "," + row("\"a\"", "0", "") + "]"), {"row 2", "again"});
  for (const char* bad : {"1.5", "-1", "1e300", "true", "18446744073709551615", "\"8\"", "null"})
    expect_parts(refused("[" + row("\"a\"", bad, "") + "]"), {"row 1", "'alignment'", "0..1048576"});
  expect_parts(refused("[" + row("\"a\"", "0", R"(, "worker": "w.py")") + "]"),
               {"there is no 'interpreter'"});
  expect_parts(refused(std::string(1 << 20, '[')), {"a list of objects in JSON"});  // and no stack overflow

  expect_parts(refusal_of([] {
                 (void)parse_study_list(R"([{"name": "../x", "what": "", "not_built": ""}])", "studies.json",
                                        "/d");
               }),
               {"studies.json: row 1", "'name' is '../x'"});
}

TEST(Filter, of_any_kind_ends) {
  const auto plan = [](const std::string& filter) {
    PlanOptions options;
    options.backends = {"cpu"};
    options.filter = filter;
    BackendInfo cpu;
    cpu.name = "cpu";
    const SuiteLine line{"softmax rows=1 cols=2 variant=" + std::string(4000, 'a'), "here"};
    return make_plan({line}, options, {cpu}, input_lists(), {}).cases;
  };
  EXPECT_EQ(plan("(a*)*b$"), 0U);  // exponential in a matcher that goes back
  EXPECT_EQ(plan("variant=(a|aa)+$"), 1U);
  expect_parts(refusal_of([&] { plan(std::string(100000, '(')); }), {"--filter", "1024"});
}

// Names of backends -----------------------------------------------------------------------------------------------------

TEST(BackendNames, have_one_spelling) {
  EXPECT_EQ(escaped_path("my dir/x,y:z.so"), "my%20dir/x%2Cy%3Az.so");
  EXPECT_EQ(split_backends("./a%2fb%2e.so:x=%41%2c"), (std::vector<std::string>{"./a/b..so:x=A%2C"}));
  const BackendName name = parse_backend("./my%20dir/x%3Ay.so:log=/tmp/a%2Cb:c", "here");
  EXPECT_EQ(name.name, "./my dir/x:y.so");
  EXPECT_EQ(name.options, "log=/tmp/a,b:c");
  for (const char* bad : {"./a%", "./a%2", "./a%zz.so", "./a%00", "cpu%0g"})
    expect_parts(refusal_of([&] { (void)split_backends(bad, "here"); }), {"here", bad, "%20 for a blank"});
}

TEST(BackendNames, are_typed_raw_where_such_a_file_is_there) {
  const auto typed = [](const char* text) {
    return typed_backends(text, [](const std::string& path) {
      return path == "./my dir/x,y:z.so" || path == "./a.so" || path == "./a.so,b/c.so" ||
             path == "./100%.so";
    });
  };
  EXPECT_EQ(typed("./my dir/x,y:z.so"), (std::vector<std::string>{"./my%20dir/x%2Cy%3Az.so"}));
  EXPECT_EQ(typed("cpu,./my dir/x,y:z.so:n=1,m=2,./100%.so"),
            (std::vector<std::string>{"cpu", "./my%20dir/x%2Cy%3Az.so:n=1,m=2", "./100%25.so"}));
  EXPECT_EQ(typed("./a.so,b/c.so"), (std::vector<std::string>{"./a.so%2Cb/c.so"}));  // the longest
  EXPECT_EQ(typed("./a.so,./b.so:x=1"), (std::vector<std::string>{"./a.so", "./b.so:x=1"}));
  EXPECT_EQ(typed("./my%20dir/x%2Cy%3Az.so"), (std::vector<std::string>{"./my%20dir/x%2Cy%3Az.so"}));
}

// Any path, options and variant: the case's line is read as the case, and the path comes out as it went in.
RC_GTEST_PROP(BackendNames, of_any_path_are_part_of_a_line_that_is_read_as_itself, ()) {
  const auto any = rc::gen::nonEmpty(rc::gen::container<std::string>(rc::gen::oneOf(
      rc::gen::elementOf(std::string(" \t\n,:=#%'\"\\!/$`ab.")), rc::gen::inRange<char>(1, 127))));
  const std::string path = "./" + *any;
  Case c = expand(parse_case("softmax rows=1 cols=2"))[0];
  c.backend = escaped_path(path) + (*rc::gen::arbitrary<bool>() ? ":threads=2,device=cpu" : "");
  c.variant = *any;
  RC_PRE(!c.variant.starts_with('!'));
  const auto again = expand(parse_case(c.line()));
  RC_ASSERT(again.size() == 1U);
  RC_ASSERT(again[0].line() == c.line());
  RC_ASSERT(again[0].variant == c.variant);
  RC_ASSERT(parse_backend(again[0].backend, "here").name == path);
  // A suite's line, and the words of a shell, are the line too.
  RC_ASSERT(parse_suite(c.line() + "\n", "x.cases")[0].text == c.line());
  RC_ASSERT(c.line().find('\'') == std::string::npos);
}

TEST(BackendNames, survive_a_shell) {
  Case c = expand(parse_case("softmax rows=1 cols=2"))[0];
  c.backend = escaped_path("./it's \"$HOME\" `x` #1\\, 50%\t!\n*.so");
  EXPECT_EQ(run_command("printf %s '" + c.line() + "'").text, c.line());
}

}  // namespace
}  // namespace assay
