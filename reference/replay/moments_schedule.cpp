#include "reference/replay/moments_schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "reference/near_names.hpp"

namespace assay {
namespace {

constexpr std::array kKeys = {
    schedule_key("lanes", "1", "1..65536", "moments side by side"),
    schedule_key("chunk", "0", "0..65536", "terms of a lane after which its moments begin anew"),
    schedule_key("merge", "sequential", "sequential|carry",
                 "chunks one after another, or as a binary counter carries, what is left into the lowest"),
    schedule_key("share", "quotient", "quotient|reciprocal", "d / n, d (1 / n)"),
    schedule_key("fma", "no", "no|yes", "the last product of a sum is not rounded"),
    schedule_key("join", "nested", "nested|shared", "of chunks: S + (S + d d c n), (S + S) + (c d)(d n)"),
    schedule_key("lane_join", "nested", "nested|shared", "the same of lanes"),
    schedule_key("fold", "sequential", kFoldWords, "how the lanes are joined"),
    schedule_key("passes", "one", "one|pairs", "whether the second of two passes has moments of its own"),
};
constexpr std::string_view kPrefix = "moments.";

constexpr KeyTable kTable("schedule key", kKeys, kPrefix);

std::string value_of(const MomentsSchedule& s, std::string_view key) {
  if (key == "lanes") return std::to_string(s.lanes);
  if (key == "chunk") return std::to_string(s.chunk);
  if (key == "merge") return s.merge == MomentsSchedule::carry ? "carry" : "sequential";
  if (key == "share") return s.reciprocal ? "reciprocal" : "quotient";
  if (key == "fma") return s.fma ? "yes" : "no";
  if (key == "fold") return s.fold;
  if (key == "passes") return s.pairs ? "pairs" : "one";
  return (key == "join" ? s.join : s.lane_join) == MomentsSchedule::shared ? "shared" : "nested";
}

// a b + c.
float sum_of(bool fma, float a, float b, float c) {
  if (fma) return std::fma(a, b, c);
  const float product = a * b;
  return product + c;
}

void update(RunningMoments& m, float x, bool reciprocal, bool fma) {
  m.count += 1;
  const float d = x - m.mean;
  if (reciprocal) {
    m.mean = sum_of(fma, d, 1.0F / m.count, m.mean);
  } else {
    const float share = d / m.count;
    m.mean += share;
  }
  m.squares = sum_of(fma, d, x - m.mean, m.squares);
}

void join(RunningMoments& a, const RunningMoments& b, MomentsSchedule::Join how, bool fma) {
  if (a.count == 0 || b.count == 0) {
    if (a.count == 0) a = b;
    return;
  }
  const float n = a.count + b.count, c = b.count / n, d = b.mean - a.mean;
  if (how == MomentsSchedule::shared) {
    const float t = c * d, squares = a.squares + b.squares;
    a = {n, a.mean + t, sum_of(fma, t, d * a.count, squares)};
    return;
  }
  const float square = d * d;
  a = {n, sum_of(fma, c, d, a.mean), a.squares + sum_of(fma, square * c, a.count, b.squares)};
}

// The chunks of one lane, joined.
struct Chunks {
  const MomentsSchedule& s;
  std::vector<RunningMoments> levels = {{}};  // merge=carry has some above the first
  std::int64_t closed = 0;

  void close(std::span<RunningMoments> open) {
    for (RunningMoments& chunk : open) join(levels[0], std::exchange(chunk, {}), s.join, s.fma);
    ++closed;
    if (s.merge == MomentsSchedule::sequential) return;
    for (std::size_t level = 0; closed % (std::int64_t{2} << level) == 0; ++level) {
      if (levels.size() == level + 1) levels.emplace_back();
      join(levels[level + 1], std::exchange(levels[level], {}), s.join, s.fma);
    }
  }
  RunningMoments all() {
    for (std::size_t level = 1; level < levels.size(); ++level) join(levels[0], levels[level], s.join, s.fma);
    return levels[0];
  }
};

}  // namespace

std::span<const KeySpec> moments_keys() { return kKeys; }

MomentsSchedule parse_moments(std::string_view text) {
  MomentsSchedule s;
  const std::vector<std::string> values = kTable.complete(kTable.pairs(text));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::string_view name = kKeys[i].name, value = values[i];
    const auto second = [&] { return kTable.word(name, value) == 1; };
    if (name == "lanes") s.lanes = kTable.number(name, value);
    if (name == "chunk") s.chunk = kTable.number(name, value);
    if (name == "merge") s.merge = second() ? MomentsSchedule::carry : MomentsSchedule::sequential;
    if (name == "share") s.reciprocal = second();
    if (name == "fma") s.fma = second();
    if (name == "join") s.join = second() ? MomentsSchedule::shared : MomentsSchedule::nested;
    if (name == "lane_join") s.lane_join = second() ? MomentsSchedule::shared : MomentsSchedule::nested;
    if (name == "fold") s.fold = value;
    if (name == "passes") s.pairs = second();
  }
  s.fold = s.lanes == 1 ? "sequential" : to_string(fold_of(s.fold, s.lanes), s.lanes);
  return s;
}

