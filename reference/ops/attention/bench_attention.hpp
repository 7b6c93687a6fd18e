// Speed of the attention oracle, as plain functions for a benchmark program. A pair is one query row and one
// key.
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

// Bytes per nanosecond that so many threads read from memory, of an array far larger than any cache: the best
// of `rounds`.
double measure_read_bandwidth(int threads, int rounds);

// Every figure that the oracle promises, as ratios within one run: to plain f64 attention, which is the same
// tile code with all that certifies taken out; to a plain f64 dot product of as many terms, so that the
// former is no straw man; to Boost's mpfr. dot_ns: of one term of that dot product. keys: of the long case
// (2^20).
std::vector<AttentionFigure> attention_figures(int rounds, double dot_ns,
                                               std::int64_t keys = std::int64_t{1} << 20);
// What has no promise of its own: nanoseconds, and the share of the machine's memory bandwidth that K and V
// are read with.
std::vector<std::string> attention_context();

}  // namespace assay
