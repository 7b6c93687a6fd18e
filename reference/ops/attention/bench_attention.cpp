#include "reference/ops/attention/bench_attention.hpp"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <limits>
#include <random>

#include "reference/ops/attention/value/certified.hpp"
#include "reference/ops/attention/value/oracle_mp.hpp"
#include "reference/ops/op.hpp"
#include "reference/parallel.hpp"

namespace assay {
namespace {

struct Problem {
  Attributes attributes;
  TensorSet inputs;
};

Problem make_problem(const AttentionShape& shape) {
  Problem p;
  p.attributes = Attributes::complete(attention_attributes(), {{"heads", std::to_string(shape.heads)},
                                                               {"kv_heads", std::to_string(shape.kv_heads)},
                                                               {"d", std::to_string(shape.d)},
                                                               {"q", std::to_string(shape.rows)},
                                                               {"len", std::to_string(shape.keys)},
                                                               {"kv", shape.kv}});
  std::mt19937_64 random(1);
  std::normal_distribution<float> normal;
  for (const TensorSpec& spec : attention_tensors(p.attributes)) {
    if (spec.role != TensorRole::data) continue;
    // A row of 2^16 + 1 numbers, repeated: gaussian enough, and quick to make for a long cache.
    std::vector<float> pattern(65537), values(static_cast<std::size_t>(element_count(spec.shape)));
    for (float& x : pattern) x = normal(random);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = pattern[i % pattern.size()];
    p.inputs[spec.name] = encode_tensor(format(spec.format), spec.shape, values);
  }
  return p;
}

// Of one thread: its processor time, which other work on the machine disturbs least. Of more: the clock.
double seconds_now(int threads) {
  timespec t{};
  clock_gettime(threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

double seconds_of(const AttentionProblem& problem, const CertifiedOptions& options) {
  const double start = seconds_now(options.threads);
  const CertifiedAttention result = certified_attention(problem, options);
  const double time = seconds_now(options.threads) - start;
  return result.value[0] == 12345 ? 0 : time;  // the result is used
}

}  // namespace

AttentionSpeeds measure_attention(const AttentionShape& shape, int rounds) {
  const Problem made = make_problem(shape);
  const AttentionProblem problem(made.attributes, made.inputs);
  const double pairs = static_cast<double>(shape.heads * shape.rows) * static_cast<double>(shape.keys);
  double best[3] = {1e9, 1e9, 1e9};
  for (int r = 0; r < rounds; ++r)
    for (int path = 0; path < 3; ++path) {
      CertifiedOptions options;
      options.plain = path == 0;
      options.moments = path == 2;
      options.threads = shape.threads;
      best[path] = std::min(best[path], seconds_of(problem, options));
    }
  return {best[0] / pairs * 1e9, best[1] / pairs * 1e9, best[2] / pairs * 1e9};
}

double measure_attention_mpfr_ns() {
  AttentionShape shape;
  shape.heads = 1;
  shape.keys = 256;
  const Problem made = make_problem(shape);
  const AttentionProblem problem(made.attributes, made.inputs);
  double best = std::numeric_limits<double>::infinity();
  for (int r = 0; r < 3; ++r) {
    const double start = seconds_now(1);
    const auto row = attention_value_113(problem, 0, 0, 0);
    const double time = seconds_now(1) - start;
    if (row[0] != row[0]) return 0;
    best = std::min(best, time);
  }
  return best / static_cast<double>(shape.keys) * 1e9;
}

double measure_read_bandwidth(int threads, int rounds) {
  constexpr std::size_t kWords = std::size_t{1} << 25;  // 256 MiB
  constexpr std::size_t kPieces = 256, kPiece = kWords / kPieces;
  std::vector<std::uint64_t> words(kWords);
  for (std::size_t i = 0; i < kWords; ++i) words[i] = i;
  double best = 0;
  for (int r = 0; r < rounds; ++r) {
    std::vector<std::uint64_t> sums(kPieces);
    const double start = seconds_now(threads);
    parallel_units(
        kPieces,
        [&](std::size_t piece) {
          const std::uint64_t* first = words.data() + piece * kPiece;
          std::uint64_t sum[8] = {};
          for (std::size_t i = 0; i < kPiece; i += 8)
            for (std::size_t lane = 0; lane < 8; ++lane) sum[lane] += first[i + lane];
          for (const std::uint64_t each : sum) sums[piece] += each;
        },
        threads);
    const double seconds = seconds_now(threads) - start;
    std::uint64_t sum = 0;
    for (const std::uint64_t each : sums) sum += each;
    if (sum == 12345) return 0;  // the sum is used
    best = std::max(best, static_cast<double>(kWords * sizeof(std::uint64_t)) * 1e-9 / seconds);
  }
  return best;
}

std::vector<AttentionFigure> attention_figures(int rounds, double dot_ns, std::int64_t keys) {
  AttentionShape group;
  const AttentionSpeeds one = measure_attention(group, rounds);
  AttentionShape decode = group;
  decode.keys = keys;
  decode.threads = 2;
  const AttentionSpeeds two = measure_attention(decode, std::max(2, rounds / 2));
  const double terms = 2 * static_cast<double>(group.d);  // q.k and p v of one pair
  return {{"attention_value_over_plain_f64", one.value_ns / one.plain_ns, 1.15},
          {"attention_moments_over_plain_f64", one.moments_ns / one.plain_ns, 1.8},
          {"attention_2_threads_2^20_keys_value_over_plain_f64", two.value_ns / two.plain_ns, 1.15},
          {"attention_2_threads_2^20_keys_moments_over_plain_f64", two.moments_ns / two.plain_ns, 1.8},
          {"attention_plain_f64_over_f64_dots_of_its_terms", one.plain_ns / (terms * dot_ns), 1},
          {"attention_mpfr113_over_value", measure_attention_mpfr_ns() / one.value_ns, 500, false}};
}

std::vector<std::string> attention_context() {
  std::vector<std::string> lines;
  const auto add = [&](const char* name, const AttentionShape& shape, double bytes_per_key) {
    const double bandwidth = measure_read_bandwidth(shape.threads, 4);
    const AttentionSpeeds ns = measure_attention(shape, 3);
    // Each KV head is read once for all query heads that share it.
    const double pairs_per_key = static_cast<double>(shape.heads) / static_cast<double>(shape.kv_heads);
    const auto share = [&](double pair_ns) {
      return 100 * bytes_per_key / (pairs_per_key * pair_ns) / bandwidth;
    };
    lines.push_back(
        fmt::format("{}, {} thread{}: ns per pair plain f64 {:.3g}, value {:.3g} ({:.2f} x), moments {:.3g} "
                    "({:.2f} x); K and V "
                    "are read with {:.2g} %, {:.2g} %, {:.2g} % of {:.3g} GB/s",
                    name, shape.threads, shape.threads == 1 ? "" : "s", ns.plain_ns, ns.value_ns,
                    ns.value_ns / ns.plain_ns, ns.moments_ns, ns.moments_ns / ns.plain_ns, share(ns.plain_ns),
                    share(ns.value_ns), share(ns.moments_ns), bandwidth));
  };
  for (const int threads : {1, 2}) {
    AttentionShape shape;
    shape.threads = threads;
    shape.keys = std::int64_t{1} << 19;
    add("E4M3, 8 query heads per KV head, 2^19 keys", shape, 2 * static_cast<double>(shape.d));
    shape.kv = "bf16";
    add("bf16, 8 query heads per KV head, 2^19 keys", shape, 4 * static_cast<double>(shape.d));
    shape.heads = 1;
    shape.kv = "f32";
    shape.keys = std::int64_t{1} << 18;
    add("f32, 1 query head, 2^18 keys", shape, 8 * static_cast<double>(shape.d));
  }
  return lines;
}

}  // namespace assay
