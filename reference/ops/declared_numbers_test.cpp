// No number that a contract declares sizes what the judge does: each as large as may be said, beside the same
// contract without it.
#include <sys/resource.h>

#include <new>

#include "reference/error.hpp"
#include "reference/ops/op_testing.hpp"

namespace assay::testing {
namespace {

struct Row {
  const char* op;
  std::map<std::string, std::string> given;
  std::vector<const char*> contracts;
};

const char* const kShape =
    "order=sequential tiles=aligned scaling=scores merge=once weights=running sink=last";
const char* const kTiles = "order=tiles tiles=aligned scaling=scores merge=once weights=running sink=last";
const char* const kDown =
    "order=descending tiles=aligned scaling=scores merge=once weights=running sink=last";
const char* const kEmulated =
    "level=emu order=sequential tiles=aligned scaling=scores merge=once weights=running sink=last";
const std::vector<Row> kRows = {
    {"softmax", {{"rows", "3"}, {"cols", "64"}, {"sinks", "yes"}, {"softcap", "30"}}, {"", "order=tree"}},
    {"logsumexp", {{"rows", "3"}, {"cols", "64"}}, {""}},
    {"layernorm", {{"rows", "3"}, {"cols", "64"}}, {"variance=two_pass", "variance=welford"}},
    {"rmsnorm", {{"rows", "3"}, {"cols", "64"}}, {"", "order=sequential"}},
    {"wht", {{"rows", "3"}, {"cols", "64"}}, {""}},
    {"matmul", {{"m", "3"}, {"n", "3"}, {"k", "64"}, {"a", "f16"}}, {"", "order=sequential"}},
    {"matmul", {{"m", "3"}, {"n", "3"}, {"k", "64"}, {"a", "e4m3fn_tok"}}, {"acc=hopper_fp8 promote=2"}},
    {"matmul", {{"m", "3"}, {"n", "3"}, {"k", "64"}, {"a", "f32"}, {"b", "q4_0"}, {"path", "q8"}}, {""}},
    {"moe", {{"tokens", "2"}, {"hidden", "32"}, {"inter", "32"}, {"experts", "2"}}, {""}},
    {"quantize", {{"rows", "3"}, {"cols", "64"}, {"to", "q8_0"}}, {""}},
    {"quantize", {{"rows", "3"}, {"cols", "64"}, {"to", "nvfp4"}}, {""}},
    {"dequantize", {{"rows", "3"}, {"cols", "64"}, {"from", "mxfp8"}, {"dtype", "bf16"}}, {""}},
    {"requantize", {{"rows", "3"}, {"cols", "64"}, {"from", "e4m3fn_tensor"}, {"to", "int4_ch"}}, {""}},
    {"attention",
     {{"heads", "2"}, {"d", "32"}, {"len", "192"}, {"kv", "f16"}, {"sinks", "yes"}},
     {"", "order=sequential", "order=descending", kShape, kTiles, kDown, kEmulated}},
    {"attention",
     {{"heads", "2"}, {"d", "32"}, {"len", "192"}, {"kv", "e4m3fn"}},
     {"qk=hopper_fp8 pv=hopper_fp8 p=e4m3fn q=e4m3fn", kTiles, kDown}},
};

TEST(DeclaredNumbers, none_sizes_what_the_judge_does) {
  rlimit memory{};
  getrlimit(RLIMIT_AS, &memory);
  constexpr rlim_t kEnough = rlim_t{1} << 30;
  const rlimit little{std::min(kEnough, memory.rlim_max), memory.rlim_max};
#ifndef __SANITIZE_ADDRESS__
  setrlimit(RLIMIT_AS, &little);
#endif
  std::size_t answered = 0;
  for (const Row& row : kRows)
    for (const char* base : row.contracts) {
      OpCase c(row.op, row.given);
      for (const TensorSpec& spec : c.op_row->tensors(c.attributes)) {
        if (spec.role != TensorRole::data) continue;
        Values x(static_cast<std::size_t>(element_count(spec.shape)));
        for (std::size_t i = 0; i < x.size(); ++i)
          x[i] = static_cast<float>(static_cast<int>(i * 37 % 101) - 50) / 64;
        c.put(spec.name, x);
      }
      EXPECT_NO_THROW(c.truths(base)) << row.op << " " << base;
      for (const KeySpec& key : c.op_row->contract)
        for (const char* value : {"2147483647", "100000000", "lanes:2147483647", "blocks:2147483647"}) {
          const bool is_order = key.kind == KeyKind::order;
          if (is_order != (std::string_view(value).find(':') != std::string_view::npos)) continue;
          if (!is_order && key.kind != KeyKind::integer && key.kind != KeyKind::real) continue;
          if (std::string_view(base).find(std::string(key.name) + "=") != std::string_view::npos) continue;
          const std::string contract = std::string(base) + " " + std::string(key.name) + "=" + value;
          try {
            answered += c.truths(contract).size();
          } catch (const InputError&) {
          } catch (const std::bad_alloc&) {
            ADD_FAILURE() << row.op << " " << contract << ": takes too much memory";
          }
        }
    }
  setrlimit(RLIMIT_AS, &memory);
  EXPECT_GT(answered, 100U);
}

}  // namespace
}  // namespace assay::testing
