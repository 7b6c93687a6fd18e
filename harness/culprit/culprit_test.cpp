// The programs around a finding, as a person starts them: export, run FILE, shrink, attribute, hunt.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <filesystem>
#include <fstream>

#include "harness/testing/command.hpp"

namespace {

namespace fs = std::filesystem;
using assay::Outcome;

class Culprit : public testing::Test {
 protected:
  Culprit() { fs::create_directories(folder_); }
  ~Culprit() override { fs::remove_all(folder_); }
  Outcome assay(const std::string& arguments) const {
    return assay::run_command("cd '" + folder_.string() + "' && '" ASSAY_PROGRAM "' " + arguments);
  }
  std::string read(const std::string& name) const {
    std::ifstream file(folder_ / name, std::ios::binary);
    return std::string((std::istreambuf_iterator<char>(file)), {});
  }
  void write(const std::string& name, const std::string& bytes) const {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
  }

 private:
  fs::path folder_ =
      fs::path(testing::TempDir()) /
      ("culprit_" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()) +
       std::to_string(getpid()));
};

// Of all programs that ended, which a busy machine does not make longer.
double processor_seconds() {
  rusage used{};
  getrusage(RUSAGE_CHILDREN, &used);
  return static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec);
}

const std::string kAbyss = "attention heads=2 d=64 len=256 fill=abyss";

TEST_F(Culprit, an_exported_case_is_judged_from_its_file) {
  ASSERT_EQ(assay("export 'softmax rows=2 cols=5 dtype=bf16 fill=peaked' -b cpu -o a.safetensors").code, 0);
  const Outcome run = assay("run a.safetensors");
  EXPECT_EQ(run.code, 0) << run.text;
  EXPECT_NE(run.text.find("1 pass; 10 outputs judged"), std::string::npos) << run.text;
  // The file is a fill like any other, which another shape cannot have.
  EXPECT_EQ(assay("run 'softmax rows=2 cols=5 dtype=bf16 fill=file:a.safetensors' -b cpu").code, 0);
  const Outcome other = assay("run 'softmax rows=2 cols=6 dtype=bf16 fill=file:a.safetensors' -b cpu");
  EXPECT_EQ(other.code, 2);
  EXPECT_NE(other.text.find("it holds the data of"), std::string::npos) << other.text;
}

TEST_F(Culprit, the_data_of_the_file_are_judged_and_not_those_of_its_fill) {
  ASSERT_EQ(assay("export '" + kAbyss + " backend=museum variant=max_from_half_f16' -o a.safetensors").code,
            0);
  EXPECT_EQ(assay("run a.safetensors").code, 1);
  // All keys alike at 0: the maximum that starts too high hides nothing.
  std::string bytes = read("a.safetensors");
  const std::string key = "\"k\":{\"dtype\":\"F16\",\"shape\":[1,256,2,64],\"data_offsets\":[";
  const auto at = bytes.find(key);
  ASSERT_NE(at, std::string::npos);
  const std::size_t first = std::stoul(bytes.substr(at + key.size()));
  std::size_t header = 0;
  for (std::size_t i = 0; i < 8; ++i)
    header |= static_cast<std::size_t>(static_cast<unsigned char>(bytes[i])) << 8 * i;
  std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(8 + header + first), 256 * 2 * 64 * 2, '\0');
  write("b.safetensors", bytes);
  const Outcome run = assay("run b.safetensors");
  EXPECT_EQ(run.code, 0) << run.text;
}

TEST_F(Culprit, a_damaged_file_is_refused_by_name) {
  ASSERT_EQ(assay("export 'softmax rows=1 cols=2' -b cpu -o a.safetensors").code, 0);
  const std::string whole = read("a.safetensors");
  for (const std::size_t length : {std::size_t{0}, std::size_t{7}, std::size_t{40}, whole.size() - 1}) {
    write("cut.safetensors", whole.substr(0, length));
    const Outcome run = assay("run cut.safetensors");
    EXPECT_EQ(run.code, 2) << length << run.text;
    EXPECT_NE(run.text.find("cut.safetensors"), std::string::npos) << run.text;
  }
  write("long.safetensors", whole + "x");
  EXPECT_EQ(assay("run long.safetensors").code, 2);
  std::string other = whole;
  other.replace(other.find("rows=1"), 6, "rows=2");
  write("other.safetensors", other);
  const Outcome run = assay("run other.safetensors");
  EXPECT_EQ(run.code, 2);
  EXPECT_NE(run.text.find("the case has"), std::string::npos) << run.text;
}

