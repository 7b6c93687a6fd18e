// The place of a fault in attention, by three questions at the case's own shape:
//
//   keys        logits that rise with the key, some noise on them, V one-hot by key: a column is the weight
//               of a key
//   dimensions  K one-hot by dimension, V by the dimension that a key has: a column is what a dimension of
//               q.k adds
//   bits        V (or K) of numbers with many codes: which codes are wrong
//
// A lost key makes every other weigh more, by one factor in each row. So the columns of a row are held
// against the factor that most of them agree on, within their limits; those that agree with another are the
// place. What has a place is one run of neighbours, or the same run in each so many.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>

#include "cases/attribution/attention_questions.hpp"
#include "cases/attribution/conclusion.hpp"
#include "cases/attribution/place_axis.hpp"
#include "reference/inputs/random.hpp"

namespace assay::attribution {
namespace {

constexpr double kRise =
    4;  // of the logits, from the first key to the last: the first still weighs e^-4 of the last
constexpr double kNoise = 0.3;  // of a logit, its deviation: neighbours differ
constexpr double kAlone = 3;    // the logit that one dimension adds
constexpr std::int64_t kMostQuestions = 4, kMostQuestionsOfMany = 16;  // the latter for what lies scattered

class Places {
 public:
  Places(Bench& bench, const std::string& stage) : bench_(bench), stage_(stage) {
    const AttentionGeometry own = attention_geometry(bench.the_case().attributes);
    constexpr std::int64_t kFew = 32;  // columns, which tell too few keys apart
    const std::vector<Change> wide = {{"dv", fmt::format("{}", kColumns)}};
    if (own.dv < kFew && bench.contract_of(wide)) changes_ = wide;
    g_ = own;
    if (!changes_.empty()) g_.dv = kColumns;
    if (const auto declared = bench.contract_of(changes_)) tile_ = declared->integer("tile");
  }

  std::string named(bool columns_too) {
    if (g_.rotate == RotateKind::qkv) return "";  // a column is a sum of V's then
    Axis keys = ask_keys(0);
    if (columns_too && keys.any_wrong() && ask_keys(g_.dv / 3).marks != keys.marks) return "";
    auto run = run_of(keys);
    if (run && stage_ == "rescale") run = of_the_tile(*run, keys);
    if (run) return keys_named(*run);
    if (const std::string bits = stage_ == "codec" ? bits_named() : ""; !bits.empty()) return bits;
    if (!keys.any_wrong() && stage_ != "qk") return "";
    // What is in a key and not in a dimension moves when other keys have the dimensions.
    const Axis dimensions = ask_dimensions(0);
    run = run_of(dimensions);
    return run && ask_dimensions(1).marks == dimensions.marks ? range("dimensions", *run) : "";
  }

 private:
  using Fill = std::function<float(const TensorSpec&, const AttentionGeometry&, std::int64_t row,
                                   std::int64_t column, const Stream& draw, std::size_t at)>;

  static std::string range(const char* axis, const Run& r) {
    return fmt::format("{} {}..{}{}", axis, r.first, r.last,
                       r.of_each > 0 ? fmt::format(" of each {}", r.of_each) : "");
  }

  // One run. `fill` gives q, K and V; `row` of K and V is the key, of q its row and head. Sinks weigh little,
  // slopes nearly nothing.
  Answer ask(const Fill& fill) {
    return bench_.ask(
        changes_,
        FullEdit([&](const Case& c, const TensorSet& set, const TensorSpec& t, std::vector<float>& x) {
          const AttentionGeometry here = attention_geometry(c.attributes);
          const Stream draw(11, t.name);
          for (std::size_t i = 0; i < x.size(); ++i) {
            const auto at = static_cast<std::int64_t>(i);
            if (t.name == "sinks") x[i] = -4;
            if (t.name == "slopes") x[i] = static_cast<float>(0.5 / static_cast<double>(here.length));
            const std::int64_t width = t.name == "v" ? here.dv : here.d;
            if (t.name == "q") x[i] = fill(t, here, at / width, at % width, draw, i);
            if (t.name == "k" || t.name == "v")
              x[i] = fill(t, here, key_of_row(here, set, at / width / here.kv_heads), at % width, draw, i);
          }
        }));
  }

