// Whole attention problems for tests: a case by its attributes, filled by test_fills.hpp, with everything
// that an op's inputs have (pages, lengths, masks, sinks, slopes).
#pragma once

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>

#include "reference/ops/attention/attention.hpp"
#include "reference/ops/attention/problem.hpp"
#include "reference/ops/attention/test_fills.hpp"

namespace assay {

struct AttentionCase {
  Attributes attributes;
  TensorSet inputs;
  std::unique_ptr<AttentionProblem> problem;
};

using AttributeMap = std::map<std::string, std::string>;

// The format whose numbers a fill should be exact in; formats with scales and blocks quantise what f16 holds.
inline std::string fill_format(const std::string& name) {
  return find_scalar_format(name) != nullptr ? name : std::string("f16");
}

// Numbers of K and V by key, [batch][len][kv_heads][width]; put where the page table says.
inline Encoded encode_cache(const AttentionGeometry& g, const TensorSet& inputs,
                            const std::string& format_name, std::int64_t width,
                            const std::vector<float>& values) {
  if (g.page == 0) return encode_tensor(format(format_name), {g.batch, g.length, g.kv_heads, width}, values);
  std::vector<std::int32_t> table(static_cast<std::size_t>(g.batch * g.table_width()));
  std::memcpy(table.data(), inputs.at("page_table").planes[0].bytes.data(), table.size() * 4);
  const std::int64_t row = g.kv_heads * width;
  std::vector<float> pool(static_cast<std::size_t>(g.pages() * g.page * row), 1.0f);
  for (std::int64_t b = 0; b < g.batch; ++b)
    for (std::int64_t j = 0; j < g.length; ++j) {
      const std::int64_t page = table[static_cast<std::size_t>(b * g.table_width() + j / g.page)];
      std::copy_n(values.begin() + (b * g.length + j) * row, row,
                  pool.begin() + (page * g.page + j % g.page) * row);
    }
  return encode_tensor(format(format_name), {g.pages(), g.page, g.kv_heads, width}, pool);
}

inline AttentionCase attention_case(const AttributeMap& given, Design fill, std::uint64_t seed) {
  AttentionCase c;
  c.attributes = Attributes::complete(attention_attributes(), given);
  const AttentionGeometry g = attention_geometry(c.attributes);
  attention_indices(c.attributes, seed, c.inputs);
  std::mt19937_64 random(seed + 17);
  std::normal_distribution<double> normal;
  const auto sized = [](std::int64_t n) { return std::vector<float>(static_cast<std::size_t>(n)); };
  std::vector<float> k = sized(g.batch * g.length * g.kv_heads * g.d),
                     v = sized(g.batch * g.length * g.kv_heads * g.dv);
  std::vector<float> q = sized(g.batch * g.rows * g.heads * g.d);
  for (std::int64_t b = 0; b < g.batch; ++b)
    for (std::int64_t h = 0; h < g.kv_heads; ++h) {
      const AttentionFill f =
          attention_fill(fill, g.length, g.d, g.dv, g.dtype, fill_format(g.k_format), fill_format(g.v_format),
                         seed + static_cast<std::uint64_t>(b * 31 + h));
      for (std::int64_t j = 0; j < g.length; ++j) {
        std::copy_n(f.k.begin() + j * g.d, g.d, k.begin() + ((b * g.length + j) * g.kv_heads + h) * g.d);
        std::copy_n(f.v.begin() + j * g.dv, g.dv, v.begin() + ((b * g.length + j) * g.kv_heads + h) * g.dv);
      }
      for (std::int64_t i = 0; i < g.rows; ++i)
        for (std::int64_t x = 0; x < g.group(); ++x) {
          float* to = q.data() + ((b * g.rows + i) * g.heads + h * g.group() + x) * g.d;
          // The fill's row; half of it; another; the fill's again.
          const std::int64_t kind = (i * g.group() + x) % 4;
          for (std::int64_t e = 0; e < g.d; ++e)
            to[e] = kind == 2 ? static_cast<float>(round_to(scalar_format(g.dtype), normal(random)))
                              : f.q[static_cast<std::size_t>(e)] * (kind == 1 ? 0.5f : 1.0f);
        }
    }
  c.inputs["q"] = encode_tensor(format(g.dtype), {g.batch, g.rows, g.heads, g.d}, q);
  c.inputs["k"] = encode_cache(g, c.inputs, g.k_format, g.d, k);
  c.inputs["v"] = encode_cache(g, c.inputs, g.v_format, g.dv, v);
  std::vector<float> per_head = sized(g.heads);
  if (g.sinks) {
    for (auto& x : per_head) x = static_cast<float>(normal(random));
    c.inputs["sinks"] = encode_tensor(format("f32"), {g.heads}, per_head);
  }
  if (g.alibi) {
    for (std::size_t h = 0; h < per_head.size(); ++h) per_head[h] = std::exp2f(-static_cast<float>(h + 1));
    c.inputs["slopes"] = encode_tensor(format("f32"), {g.heads}, per_head);
  }
  c.problem = std::make_unique<AttentionProblem>(c.attributes, c.inputs);
  return c;
}

}  // namespace assay
