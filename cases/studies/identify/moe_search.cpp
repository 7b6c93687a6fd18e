// The arithmetic of a mixture of experts: its products one by one, then every bit of whole calls.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <stdexcept>

#include "cases/studies/identify/card.hpp"
#include "cases/studies/identify/moe.hpp"
#include "reference/error.hpp"

namespace assay {
namespace {

// A field of the arithmetic that is one word.
struct Word {
  const char* name;
  std::string MoeArithmetic::* value;
};
constexpr std::array kWords = {Word{"gate_up", &MoeArithmetic::gate_up},
                               Word{"h", &MoeArithmetic::h},
                               Word{"expert_out", &MoeArithmetic::expert_out},
                               Word{"weight", &MoeArithmetic::weight},
                               Word{"exp", &MoeArithmetic::exp},
                               Word{"silu", &MoeArithmetic::silu},
                               Word{"combine", &MoeArithmetic::combine},
                               Word{"code", &MoeArithmetic::code}};

std::vector<std::string> values(const Word& word, const std::string& hidden) {
  const std::string name = word.name;
  if (name == "weight") return {"after", "before"};
  if (name == "exp")
    return {"libm", "nearest", "taylor7", "taylor7_mul", "sleef", "degree5", "arm", "cuda_expf"};
  if (name == "silu") return {"quotient", "sigmoid"};
  if (name == "combine") return {"experts", "slots"};
  const bool codes = hidden != "f32" && hidden != "f16" && hidden != "bf16";
  if (name == "code")
    return codes ? std::vector<std::string>{"division", "reciprocal"} : std::vector<std::string>{"division"};
  if (codes) return {"f32", "bf16", "f16"};
  return hidden == "f32" ? std::vector<std::string>{"f32"} : std::vector<std::string>{"f32", hidden};
}

struct Difference {
  std::int64_t compared = 0, unequal = 0;
};
Difference difference(const MoeAnswer& answer, const MoeArithmetic& arithmetic) {
  Difference d;
  std::vector<double> wanted;
  try {
    wanted = answer.replay(print_contract(arithmetic));
  } catch (const InputError&) {
    d.compared = d.unequal = std::ssize(answer.got);
    return d;
  }
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (std::isnan(wanted[i])) continue;
    ++d.compared;
    if (!same_number(wanted[i], answer.got[i])) ++d.unequal;
  }
  return d;
}

// Field by field the value that leaves fewest outputs different, until none helps.
void descend(const MoeAnswer& answer, MoeArithmetic& best, Difference& least, const std::string& hidden) {
  for (bool better = true; better && least.unequal > 0;) {
    better = false;
    for (const Word& word : kWords)
      for (const std::string& value : values(word, hidden)) {
        if (best.*word.value == value || least.unequal == 0) continue;
        MoeArithmetic other = best;
        other.*word.value = value;
        const Difference d = difference(answer, other);
        if (d.unequal < least.unequal) best = other, least = d, better = true;
      }
  }
}

// What is concluded and declared otherwise. A declared schedule is held against the bits themselves.
std::string contradicted(const MoeSubject& subject, const MoeCard& card,
                         const std::vector<MoeAnswer>& asked) {
  if (subject.declared("level") == "replay") {
    Difference all;
    for (const MoeAnswer& answer : asked) {
      try {
        const std::vector<double> wanted = answer.replay(subject.declared_contract);
        for (std::size_t i = 0; i < wanted.size(); ++i)
          if (!std::isnan(wanted[i]))
            ++all.compared, all.unequal += same_number(wanted[i], answer.got[i]) ? 0 : 1;
      } catch (const InputError& refused) {
        return refused.what();
      }
    }
    return all.unequal == 0
               ? ""
               : fmt::format("of the declared schedule's bits {} of {} differ", all.unequal, all.compared);
  }
  const auto concluded = [&](const std::string& name) {
    const auto field = std::ranges::find(card.fields, name, &CardField::field);
    return field != card.fields.end() && field->concluded;
  };
  for (const char* key : {"gate_up", "h", "expert_out", "weight"}) {
    const Word word = *std::ranges::find(kWords, std::string_view(key),
                                         [](const Word& w) { return std::string_view(w.name); });
    if (concluded(key) && subject.declared(key) != *card.schedule.*word.value)
      return fmt::format("{}={} is declared, the bits are those of {}={}", key, subject.declared(key), key,
                         *card.schedule.*word.value);
  }
  // Lanes in f32 and a unit may agree in ways that nobody tried; two units, or two types, under one schedule
  // were held side by side.
  const std::string up_acc = subject.declared("acc"), second = subject.declared("down_acc"),
                    down_acc = second == "same" ? up_acc : second;
  for (const auto& [name, acc, sum] : {std::tuple{"up.acc", up_acc, &card.schedule->up},
                                       std::tuple{"down.acc", down_acc, &card.schedule->down}}) {
    const MatrixUnit *unit = find_matrix_unit(acc), *found = sum->grouped.unit();
    if (!concluded(name) || acc == "i32" || acc == sum->grouped.acc ||
        (unit == nullptr) != (found == nullptr))
      continue;
    if (unit == nullptr || !same_arithmetic(*unit, *found))
      return fmt::format("acc={} is declared, the bits are those of {}={}", acc, name, sum->grouped.acc);
  }
  return "";
}

}  // namespace

