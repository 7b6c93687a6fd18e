#include "cases/studies/identify/hypotheses.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace assay {
namespace {

std::string steps_of(const std::vector<std::int64_t>& strides) {
  return fmt::format("{}", fmt::join(strides, "."));
}

// Every order in which a vector of W = 2, 4, 8 or 16 lanes can be folded by halves of any stride.
std::vector<std::string> vector_folds(std::int64_t width) {
  std::vector<std::int64_t> strides;
  for (std::int64_t s = width / 2; s >= 1; s /= 2) strides.push_back(s);
  std::vector<std::string> list;
  if (width > 16)
    return {steps_of(strides), steps_of({strides.rbegin(), strides.rend()}), fmt::format("1*{}", width)};
  std::ranges::sort(strides, std::greater<>{});
  do {
    list.push_back(steps_of(strides));
  } while (std::prev_permutation(strides.begin(), strides.end()));
  if (width > 2) list.push_back(fmt::format("1*{}", width));
  return list;
}

// `count` vectors at this stride.
std::vector<std::string> stack_folds(std::int64_t count, std::int64_t stride) {
  std::vector<std::string> list{fmt::format("{}*{}", stride, count)};
  if (count == 2) return {std::to_string(stride)};
  std::vector<std::int64_t> up, down;
  for (std::int64_t s = 1; s < count; s *= 2) up.push_back(s * stride), down.insert(down.begin(), s * stride);
  list.push_back(steps_of(up));
  list.push_back(steps_of(down));
  return list;
}

std::set<std::string> folds_of(std::int64_t lanes) {
  std::set<std::string> list;
  if (lanes == 1) return {"halving"};
  const auto keep = [&](const std::string& text) { list.insert(to_string(fold_of(text, lanes), lanes)); };
  for (const std::string& fold : vector_folds(lanes)) keep(fold);
  keep("reverse");
  for (std::int64_t width = 2; width < lanes && width <= 1024; width *= 2) {
    const std::int64_t stack = lanes / width;
    if (stack > 64) continue;
    for (const std::string& over : stack_folds(stack, width))
      for (const std::string& within : vector_folds(width)) {
        keep(over + "." + within);
        if (width <= 16 || stack <= 16) {
          // Lanes first, then the vectors one after another.
          keep(within + "." + over);
        }
      }
  }
  return list;
}

std::vector<std::string> tails_of(std::int64_t lanes, std::int64_t pass, std::int64_t n) {
  std::vector<std::string> list{"lanes"};
  if (lanes == 1 || n % pass == 0) return list;
  list.push_back("after");
  list.push_back("apart");
  for (const std::int64_t width : {4, 8, 16, 32})
    if (width < lanes)
      list.push_back(fmt::format("vector:{}", width)), list.push_back(fmt::format("first:{}", width));
  list.push_back("first:1");
  return list;
}

// Sums of a lane that join sums above them, and tails in front of the fold.
std::vector<Schedule> cascade_schedules(std::int64_t n, bool products) {
  std::vector<Schedule> list;
  for (const char* step : {"acc=f32", "acc=f32 fma=yes"})
    for (const std::int64_t width : {4, 8, 16})
      for (const std::int64_t stack : {1, 2, 4, 8}) {
        const std::int64_t lanes = width * stack;
        if (lanes > n || (!products && std::string_view(step).ends_with("yes"))) continue;
        std::set<std::string> folds, tails{"lanes"};
        for (const std::string& within :
             {fmt::format("1*{}", width), fmt::format("{}", vector_folds(width)[0])})
          folds.insert(stack == 1 ? within : fmt::format("{}*{}.{}", width, stack, within));
        if (n % lanes != 0) tails = {"lanes", "after", "apart", fmt::format("before:{}", width)};
        for (const std::int64_t cascade : {0, 16, 32, 64, 128, 256, 512}) {
          // Without levels it is one of the other lanes, but for its tail.
          const bool has_levels = cascade > 0 && n / lanes > cascade;
          if (!has_levels && cascade > 0) continue;
          for (const std::string& fold : folds)
            for (const std::string& tail : tails)
              if (has_levels || tail.starts_with("before"))
                list.push_back(parse_schedule(
                    fmt::format("{} lanes={} fold={} tail={} cascade={}", step, lanes, fold, tail, cascade)));
        }
      }
  return list;
}

// First terms ahead of the passes, and tails that are folded again.
std::vector<Schedule> headed_schedules(std::int64_t n, bool products) {
  std::vector<Schedule> list;
  for (const char* step : {"acc=f32 fma=yes", "acc=f32"})
    for (const std::int64_t lanes : {4, 8, 16, 32}) {
      if (lanes > n || (!products && std::string_view(step).ends_with("yes"))) continue;
      for (const std::int64_t head : {0, 1, 2, 3, 4, 7, 8, 15, 16})
        for (const char* fold : {"halving", "adjacent", "sequential"})
          for (const std::string& tail : {std::string("refold"), std::string("lanes"), std::string("after"),
                                          std::string("apart"), fmt::format("folded:{}", lanes / 2)}) {
            const bool is_folded = tail.starts_with("folded");
            const bool is_other = (head == 0 && tail != "refold" && !is_folded) ||
                                  (is_folded && std::string_view(fold) != "halving");
            const bool has_tail = (n - head) % lanes != 0 || tail == "lanes";
            if (head >= n || is_other || !has_tail) continue;
            const std::string text =
                fmt::format("{} lanes={} head={} fold={} tail={}", step, lanes, head, fold, tail);
            list.push_back(parse_schedule(text));
            if (head > 0) list.push_back(parse_schedule(text + " head_at=apart"));
          }
    }
  return list;
}

}  // namespace

