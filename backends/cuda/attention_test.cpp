// What the attention kernels declare and refuse. None of it needs a GPU: declarations touch no data.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <vector>

#include "backends/gpu/attention.hpp"

namespace assay_gpu {
namespace {

// One call without data. Attributes at the op's defaults unless set.
using Attributes = std::vector<std::pair<std::string, std::string>>;

class DeclaredCall {
 public:
  explicit DeclaredCall(const Attributes* set) {
    attributes_ = {{"batch", "1"},  {"heads", "8"},   {"kv_heads", "2"},  {"d", "128"},
                   {"dv", "@d"},    {"q", "1"},       {"len", "8192"},    {"kv", "f16"},
                   {"k", "@kv"},    {"v", "@kv"},     {"dtype", "f16"},   {"mask", "none"},
                   {"window", "0"}, {"softcap", "0"}, {"sinks", "no"},    {"alibi", "no"},
                   {"page", "0"},   {"scale", "0"},   {"rotate", "none"}, {"lengths", "full"}};
    for (const auto& [name, value] : *set) attributes_[name] = value;
    for (const auto& [name, value] : attributes_) pairs_.push_back({name.c_str(), value.c_str()});
    call_.op = "attention";
    call_.variant = "";
    call_.attributes = pairs_.data();
    call_.attribute_count = static_cast<std::int32_t>(pairs_.size());
    const std::int64_t batch = number("batch"), len = number("len");
    add("q", text("dtype"), {batch, number("q"), number("heads"), number("d")});
    add_cache("k", text("k"), {batch, len, number("kv_heads"), number("d")});
    add_cache("v", text("v"), {batch, len, number("kv_heads"), number("dv")});
    if (text("sinks") == "yes") add("sinks", "f32", {number("heads")});
    if (text("alibi") == "yes") add("slopes", "f32", {number("heads")});
    if (text("mask") == "random") add("mask", "int8", {number("q"), len});
    call_.inputs = inputs_.data();
    call_.input_count = static_cast<std::int32_t>(inputs_.size());
    output_ = tensor("out", text("dtype"), {batch, number("q"), number("heads"), number("dv")});
    call_.outputs = &output_;
    call_.output_count = 1;
  }
  DeclaredCall(const DeclaredCall&) = delete;
  DeclaredCall& operator=(const DeclaredCall&) = delete;

  const Kernel& row(std::string_view variant = "") const {
    const Call call(call_);
    for (const Kernel& kernel : attention_kernels()) {
      const bool wanted =
          variant.empty() ? kernel.chosen == nullptr || kernel.chosen(call) : kernel.variant == variant;
      if (wanted) return kernel;
    }
    throw Unsupported("no such row");
  }
  std::string contract(std::string_view variant = "", int major = 9) const {
    const Kernel& kernel = row(variant);
    kernel.check(Call(call_), device(major));
    return kernel.contract(Call(call_), device(major));
  }
  // The reason of a refusal; "" when there is none.
  std::string refusal(std::string_view variant, int major = 9) const {
    try {
      row(variant).check(Call(call_), device(major));
    } catch (const Unsupported& reason) {
      return reason.what();
    }
    return "";
  }
  std::string name(std::string_view variant = "") const {
    return std::string(row(variant).name(Call(call_)));
  }
  void widen_row_of_k(std::int64_t bytes) { inputs_[1].stride[2] += bytes; }

