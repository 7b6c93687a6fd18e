// Inputs that isolate one step of an op on rows, and the schedules beside one that differ from it in one
// step.
#include <algorithm>
#include <cmath>

#include "cases/studies/identify/crafted.hpp"
#include "cases/studies/identify/hypotheses.hpp"
#include "cases/studies/identify/rows.hpp"
#include "reference/mix.hpp"
#include "reference/replay/sum_plan.hpp"

namespace assay {

std::vector<float> balanced_rows(std::int64_t rows, std::int64_t cols, const std::string& format,
                                 std::uint64_t seed) {
  // Sums of cols numbers below 2^b are exact in f32 where b + log2(cols) <= 24; a product of two has 2 b
  // bits, which fma shows.
  int bits = 23;
  for (std::int64_t n = cols; n > 0; n /= 2) --bits;
  bits = std::clamp(bits, 2, 13);
  std::vector<float> x(static_cast<std::size_t>(rows * cols), 0.0F);
  std::uint64_t state = 30 + seed;
  std::vector<std::size_t> order(static_cast<std::size_t>(cols));
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    for (std::size_t i = order.size(); i-- > 1;) std::swap(order[i], order[mix(next_mixed(state)) % (i + 1)]);
    for (std::size_t i = 0; i + 1 < order.size(); i += 2) {
      const std::uint64_t draw = mix(next_mixed(state)) >> 20;
      std::uint64_t integer = 1 + draw % ((std::uint64_t{1} << bits) - 1);
      if (format != "f32")
        integer = std::max<std::uint64_t>(1, integer >> (draw >> 20) % static_cast<std::uint64_t>(bits));
      const auto value = static_cast<float>(round_to_width(static_cast<double>(integer), width_of(format)));
      x[static_cast<std::size_t>(r * cols) + order[i]] = value;
      x[static_cast<std::size_t>(r * cols) + order[i + 1]] = -value;
    }
  }
  return x;
}

std::vector<float> bare_exponentials(std::int64_t rows, std::int64_t cols, const std::string& format) {
  // cols e^-shift < 2^-26: beside 1 nothing of it is left, in f32 as in f64 that is rounded to f32.
  const double shift = 26 * std::log(2.0) + std::log(static_cast<double>(cols)) + 0.5;
  std::vector<float> x;
  std::uint64_t state = 47;
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t i = 0; i < cols; ++i) {
      const double u = static_cast<double>(mix(next_mixed(state)) >> 11) * 0x1p-53;
      const double value =
          -shift - u * std::max(1.0, 85 - shift);  // above ln 2^-126: no exponential is flushed
      x.push_back(i == r % cols ? 0.0F : static_cast<float>(round_to_width(value, width_of(format))));
    }
  return x;
}

std::vector<MomentsSchedule> moments_schedules(std::int64_t n, bool narrow) {
  using M = MomentsSchedule;
  std::vector<M> list{M{}};
  for (const std::int64_t lanes : {1, 4, 8, 16, 32, 64, 128, 256})
    for (const std::int64_t chunk : {0, 4, 8, 16, 32, 64, 128}) {
      const std::int64_t passes = n / lanes;
      if (lanes > n || (chunk > 0 && chunk >= passes)) continue;
      for (const M::Merge merge : {M::sequential, M::carry})
        for (const M::Join join : {M::nested, M::shared})
          for (const M::Join lane_join : {M::nested, M::shared})
            for (const char* fold : {"sequential", "halving", "adjacent"})
              for (const bool reciprocal : {false, true})
                for (const bool fma : {false, true}) {
                  const bool of_chunks = merge == M::carry || join == M::shared;
                  const bool of_lanes = lane_join == M::shared || fold != std::string_view("sequential");
                  if ((chunk == 0 && of_chunks) || (lanes == 1 && of_lanes)) continue;
                  list.push_back({lanes, chunk, merge, reciprocal, fma, join, lane_join,
                                  lanes == 1 ? "sequential" : to_string(fold_of(fold, lanes), lanes)});
                  if (!narrow || chunk == 0) continue;
                  list.push_back(list.back());
                  list.back().pairs = true;
                }
    }
  return list;
}

