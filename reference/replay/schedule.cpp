#include "reference/replay/schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>

#include "reference/near_names.hpp"
#include "reference/word_list.hpp"

namespace assay {
namespace {

constexpr std::array kKeys = {
    schedule_key("acc", "f32", "f64|f32|f16|bf16|i32, or a matrix unit", "what a step adds in"),
    schedule_key("fma", "no", "no|yes", "product and sum are one rounding"),
    schedule_key("lanes", "1", "1..65536", "partial sums of a chunk"),
    schedule_key("pack", "1", "1..65536", "neighbouring terms that one lane takes at a time"),
    schedule_key("fold", "halving", kFoldWords, "how the lanes are added"),
    schedule_key("head", "0", "0..65536", "terms ahead of the first pass"),
    schedule_key("head_at", "lane", "lane|apart",
                 "whether the first lane takes these, or they are a sum of their own, added at the end",
                 "head!=0"),
    schedule_key("tail", "lanes", "lanes|vector:W|first:W|after|apart|refold|before:W|folded:W",
                 "where the terms behind the last whole pass over the lanes go"),
    schedule_key("cascade", "0", "0, 2..65536",
                 "terms of a lane whose sum joins the level above, and joins of a level"),
    schedule_key("order", "ascending", "ascending|descending|swapped|second",
                 "of the terms, or of the unit's blocks"),
    schedule_key("chunk", "0", "0..2147483647",
                 "terms that are summed from zero before they join a slice's sum"),
    schedule_key("chunk_acc", "f32", "f64|f32|f16|bf16", "in which they join"),
    schedule_key("split", "1", "1..65536", "slices"),
    schedule_key("slicing", "even", "even|balanced|proportional|interleaved|cuts:A.B.C",
                 "how terms are shared out"),
    schedule_key("quantum", "1", "1..1048576", "terms that no slice divides"),
    schedule_key("part", "f32", "f64|f32|f16|bf16", "in which a slice's sum is kept"),
    schedule_key("merge", "sequential", "as fold", "how the slices' sums are added"),
    schedule_key("merge_acc", "f32", "f64|f32|f16|bf16", "in which they are added"),
    schedule_key("scales", "none", "none|a_b|b_a|product", "(c sa) sb, (c sb) sa or c (sa sb)"),
};
constexpr std::array<std::string_view, 5> kSlicings = {"even", "balanced", "proportional", "interleaved",
                                                       "cuts"};
constexpr std::array<std::string_view, 8> kTails = {"lanes", "vector", "first",  "after",
                                                    "apart", "refold", "before", "folded"};
bool is_wide(Tail tail) {
  return tail == Tail::vector || tail == Tail::first || tail == Tail::before || tail == Tail::folded;
}
constexpr std::array<std::string_view, 4> kFloats = {"f64", "f32", "f16", "bf16"};
constexpr std::array<std::string_view, 4> kScales = {"none", "a_b", "b_a", "product"};

constexpr KeyTable kTable("schedule key", kKeys);

void set(Schedule& s, std::string_view key, std::string_view value) {
  const auto tail_of = [&](std::string_view text) { return text.substr(0, text.find(':')); };
  if (key == "acc") {
    Accumulator known;
    if (!find_accumulator(value, known) || (known.kind == Accumulator::Kind::integer && value != "i32") ||
        (known.unit != nullptr && known.unit->combine == Combine::wrap))
      kTable.refuse(key, value);
    s.acc = value;
  } else if (key == "fma") {
    s.fma = kTable.word(key, value) == 1;
  } else if (key == "lanes") {
    s.lanes = kTable.number(key, value);
  } else if (key == "pack") {
    s.pack = kTable.number(key, value);
  } else if (key == "fold") {
    s.fold = value;
  } else if (key == "tail") {
    s.tail = static_cast<Tail>(kTable.word(key, tail_of(value), kTails));
    const bool wide = is_wide(s.tail);
    const bool has_width = value.find(':') != std::string_view::npos;
    if (wide != has_width) kTable.refuse(key, value);
    s.tail_width = wide ? kTable.number(key, value.substr(value.find(':') + 1), 1, 65536) : 0;
  } else if (key == "head") {
    s.head = kTable.number(key, value);
  } else if (key == "head_at") {
    s.head_apart = kTable.word(key, value) == 1;
  } else if (key == "cascade") {
    s.cascade = kTable.number(key, value);
  } else if (key == "order") {
    const std::size_t order = kTable.word(key, value);
    s.descending = order == 1, s.swapped = order == 2, s.second_first = order == 3;
  } else if (key == "chunk") {
    s.chunk = kTable.number(key, value);
  } else if (key == "chunk_acc") {
    s.chunk_acc = kFloats[kTable.word(key, value)];
  } else if (key == "split") {
    s.split = kTable.number(key, value);
  } else if (key == "slicing") {
    s.slicing = static_cast<Slicing>(kTable.word(key, tail_of(value), kSlicings));
    if ((s.slicing == Slicing::cuts) != (value.find(':') != std::string_view::npos))
      kTable.refuse(key, value);
    s.cuts.clear();
    if (s.slicing == Slicing::cuts)
      for (const std::string_view cut : listed_words(value.substr(value.find(':') + 1), '.')) {
        s.cuts.push_back(kTable.number(key, cut, 1, INT32_MAX));
        if (s.cuts.size() > 1 && s.cuts[s.cuts.size() - 2] >= s.cuts.back()) kTable.refuse(key, value);
      }
  } else if (key == "quantum") {
    s.quantum = kTable.number(key, value);
  } else if (key == "part") {
    s.part = kFloats[kTable.word(key, value)];
  } else if (key == "merge") {
    s.merge = value;
  } else if (key == "merge_acc") {
    s.merge_acc = kFloats[kTable.word(key, value)];
  } else if (key == "scales") {
    s.scales = kScales[kTable.word(key, value)];
  }
}

std::string value_of(const Schedule& s, std::string_view key) {
  if (key == "acc") return s.acc;
  if (key == "fma") return s.fma ? "yes" : "no";
  if (key == "lanes") return std::to_string(s.lanes);
  if (key == "pack") return std::to_string(s.pack);
  if (key == "fold") return s.lanes == 1 ? "halving" : s.fold;
  if (key == "tail") {
    const bool wide = is_wide(s.tail);
    const std::string name(kTails[static_cast<std::size_t>(s.tail)]);
    return wide ? fmt::format("{}:{}", name, s.tail_width) : name;
  }
  if (key == "head") return std::to_string(s.head);
  if (key == "head_at") return s.head_apart ? "apart" : "lane";
  if (key == "cascade") return std::to_string(s.cascade);
  if (key == "order")
    return s.descending ? "descending" : s.swapped ? "swapped" : s.second_first ? "second" : "ascending";
  if (key == "chunk") return std::to_string(s.chunk);
  if (key == "chunk_acc") return s.chunk_acc;
  if (key == "split") return std::to_string(s.split);
  if (key == "slicing") {
    std::string text(kSlicings[static_cast<std::size_t>(s.slicing)]);
    for (std::size_t i = 0; i < s.cuts.size(); ++i)
      text += fmt::format("{}{}", i == 0 ? ':' : '.', s.cuts[i]);
    return text;
  }
  if (key == "quantum") return std::to_string(s.quantum);
  if (key == "part") return s.part;
  if (key == "merge") return s.merge;
  if (key == "merge_acc") return s.merge_acc;
  return s.scales;
}

// Contradictions between keys, and the canonical spelling of the folds.
void finish(Schedule& s) {
  if (s.acc == "i32") {
    Schedule alone;
    alone.acc = s.acc, alone.scales = s.scales;
    if (s != alone)
      throw InputError(InputErrorKind::bad_value,
                       "schedule: acc=i32 with more than scales; sums of integers are exact in every order, "
                       "allowed: acc=i32 scales=...");
  }
  if (s.unit() != nullptr && s.lanes != 1)
    throw InputError(InputErrorKind::bad_value,
                     fmt::format("schedule: acc={} is a matrix unit and lanes={}; allowed: "
                                 "lanes=1, and interleaved slices for sums side by side",
                                 s.acc, s.lanes));
  if (s.unit() != nullptr && (s.head > 0 || s.cascade > 0))
    throw InputError(InputErrorKind::bad_value,
                     fmt::format("schedule: acc={} is a matrix unit and head={} cascade={}; allowed: 0",
                                 s.acc, s.head, s.cascade));
  if (s.unit() != nullptr && (s.swapped || s.second_first))
    throw InputError(
        InputErrorKind::bad_value,
        fmt::format("schedule: acc={} is a matrix unit and order={}; allowed: ascending, descending", s.acc,
                    s.swapped ? "swapped" : "second"));
  if (s.unit() != nullptr && s.fma)
    throw InputError(InputErrorKind::bad_value,
                     fmt::format("schedule: acc={} is a matrix unit and fma=yes; allowed: fma=no", s.acc));
  if (s.unit() != nullptr && s.chunk % s.unit()->group != 0)
    throw InputError(InputErrorKind::bad_value, fmt::format("schedule: chunk={}; {} adds blocks of {}",
                                                            s.chunk, s.acc, s.unit()->group));
  const bool is_left =
      s.tail != Tail::folded || !left_of(fold_of(s.fold, s.lanes), s.lanes, s.tail_width).empty();
  if (s.tail_width > s.lanes || !is_left) kTable.refuse("tail", value_of(s, "tail"));
  if (s.slicing == Slicing::cuts) {
    const auto count = static_cast<std::int64_t>(s.cuts.size()) + 1;
    if (s.split != 1 && s.split != count) kTable.refuse("slicing", value_of(s, "slicing"));
    s.split = count;
  }
  s.fold = to_string(fold_of(s.fold, s.lanes), s.lanes);
  s.merge = s.split == 1 ? "sequential" : to_string(fold_of(s.merge, s.split), s.split);
}

}  // namespace

std::span<const KeySpec> schedule_keys() { return kKeys; }

Schedule parse_schedule(std::string_view text, std::string_view prefix) {
  Schedule s;
  const KeyTable table("schedule key", kKeys, prefix);
  const std::vector<std::string> values = table.complete(table.pairs(text));
  for (std::size_t i = 0; i < values.size(); ++i) set(s, kKeys[i].name, values[i]);
  finish(s);
  return s;
}

std::string print_schedule(const Schedule& schedule, std::string_view prefix) {
  std::string text;
  for (const KeySpec& key : kKeys) {
    const std::string value = value_of(schedule, key.name);
    if (key.name == "split" && schedule.slicing == Slicing::cuts) continue;  // the cuts say it
    if (value != key.fallback || key.name == "acc")
      text += fmt::format("{}{}{}={}", text.empty() ? "" : " ", prefix, key.name, value);
  }
  return text;
}

std::string as_contract_value(std::string_view printed) {
  std::string text(printed);
  std::replace(text.begin(), text.end(), ' ', '/');
  std::replace(text.begin(), text.end(), '=', ':');
  return text;
}

std::string from_contract_value(std::string_view value) {
  std::string text;
  for (const std::string_view pair : listed_words(value, '/')) {
    text += text.empty() ? "" : " ";
    const std::size_t at = text.size() + std::min(pair.find_first_of("=:"), pair.size());
    text += pair;
    if (at < text.size()) text[at] = '=';
  }
  return text;
}

}  // namespace assay
