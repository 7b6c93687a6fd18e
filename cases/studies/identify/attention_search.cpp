// The schedule of a fused attention kernel among hypotheses: coarse ones first, then fine ones, every bit
// held against the outputs.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <iterator>
#include <limits>
#include <list>
#include <memory>
#include <sstream>
#include <utility>

#include "cases/studies/identify/attention.hpp"
#include "cases/studies/identify/attention_hypotheses.hpp"
#include "cases/studies/identify/attention_regions.hpp"
#include "cases/studies/identify/attention_vector.hpp"
#include "reference/arithmetic/matrix_unit.hpp"
#include "reference/parallel.hpp"

namespace assay {
namespace {

using Clock = std::chrono::steady_clock;

struct Candidate {
  AttentionSchedule schedule;
  std::int64_t unequal;
};

std::int64_t least_of(const std::vector<Candidate>& list) {
  return std::ranges::min_element(list, {}, &Candidate::unequal)->unequal;
}

// The coarse half: tiles, their order and the parts move many bits, the unit fewer, the rest few. The first
// unit with every tile, every other one with the tile that fitted best.
std::vector<Candidate> coarse(const ReplayedHead& first, const std::string& declared, std::int64_t rows,
                              const std::function<bool()>& over) {
  std::vector<Candidate> list;
  const AttentionHead& head = first.head();
  const std::vector<std::string> units = units_of(head.format, declared);
  if (units.empty()) return list;
  for (const std::int64_t tile : {64, 128, 32, 256, 16, 512}) {
    for (const bool descending : {true, false}) {
      if (tile >= 2 * head.keys && tile != 64) continue;
      for (const std::int64_t split : splits_of((head.keys + tile - 1) / tile)) {
        if (split > 1 && (!descending || head.rows > 256)) continue;  // no kernel is known that does
        AttentionSchedule s;
        s.qk = s.pv = units.front(), s.p = head.format, s.out = head.out, s.tile = tile,
        s.descending = descending, s.split = split;
        s.merge_lanes = head.d % 128 == 0 ? 32 : head.d % 64 == 0 ? 16 : 8;
        s.argument = Argument::mul_sub;
        list.push_back({s, first.unequal(s, rows)});
        if (over()) return list;
      }
    }
  }
  const AttentionSchedule best = std::ranges::min_element(list, {}, &Candidate::unequal)->schedule;
  for (std::size_t i = 1; i < units.size(); ++i) {
    AttentionSchedule s = best;
    s.qk = s.pv = units[i];
    list.push_back({s, first.unequal(s, rows)});
  }
  // Instructions of older generations, which fuse fewer products.
  constexpr std::int64_t kOlder = 8;
  for (std::size_t i = 0, count = list.size(); i < count; ++i) {
    AttentionSchedule s = list[i].schedule;
    if (matrix_unit(s.qk).group <= kOlder || s.split != 1 || list[i].unequal > 2 * least_of(list) + 2 * rows)
      continue;
    s.fused = kOlder;
    list.push_back({s, first.unequal(s, rows)});
  }
  return list;
}

// The search over one kernel: hypotheses are held against every head on which an earlier one failed, those
// heads first.
class Search {
 public:
  Search(const AttentionAsk& ask, const AttentionSearch& options, AttentionCard& card)
      : ask_(ask), options_(options), card_(card) {}

  // False where the kernel does not take the call.
  bool draw_first() {
    drawn_ = ask(1);
    if (!drawn_) return false;
    card_.line = drawn_->line, card_.declared_contract = drawn_->declared_contract;
    card_.declared_path = drawn_->declared_path, card_.kernels = drawn_->kernels;
    for (const AttentionHead& head : drawn_->heads) refuters_.push_back(std::make_unique<ReplayedHead>(head));
    return true;
  }
  const ReplayedHead& first() const { return *refuters_.front(); }
  const std::string& declared() const { return drawn_->declared_contract; }
  bool over() const { return elapsed() > options_.seconds; }
  double elapsed() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