std::string print_schedule(const MoeArithmetic& m) {
  std::string text;
  if (m.exp != "libm") text += fmt::format("exp={} ", m.exp);
  if (m.silu != "quotient") text += fmt::format("silu={} ", m.silu);
  if (m.combine != "experts") text += fmt::format("combine={} ", m.combine);
  if (m.code != "division") text += fmt::format("code={} ", m.code);
  return text + print_schedule(m.up, "up.") + " " + print_schedule(m.down, "down.");
}

std::string print_contract(const MoeArithmetic& m) {
  std::string text = "acc=" + m.up.grouped.acc;
  if (const MatrixUnit* unit = m.up.grouped.unit(); unit != nullptr && m.up.grouped.chunk > 0)
    text += fmt::format(" promote={}", m.up.grouped.chunk / unit->group);
  if (m.down.grouped.acc != m.up.grouped.acc) text += " down_acc=" + m.down.grouped.acc;
  if (m.gate_up != "f32") text += " gate_up=" + m.gate_up;
  if (m.h != "f32") text += " h=" + m.h;
  if (m.expert_out != "f32") text += " expert_out=" + m.expert_out;
  if (m.weight != "after") text += " weight=" + m.weight;
  return text + " level=replay schedule=" + as_contract_value(print_schedule(m));
}