std::string print_moments(const MomentsSchedule& s) {
  std::string text;
  for (const KeySpec& key : kKeys)
    if (const std::string value = value_of(s, key.name); value != key.fallback)
      text += fmt::format("{}{}{}={}", text.empty() ? "" : " ", kPrefix, key.name, value);
  return text;
}

RunningMoments moments_of(const MomentsSchedule& s, std::span<const float> x) {
  const auto lanes = static_cast<std::size_t>(s.lanes), whole = x.size() / lanes * lanes;
  std::vector<RunningMoments> sums;
  for (std::size_t lane = 0; lane < lanes && whole > 0; ++lane) {
    Chunks chunks{s};
    std::vector<RunningMoments> open(s.pairs ? 2 : 1);
    for (std::size_t i = lane, pass = 0; i < whole; i += lanes, ++pass) {
      update(open[pass % open.size()], x[i], s.reciprocal, s.fma);
      if (s.chunk > 0 && open.back().count == static_cast<float>(s.chunk)) chunks.close(open);
    }
    if (open.front().count > 0) chunks.close(open);
    sums.push_back(chunks.all());
  }
  RunningMoments total;
  for (std::size_t i = whole; i < x.size(); ++i) update(total, x[i], false, s.fma);
  if (sums.empty()) return total;
  if (s.fold == "sequential") {
    for (const RunningMoments& lane : sums) join(total, lane, s.lane_join, s.fma);
    return total;
  }
  std::int32_t result = 0;
  for (const FoldAddition& a : additions(fold_of(s.fold, s.lanes), s.lanes, result))
    join(sums[static_cast<std::size_t>(a.into)], sums[static_cast<std::size_t>(a.from)], s.lane_join, s.fma);
  join(total, sums[static_cast<std::size_t>(result)], s.lane_join, s.fma);
  return total;
}

std::vector<TamperedMoments> tampered(const MomentsSchedule& s, std::int64_t n) {
  std::vector<TamperedMoments> list;
  const auto with = [&](const char* field, const auto& change) {
    MomentsSchedule other = s;
    change(other);
    // A chunk that is the whole lane, and lanes of which there is no pass, are none.
    const auto chunks = [&](const MomentsSchedule& m) {
      return m.chunk == 0 ? 1 : (n / m.lanes + m.chunk - 1) / m.chunk;
    };
    const std::string_view name(field);
    const bool of_chunks = name == "merge" ? chunks(s) > 2 : name == "join" ? chunks(s) > 1 : true;
    const bool same_chunks = name == "chunk" && chunks(s) == 1 && chunks(other) == 1;
    if (other != s && of_chunks && !same_chunks && other.lanes <= n) list.push_back({field, other});
  };
  for (const std::int64_t lanes : {s.lanes * 2, s.lanes / 2})
    if (lanes >= 1) with("lanes", [&](MomentsSchedule& m) { m.lanes = lanes, m.fold = "sequential"; });
  for (const std::int64_t chunk : {std::int64_t{0}, s.chunk * 2, s.chunk / 2, std::int64_t{16}})
    with("chunk", [&](MomentsSchedule& m) { m.chunk = chunk; });
  with("merge", [](MomentsSchedule& m) {
    m.merge = m.merge == MomentsSchedule::carry ? MomentsSchedule::sequential : MomentsSchedule::carry;
  });
  with("passes", [](MomentsSchedule& m) { m.pairs = !m.pairs; });
  with("share", [](MomentsSchedule& m) { m.reciprocal = !m.reciprocal; });
  with("fma", [](MomentsSchedule& m) { m.fma = !m.fma; });
  const auto turn = [](MomentsSchedule::Join& j) {
    j = j == MomentsSchedule::nested ? MomentsSchedule::shared : MomentsSchedule::nested;
  };
  with("join", [&](MomentsSchedule& m) { turn(m.join); });
  if (s.lanes > 1) with("lane_join", [&](MomentsSchedule& m) { turn(m.lane_join); });
  for (const char* fold : {"sequential", "halving", "adjacent"})
    if (s.lanes > 2) with("fold", [&](MomentsSchedule& m) { m.fold = fold; });
  return list;
}

}  // namespace assay