TEST_F(Culprit, a_page_table_that_leads_out_of_the_cache_is_refused) {
  ASSERT_EQ(assay("export 'attention heads=1 d=1 len=2 page=1' -b cpu -o a.safetensors").code, 0);
  std::string bytes = read("a.safetensors");
  const std::string key = "\"page_table\":{\"dtype\":\"I32\",\"shape\":[1,2],\"data_offsets\":[";
  const auto at = bytes.find(key);
  ASSERT_NE(at, std::string::npos);
  std::size_t header = 0;
  for (std::size_t i = 0; i < 8; ++i)
    header |= static_cast<std::size_t>(static_cast<unsigned char>(bytes[i])) << 8 * i;
  bytes[8 + header + std::stoul(bytes.substr(at + key.size())) + 2] = '\x7f';
  write("b.safetensors", bytes);
  const Outcome run = assay("run b.safetensors");
  EXPECT_EQ(run.code, 2) << run.text;
  EXPECT_NE(run.text.find("outside of the cache"), std::string::npos) << run.text;
}

// Of a few kilobytes: the data are less than 200 bytes, the rest is text (case, contract, versions, what
// watched).
TEST_F(Culprit, a_shrunk_file_fails_alike_and_its_counterpart_passes) {
  struct Row {
    const char *line, *variant;
    std::size_t bytes;
  };
  for (const Row& row :
       {Row{"attention heads=2 d=64 len=256 fill=abyss", "max_from_half_f16", 3072},
        Row{"quantize rows=16 cols=1024 to=int8_tok fill=quotient_ties", "reciprocal_for_divide", 3072},
        Row{"matmul m=4 n=32 k=128 a=bf16 b=bf16 dtype=bf16", "exception_in_log", 3072}}) {
    const std::string variant = row.variant;
    const double start = processor_seconds();
    const Outcome shrunk =
        assay(std::string("shrink --budget 600 '") + row.line + " backend=museum variant=" + variant +
              "' --counterpart museum --counterpart-variant " + variant + ".correct -o s.safetensors");
    EXPECT_EQ(shrunk.code, 1) << shrunk.text;
    EXPECT_LT(processor_seconds() - start, 30);
    EXPECT_NE(shrunk.text.find("How to run it"), std::string::npos);
    EXPECT_LT(read("s.safetensors").size(), row.bytes);
    EXPECT_EQ(assay("run s.safetensors").code, 1);
    const auto to = shrunk.text.find("to       ");
    ASSERT_NE(to, std::string::npos);
    std::string line = shrunk.text.substr(to + 9, shrunk.text.find('\n', to) - to - 9);
    if (const auto fill = line.find(" fill="); fill != std::string::npos)
      line.erase(fill, line.find(' ', fill + 1) - fill);
    const Outcome twin = assay("run '" + line + ".correct fill=file:s.safetensors'");
    EXPECT_EQ(twin.code, 0) << twin.text;
  }
}

TEST_F(Culprit, what_passes_is_not_shrunk) {
  const Outcome run = assay("shrink 'softmax rows=1 cols=2' -b cpu -o a.safetensors");
  EXPECT_EQ(run.code, 0);
  EXPECT_NE(run.text.find("nothing to shrink"), std::string::npos) << run.text;
  EXPECT_EQ(read("a.safetensors"), "");
}

TEST_F(Culprit, a_stage_is_named_with_its_evidence) {
  const Outcome rescale =
      assay("attribute 'attention heads=2 d=64 len=96 fill=ramp backend=museum variant=rescale_skipped'");
  EXPECT_NE(rescale.text.find("stage     rescale"), std::string::npos) << rescale.text;
  const Outcome head =
      assay("attribute 'attention heads=12 kv_heads=4 d=64 len=96 backend=museum variant=gqa_wrong_head'");
  EXPECT_NE(head.text.find("stage     addressing"), std::string::npos) << head.text;
  const Outcome right = assay(
      "attribute 'attention heads=2 d=64 len=96 fill=ramp backend=museum variant=rescale_skipped.correct'");
  EXPECT_NE(right.text.find("stage     unknown"), std::string::npos) << right.text;
}

