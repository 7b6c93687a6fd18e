// The path check: a dead path is a fallback, its live counterpart is none, and a witness outranks the
// backend's word.
#include "harness/path_check.hpp"

#include <gtest/gtest.h>

namespace assay {
namespace {

using Kind = PathFinding::Kind;

constexpr const char* kFlash =
    "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64>, false>(Params)";
constexpr const char* kMath =
    "void at::native::softmax_warp_forward<float, float, 8>(float*, float const*, int)";

Trace announced(std::vector<std::string> kernels) { return {std::move(kernels), {}, 1, {}}; }
Trace witnessed(std::vector<std::string> kernels, std::vector<std::string> seen,
                std::int64_t peak_bytes = 0) {
  Trace trace = announced(std::move(kernels));
  trace.witness = Witness{"fake", {}, peak_bytes, peak_bytes, ""};
  for (auto& name : seen) trace.witness->kernels.push_back({std::move(name), {}, {}, 0, 0});
  return trace;
}
Kind kind_of(std::string_view path, const Trace& trace, std::string_view promises = "") {
  return check_path(path, parse_promises(promises), trace, 1000).kind;
}

TEST(NamesKernel, a_whole_name_in_a_demangled_one) {
  EXPECT_TRUE(names_kernel("flash_fwd_kernel", kFlash));
  EXPECT_TRUE(names_kernel("pytorch_flash::flash_fwd_kernel", kFlash));
  EXPECT_TRUE(names_kernel("flash_fwd_kernel<Flash_fwd_kernel_traits<64>", kFlash));
  EXPECT_TRUE(names_kernel("softmax", "softmax"));
  EXPECT_FALSE(names_kernel("flash_fwd", kFlash));
  EXPECT_FALSE(names_kernel("fwd_kernel", kFlash));
  EXPECT_FALSE(names_kernel("Flash_fwd_kernel", kFlash));
  EXPECT_FALSE(names_kernel("flash_fwd_kernel", kMath));
  EXPECT_FALSE(names_kernel("", kMath));
}

TEST(NamesKernel, a_star_leaves_the_rest_of_the_last_word_open) {
  EXPECT_TRUE(names_kernel("nvjet_sm90_*", "nvjet_sm90_qqtst_128x8_64x12_2x1_v_bz_TNT"));
  EXPECT_FALSE(names_kernel("nvjet_sm90_*", "my_nvjet_sm90_qq"));
  EXPECT_FALSE(names_kernel("nvjet_sm90_", "nvjet_sm90_qq"));
  EXPECT_FALSE(names_kernel("*", "anything"));
}

TEST(NamesKernel, a_later_occurrence_counts) {
  EXPECT_TRUE(names_kernel("decode", "void predecode_all<decode>(int)"));
  EXPECT_FALSE(names_kernel("decode", "void predecode_all<decoder>(int)"));
}

TEST(CheckPath, without_a_witness_there_is_the_backends_word_alone) {
  EXPECT_EQ(kind_of("fast", announced({"prepare", "fast"})), Kind::unwitnessed);
  EXPECT_EQ(kind_of("fast", announced({"generic"})), Kind::fallback);
  EXPECT_EQ(kind_of("fast", announced({"fast_generic"})), Kind::fallback);
  EXPECT_EQ(kind_of("fast*", announced({"fast_generic"})), Kind::unwitnessed);
  EXPECT_EQ(kind_of("", announced({})), Kind::none);
}

TEST(CheckPath, a_dead_path_is_a_fallback_whatever_the_backend_says) {
  EXPECT_EQ(kind_of("flash_fwd_kernel", witnessed({"flash_fwd_kernel"}, {kMath})), Kind::fallback);
  EXPECT_EQ(kind_of("flash_fwd_kernel", witnessed({"flash_fwd_kernel"}, {})), Kind::fallback);
  EXPECT_EQ(kind_of("flash_fwd_kernel", witnessed({}, {kMath})), Kind::fallback);
  const auto finding = check_path("flash_fwd_kernel", {}, witnessed({}, {kMath, kMath}), 0);
  EXPECT_EQ(finding.summary,
            std::string("declared kernel flash_fwd_kernel did not run; the witness fake saw: ") + kMath);
}

TEST(CheckPath, of_a_name_that_the_witness_could_not_have_seen_there_is_the_backends_word_alone) {
  Trace trace = witnessed({"fast"}, {"run(int)"});
  trace.witness->unwatched = {"fast"};
  EXPECT_EQ(kind_of("fast", trace), Kind::unwitnessed);
  EXPECT_EQ(kind_of("", trace), Kind::none);
  EXPECT_EQ(kind_of("other", trace), Kind::fallback);
  trace.witness->unwatched.clear();
  EXPECT_EQ(kind_of("fast", trace), Kind::fallback);
}

TEST(CheckPath, tensors_of_the_host_are_no_part_of_what_a_kernel_took) {
  Trace trace = witnessed({"fast"}, {"fast"}, 1000);
  EXPECT_EQ(kind_of("fast", trace, "temporary_bytes=0"), Kind::none);
  trace.witness->host = true;
  EXPECT_EQ(kind_of("fast", trace, "temporary_bytes=999"), Kind::fallback);
  EXPECT_EQ(kind_of("fast", trace, "temporary_bytes=1000"), Kind::none);
}

TEST(CheckPath, helpers_that_a_hosts_witness_saw_are_kept_where_something_is_wrong_alone) {
  const auto left = [](bool host) {
    Trace trace = witnessed({"merge"}, {"read_row(float*)", "ns::fast(int)", "merge(int)", "fast_helper()"});
    trace.witness->host = host;
    keep_named_kernels("fast", trace.kernels, *trace.witness);
    return trace.witness->kernels.size();
  };
  EXPECT_EQ(left(true), 2U);
  EXPECT_EQ(left(false), 4U);
}

TEST(CheckPath, its_live_twin_passes) {
  EXPECT_EQ(kind_of("flash_fwd_kernel", witnessed({"flash_fwd_kernel"}, {kMath, kFlash})), Kind::none);
  EXPECT_EQ(kind_of("flash_fwd_kernel", witnessed({}, {kFlash})), Kind::none);
  EXPECT_EQ(kind_of("", witnessed({}, {kFlash})), Kind::none);
}

TEST(CheckPath, an_announced_kernel_that_was_never_seen_is_a_fallback) {
  EXPECT_EQ(kind_of("", witnessed({"merge"}, {kFlash})), Kind::fallback);
  EXPECT_EQ(kind_of("flash_fwd_kernel", witnessed({"flash_fwd_kernel", "merge"}, {kFlash})), Kind::fallback);
  EXPECT_EQ(kind_of("flash_fwd_kernel", witnessed({"flash_fwd_kernel", "merge"}, {kFlash, "merge"})),
            Kind::none);
}

TEST(CheckPath, a_witness_that_missed_something_proves_nothing) {
  Trace trace = witnessed({}, {kFlash});
  trace.witness->error = "3 records lost";
  EXPECT_EQ(kind_of("flash_fwd_kernel", trace), Kind::failed);
}

TEST(CheckPath, memory_beyond_the_promise_is_a_fallback) {
  EXPECT_EQ(kind_of("", witnessed({}, {}, 1001), "temporary_bytes=0"), Kind::fallback);
  EXPECT_EQ(kind_of("", witnessed({}, {}, 1000), "temporary_bytes=0"), Kind::none);
  EXPECT_EQ(kind_of("", witnessed({}, {}, 1500), "deterministic=yes temporary_bytes=500"), Kind::none);
  EXPECT_EQ(kind_of("", witnessed({}, {}, 1501), "deterministic=yes temporary_bytes=500 nan=propagate"),
            Kind::fallback);
  EXPECT_EQ(kind_of("", witnessed({}, {}, 1 << 30)), Kind::none);
}

}  // namespace
}  // namespace assay