 private:
  static DeviceInfo device(int major) { return {"a test's", "none", major, 0, 132, 227 << 10}; }
  std::string text(const std::string& name) const {
    const std::string& value = attributes_.at(name);
    return value[0] == '@' ? text(value.substr(1)) : value;
  }
  std::int64_t number(const std::string& name) const { return std::stoll(text(name)); }
  assay_tensor tensor(const std::string& name, const std::string& format,
                      const std::vector<std::int64_t>& shape) {
    assay_tensor t{};
    names_.push_back(std::make_unique<std::string>(name));
    t.name = names_.back()->c_str();
    names_.push_back(std::make_unique<std::string>(format));
    t.format = names_.back()->c_str();
    t.rank = static_cast<std::int32_t>(shape.size());
    std::int64_t stride = format == "f32" || format == "int32"  ? 4
                          : format == "f16" || format == "bf16" ? 2
                                                                : 1;
    for (std::int32_t axis = t.rank - 1; axis >= 0; --axis) {
      t.shape[axis] = shape[static_cast<std::size_t>(axis)];
      t.stride[axis] = stride;
      stride *= t.shape[axis];
    }
    return t;
  }
  void add(const std::string& name, const std::string& format, const std::vector<std::int64_t>& shape) {
    inputs_.push_back(tensor(name, format, shape));
  }
  void add_cache(const std::string& name, const std::string& format, const std::vector<std::int64_t>& shape) {
    const std::size_t end = format.find('_');
    const bool scaled = format.starts_with("e4m3fn_") || format.starts_with("e5m2_");
    add(name, scaled ? format.substr(0, end) : format, shape);
    if (scaled) scales_.push_back({name + ".scale", format.substr(end) == "_head" ? shape[2] : 1});
    for (const auto& [scale, count] : scales_) {
      if (scale.starts_with(name)) late_.push_back({scale, count});
    }
    if (name == "v") {
      for (const auto& [scale, count] : late_) add(scale, "f32", {count});
    }
  }