  // The output rows of an answer, the columns of each as parts; `of`: what column c shows.
  template <class Of>
  static void collect(const Answer& a, Of of, std::vector<std::vector<Part>>& rows) {
    if (!a.ran || a.got.empty()) return;
    const std::size_t n = columns_of(a);
    rows.resize(a.got[0].size() / n);
    for (std::size_t i = 0; i < a.got[0].size(); ++i) {
      Part p = of(static_cast<std::int64_t>(i % n));
      p.want = a.truths[0].value[i], p.got = a.got[0][i], p.limit = a.truths[0].limit[i];
      if (p.first >= 0) rows[i / n].push_back(p);
    }
  }

  // Marks what the rows show, parts of several things before those of one; and which rows are wrong.
  void judge(const std::vector<std::vector<Part>>& rows, Axis& axis) {
    Axis alone(std::ssize(axis.marks)), together(std::ssize(axis.marks));
    row_parts_.assign(rows.size(), {});
    for (std::size_t r = 0; r < rows.size(); ++r) {
      const double factor = common_factor(rows[r]);
      for (const Part& p : rows[r]) {
        const Mark mark = mark_of(p, factor);
        Axis& known = p.first == p.last ? alone : together;
        for (std::int64_t i = p.first; i <= p.last; ++i) {
          Mark& m = known.marks[static_cast<std::size_t>(i)];
          m = std::max(m, mark);
        }
        axis.some_lost = axis.some_lost || (mark == Mark::off && p.lost());
        if (mark != Mark::open) row_parts_[r].emplace_back(p.first, mark);
      }
    }
    for (std::size_t i = 0; i < axis.marks.size(); ++i)
      axis.marks[i] = alone.marks[i] != Mark::open ? alone.marks[i] : together.marks[i];
  }

  // Keys first, first + group ... in columns, from column `shift` on, around the end. group 0: every so
  // many-th key in one column.
  void ask_window(std::int64_t first, std::int64_t group, std::int64_t shift,
                  std::vector<std::vector<Part>>& rows) {
    const std::int64_t columns = g_.dv;
    const double noise =
        3 * kNoise / (g_.scale * std::sqrt(static_cast<double>(g_.d)));  // of uniform numbers
    const Answer a = ask([&](const TensorSpec& t, const AttentionGeometry& here, std::int64_t row,
                             std::int64_t c, const Stream& draw, std::size_t at) {
      const auto uniform = static_cast<float>(2 * draw.uniform(at) - 1);
      if (t.name == "q") return c == 0 ? 4.0F : static_cast<float>(noise) * uniform;
      const double rise = kRise * (static_cast<double>(row) / static_cast<double>(here.length) - 0.5);
      if (t.name == "k") return c == 0 ? static_cast<float>(rise / (4 * here.scale)) : uniform;
      if (group == 0) return row % columns == c ? 1.0F : 0.0F;
      const std::int64_t place = row < first ? columns : (row - first) / group;
      return place < columns && (place + shift) % columns == c ? 1.0F : 0.0F;
    });
    collect(
        a,
        [&](std::int64_t c) {
          if (group == 0) return Part{c, c};
          const std::int64_t from = first + (c + columns - shift % columns) % columns * group;
          return from < g_.length ? Part{from, std::min(g_.length, from + group) - 1} : Part{-1, -1};
        },
        rows);
  }

  // Every key by itself where few runs show them all; else groups of neighbours, and the keys at the ends of
  // what is wrong.
  Axis ask_keys(std::int64_t shift) {
    Axis axis(g_.length);
    std::vector<std::vector<Part>> rows;
    const std::int64_t windows = (g_.length + g_.dv - 1) / g_.dv;
    if (windows <= kMostQuestions) {
      for (std::int64_t w = 0; w < windows; ++w) ask_window(w * g_.dv, 1, shift, rows);
      judge(rows, axis);
      return axis;
    }
    ask_window(0, windows, shift, rows);
    judge(rows, axis);
    const auto run = run_of(axis);
    // What one key lost another of its group may have gained: neighbours in columns of their own tell.
    Axis residues(g_.dv);
    if (!axis.any_wrong()) {
      std::vector<std::vector<Part>> apart;
      ask_window(0, 0, 0, apart);
      judge(apart, residues);
    }
    if (run && run->of_each == 0) {
      const std::int64_t low = std::max<std::int64_t>(0, run->first - g_.dv / 2);
      ask_window(low, 1, shift, rows);
      if (run->last + 1 >= low + g_.dv) ask_window(run->last - g_.dv / 2, 1, shift, rows);
    } else if ((axis.any_wrong() || residues.any_wrong()) && windows <= kMostQuestionsOfMany) {
      rows.clear();
      for (std::int64_t w = 0; w < windows; ++w) ask_window(w * g_.dv, 1, shift, rows);
    }
    judge(rows, axis);
    return axis;
  }

