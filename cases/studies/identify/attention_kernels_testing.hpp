// Kernels that are a schedule: what identify must find.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "cases/studies/identify/attention.hpp"
#include "reference/formats/scalar.hpp"

namespace assay {

inline constexpr std::int64_t kRows = 32, kKeys = 160, kD = 64;

inline AttentionHead drawn(const std::string& format, std::uint64_t seed, std::int64_t rows = kRows,
                           std::int64_t keys = kKeys) {
  AttentionHead head{rows, keys, kD, kD, format, format, 0.1, {}, {}, {}, {}, {}};
  std::uint64_t counter = 0;
  for (auto* x : {&head.q, &head.k, &head.v}) {
    for (std::int64_t i = 0; i < (x == &head.q ? rows : keys) * kD; ++i) {
      std::uint64_t z = (seed << 40) + ++counter * 0x9E3779B97F4A7C15U;
      z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U, z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
      const double u = static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-51 - 2;
      x->push_back(static_cast<float>(round_to(scalar_format(format), u)));
    }
  }
  return head;
}

inline AttentionAnswer answer(AttentionHead head, std::uint64_t seed, const std::string& unit) {
  AttentionAnswer a;
  a.declared_contract = "qk=" + unit + " pv=" + unit;
  a.line = "seed=" + std::to_string(seed);
  a.heads.push_back(std::move(head));
  return a;
}

// A kernel that is this schedule; causal: a row sees the keys up to its own, which is the last one's of the
// last row.
inline AttentionAsk kernel_of(const std::string& text, std::int64_t rows = kRows, std::int64_t keys = kKeys,
                              bool causal = false) {
  const AttentionSchedule schedule = parse_attention_schedule(text);
  return [=](std::uint64_t seed, AttentionDesign design) -> std::optional<AttentionAnswer> {
    const bool unit = schedule.qk != "f32";
    AttentionHead head = drawn(unit ? schedule.p : "f16", seed, rows, keys);
    const int stored_bits = scalar_format(schedule.out).fraction_bits + 1;
    craft(design, seed, {1, rows, 1, 1, keys, kD, kD, head.scale, stored_bits}, head.q, head.k, head.v);
    if (!unit) head.format = "f32";
    head.out = schedule.out;
    const AttentionReplay replay({head.keys, head.d, head.dv, head.k, head.v, head.format});
    ReplayQueries queries{head.rows, head.q, head.scale, {}};
    queries.first = keys - rows;
    if (causal) {
      queries.visible = [&](std::int64_t i, std::int64_t j) { return j <= queries.first + i; };
      for (std::int64_t i = 0; i < rows * keys; ++i)
        head.visible.push_back(queries.visible(i / keys, i % keys) ? 1 : 0);
    }
    head.got = replay.run(schedule, queries).out;
    return answer(std::move(head), seed, schedule.qk);
  };
}

}  // namespace assay