MoeCard identify_moe(MoeSubject& subject, const std::vector<MoeArithmetic>& known,
                     const MoeSearchOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  MoeCard card;
  const auto finish = [&] {
    card.calls = subject.calls + subject.up().calls + subject.down().calls;
    card.declared_contract = subject.declared_contract, card.declared_path = subject.declared_path,
    card.kernels = subject.kernels;
    card.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return card;
  };
  try {
    const std::optional<MoeAnswer> first = subject.drawn(1);
    if (!first) {
      card.refused = "the kernel does not take this call";
      return finish();
    }
    card.line = first->line;
    const std::string hidden = subject.hidden_format();
    std::optional<MoeArithmetic> best;
    Difference least;
    std::vector<MoeArithmetic> admitted;  // those that give every bit of the first answer
    constexpr std::size_t kMostAdmitted = 32;
    const auto consider = [&](const MoeArithmetic& m) {
      const Difference d = difference(*first, m);
      if (!best || d.unequal < least.unequal) best = m, least = d;
      if (d.unequal == 0 && m != *best) admitted.push_back(m);
      return d.unequal == 0;
    };
    // An expert that few tokens go to may be served by another routine: asked once, where the schedules of
    // many rows do not do.
    ShapeCard shown[2];
    bool asked_few = false;
    const IdentifyOptions each{.most_mask_calls = options.masks,
                               .least_outputs = options.outputs,
                               .search_seconds = options.seconds};
    const auto add_few_rows = [&](MoeArithmetic& m) {
      for (int down = 0; down < 2 && !asked_few; ++down) {
        if (shown[down].pieces.size() != 1 || !shown[down].identified()) continue;
        GroupedSchedule& sum = down != 0 ? m.down : m.up;
        sum.below = schedules_of_few_rows(down != 0 ? subject.down() : subject.up(), shown[down], each);
        for (auto& few : sum.below) few.second.scales = sum.grouped.scales;
      }
      asked_few = true;
      return !m.up.below.empty() || !m.down.below.empty();
    };
    const bool was_known = std::ranges::any_of(known, consider);
    if (!was_known) {
      subject.look();
      std::vector<GroupedSchedule> sums[2];
      for (int down = 0; down < 2; ++down) {
        const GemmShape shape = down != 0 ? subject.down_shape() : subject.up_shape();
        const ShapeCard one = identify_shape(down != 0 ? subject.down() : subject.up(), shape, {}, each);
        const char* prefix = down != 0 ? "down." : "up.";
        if (!one.refused.empty()) {
          card.fields.push_back({prefix, "", one.refused, false});
          return finish();
        }
        sums[down] = schedules_of_rows(one, subject.scaled());
        const bool found = !sums[down].empty();
        if (one.pieces.empty()) return finish();
        const Schedule& nearest = found ? sums[down].front().grouped : one.pieces.front().nearest;
        (down != 0 ? card.nearest.down : card.nearest.up) = {nearest, nearest, 1, {}};
        card.fields.push_back(
            {prefix, schedule_of(one),
             found ? fmt::format("{0} of {0} outputs of the product alone equal", one.compared())
                   : fmt::format("no schedule for all rows; of the nearest, {}, {:.1f} % are equal",
                                 print_schedule(nearest), 100 * one.pieces.front().nearest_share),
             found});
        for (const Evidence& e : one.evidence)
          if (found) card.fields.push_back({prefix + e.field, e.value, e.against, e.concluded});
        shown[down] = one;
      }
      // The words from the likeliest sums, then whichever sums give every bit.
      constexpr std::size_t kMostPairs = 256;
      if (!sums[0].empty() && !sums[1].empty()) {
        best = MoeArithmetic{.up = sums[0].front(), .down = sums[1].front()};
        least = difference(*first, *best);
        descend(*first, *best, least, hidden);
        if (least.unequal > 0 && add_few_rows(*best)) {
          least = difference(*first, *best);
          descend(*first, *best, least, hidden);
          for (int down = 0; down < 2; ++down)
            for (GroupedSchedule& s : sums[down]) s.below = (down != 0 ? best->down : best->up).below;
        }
        const MoeArithmetic words = *best;
        for (const Word& word : kWords)
          for (const std::string& value : values(word, hidden)) {
            MoeArithmetic other = words;
            other.*word.value = value;
            if (least.unequal == 0 && other != words) consider(other);
          }
        const auto pairs = std::min(kMostPairs, sums[0].size() * sums[1].size());
        for (std::size_t sum = 0; admitted.size() < kMostAdmitted && sum < pairs; ++sum) {
          MoeArithmetic m = words;
          // The second varies first: the first products are made once for all of its schedules.
          m.up = sums[0][sum / sums[1].size()], m.down = sums[1][sum % sums[1].size()];
          if (sum > 0) consider(m);
        }
      }
    }
    if (!best) return finish();
    if (least.unequal == 0) admitted.insert(admitted.begin(), *best);
    std::vector<MoeAnswer> asked{*first};
    const MoeArithmetic likeliest = *best;
    card.compared = least.compared, card.unequal = least.unequal;
    for (std::uint64_t seed = 2; card.unequal == 0 && (seed == 2 || card.compared < options.outputs) &&
                                 seed <= static_cast<std::uint64_t>(options.most_draws);
         ++seed) {
      const std::optional<MoeAnswer> next = subject.drawn(seed);
      if (!next) break;
      // The first that gives every bit of all answers.
      Difference d = difference(*next, admitted.front());
      if (MoeArithmetic few = likeliest; d.unequal > 0 && !asked_few && add_few_rows(few)) {
        Difference all = difference(*next, few);
        for (const MoeAnswer& before : asked) all.unequal += difference(before, few).unequal;
        if (all.unequal == 0) admitted = {few}, d = all;
      }
      while (d.unequal > 0 && admitted.size() > 1) {
        admitted.erase(admitted.begin());
        d = difference(*next, admitted.front());
        for (const MoeAnswer& before : asked) d.unequal += difference(before, admitted.front()).unequal;
      }
      best = admitted.front();
      card.compared += d.compared, card.unequal += d.unequal, card.last_seed = seed;
      asked.push_back(*next);
    }
    // Nothing compared is nothing found.
    if (card.unequal == 0 && card.compared >= options.outputs)
      card.schedule = *best;
    else
      card.nearest = *best;
    if (!card.schedule) return finish();
    for (const Word& word : kWords) {
      CardField field{word.name, *best.*word.value, "", true};
      for (const std::string& value : values(word, hidden)) {
        if (value == field.value) continue;
        MoeArithmetic other = *best;
        other.*word.value = value;
        Difference all;
        for (std::size_t at = 0; at < std::min<std::size_t>(asked.size(), 4); ++at) {
          if (all.unequal > 0 && all.compared >= options.outputs) break;
          const Difference d = difference(asked[at], other);
          all.compared += d.compared, all.unequal += d.unequal;
        }
        field.concluded &= all.unequal > 0;
        card.also += all.unequal == 0 ? 1 : 0;
        field.against += fmt::format("{}{}={}: {} of {} differ", field.against.empty() ? "" : "; ", word.name,
                                     value, all.unequal, all.compared);
      }
      if (!field.against.empty()) card.fields.push_back(std::move(field));
    }
    card.fallback = contradicted(subject, card, asked);
  } catch (const std::runtime_error& failure) {
    card.refused = failure.what();
  }
  return finish();
}

}  // namespace assay
