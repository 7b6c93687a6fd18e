#include "reference/replay/moments_schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "reference/near_names.hpp"
#include "reference/replay/schedule_text.hpp"

namespace assay {
namespace {

constexpr std::array kKeys = {
    MomentsKey{"lanes", "1", "1..65536", "moments side by side"},
    MomentsKey{"chunk", "0", "0..65536", "terms of a lane after which its moments begin anew"},
    MomentsKey{"merge", "sequential", "sequential|carry",
               "chunks one after another, or as a binary counter carries, what is left into the lowest"},
    MomentsKey{"share", "quotient", "quotient|reciprocal", "d / n, d (1 / n)"},
    MomentsKey{"fma", "no", "no|yes", "the last product of a sum is not rounded"},
    MomentsKey{"join", "nested", "nested|shared", "of chunks: S + (S + d d c n), (S + S) + (c d)(d n)"},
    MomentsKey{"lane_join", "nested", "nested|shared", "the same of lanes"},
    MomentsKey{"fold", "sequential", kFoldWords, "how the lanes are joined"},
};
constexpr std::string_view kPrefix = "moments.";

[[noreturn]] void refuse(const MomentsKey& key, std::string_view value) {
  throw InputError(InputErrorKind::bad_value, fmt::format("schedule: {}{}={}; allowed: {}", kPrefix, key.name,
                                                          excerpt(value), key.allowed));
}

// 0 for the first of two words, 1 for the second.
bool second(const MomentsKey& key, std::string_view value) {
  const std::size_t bar = key.allowed.find('|');
  if (value == key.allowed.substr(0, bar)) return false;
  if (value != key.allowed.substr(bar + 1)) refuse(key, value);
  return true;
}

std::int64_t integer(const MomentsKey& key, std::string_view value) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  const bool plain = !value.empty() && (value.size() == 1 || value.front() != '0');
  const std::int64_t least = key.name == "lanes" ? 1 : 0;
  if (error != std::errc() || end != value.data() + value.size() || !plain || number < least ||
      number > 65536)
    refuse(key, value);
  return number;
}

std::string value_of(const MomentsSchedule& s, std::string_view key) {
  if (key == "lanes") return std::to_string(s.lanes);
  if (key == "chunk") return std::to_string(s.chunk);
  if (key == "merge") return s.merge == MomentsSchedule::carry ? "carry" : "sequential";
  if (key == "share") return s.reciprocal ? "reciprocal" : "quotient";
  if (key == "fma") return s.fma ? "yes" : "no";
  if (key == "fold") return s.fold;
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

  void close(const RunningMoments& chunk) {
    join(levels[0], chunk, s.join, s.fma);
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

std::span<const MomentsKey> moments_keys() { return kKeys; }

MomentsSchedule parse_moments(std::string_view text) {
  MomentsSchedule s;
  std::vector<std::string_view> seen;
  for (const auto& [name, value] : schedule_pairs(text, kPrefix)) {
    const auto key = std::ranges::find(kKeys, name, &MomentsKey::name);
    if (key == kKeys.end()) {
      std::vector<std::string> names;
      for (const MomentsKey& each : kKeys) names.emplace_back(each.name);
      throw unknown_name("key of moments", name, names);
    }
    if (std::ranges::find(seen, name) != seen.end())
      throw InputError(InputErrorKind::bad_value,
                       fmt::format("schedule: {}{} is given twice", kPrefix, name));
    seen.push_back(name);
    if (name == "lanes") s.lanes = integer(*key, value);
    if (name == "chunk") s.chunk = integer(*key, value);
    if (name == "merge") s.merge = second(*key, value) ? MomentsSchedule::carry : MomentsSchedule::sequential;
    if (name == "share") s.reciprocal = second(*key, value);
    if (name == "fma") s.fma = second(*key, value);
    if (name == "join") s.join = second(*key, value) ? MomentsSchedule::shared : MomentsSchedule::nested;
    if (name == "lane_join")
      s.lane_join = second(*key, value) ? MomentsSchedule::shared : MomentsSchedule::nested;
    if (name == "fold") s.fold = value;
  }
  s.fold = s.lanes == 1 ? "sequential" : to_string(fold_of(s.fold, s.lanes), s.lanes);
  return s;
}

std::string print_moments(const MomentsSchedule& s) {
  std::string text;
  for (const MomentsKey& key : kKeys)
    if (const std::string value = value_of(s, key.name); value != key.fallback)
      text += fmt::format("{}{}{}={}", text.empty() ? "" : " ", kPrefix, key.name, value);
  return text;
}

RunningMoments moments_of(const MomentsSchedule& s, std::span<const float> x) {
  const auto lanes = static_cast<std::size_t>(s.lanes), whole = x.size() / lanes * lanes;
  std::vector<RunningMoments> sums;
  for (std::size_t lane = 0; lane < lanes && whole > 0; ++lane) {
    Chunks chunks{s};
    RunningMoments chunk;
    for (std::size_t i = lane; i < whole; i += lanes) {
      update(chunk, x[i], s.reciprocal, s.fma);
      if (s.chunk > 0 && chunk.count == static_cast<float>(s.chunk)) chunks.close(std::exchange(chunk, {}));
    }
    if (chunk.count > 0) chunks.close(chunk);
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