  // Dimensions o, o + Q ... by question o of Q, so that each question has some from end to end.
  Axis ask_dimensions(std::int64_t shift) {
    Axis axis(g_.d);
    const std::int64_t questions = (g_.d + std::min(g_.dv, g_.length) - 1) / std::min(g_.dv, g_.length);
    for (std::int64_t o = 0; o < questions && questions <= kMostQuestions; ++o) {
      const std::int64_t count = (g_.d - o + questions - 1) / questions;
      const Answer a = ask([&](const TensorSpec& t, const AttentionGeometry& here, std::int64_t row,
                               std::int64_t c, const Stream&, std::size_t) {
        if (t.name == "q") return 4.0F;
        if (t.name == "v") return (row + shift) % count == c ? 1.0F : 0.0F;
        return (row + shift) % count * questions + o == c ? static_cast<float>(kAlone / (4 * here.scale))
                                                          : 0.0F;
      });
      std::vector<std::vector<Part>> rows;
      collect(
          a,
          [&](std::int64_t c) {
            return c < count ? Part{c * questions + o, c * questions + o} : Part{-1, -1};
          },
          rows);
      Axis some(g_.d);
      judge(rows, some);
      for (std::size_t i = 0; i < some.marks.size(); ++i)
        axis.marks[i] = std::max(axis.marks[i], some.marks[i]);
      axis.some_lost = axis.some_lost || some.some_lost;
    }
    return axis;
  }

  // A rescale that is left out leaves the keys before its tile too heavy, from the first one that is seen:
  // the place is the tile behind the step.
  Run of_the_tile(const Run& r, const Axis& keys) const {
    const auto seen = [&](std::int64_t first, std::int64_t end) {
      return std::any_of(keys.marks.begin() + first, keys.marks.begin() + end,
                         [](Mark m) { return m != Mark::open; });
    };
    const bool from_the_first = !seen(0, r.first), to_the_last = !seen(r.last + 1, g_.length);
    const std::int64_t first = from_the_first ? r.last + 1 : r.first;
    if (r.of_each > 0 || !(from_the_first || to_the_last) || first % tile_ != 0) return r;
    return {first, std::min(first + tile_, g_.length) - 1, 0};
  }

  std::string keys_named(const Run& r) const {
    std::string text = range("keys", r);
    if (r.of_each > 0) return text + rows_named(r);
    for (const auto& [axis, size] : {std::pair{"tiles", tile_}, {"pages", g_.page}})
      if (size > 0 && size < g_.length && r.first % size == 0 &&
          ((r.last + 1) % size == 0 || r.last + 1 == g_.length))
        text += ", " + range(axis, {r.first / size, r.last / size, 0});
    return text + rows_named(r);
  }

  // Of the rows that see a key of the run, those in which one is wrong.
  std::string rows_named(const Run& run) const {
    const std::int64_t extents[] = {g_.batch, g_.rows, g_.heads};
    constexpr const char* kNames[] = {"batch entries", "query rows", "heads"};
    std::string text;
    if (std::ssize(row_parts_) != g_.batch * g_.rows * g_.heads) return text;
    for (int axis = 0; axis < 3; ++axis) {
      Axis some(extents[axis]);
      for (std::size_t r = 0; r < row_parts_.size(); ++r) {
        const auto row = static_cast<std::int64_t>(r);
        const std::int64_t at[] = {row / g_.heads / g_.rows, row / g_.heads % g_.rows, row % g_.heads};
        Mark& m = some.marks[static_cast<std::size_t>(at[axis])];
        for (const auto& [key, mark] : row_parts_[r])
          if ((run.of_each > 0 ? key % run.of_each : key) >= run.first &&
              (run.of_each > 0 ? key % run.of_each : key) <= run.last)
            m = std::max(m, mark);
      }
      if (const auto r = run_of(some, 1)) text += ", " + range(kNames[axis], *r);
    }
    return text;
  }