std::vector<TamperedRows> tampered(const RowSchedule& s, std::int64_t cols) {
  std::vector<TamperedRows> list;
  for (const RowScheduleKey* key : row_keys(s.op))
    for (const std::string_view word : row_words(*key))
      // A step that the call has not, and none where it has one, are no other schedules of it.
      if (word != s.word(key->name) && (word == "none") == (s.word(key->name) == "none")) {
        RowSchedule other = s.with(key->name, word);
        if (!other.has_sum()) other.sum = {};
        if (!other.has_squares()) other.squares = {};
        if (!other.has_moments()) other.moments = {};
        // Without sums there is nothing that a schedule with them could be one step away from.
        if (other.has_squares() == s.has_squares() && other.is_possible())
          list.push_back({std::string(key->name), std::move(other)});
      }
  const auto add = [&](const char* prefix, Schedule RowSchedule::* sum, bool products) {
    for (const Tampered& t : tampered(s.*sum, cols)) {
      if (!products && t.field == "fma") continue;
      RowSchedule other = s;
      other.*sum = t.schedule;
      list.push_back({prefix + t.field, std::move(other)});
    }
  };
  if (s.has_sum()) add("sum.", &RowSchedule::sum, false);
  if (s.has_squares()) add("squares.", &RowSchedule::squares, true);
  if (s.has_moments())
    for (const TamperedMoments& t : tampered(s.moments, cols)) {
      RowSchedule other = s;
      other.moments = t.schedule;
      list.push_back({"moments." + t.field, std::move(other)});
    }
  return list;
}

std::vector<RowSchedule> beside(const std::vector<RowSchedule>& known, std::int64_t cols) {
  constexpr std::size_t kMost = 4096;
  std::vector<RowSchedule> near, list = known;
  for (const RowSchedule& s : known)
    for (TamperedRows& one : tampered(s, cols)) list.push_back(std::move(one.schedule));
  near = list;
  for (std::size_t i = 0; i < near.size() && list.size() < kMost; ++i)
    for (TamperedRows& two : tampered(near[i], cols)) list.push_back(std::move(two.schedule));
  std::vector<RowSchedule> once;
  for (RowSchedule& s : list)
    if (std::ranges::find(once, s) == once.end()) once.push_back(std::move(s));
  return once;
}

std::vector<RowSchedule> all_words(const std::string& op, const RowInputs& in) {
  std::vector<RowSchedule> list(1);
  list[0].op = op;
  for (const RowScheduleKey* key : row_keys(op)) {
    std::vector<RowSchedule> longer;
    for (const RowSchedule& s : list)
      for (const std::string_view word : row_words(*key)) longer.push_back(s.with(key->name, word));
    std::erase_if(longer, [&](const RowSchedule& s) {
      return row_words(*key).front() == "none" && has_step(key->name, in) == (s.word(key->name) == "none");
    });
    list = std::move(longer);
  }
  std::erase_if(list, [](const RowSchedule& s) { return !s.is_possible(); });
  return list;
}

std::string words_of_terms(const RowSchedule& s) {
  std::string words;
  for (const RowScheduleKey* key : row_keys(s.op))
    if (key->name != "quotient" && key->name != "log") words += std::string(s.word(key->name)) + " ";
  return words;
}

std::vector<Schedule> sum_schedules(std::int64_t n, bool products) {
  std::vector<Schedule> list = double_schedules(n, products);
  std::vector<Schedule> lanes = lane_schedules(n, products);
  // A warp and more, whose compiler fuses the first product with the second.
  constexpr std::int64_t kWarp = 32;
  for (std::size_t i = lanes.size(); i-- > 0;) {
    Schedule s = lanes[i];
    const bool plain = s.fma && s.head == 0 && s.cascade == 0 && !s.descending && !s.swapped;
    if (!plain || s.lanes < kWarp || n < 2 * s.lanes || s.tail != Tail::lanes) continue;
    s.second_first = true;
    lanes.push_back(std::move(s));
  }
  list.insert(list.begin(), lanes.begin(), lanes.end());
  return list;
}

}  // namespace assay
