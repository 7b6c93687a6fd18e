// Speed of the attention oracle, as plain functions for a benchmark program. A pair is one query row and one key.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace assay {

struct AttentionFigure {
  std::string name;  // with its unit
  double value = 0;
  double limit = 0;
  bool at_most = true;  // value <= limit is ok; else value >= limit
  bool ok() const { return at_most ? value <= limit : value >= limit; }
};

// Nanoseconds per pair of one shape: plain f64 attention, the certified value, the value with the moments of
// the limits. The three take turns, `rounds` times; each figure is its best round.
struct AttentionSpeeds {
  double plain_ns = 0, value_ns = 0, moments_ns = 0;
};
struct AttentionShape {
  std::int64_t heads = 8, kv_heads = 1, d = 128, rows = 1, keys = 32768;
  std::string kv = "e4m3fn";
  int threads = 1;
};
AttentionSpeeds measure_attention(const AttentionShape& shape, int rounds);
// One row by the definition in Boost's mpfr at 113 bits, d = 128.
double measure_attention_mpfr_ns();

// Every figure that the oracle promises. keys: of the long case (2^20).
std::vector<AttentionFigure> attention_figures(int rounds, std::int64_t keys = std::int64_t{1} << 20);

}  // namespace assay
