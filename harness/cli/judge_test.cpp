// Outputs that were recorded get the verdict of the run that left them, and tensors that somebody else wrote
// can be judged.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "harness/cli/program_testing.hpp"

namespace {

using nlohmann::json;
using program_testing::assay;
using program_testing::json_of;
using program_testing::kFaulty;
using program_testing::Outcome;
using program_testing::Scratch;
using program_testing::text_of;

// A file of safetensors as any framework writes it.
void write_tensors(const std::string& path,
                   const std::vector<std::tuple<std::string, json, std::string>>& tensors,
                   const json& metadata = json()) {
  json header;
  std::string data;
  if (!metadata.is_null()) header["__metadata__"] = metadata;
  for (const auto& [name, about, bytes] : tensors) {
    header[name] = about;
    header[name]["data_offsets"] = {data.size(), data.size() + bytes.size()};
    data += bytes;
  }
  const std::string text = header.dump();
  const std::uint64_t size = text.size();
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(&size), sizeof size);
  file << text << data;
}
std::string f32(const std::vector<float>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(float)};
}

// Softmax of {0, 0} and {0, ln 3}, rows of two.
const std::vector<float> kX = {0, 0, 0, 1.0986123F}, kY = {0.5F, 0.5F, 0.25F, 0.75F};
json about(const std::vector<int>& shape) { return {{"dtype", "F32"}, {"shape", shape}}; }
const std::string kCase = " --case 'softmax rows=2 cols=2 dtype=f32' --contract 'acc=f32 exp_ulp=2'";

TEST(Judge, gives_the_verdict_of_the_run_that_left_the_outputs) {
  const Scratch scratch;
  const char* more = std::getenv("ASSAY_JUDGED_SEEDS");
  const int seeds = more == nullptr ? 2 : std::atoi(more);
  const std::vector<std::string> lines = {
      "softmax rows=3 cols=8 variant=correct backend=" FAULTY_SOFTMAX,
      "softmax rows=3 cols=8 variant=wrong backend=" FAULTY_SOFTMAX,
      "softmax rows=2 cols=33 dtype=bf16 fill=peaked backend=cpu",
      "rmsnorm rows=2 cols=65 dtype=f16 backend=cpu",
      "quantize rows=2 cols=64 to=q4_0 backend=cpu",
      "attention heads=2 kv_heads=1 d=32 len=40 kv=e4m3fn_tok fill=needle backend=cpu",
      "attention heads=2 d=32 len=33 kv=q8_0 page=16 backend=cpu",
      "matmul m=3 n=5 k=64 a=bf16 b=bf16 backend=cpu"};
  for (const std::string& line : lines)
    for (int seed = 1; seed <= seeds; ++seed) {
      const std::string file = scratch.file("case.safetensors"), report = scratch.file("run.json");
      const std::string with_seed = line + " seed=" + std::to_string(seed);
      ASSERT_EQ(assay("export '" + with_seed + "' -o " + file).code, 0) << with_seed;
      const Outcome run = assay("run -q '" + with_seed + "' --json " + report);
      const Outcome judged = assay("judge " + file);
      EXPECT_EQ(judged.code, run.code) << judged.text << run.text;
      const json row = json_of(report)["results"][0];
      const std::string verdict =
          (row["verdict"] == "pass" ? "" : "FAIL ") + row["verdict"].get<std::string>();
      EXPECT_EQ(judged.text.find(verdict + " "), 0u) << judged.text << run.text;
      EXPECT_NE(judged.text.find("under  " + row["contract"].get<std::string>()), std::string::npos)
          << judged.text;
    }
}

TEST(Judge, takes_tensors_by_anybodys_names_and_shapes) {
  const Scratch scratch;
  const std::string file = scratch.file("dump.safetensors");
  write_tensors(file, {{"hidden", about({4}), f32(kX)},
                       {"probs", about({1, 2, 2}), f32(kY)},
                       {"other", about({1}), f32({7})}});
  const Outcome right = assay("judge " + file + kCase + " --map x=hidden,y=probs");
  EXPECT_EQ(right.code, 0) << right.text;
  EXPECT_EQ(right.text.find("pass"), 0u) << right.text;
  std::vector<float> wrong = kY;
  wrong[3] = 0.7501F;
  write_tensors(file, {{"x", about({2, 2}), f32(kX)}, {"y", about({2, 2}), f32(wrong)}});
  const Outcome off = assay("judge " + file + kCase);
  EXPECT_EQ(off.code, 1) << off.text;
  EXPECT_NE(off.text.find("y[1,1]"), std::string::npos) << off.text;
}

TEST(Judge, not_a_number_where_a_number_belongs_is_wrong) {
  const Scratch scratch;
  const std::string file = scratch.file("dump.safetensors");
  std::vector<float> nan = kY;
  nan[0] = std::nanf("");
  write_tensors(file, {{"x", about({2, 2}), f32(kX)}, {"y", about({2, 2}), f32(nan)}});
  EXPECT_EQ(assay("judge " + file + kCase).code, 1);
}

TEST(Judge, says_what_it_lacks) {
  const Scratch scratch;
  const std::string file = scratch.file("dump.safetensors");
  write_tensors(file, {{"x", about({2, 2}), f32(kX)}, {"yy", about({2, 2}), f32(kY)}});
  const auto refused = [&](const std::string& arguments, const std::string& why) {
    const Outcome o = assay("judge " + file + arguments);
    EXPECT_EQ(o.code, 2) << o.text;
    EXPECT_NE(o.text.find(why), std::string::npos) << why << "\n" << o.text;
  };
  refused("", "--case");
  refused(kCase, "there is no 'y'");
  refused(kCase + " --map y=yy,z=x", "'z' is no tensor");
  refused(kCase + " --map y", "TENSOR=NAME");
  refused(" --map y=yy --case 'softmax rows=2 cols=3 dtype=f32'", "the case has F32 [2,3] in 24");
  refused(" --map y=yy --case 'softmax rows=2 cols=2 dtype=f32' --contract 'acc=f99'", "f99");
  refused(" --map y=yy --case 'softmax rows=2 cols=2,3 dtype=f32'", "2 cases");
}

}  // namespace