std::vector<Schedule> lane_schedules(std::int64_t n, bool products) {
  std::vector<Schedule> list = cascade_schedules(n, products);
  const auto emit = [&](const std::string& text) {
    for (const char* order : {"", " order=descending", " order=swapped"})
      list.push_back(parse_schedule(text + order));
  };
  for (const bool fma : {true, false}) {
    if (fma && !products) continue;
    const std::string step = fma ? "acc=f32 fma=yes" : "acc=f32";
    for (std::int64_t lanes = 1; lanes <= std::min<std::int64_t>(1024, n); lanes *= 2)
      for (const std::string& fold : folds_of(lanes))
        for (const std::int64_t pack : std::set<std::int64_t>{1, 2, 4, 8, 16, (n + lanes - 1) / lanes}) {
          if (lanes == 1 && pack > 1) continue;
          if (pack > 1 && lanes * pack > n && pack != (n + lanes - 1) / lanes) continue;
          for (const std::string& tail : tails_of(lanes, lanes * pack, n)) {
            const std::string text =
                fmt::format("{} lanes={} pack={} fold={} tail={}", step, lanes, pack, fold, tail);
            if (pack == 1)
              emit(text);
            else
              list.push_back(parse_schedule(text));
          }
        }
  }
  for (const char* acc : {"f64", "bf16", "f16"}) emit(std::string("acc=") + acc);
  if (products)
    for (const char* acc : {"bf16", "f16"}) emit(std::string("acc=") + acc + " fma=yes");
  const std::vector<Schedule> headed = headed_schedules(n, products);
  list.insert(list.end(), headed.begin(), headed.end());
  return list;
}

std::vector<Schedule> double_schedules(std::int64_t n, bool products) {
  std::vector<Schedule> list;
  for (const char* step : {"acc=f32", "acc=f32 fma=yes"})
    for (const std::int64_t width : {1, 4, 8, 16, 32, 64}) {
      if (width > n || (!products && std::string_view(step).ends_with("yes"))) continue;
      for (const std::string& fold : folds_of(width))
        list.push_back(parse_schedule(
            fmt::format("{} lanes={} fold={} chunk={} chunk_acc=f64", step, width, fold, width)));
    }
  return list;
}