  // Whether s gives every bit of everything that was and will be asked; the card then says so.
  bool holds(const AttentionSchedule& s) {
    std::int64_t compared = 0;
    for (std::size_t i = 0; i < refuters_.size(); ++i) {
      const AttentionHead& head = refuters_[i]->head();
      const auto share_of = [&](std::int64_t unequal, std::int64_t rows) {
        return 1 - static_cast<double>(unequal) / static_cast<double>(rows * head.dv);
      };
      // A few rows refute most; all are counted only where it may be the nearest.
      const std::int64_t few = std::min(kFewRows, head.rows), of_few = refuters_[i]->unequal(s, few);
      const bool near = of_few == 0 || share_of(of_few, few) > nearest_share_;
      const std::int64_t unequal = near && few < head.rows ? refuters_[i]->unequal(s) : of_few;
      compared += head.outputs();
      if (unequal == 0) continue;
      if (near && share_of(unequal, head.rows) > nearest_share_) {
        nearest_share_ = share_of(unequal, head.rows), card_.nearest = s;
        card_.compared = head.outputs(), card_.unequal = unequal;
      }
      std::rotate(refuters_.begin(), refuters_.begin() + static_cast<std::ptrdiff_t>(i),
                  refuters_.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      return false;
    }
    if (narrow_store() && std::exchange(midpoints_, 1) == 0) {
      if (std::optional<AttentionAnswer> more = ask(midpoints_, AttentionDesign::midpoints)) {
        for (AttentionHead& head : more->heads) keep(std::move(head));
        return holds(s);
      }
    }
    for (std::uint64_t seed = 2; seed == 2 || compared < options_.outputs; ++seed) {
      std::optional<AttentionAnswer> more = ask(seed);
      if (!more) break;
      for (AttentionHead& head : more->heads) {
        compared += head.outputs();
        if (ReplayedHead(head).unequal(s) == 0) continue;
        keep(std::move(head));
        return false;
      }
      card_.last_seed = seed;
    }
    card_.schedule = s, card_.compared = compared, card_.unequal = 0;
    return true;
  }

  bool find(const std::vector<AttentionSchedule>& known) {
    const bool unit = !units_of(first().head().format, declared()).empty();
    const bool vector_first = !unit || (" " + declared()).find(" qk=f32") != std::string::npos;
    if (vector_first && find_vector()) return true;
    if (unit && find_unit(known)) return true;
    return !vector_first && find_vector();
  }

  // Sums in f32.
  bool find_vector() {
    VectorSearch found = search_vector_attention(
        [this](std::uint64_t seed, AttentionDesign design) {
          ++card_.calls;
          return ask_(seed, design);
        },
        *drawn_, [this] { return over(); });
    shown_ = std::move(found.shown);
    for (std::size_t i = 0; i < found.left.size(); ++i) {
      if (over()) return false;
      if (!holds(found.left[i])) continue;
      narrow({found.left.begin() + static_cast<std::ptrdiff_t>(i) + 1, found.left.end()});
      if (card_.schedule) return true;
    }
    card_.not_understood = found.stage;
    // What the inputs of a design refute stays refuted, whatever it gives on drawn ones.
    if (nearest_share_ < 0 && holds(found.nearest)) card_.nearest = found.nearest, card_.schedule.reset();
    return false;
  }

  bool find_unit(const std::vector<AttentionSchedule>& known) {
    const std::int64_t rows = std::min<std::int64_t>(first().head().rows, 64);
    for (const AttentionSchedule& s : known) {
      if (s.p != first().head().format || !holds(s)) continue;
      narrow(fine(s));
      if (card_.schedule) return true;
    }
    std::vector<Candidate> list = coarse(first(), declared(), rows, [&] { return over(); });
    std::ranges::stable_sort(list, {}, &Candidate::unequal);
    // Few bits tell units apart in bf16: the declared one is asked first.
    const std::string unit = units_of(first().head().format, declared()).front();
    const auto own = std::ranges::find_if(list, [&](const Candidate& c) { return c.schedule.qk == unit; });
    if (own != list.end() && own->unequal <= 2 * list[0].unequal + rows)
      std::rotate(list.begin(), own, own + 1);
    for (std::size_t i = 0; i < std::min<std::size_t>(4, list.size()); ++i) {
      if (list[i].unequal > 2 * list[0].unequal + 2 * rows) break;
      std::vector<AttentionSchedule> hypotheses = fine(list[i].schedule);
      if (!first().head().visible.empty()) {
        // Many more, of which few rows leave few.
        const AttentionSchedule plain = hypotheses.front();
        hypotheses = with_own_tiles(hypotheses);
        for (const std::int64_t few : {std::int64_t{1}, std::int64_t{16}})
          keep_if(hypotheses, [&](const AttentionSchedule& s) {
            return over() || first().unequal(s, std::min(few, first().head().rows)) == 0;
          });
        if (hypotheses.empty()) hypotheses.push_back(plain);
      }
      for (std::size_t h = 0; h < hypotheses.size(); ++h) {
        if (over()) return false;
        if (!holds(hypotheses[h])) continue;
        narrow(others_of(hypotheses[h],
                         {hypotheses.begin() + static_cast<std::ptrdiff_t>(h) + 1, hypotheses.end()}));
        if (card_.schedule) return true;
        break;  // further draws refuted all that these coarse fields allow
      }
    }
    return false;
  }

  // Further draws for as long as they tell apart what gave the same bits so far; the schedule is then the
  // first that is left.
  void narrow(const std::vector<AttentionSchedule>& others) {
    left_ = {*card_.schedule};
    std::vector<AttentionSchedule> rest;
    std::ranges::remove_copy(others, std::back_inserter(rest), left_.front());
    // Where there are many they are held against few rows: what a row more would have refuted stays open.
    constexpr std::size_t kMany = 100;
    const std::int64_t rows = rest.size() > kMany ? 4 : std::numeric_limits<std::int64_t>::max();
    const auto refuted = [&](const ReplayedHead& head, const AttentionSchedule& s) {
      return head.unequal(s, std::min(rows, head.head().rows)) > 0;
    };
    keep_if(rest, [&](const AttentionSchedule& s) {
      return over() || std::ranges::none_of(refuters_, [&](const auto& r) { return refuted(*r, s); });
    });
    left_.insert(left_.end(), rest.begin(), rest.end());
    for (int idle = 0; left_.size() > 1 && idle < kIdleDraws && !over();) {
      const std::optional<AttentionAnswer> more =
          narrow_store() ? ask(++midpoints_, AttentionDesign::midpoints) : ask(++card_.last_seed);
      if (!more) break;
      const std::size_t before = left_.size();
      for (const AttentionHead& head : more->heads) {
        const std::size_t of_head = left_.size();
        const ReplayedHead replayed(head);
        keep_if(left_, [&](const AttentionSchedule& s) {
          return s == *card_.schedule ? replayed.unequal(s) == 0 : !refuted(replayed, s);
        });
        card_.compared += head.outputs();
        if (left_.size() != of_head) keep(head);
      }
      idle = left_.size() == before ? idle + 1 : 0;
    }
    // One that takes the place of the first must hold on what only that one was held against.
    while (!left_.empty() && !(left_.front() == *card_.schedule)) {
      if (holds(left_.front())) break;
      left_.erase(left_.begin());
    }
    if (left_.empty()) {
      card_.nearest = *card_.schedule, card_.unequal = 1;
      card_.schedule.reset();
      return;
    }
    card_.also = static_cast<std::int64_t>(left_.size()) - 1;
  }

  // Those for which `keep` is true, asked side by side.
  void keep_if(std::vector<AttentionSchedule>& list,
               const std::function<bool(const AttentionSchedule&)>& keep) {
    std::vector<char> kept(list.size(), 0);
    parallel_units(list.size(), [&](std::size_t i) { kept[i] = keep(list[i]) ? 1 : 0; });
    std::size_t at = 0;
    std::erase_if(list, [&](const AttentionSchedule&) { return kept[at++] == 0; });
  }

  // What every other value of each field would have changed on the first draw, or else on the inputs of a
  // design.
  void show_against() {
    std::list<ReplayedHead> crafted;
    for (const AttentionHead& head : shown_)
      if (unequal_last(crafted.emplace_back(head), *card_.schedule) != 0) crafted.pop_back();
    std::istringstream words(spell_out(*card_.schedule));
    for (std::string word; words >> word;) {
      CardField field{word.substr(0, word.find('=')), word.substr(word.find('=') + 1), "", true};
      std::int64_t least = -1;
      for (const auto& [name, other] : tampered(*card_.schedule, first().head())) {
        if (name != field.field || least == 0) continue;
        std::int64_t unequal = 0, outputs = 0;
        for (const auto& replayed : refuters_) {
          if (outputs >= kEvidenceOutputs) break;
          unequal += replayed->unequal(other), outputs += replayed->head().outputs();
        }
        for (const ReplayedHead& replayed : crafted) {
          if (unequal > 0) break;
          unequal = unequal_last(replayed, other), outputs += replayed.head().outputs();
        }
        if (least >= 0 && unequal >= least) continue;
        least = unequal;
        std::istringstream others(spell_out(other));
        for (std::string w; others >> w;)
          if (w.starts_with(name + "="))
            field.against = fmt::format("{}: {} of {} outputs differ", w, unequal, outputs);
      }
      // Whatever gave the same bits on all draws leaves open what it says otherwise.
      for (const AttentionSchedule& other : left_) {
        std::istringstream others(spell_out(other));
        for (std::string w; others >> w;) {
          if (!w.starts_with(field.field + "=") || w == word) continue;
          least = 0, field.against = w + ": no output differs of those that it was held against";
        }
      }
      field.concluded = least != 0;
      if (least >= 0) card_.fields.push_back(field);
    }
  }

 private:
  std::optional<AttentionAnswer> ask(std::uint64_t seed, AttentionDesign design = AttentionDesign::drawn) {
    ++card_.calls;
    return ask_(seed, design);
  }
  static std::int64_t unequal_last(const ReplayedHead& replayed, const AttentionSchedule& s) {
    return replayed.unequal(s, std::min(kFewRows, replayed.head().rows));
  }
  bool narrow_store() const { return first().head().out != "f32"; }
  void keep(AttentionHead head) {
    kept_.push_back(std::make_unique<AttentionHead>(std::move(head)));
    refuters_.insert(refuters_.begin(), std::make_unique<ReplayedHead>(*kept_.back()));
  }
  static constexpr std::int64_t kEvidenceOutputs = 1 << 16;
  static constexpr std::int64_t kFewRows = 8;
  static constexpr int kIdleDraws = 3;  // in a row that told nothing apart

  const AttentionAsk& ask_;
  const AttentionSearch& options_;
  AttentionCard& card_;
  Clock::time_point start_ = Clock::now();
  std::optional<AttentionAnswer> drawn_;
  std::uint64_t midpoints_ = 0;  // seeds of that design so far
  std::vector<std::unique_ptr<AttentionHead>> kept_;
  std::vector<std::unique_ptr<ReplayedHead>> refuters_;
  std::vector<AttentionHead> shown_;     // of crafted inputs, which refuted others
  std::vector<AttentionSchedule> left_;  // that gave every bit that was asked for
  double nearest_share_ = -1;
};

}  // namespace

AttentionCard identify_attention(const AttentionAsk& ask, const std::vector<AttentionSchedule>& known,
                                 const AttentionSearch& options) {
  AttentionCard card;
  Search search(ask, options, card);
  if (!search.draw_first()) {
    card.refused = "the kernel does not take this call";
    return card;
  }
  if (search.find(known)) {
    card.not_understood.clear();
    search.show_against();
  }
  card.seconds = search.elapsed();
  return card;
}

}  // namespace assay
