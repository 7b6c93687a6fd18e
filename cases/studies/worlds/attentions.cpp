// Worlds of attention: which contracts of one to three keys.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "cases/studies/worlds/attention_batches.hpp"
#include "reference/mix.hpp"

namespace assay::worlds {
namespace {

class Lists {
 public:
  void at_level(const char* level, int n, int d, Words attributes, Keys keys, const char* why,
                const std::string& seen = "") {
    keys.push_back({"level", level});
    std::string size = fmt::format("n={} d={}", n, d);
    if (!seen.empty()) size += " seen=" + seen, attributes.insert({"mask", "random"});
    all.push_back(named("attention", size, std::move(attributes), std::move(keys), why,
                        [n, d, seen](const World& w, std::size_t budget) {
                          return attention_batches(w, n, d, seen, budget / 8);
                        }));
  }
  void add(int n, int d, const Words& attributes, const Keys& contract, const char* why,
           const std::string& seen = "") {
    for (const char* level : {"ca", "detord", "detap"})
      at_level(level, n, d, attributes, contract, why, seen);
  }
  void shaped(int n, const Words& attributes, const Keys& contract, const char* why,
              const std::string& seen = "") {
    add(n, 1, attributes, with_shape(contract), why, seen);
  }
  void emulated(int n, int d, Words attributes, const Keys& contract, const char* why,
                const std::string& seen = "") {
    at_level("emu", n, d, std::move(attributes), with_steps(contract), why, seen);
  }
  // What the levels above detap are of.
  static Keys with_shape(Keys contract) {
    for (const auto& each : Keys{{"order", "tiles"},
                                 {"tiles", "aligned"},
                                 {"scaling", "scores"},
                                 {"sink", "last"},
                                 {"merge", "once"}})
      contract.push_back(each);
    return contract;
  }
  // "level=emu: order=sequential scaling=scores tiles=aligned sink=last merge=any".
  static Keys with_steps(Keys contract) {
    for (const auto& each :
         Keys{{"order", "sequential"}, {"tiles", "aligned"}, {"scaling", "scores"}, {"sink", "last"}})
      contract.push_back(each);
    return contract;
  }
  std::vector<World> all;
};

// Keys that a mask hides, and rows that see none.
void add_hidden(Lists& lists) {
  for (const std::string seen : {"0", "01", "10", "00", "011", "101", "110", "001", "010"}) {
    const int n = static_cast<int>(seen.size());
    const bool is_empty = seen.find('1') == std::string::npos;
    constexpr auto kAdded = "hidden=added: -Inf is added to their logits and their weight of 0 meets V";
    constexpr auto kMean = "empty=mean: the lowest number of f32 is added as a mask to logits, of every row";
    for (const char* kv : {"f16", "f32"})
      for (const char* p : {"f32", "f16", "e4m3fn"})
        for (const char* tile : {"64", "1"}) {
          const Words of = {{"kv", kv}};
          const Keys how = {{"p", p}, {"tile", tile}};
          const auto with = [&](const char* key, const char* word) {
            Keys keys = how;
            keys.push_back({key, word});
            return keys;
          };
          lists.add(n, 1, of, with("empty", "mean"), kMean, seen);
          lists.shaped(n, of, with("empty", "mean"), kMean, seen);
          if (!is_empty) {
            lists.add(n, 1, of, with("hidden", "added"), kAdded, seen);
            lists.add(n, 1, of, how, "keys that a mask hides: as if they were not there", seen);
            lists.emulated(n, 1, of, how, "level=emu: hidden keys keep their places in blocks", seen);
          }
        }
    lists.add(n, 1, {{"sinks", "yes"}}, {{"empty", "mean"}, {"tile", "1"}}, kMean, seen);
    lists.add(n, 1, {{"sinks", "yes"}}, {{"empty", "mean"}}, kMean, seen);
    for (const char* type : {"f16", "bf16"})
      lists.add(n, 1, {}, {{"empty", "mean"}, {"tile", "1"}, {"pv", type}, {"rowsum", type}}, kMean, seen);
  }
}

void add_emulated(Lists& lists) {
  for (const int n : {1, 2, 3}) {
    constexpr auto kSteps = "level=emu: of one kernel, step by step";
    for (const char* kv : {"f16", "f32"})
      for (const char* tile : {"64", "1"}) {
        const auto with = [&](Keys keys) {
          keys.push_back({"tile", tile});
          return keys;
        };
        const Words of = {{"kv", kv}};
        for (const char* p : {"f32", "f16", "bf16", "e4m3fn"})
          for (const char* denominator : {"exact", "cast"}) {
            lists.emulated(n, 1, of, with({{"p", p}, {"denominator", denominator}}), kSteps);
            lists.emulated(n, 1, of, with({{"p", p}, {"denominator", denominator}, {"p_shift", "8"}}),
                           kSteps);
          }
        for (const char* type : {"f16", "bf16"}) {
          lists.emulated(n, 2, of, with({{"qk", type}, {"q", "f16"}, {"convert", "f16"}}), kSteps);
          lists.emulated(n, 1, of, with({{"scores", type}}), kSteps);
          lists.emulated(n, 1, of, with({{"rowsum", type}}), kSteps);
          lists.emulated(n, 1, of, with({{"pv", type}}), kSteps);
          lists.emulated(n, 1, of, with({{"pv", type}, {"promote", "1"}}), kSteps);
        }
        for (const char* ulp : {"0.5", "16"})
          lists.emulated(n, 1, of, with({{"exp_ulp", ulp}, {"div_ulp", ulp}}), kSteps);
        for (const Words& more : {Words{{"scale", "0.1"}}, Words{{"softcap", "20"}}, Words{{"alibi", "yes"}},
                                  Words{{"sinks", "yes"}}, Words{{"dtype", "bf16"}}}) {
          Words all_of = more;
          all_of.insert({"kv", kv});
          lists.emulated(n, 2, all_of, with({}), kSteps);
        }
        if (n > 1 && std::string_view(tile) == "1")
          for (const char* p : {"f32", "e4m3fn"}) {
            lists.emulated(n, 1, of, with({{"p", p}, {"split", "2"}, {"part", "64"}}), kSteps);
            lists.emulated(n, 1, {{"kv", kv}, {"sinks", "yes"}},
                           with({{"p", p}, {"split", "2"}, {"part", "64"}}), kSteps);
          }
      }
    lists.emulated(n, 1, {{"kv", "e4m3fn"}, {"sinks", "yes"}}, {{"pv", "hopper_fp8"}, {"p", "e4m3fn"}},
                   kSteps);
    for (const char* unit : {"hopper_f16", "cdna3_f16"})
      lists.emulated(n, 2, {{"kv", "f16"}, {"dtype", "f16"}}, {{"qk", unit}, {"pv", unit}, {"p", "f16"}},
                     kSteps);
  }
}

// One word after the other.
void add_plain(Lists& lists) {
  for (const int n : {1, 2, 3}) {
    for (const char* kv : {"f16", "f32"})
      for (const char* p : {"f32", "bf16", "e4m3fn"}) {
        const char* const shift = std::string_view(p) == "e4m3fn" ? "8" : "0";
        const Words of = {{"kv", kv}};
        lists.shaped(n, of, {{"p", p}, {"p_shift", shift}}, "order=tiles: order of the tiles");
        lists.shaped(n, of, {{"p", p}, {"p_shift", shift}, {"tile", "1"}},
                     "tile: keys per step of the online softmax");
        lists.shaped(n, of, {{"p", p}, {"p_shift", shift}, {"promote", "1"}},
                     "promote: keys per partial sum of p.v");
        if (n > 1)
          lists.shaped(n, of, {{"p", p}, {"p_shift", shift}, {"tile", "1"}, {"split", "2"}},
                       "merge=once: all scaled to their largest, divided by their sums before or not");
      }
    lists.shaped(n, {{"sinks", "yes"}}, {}, "sink=last: meets the sink after the keys");
    lists.shaped(n, {{"sinks", "yes"}}, {{"tile", "1"}, {"p", "e4m3fn"}},
                 "sink=last: meets the sink after the keys");
    lists.shaped(n, {}, {{"tile", "1"}, {"denominator", "cast"}, {"p", "e4m3fn"}}, "denominator=cast");
    lists.shaped(n, {}, {{"tile", "1"}, {"promote", "1"}, {"pv", "f16"}}, "promote: then added in f32");
    lists.shaped(n, {}, {{"tile", "1"}, {"argument", "rounded"}, {"scores", "bf16"}},
                 "scores: rounded to once");
    lists.add(n, 1, {}, {}, "exp_ulp: error of exp in ulps of f32; qk, pv, rowsum: how it is summed");
    lists.add(n, 1, {}, {{"exp_ulp", "0.5"}, {"div_ulp", "0.5"}},
              "div_ulp: error of a quotient, or of reciprocal and product");
    lists.add(n, 2, {}, {}, "qk: how q.k is summed");
    lists.add(n, 1, {}, {{"tile", "1"}}, "tile: keys per step of the online softmax");
    for (const char* p : {"f16", "bf16", "e4m3fn", "e5m2"})
      for (const char* denominator : {"exact", "cast"})
        lists.add(n, 1, {}, {{"p", p}, {"denominator", denominator}},
                  "p: format of the weights that enter PV; denominator: row sum of weights before or after");
    lists.add(n, 1, {}, {{"p", "e4m3fn"}, {"p_shift", "8"}},
              "p_shift: weights are multiplied by 2^this before the rounding to p");
    lists.add(n, 1, {}, {{"p", "e4m3fn"}, {"p_shift", "8"}, {"denominator", "cast"}},
              "p_shift: weights are multiplied by 2^this before the rounding to p");
    for (const char* type : {"f16", "bf16"}) {
      lists.add(n, 2, {}, {{"qk", type}}, "qk: how q.k is summed");
      lists.add(n, 1, {}, {{"scores", type}}, "scores: format that logits are rounded to");
      lists.add(n, 1, {}, {{"rowsum", type}}, "rowsum: how the row sum is formed");
      lists.add(n, 1, {}, {{"pv", type}, {"p", type}}, "pv: how p.v is summed");
      lists.add(n, 1, {}, {{"out", type}}, "out: format of the result before it is stored");
      lists.add(n, 1, {{"dtype", type}, {"kv", type}}, {}, "out = softmax(cap(scale q k^T)) v");
    }
    lists.add(n, 1, {{"scale", "0.1"}}, {}, "argument: any: or fused with that subtraction");
    lists.add(n, 1, {{"scale", "0.1"}}, {{"argument", "rounded"}},
              "argument: rounded: a logit is rounded before the maximum is subtracted");
    lists.add(n, 1, {{"softcap", "20"}}, {}, "tanh_ulp: error of tanh (softcap)");
    lists.add(n, 1, {{"sinks", "yes"}}, {}, "sinks: one more logit per head in the denominator");
    lists.add(n, 1, {{"sinks", "yes"}}, {{"p", "e4m3fn"}, {"denominator", "cast"}},
              "sinks: one more logit per head in the denominator");
    lists.add(n, 1, {{"alibi", "yes"}}, {}, "alibi: - slope |i - j| added to the logits");
    for (const char* type : {"f16", "bf16"}) {
      lists.add(n, 1, {}, {{"q", type}}, "q: format that q is converted to first, to nearest");
      lists.add(n, 2, {{"kv", "f32"}}, {{"convert", type}},
                "convert: format that K and V are converted to first, to nearest");
    }
    if (has_word("attention", "scaling", "q_rounded"))
      for (const char* scaling : {"scores", "q", "q_rounded"})
        for (const char* dtype : {"f32", "f16"})
          lists.add(n, 2, {{"scale", "0.1"}, {"dtype", dtype}}, {{"scaling", scaling}},
                    "scaling: what the softmax scale multiplies");
    if (has_word("attention", "lag", ""))
      lists.add(n, 1, {}, {{"tile", "1"}, {"lag", "8"}}, "lag: lazy rescaling");
    if (has_word("attention", "weights", "shares"))
      for (const char* p : {"f32", "f16", "e4m3fn"})
        lists.add(n, 1, {}, {{"weights", "shares"}, {"p", p}},
                  "weights=shares: divided by the whole row sum first");
    if (n > 1)
      lists.add(n, 1, {}, {{"split", "2"}}, "split: parts of the keys computed apart and merged in f32");
    if (n > 1)
      lists.add(n, 1, {}, {{"split", "2"}, {"p", "e4m3fn"}},
                "split: parts of the keys computed apart and merged in f32");
  }
}

// Words together, drawn: what holds for each alone may not hold for two.
void add_drawn(Lists& lists) {
  std::set<std::string> names;
  for (std::uint64_t world = 0; world < 600; ++world) {
    std::uint64_t state = mix(world);
    const auto one_of = [&](std::initializer_list<const char*> words) {
      return std::string(words.begin()[next_mixed(state) % words.size()]);
    };
    const std::string level = one_of({"emu", "emu", "ca", "detord", "detap"});
    const bool is_emulated = level == "emu", is_shaped = !is_emulated && one_of({"yes", "no"}) == "yes";
    const int n = std::stoi(one_of({"2", "3"})), d = std::stoi(one_of({"1", "2"}));
    Words attributes{{"kv", one_of({"f16", "f32", "f32", "bf16"})},
                     {"dtype", one_of({"f32", "f32", "f16", "bf16"})}};
    const auto attribute = [&](const char* key, std::initializer_list<const char*> words) {
      if (const std::string word = one_of(words); !word.empty()) attributes[key] = word;
    };
    attribute("scale", {"", "", "0.1"});
    attribute("softcap", {"", "", "", "20"});
    attribute("sinks", {"", "yes"});
    std::string seen = one_of({"", "", "01", "10", "110", "011", "101", "010"});
    if (std::ssize(seen) != n) seen.clear();
    if (seen.empty()) attribute("alibi", {"", "", "yes"});
    Keys keys;
    const auto key = [&](const char* name, std::initializer_list<const char*> words) {
      std::string word = one_of(words);
      if (!word.empty()) keys.push_back({name, word});
      return word;
    };
    // The emulated kernel's narrow products are of operands whose products f32 holds.
    const bool converts = !key("qk", {"", "", "f16", "bf16"}).empty() && is_emulated;
    key("scores", {"", "", "", "f16", "bf16"});
    const std::string p = key("p", {"", "f16", "bf16", "e4m3fn", "e5m2"});
    key("p_shift", {"", "", "2", "8"});
    key("rowsum", {"", "", "f16", "bf16"});
    key("pv", {"", "", "f16", "bf16"});
    key("out", {"", "", "f32", "f16", "bf16"});
    key("exp_ulp", {"", "0.5", "16"});
    key("div_ulp", {"", "0.5", "16"});
    key("q", {converts ? "f16" : "", converts ? "bf16" : "", "f16", "bf16"});
    key("convert", {converts ? "f16" : "", converts ? "bf16" : "", "f16", "bf16"});
    key("promote", {"", "", "1"});
    key("argument", {"", "rounded"});
    const bool is_shares = !is_emulated && !is_shaped && !attributes.contains("softcap") &&
                           one_of({"no", "no", "no", "yes"}) == "yes";
    if (is_shares) keys.push_back({"weights", "shares"});
    if (!is_shares) key("denominator", {"", "cast"});
    // In one step the members of two parts are of all their keys; there are members of two parts at most.
    std::string tile, split;
    if (is_emulated) {
      tile = key("tile", {"", "1", "2"});
      split = key("split", {"", "2", "3"});
      if (tile == "1" && n == 3 && split == "3") keys.back().second = "2";
      if (!split.empty()) keys.push_back({"part", "64"});
    } else if (!is_shares) {
      tile = key("tile", {"", "1"});
      if (tile.empty() || is_shaped || n == 2) key("split", {"", "2"});
    }
    if (tile == "1" && !is_emulated) key("lag", {"", "", "2"});
    if (!seen.empty() && !is_emulated) {
      const std::string mask = one_of({"", "mean", "added"});
      if (!mask.empty()) keys.push_back({mask == "mean" ? "empty" : "hidden", mask});
    }
    if (is_shaped) keys = Lists::with_shape(std::move(keys));
    if (is_emulated) keys = Lists::with_steps(std::move(keys));
    lists.at_level(level.c_str(), n, d, std::move(attributes), std::move(keys), "words together", seen);
    if (!names.insert(lists.all.back().name).second) lists.all.pop_back();
  }
}

}  // namespace

std::vector<World> attention_worlds() {
  Lists lists;
  add_plain(lists);
  add_hidden(lists);
  add_emulated(lists);
  add_drawn(lists);
  return std::move(lists.all);
}

}  // namespace assay::worlds