  std::map<std::string, std::string> attributes_;
  std::vector<assay_attribute> pairs_;
  std::vector<std::unique_ptr<std::string>> names_;
  std::vector<assay_tensor> inputs_;
  std::vector<std::pair<std::string, std::int64_t>> scales_, late_;
  assay_tensor output_{};
  assay_call call_{};
};

DeclaredCall declared(const Attributes& set = {}) { return DeclaredCall(&set); }

// The value of a key in a contract, "" when it is not named.
std::string key(const std::string& contract, const std::string& name) {
  const std::string padded = " " + contract + " ";
  const std::size_t at = padded.find(" " + name + "=");
  if (at == std::string::npos) return "";
  const std::size_t from = at + name.size() + 2;
  return padded.substr(from, padded.find(' ', from) - from);
}

TEST(CudaAttention, chooses_by_shape_and_formats_and_says_which) {
  EXPECT_EQ(declared().name(), "attention_split_mma");
  EXPECT_EQ(declared({{"kv", "e4m3fn"}}).name(), "attention_split_mma");
  EXPECT_EQ(declared({{"kv", "q8_0"}}).name(), "attention_split");
  EXPECT_EQ(declared({{"len", "300"}}).name(), "attention_decode");
  EXPECT_EQ(declared({{"q", "64"}}).name(), "attention_prefill_mma");
  EXPECT_EQ(declared({{"q", "64"}, {"kv", "q4_0"}}).name(), "attention_decode");
  EXPECT_EQ(declared({{"mask", "random"}}).name(), "attention_split");
}

TEST(CudaAttention, a_schedule_is_declared_whole_where_every_step_has_a_word) {
  EXPECT_EQ(key(declared({{"kv", "e4m3fn_head"}}).contract("decode_replay"), "schedule"),
            "qk:f32/pv:f32/p:f32/out:f16/tile:128/argument:scaled/constant:float/sum_fma:no/"
            "quotient:division/exp:exp2f/"
            "sums:tile/lanes:32/pack:1/fold:halving");
  const std::string split =
      key(declared({{"sinks", "yes"}, {"alibi", "yes"}}).contract("split_replay"), "schedule");
  EXPECT_NE(split.find(
                "/split:64/part:128/merge:lanes/merge_lanes:512/merge_fold:16.8.4.2.1.32*16/merge_groups:16"),
            std::string::npos)
      << split;
  EXPECT_TRUE(split.ends_with("/bias:subtract/sink:exp2f")) << split;
  EXPECT_EQ(key(declared({{"q", "64"}}).contract("prefill_mma_replay", 8), "schedule").substr(0, 40),
            "qk:a100_f16/pv:a100_f16/p:f16/out:f16/ti");
  const std::string split_mma = key(declared({{"kv", "e4m3fn"}}).contract("split_mma_replay"), "schedule");
  EXPECT_NE(split_mma.find("/argument:fma_max/constant:float/"), std::string::npos) << split_mma;
  EXPECT_NE(split_mma.find("/edge:scaled/merge_exp:exp2f/slack:8/slack_rows:8/deal:4/dot_run:16/split:"),
            std::string::npos)
      << split_mma;
  for (const auto& [name, value] : {std::pair{"alibi", "yes"}, {"softcap", "30"}})
    EXPECT_NE(
        key(declared({{name, value}}).contract("split_mma_replay"), "schedule").find("/argument:scaled/"),
        std::string::npos)
        << name;
  for (const char* variant : {"split_mma_replay", "fp8_wgmma_p4_replay"})
    EXPECT_TRUE(
        key(declared({{"kv", "e4m3fn_head"}}).contract(variant), "schedule").ends_with("/kv_scale:head"))
        << variant;
  const std::string fp8 = declared({{"kv", "e4m3fn"}}).contract("fp8_wgmma_p4_replay");
  EXPECT_EQ(key(fp8, "promote"), "128");
  EXPECT_TRUE(key(fp8, "schedule").ends_with("/promote:128")) << fp8;
  EXPECT_EQ(key(fp8, "level"), "replay");
  EXPECT_EQ(key(declared().contract("decode"), "level"), "");
  for (const char* variant : {"decode_replay", "split_replay", "prefill_mma_replay"}) {
    EXPECT_TRUE(key(declared({{"softcap", "30"}, {"q", "64"}}).contract(variant), "schedule")
                    .ends_with("/cap:cuda_tanhf"))
        << variant;
    EXPECT_EQ(declared({{"rotate", "qk"}, {"q", "64"}}).refusal(variant), "") << variant;
  }
  for (const char* variant : {"decode_replay", "split_replay", "split_mma_replay"})
    EXPECT_TRUE(
        key(declared({{"rotate", "qkv"}}).contract(variant), "schedule").ends_with("/unrotate:ascending"))
        << variant;
  EXPECT_TRUE(key(declared({{"v", "tq3_0_c2"}}).contract("deferred_replay"), "schedule")
                  .ends_with("/unrotate:ascending"));
  EXPECT_EQ(declared({{"kv", "q4_1"}}).refusal("decode_replay"), "");
  EXPECT_TRUE(
      key(declared({{"kv", "e4m3fn"}, {"mask", "window"}}).contract("fp8_wgmma_p64_replay"), "schedule")
          .ends_with("/origin:64/origin_rows:group/origin_at:tile"));
  EXPECT_EQ(declared({{"kv", "e4m3fn"}, {"mask", "window"}}).refusal("fp8_wgmma_p4_replay"), "");
}

// What a declaration has no room for would be refused.
TEST(CudaAttention, a_schedule_of_every_step_has_room_in_a_declaration) {
  const DeclaredCall all = declared({{"heads", "4096"},
                                     {"kv_heads", "256"},
                                     {"len", "4194304"},
                                     {"kv", "e4m3fn_head"},
                                     {"softcap", "30"},
                                     {"sinks", "yes"},
                                     {"alibi", "yes"},
                                     {"mask", "window"},
                                     {"window", "100"},
                                     {"rotate", "qkv"}});
  for (const char* variant : {"decode_replay", "split_replay", "split_mma_replay"})
    EXPECT_LT(all.contract(variant).size(), sizeof(assay_declaration::contract)) << variant;
  const DeclaredCall prefill = declared({{"q", "64"},
                                         {"kv", "bf16"},
                                         {"dtype", "bf16"},
                                         {"softcap", "30"},
                                         {"sinks", "yes"},
                                         {"alibi", "yes"},
                                         {"mask", "window"},
                                         {"window", "100"}});
  EXPECT_LT(prefill.contract("prefill_mma_replay").size(), sizeof(assay_declaration::contract));
  const DeclaredCall fp8 = declared({{"q", "64"},
                                     {"kv", "e4m3fn_head"},
                                     {"softcap", "30"},
                                     {"sinks", "yes"},
                                     {"alibi", "yes"},
                                     {"mask", "window"},
                                     {"window", "100"}});
  EXPECT_LT(fp8.contract("fp8_wgmma_p64_replay").size(), sizeof(assay_declaration::contract));
}

TEST(CudaAttention, declares_the_unit_that_multiplies) {
  const std::string f16 = declared().contract("split_mma");
  EXPECT_EQ(key(f16, "qk"), "hopper_f16");
  EXPECT_EQ(key(f16, "pv"), "hopper_f16");
  EXPECT_EQ(key(f16, "p"), "f16");
  EXPECT_EQ(key(declared().contract("split_mma", 8), "qk"), "a100_f16");
  const std::string bf16 = declared({{"kv", "bf16"}, {"dtype", "bf16"}, {"q", "64"}}).contract();
  EXPECT_EQ(key(bf16, "qk"), "hopper_bf16");
  EXPECT_EQ(key(bf16, "p"), "bf16");
  EXPECT_EQ(key(declared({{"kv", "q8_0"}}).contract(), "qk"), "f32");
  EXPECT_EQ(key(declared({{"kv", "q8_0"}}).contract("convert_f16"), "convert"), "f16");
}

// Parts times the keys of a part cover the cache, and a part is no longer than its share and one tile: what
// `split` declares.
TEST(CudaAttention, splits_into_parts_of_equal_length) {
  for (const char* variant : {"split", "split_mma"}) {
    for (const std::int64_t len : {1, 31, 2048, 8192, 100000, 131072, 1048576}) {
      const std::string contract =
          declared({{"len", std::to_string(len)}, {"kv", "e4m3fn"}}).contract(variant);
      const std::int64_t split = key(contract, "split").empty() ? 1 : std::stoll(key(contract, "split"));
      const std::int64_t part = std::stoll(key(contract, "promote")),
                         tile = std::stoll(key(contract, "tile"));
      if (split > 1) {
        EXPECT_EQ(std::stoll(key(contract, "part")), part) << contract;
      }
      EXPECT_GE(split * part, len) << contract;
      EXPECT_LE(part, (len + split - 1) / split + tile + tile / split) << contract;
      EXPECT_EQ(part % tile, 0) << contract;
    }
  }
}

TEST(CudaAttention, declares_the_promotion_that_a_variant_names) {
  const DeclaredCall fp8 = declared({{"kv", "e4m3fn"}});
  EXPECT_EQ(key(fp8.contract("fp8_wgmma_p1"), "promote"), "32");
  EXPECT_EQ(key(fp8.contract("fp8_wgmma_p4"), "promote"), "128");
  EXPECT_EQ(key(fp8.contract("fp8_wgmma_p64"), "promote"), "2048");
  EXPECT_EQ(key(fp8.contract("fp8_wgmma_p0"), "promote"), "4194304");
  for (const char* name : {"qk", "pv"}) EXPECT_EQ(key(fp8.contract("fp8_wgmma_p4"), name), "hopper_fp8");
  EXPECT_EQ(key(fp8.contract("fp8_wgmma_p4"), "q"), "e4m3fn");
  EXPECT_EQ(key(fp8.contract("fp8_wgmma_p4"), "p"), "e4m3fn");
}

// The planted defect says what its correct counterpart says, and is not offered.
TEST(CudaAttention, hides_the_defect_that_declares_two_levels_and_has_one) {
  const DeclaredCall fp8 = declared({{"kv", "e4m3fn"}});
  EXPECT_EQ(fp8.contract("fp8_wgmma_p4_single_level"), fp8.contract("fp8_wgmma_p4"));
  EXPECT_TRUE(fp8.row("fp8_wgmma_p4_single_level").hidden);
  EXPECT_FALSE(fp8.row("fp8_wgmma_p4").hidden);
}

TEST(CudaAttention, refuses_what_it_lacks_with_a_reason) {
  EXPECT_NE(declared({{"kv", "e4m3fn"}}).refusal("fp8_wgmma_p4", 10).find("9.0"), std::string::npos);
  EXPECT_NE(declared({{"kv", "f16"}}).refusal("fp8_wgmma_p4").find("e4m3fn"), std::string::npos);
  EXPECT_NE(declared({{"d", "96"}}).refusal("split_mma").find("d = dv"), std::string::npos);
  EXPECT_NE(declared({{"q", "2"}}).refusal("split_mma").find("q=2"), std::string::npos);
  EXPECT_NE(declared({{"kv", "q8_0"}}).refusal("prefill_mma").find("f16"), std::string::npos);
  EXPECT_NE(declared({{"d", "2048"}}).refusal("decode").find("1024"), std::string::npos);
  DeclaredCall gaps = declared();
  gaps.widen_row_of_k(6);
  EXPECT_NE(gaps.refusal("split_mma").find("multiples of 16"), std::string::npos);
  EXPECT_EQ(gaps.name(), "attention_split");  // and is served by one that can
  EXPECT_EQ(declared({{"kv", "q8_0"}}).refusal("decode"), "");
}

}  // namespace
}  // namespace assay_gpu
