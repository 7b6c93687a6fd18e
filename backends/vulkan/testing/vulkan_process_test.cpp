// The vulkan backend as assay runs it: in a worker, under the witness, under the validation layers, without a
// driver, with a device that is lost, and with two encodings of FP8 in one process.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cctype>

#include "backends/vulkan/testing/assay_process.hpp"

namespace assay_vulkan_test {
namespace {

const std::string kTestLayers = "VK_LAYER_PATH=" ASSAY_TEST_LAYERS ":/usr/share/vulkan/explicit_layer.d ";
const std::string kMisuse = " -b " ASSAY_MISUSE_PLUGIN " ";
// The watch of a plug-in that is named by its file.
const std::string kWatched = "ASSAY_WITNESS=" ASSAY_WITNESS_LAYER " ";

std::string only_verdict(const Result& result) {
  const auto all = result.verdicts();
  return all.size() == 1 ? all.begin()->second : std::to_string(all.size()) + " verdicts\n" + result.output;
}

TEST(VulkanProcess, without_a_driver_it_is_refused_with_a_reason) {
  const Result result = assay("'rmsnorm rows=1 cols=8' -b vulkan",
                              "VK_ICD_FILENAMES=/nonexistent VK_DRIVER_FILES=/nonexistent");
  EXPECT_EQ(result.exit_code, 125);
  EXPECT_NE(result.output.find("vkCreateInstance"), std::string::npos) << result.output;
}

TEST(VulkanProcess, an_unknown_device_and_a_subgroup_size_that_is_not_offered_are_refused_by_name) {
  ASSAY_NEEDS_A_DRIVER();
  const Result device = assay("'rmsnorm rows=1 cols=8' -b vulkan:nosuchdevice");
  EXPECT_EQ(device.exit_code, 125);
  EXPECT_NE(device.output.find("nosuchdevice"), std::string::npos) << device.output;
  const Result size = assay("'rmsnorm rows=1 cols=8' -b vulkan:+subgroup=3");
  EXPECT_EQ(size.exit_code, 125);
  EXPECT_NE(size.output.find("subgroups of 3"), std::string::npos) << size.output;
}

// Every run of a kernel is two submissions: the second one is lost, and later cases say so at once.
TEST(VulkanProcess, a_lost_device_is_a_verdict_and_not_a_crash) {
  ASSAY_NEEDS_A_DRIVER();
  const std::string cases = "'rmsnorm rows=1 cols=8,9' -b vulkan";
  const std::string layer = kTestLayers + "VK_INSTANCE_LAYERS=VK_LAYER_ASSAY_vandal ";
  const Result counterpart = assay(cases, layer);
  EXPECT_EQ(counterpart.exit_code, 0) << counterpart.output;
  const Result lost = assay(cases, layer + "VANDAL=lose");
  EXPECT_EQ(lost.exit_code, 1) << lost.output;
  EXPECT_NE(lost.output.find("VK_ERROR_DEVICE_LOST"), std::string::npos) << lost.output;
  EXPECT_EQ(lost.output.find("crash"), std::string::npos) << lost.output;
}

TEST(VulkanProcess, the_witness_sees_the_declared_path_with_its_constants_and_grid) {
  ASSAY_NEEDS_A_DRIVER();
  const Result result = assay("'attention heads=2 d=32 len=2100 kv=q8_0 fill=needle' -b vulkan");
  ASSERT_EQ(result.exit_code, 0) << result.output;
  const auto& row = result.report["results"][0];
  ASSERT_TRUE(row.contains("witness")) << row;
  const auto& kernels = row["witness"]["kernels"];
  ASSERT_EQ(kernels.size(), 2U) << kernels;
  const std::string split = kernels[0]["name"];
  EXPECT_EQ(split.rfind("attention_split_q8_0_q8_0<0=", 0), 0U) << split;
  EXPECT_NE(split.find(",1=17,2=0,3=17,4=0,"), std::string::npos)
      << split;  // both elements are q8_0, unscaled
  EXPECT_NE(split.find("> spirv:"), std::string::npos) << split;
  EXPECT_EQ(kernels[0]["grid"], nlohmann::json({6, 1, 1}));  // 2 heads, 3 parts
  EXPECT_EQ(kernels[1]["name"].get<std::string>().rfind("attention_merge<", 0), 0U);
}

TEST(VulkanProcess, a_planted_dead_path_is_a_fallback_to_the_witness_and_to_nobody_else) {
  ASSAY_NEEDS_A_DRIVER();
  const std::string call = "'attention heads=2 d=32 len=64 kv=q8_0 fill=needle variant=";
  EXPECT_EQ(only_verdict(assay(call + "honest'" + kMisuse, kWatched)), "pass");
  EXPECT_EQ(only_verdict(assay(call + "dead_path'" + kMisuse)), "pass");  // its numbers are right
  const Result caught = assay(call + "dead_path'" + kMisuse, kWatched);
  EXPECT_EQ(only_verdict(caught), "fallback");
  EXPECT_NE(caught.output.find("attention_whole_f16_f16<"), std::string::npos) << caught.output;
}

// Both caches in one process, one after the other; then each mix-up of the two.
TEST(VulkanProcess, e4m3fn_and_e4m3fnuz_caches_stand_side_by_side_and_every_mix_up_is_caught) {
  ASSAY_NEEDS_A_DRIVER();
  const std::string attention =
      "'attention heads=2 d=32 len=64 fill=gaussian,needle k=e4m3fn,e4m3fnuz,e4m3fn_tok,e4m3fnuz_tok "
      "v=e4m3fn,e4m3fnuz,e4m3fnuz_head variant=";
  const std::string write =
      "'kv_write tokens=4 heads=2 d=32 to=e4m3fn_tensor,e4m3fnuz_tensor policy=fixed,request dtype=f16 "
      "variant=";
  const std::string read = "'dequantize rows=4 cols=64 from=e4m3fn,e4m3fnuz,e4m3fn_tok,e4m3fnuz_tok variant=";
  const Result honest = assay(attention + "honest' " + write + "honest' " + read + "honest'" + kMisuse);
  EXPECT_EQ(honest.exit_code, 0) << honest.output;
  EXPECT_EQ(honest.verdicts().size(), 24U + 4U + 4U);
  const Result mixed =
      assay(attention + "swap_k,swap_v,swap_kv' " + write + "swap_codes' " + read + "swap_codes'" + kMisuse);
  const auto verdicts = mixed.verdicts();
  EXPECT_EQ(verdicts.size(), 72U + 4U + 4U);
  for (const auto& [line, verdict] : verdicts) {
    EXPECT_TRUE(verdict == "wrong" || verdict == "fail") << verdict << ": " << line;
  }
}

// What the validation layer reports goes to a file; a dispatch beyond the limit shows that it is there and
// speaks.
TEST(VulkanProcess, the_validation_layers_find_nothing_and_would_say_so) {
  ASSAY_NEEDS_A_DRIVER();
  const std::string log = testing::TempDir() + "vulkan_validation_" + std::to_string(getpid()) + ".txt";
  const std::string settings = testing::TempDir() + "vk_layer_settings_" + std::to_string(getpid()) + ".txt";
  std::ofstream(settings) << "khronos_validation.debug_action = VK_DBG_LAYER_ACTION_LOG_MSG\n"
                             "khronos_validation.report_flags = error,warn\n"
                             "khronos_validation.log_filename = "
                          << log << "\n";
  const std::string environment = kTestLayers + "VK_LAYER_SETTINGS_PATH=" + settings + " ASSAY_WITNESS= ";
  const std::string cases = ASSAY_VALIDATION_CASES " -b vulkan";
  const std::string both = "VK_INSTANCE_LAYERS=VK_LAYER_ASSAY_vandal:VK_LAYER_KHRONOS_validation ";
  std::remove(log.c_str());
  const Result broken = assay("'rmsnorm rows=1 cols=8' -b vulkan", environment + both + "VANDAL=grid");
  if (slurp(log).empty())
    GTEST_SKIP() << "VK_LAYER_KHRONOS_validation is not installed (Debian: vulkan-validationlayers)";
  EXPECT_NE(slurp(log).find("groupCountX"), std::string::npos) << slurp(log);
  std::remove(log.c_str());
  const Result clean = assay(cases, environment + both);
  EXPECT_EQ(clean.exit_code, 0) << clean.output;
  EXPECT_GE(clean.verdicts().size(), 20U);
  EXPECT_EQ(slurp(log), "");
  std::remove(log.c_str());
  std::remove(settings.c_str());
}

}  // namespace
}  // namespace assay_vulkan_test