std::vector<Schedule> unit_schedules(std::string_view a, std::string_view b) {
  std::vector<Schedule> list;
  if (a.starts_with("int") && b.starts_with("int")) list.push_back(parse_schedule("acc=i32"));
  std::vector<const MatrixUnit*> units;
  for (const Standing standing : {Standing::silicon, Standing::vectors, Standing::published})
    for (const MatrixUnit& unit : matrix_units()) {
      if (unit.combine == Combine::wrap || unit.scale_block > 0 || unit.standing != standing) continue;
      if (!accepts(unit, a) || !accepts(unit, b)) continue;
      if (std::ranges::any_of(units, [&](const MatrixUnit* u) { return same_arithmetic(*u, unit); }))
        continue;
      units.push_back(&unit);
      list.push_back(parse_schedule("acc=" + std::string(unit.name)));
    }
  return list;
}

namespace {

std::vector<Schedule> slice_schedules(const Schedule& inner, std::int64_t n) {
  std::vector<Schedule> list;
  const std::int64_t g = inner.unit() != nullptr ? inner.unit()->group : 1;
  std::set<std::int64_t> quanta{g, 2 * g, 4 * g, 8 * g, 16 * g};
  for (const std::int64_t q : {8, 32, 64, 128, 256})
    if (q % g == 0) quanta.insert(q);
  for (std::int64_t split = 2; split <= 64; ++split)
    for (const Slicing slicing :
         {Slicing::even, Slicing::balanced, Slicing::proportional, Slicing::interleaved})
      for (const std::int64_t quantum : quanta) {
        if (split > (n + quantum - 1) / quantum) continue;
        if (slicing == Slicing::interleaved && split > 8) continue;
        for (const char* merge : {"sequential", "reverse", "halving", "adjacent"}) {
          list.push_back(inner);
          Schedule& s = list.back();
          s.split = split, s.slicing = slicing, s.quantum = quantum;
          s.merge = to_string(fold_of(merge, split), split);
        }
      }
  return list;
}

}  // namespace

std::vector<Schedule> outer_schedules(const Schedule& inner, std::int64_t n) {
  std::vector<Schedule> list{inner};
  const std::int64_t g = inner.unit() != nullptr ? inner.unit()->group : 1;
  std::set<std::string> seen;  // slices and chunks that are the same terms
  const auto emit = [&](Schedule s) {
    std::string key = s.merge + s.part + s.merge_acc + s.chunk_acc;
    for (const auto& slice : slices(s, n)) {
      key += '|';
      for (const auto& chunk : chunks(s, slice)) {
        key += ',';
        for (const TermRun& run : chunk) key += fmt::format("{}-{}.", run.begin, run.end);
      }
    }
    if (seen.insert(key).second) list.push_back(std::move(s));
  };
  std::set<std::int64_t> lengths;
  for (const std::int64_t blocks : {1, 2, 4, 8, 16, 32}) lengths.insert(blocks * g);
  for (const std::int64_t length : {32,  48,  64,  96,  128, 144, 160, 192, 240, 256, 288,  320,  336, 352,
                                    384, 400, 448, 480, 512, 576, 640, 768, 864, 960, 1024, 2048, 4096})
    if (length % g == 0) lengths.insert(length);
  for (const std::int64_t length : lengths) {
    Schedule s = inner;
    s.chunk = length;
    if (length >= 2 && length < n) emit(std::move(s));
  }
  for (Schedule& s : slice_schedules(inner, n)) emit(std::move(s));
  return list;
}

std::vector<Schedule> promoted_slices(const Schedule& unit, std::int64_t n) {
  std::vector<Schedule> list;
  for (const std::int64_t blocks : {1, 2, 4, 8, 16}) {
    Schedule s = unit;
    s.chunk = blocks * unit.unit()->group;
    if (s.chunk >= n) break;
    for (Schedule& each : slice_schedules(s, n))
      if (each.merge == "sequential" && each.quantum % s.chunk == 0) list.push_back(std::move(each));
  }
  return list;
}

}  // namespace assay