TEST_F(Culprit, a_stage_is_named_of_a_case_file_too) {
  ASSERT_EQ(assay("shrink 'attention heads=2 d=64 len=96 fill=ramp backend=museum variant=rescale_skipped' "
                  "-o r.safetensors --budget 1")
                .code,
            1);
  const Outcome file = assay("attribute r.safetensors");
  EXPECT_NE(file.text.find("stage     rescale"), std::string::npos) << file.text;
}

TEST_F(Culprit, stages_of_experts_and_of_argmax) {
  struct Planted {
    const char *variant, *stage;
  };
  const auto stage_of = [&](const std::string& line, const char* variant) {
    return assay("attribute '" + line + " variant=" + variant + "' -b " FAULTY_STAGES).text;
  };
  const std::string moe = "moe tokens=5 hidden=16 inter=8 experts=4 topk=2 a=f32 dtype=f32";
  for (const Planted& p : {Planted{"other_expert", "routing"},
                           {"weights_left_out", "routing"},
                           {"gate_is_relu", "gate"},
                           {"products", "dot"},
                           {"correct", "unknown"}}) {
    const std::string text = stage_of(moe, p.variant);
    EXPECT_NE(text.find(std::string("stage     ") + p.stage), std::string::npos) << p.variant << ": " << text;
  }
  const std::string argmax = "argmax rows=9 cols=33 dtype=f32 fill=integers";
  for (const Planted& p :
       {Planted{"last_of_equals", "max"}, {"index_off", "addressing"}, {"correct", "unknown"}}) {
    const std::string text = stage_of(argmax, p.variant);
    EXPECT_NE(text.find(std::string("stage     ") + p.stage), std::string::npos) << p.variant << ": " << text;
  }
}

// Each place exactly, and no column where the whole row is wrong.
TEST_F(Culprit, the_place_of_a_fault_is_named) {
  struct Place {
    const char *variant, *where;
  };
  for (const Place& p : {Place{"row_0_columns_0_0", "rows 0..0, columns 0..0"},
                         {"row_7_columns_3_5", "rows 7..7, columns 3..5"},
                         {"row_4_columns_0_31", "rows 4..4, columns 0..31"},
                         {"row_2_columns_30_32", "rows 2..2, columns 30..32"},
                         {"row_8_columns_17_17", "rows 8..8, columns 17..17"},
                         {"row_5_columns_0_32", "rows 5..5"}}) {
    const Outcome named =
        assay(std::string("attribute 'rmsnorm rows=9 cols=33 eps=1e-05 dtype=f32 fill=uniform variant=") +
              p.variant + "' -b " FAULTY_STAGES);
    EXPECT_NE(named.text.find(std::string("where     ") + p.where + "\n"), std::string::npos) << named.text;
  }
}

TEST_F(Culprit, a_hunt_leaves_a_text_a_page_and_a_file) {
  const Outcome run =
      assay("hunt 'softmax rows=16 cols=128 fill=extreme backend=museum variant=max_of_first_warp' -o found");
  EXPECT_EQ(run.code, 1) << run.text;
  EXPECT_NE(read("found/finding-1.md").find("stage     max"), std::string::npos);
  EXPECT_NE(read("found/finding-1.html").find("</html>"), std::string::npos);
  EXPECT_EQ(assay("run found/finding-1.safetensors").code, 1);
  const std::string html = read("found/finding-1.html");
  EXPECT_NE(html.find("<h3>softmax: wrong"), std::string::npos) << html;  // drawn, and no Markdown
  EXPECT_EQ(html.find("```"), std::string::npos) << html;
  EXPECT_EQ(assay("hunt 'softmax rows=1 cols=2' -b cpu -o none").code, 0);
  // A law that is broken from 113 rows on, and the kernel that keeps it.
  const std::string line = "hunt --laws -b " LAWLESS " 'rmsnorm rows=130 cols=5 variant=";
  const Outcome law = assay(line + "split' -o laws");
  EXPECT_EQ(law.code, 1) << law.text;
  EXPECT_NE(read("laws/finding-1.md").find("law batch rmsnorm rows=113 "), std::string::npos) << law.text;
  const Outcome kept = assay(line + "lawful' -o kept");
  EXPECT_EQ(kept.code, 0) << kept.text;
  EXPECT_EQ(assay("hunt 'softmax rows=1 cols=2' -b cpu -o none --good a").code, 2);
  EXPECT_EQ(assay("hunt 'softmax rows=1 cols=2' -b cpu -o none -f nothing").code, 3);
}

}  // namespace