  // "v bits 3..3": the one bit that all wrong codes have, and no right one, or the other way round.
  std::string bits_named() {
    for (const char* name : {"v", "k"}) {
      const bool of_v = *name == 'v';
      const std::int64_t columns = std::min(g_.dv, g_.length);
      const Answer a = ask([&](const TensorSpec& t, const AttentionGeometry& here, std::int64_t row,
                               std::int64_t c, const Stream& draw, std::size_t at) {
        if (t.name == "q") return c == 0 && !of_v ? 4.0F : 0.0F;
        if (t.name == "v" && !of_v) return row % columns == c ? 1.0F : 0.0F;
        if (t.name == "k" && (of_v || c != 0)) return 0.0F;
        // The same number in every row of V; in K one number for each column.
        const std::int64_t head = static_cast<std::int64_t>(at) / (of_v ? here.dv : here.d) % here.kv_heads;
        const std::int64_t which = of_v ? head * here.dv + c : row % columns;
        const double number = 2 * draw.uniform(static_cast<std::size_t>(which)) - 1;
        return static_cast<float>(of_v ? number : number / (4 * here.scale));
      });
      if (!a.ran || a.got.empty()) continue;
      if (const auto bit = bit_of(a, name, columns)) return fmt::format("{1} bits {0}..{0}", *bit, name);
    }
    return "";
  }

  // K and V of one byte to a code, all of them in order.
  std::optional<int> bit_of(const Answer& a, const char* name, std::int64_t columns) const {
    const Encoded& codes = a.set.at(name);
    const bool of_v = *name == 'v';
    const std::int64_t width = of_v ? g_.dv : g_.d;
    std::int64_t elements = 1;
    for (const std::int64_t extent : codes.shape) elements *= extent;
    if (std::ssize(codes.planes.at(0).bytes) != elements) return std::nullopt;
    std::vector<std::vector<Part>> rows;
    collect(a, [](std::int64_t c) { return Part{c, c}; }, rows);
    unsigned always[2] = {255, 255},
             never[2] = {255, 255};  // of right codes and of wrong ones: bits that are 1, that are 0
    bool some[2] = {false, false};
    for (std::size_t r = 0; r < rows.size(); ++r) {
      const double factor = of_v ? 1 : common_factor(rows[r]);
      const std::int64_t kv = static_cast<std::int64_t>(r) % g_.heads / g_.group();
      for (const Part& p : rows[r]) {
        if (!of_v && (p.first >= columns || !p.seen())) continue;
        const std::int64_t row = of_v ? kv : row_of_key(a, p.first) * g_.kv_heads + kv;
        const auto code = std::to_integer<unsigned>(
            codes.planes[0].bytes[static_cast<std::size_t>(row * width + (of_v ? p.first : 0))]);
        const bool right = of_v ? std::fabs(p.got - p.want) <= p.limit : mark_of(p, factor) == Mark::right;
        always[right ? 0 : 1] &= code, never[right ? 0 : 1] &= ~code, some[right ? 0 : 1] = true;
      }
    }
    if (!some[0] || !some[1]) return std::nullopt;
    const unsigned telling = ((always[1] & never[0]) | (never[1] & always[0])) & 255U;
    if (telling == 0 || (telling & (telling - 1)) != 0) return std::nullopt;
    return static_cast<int>(std::log2(telling));
  }

  // The row of K that the key of the first sequence lies in.
  std::int64_t row_of_key(const Answer& a, std::int64_t key) const {
    const AttentionGeometry here = attention_geometry(a.attributes);
    for (std::int64_t slot = 0; slot < (here.page == 0 ? here.length : here.pages() * here.page); ++slot)
      if (key_of_row(here, a.set, slot) == key) return slot;
    return 0;
  }

  Bench& bench_;
  std::string stage_;
  AttentionGeometry g_;
  std::vector<Change> changes_;
  std::int64_t tile_ = 0;
  std::vector<std::vector<std::pair<std::int64_t, Mark>>>
      row_parts_;  // of each output row: first key and mark of each part
};

}  // namespace

std::string attention_place(Bench& bench, const std::string& stage, bool columns_too) {
  return Places(bench, stage).named(columns_too);
}

}  // namespace assay::attribution
