#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <map>
#include <span>

#include "cases/studies/identify/row_asked.hpp"
#include "reference/error.hpp"
#include "reference/replay/sum_plan.hpp"

namespace assay {
namespace {

std::string value_in(const std::string& printed, const std::string& field) {
  const std::string text = " " + printed + " ";
  const std::size_t at = text.find(" " + field + "=");
  if (at == std::string::npos) {
    const std::string bare = field.substr(field.find('.') + 1);
    if (field.starts_with("moments."))
      return std::string(std::ranges::find(moments_keys(), bare, &KeySpec::name)->fallback);
    for (const KeySpec& key : schedule_keys())
      if (key.name == bare) return std::string(key.fallback);
    return "";
  }
  const std::size_t value = at + field.size() + 2;
  return text.substr(value, text.find(' ', value) - value);
}

// Whether two schedules make the same bits of any terms: the same additions and quotients.
bool same_steps(const RowSchedule& a, const RowSchedule& b, std::int64_t cols) {
  const auto same_sum = [&](const Schedule& x, const Schedule& y) {
    return signature(plan_sum(x, cols)) == signature(plan_sum(y, cols));
  };
  if (a.has_squares() != b.has_squares() || a.has_sum() != b.has_sum() || a.moments != b.moments)
    return false;
  if (!same_sum(a.sum, b.sum) || !same_sum(a.squares, b.squares)) return false;
  for (const RowScheduleKey* key : row_keys(a.op)) {
    const bool exact = key->name == "mean" && std::has_single_bit(static_cast<std::uint64_t>(cols));
    if (!exact && a.word(key->name) != b.word(key->name)) return false;
  }
  return true;
}

}  // namespace

BareExponentials fit_bare_exponentials(std::vector<RowSchedule> words, Asked& asked) {
  BareExponentials found;
  std::int64_t least = INT64_MAX;
  std::string best;
  std::map<std::string, std::int64_t> unequal;  // by the exponential
  for (RowSchedule& s : words) {
    s.sum = parse_schedule("acc=f32");
    const std::string exp(s.word("exp"));
    if (!unequal.contains(exp)) unequal[exp] = asked.unequal(s);
    if (unequal[exp] < least) least = unequal[exp], best = exp;
  }
  if (least > 0) {
    found.unknown =
        CardField{"exp", best,
                  fmt::format("none of the exponentials known here; nearest {}: {} of {} bare ones equal",
                              best, asked.outputs() - least, asked.outputs()),
                  false};
    return found;
  }
  for (const auto& [exp, count] : unequal)
    if (exp != best)
      found.against += fmt::format("{}exp={}: {} of {} bare exponentials differ",
                                   found.against.empty() ? "" : "; ", exp, count, asked.outputs());
  std::erase_if(words, [&](const RowSchedule& s) { return unequal[std::string(s.word("exp"))] != 0; });
  found.words = std::move(words);
  return found;
}

std::vector<RowSchedule> fit_with_any_sum(std::vector<RowSchedule> words, const RowAnswer& answer) {
  constexpr std::size_t kFewWords = 16;
  // Quotient, reciprocal and product: each half a place, twice that at a power of two.
  constexpr int kLastPlaces = 4;
  if (answer.in.stored_as != "f32" || words.size() <= kFewWords) return words;
  const auto cols = static_cast<std::size_t>(answer.in.cols);
  for (std::int64_t r : {answer.in.rows - 1, answer.in.rows / 2}) {
    const RowInputs row = Asked::one_row(answer.in, r);
    const std::span<const double> got =
        std::span(answer.got).subspan(static_cast<std::size_t>(r) * cols, cols);
    const std::size_t top = static_cast<std::size_t>(std::ranges::max_element(got) - got.begin());
    if (!(got[top] > 0)) continue;
    RowReplay replay(row);
    std::erase_if(words, [&](const RowSchedule& s) {
      float sum = static_cast<float>(static_cast<double>(RowExponentials(s, row).values()[top]) / got[top]);
      for (int k = 0; k < kLastPlaces; ++k) sum = std::nextafter(sum, 0.0F);
      for (int k = 0; k <= 2 * kLastPlaces; ++k, sum = std::nextafter(sum, HUGE_VALF))
        if (replay.unequal(s, {{static_cast<double>(sum)}, {}}, got, 1) == 0) return false;
      return true;
    });
  }
  return words;
}

void show_against(const std::vector<std::unique_ptr<Asked>>& answers, const std::string& exponential,
                  const std::vector<RowSchedule>& alike, std::int64_t least, RowCard& card) {
  const std::string own = print_schedule(*card.schedule);
  const std::int64_t cols = answers.front()->answer.in.cols;
  for (const TamperedRows& t : tampered(*card.schedule, cols)) {
    if (same_steps(t.schedule, *card.schedule, cols)) continue;
    std::int64_t unequal = 0, outputs = 0;
    for (const auto& asked : answers) {
      if (unequal > 0 && outputs >= least) break;
      try {
        unequal += asked->unequal(t.schedule), outputs += asked->outputs();
      } catch (const InputError&) {
        continue;
      }
    }
    auto field = std::ranges::find(card.fields, t.field, &CardField::field);
    if (field == card.fields.end())
      field = card.fields.insert(card.fields.end(), CardField{t.field, value_in(own, t.field), "", true});
    const std::string name = t.field.substr(t.field.find('.') + 1);
    field->against += fmt::format("{}{}={}: {} of {} differ", field->against.empty() ? "" : "; ", name,
                                  value_in(print_schedule(t.schedule), t.field), unequal, outputs);
    if (unequal == 0) field->concluded = false;
  }
  // Of a narrow store whatever else gave the same bits leaves open what it says otherwise.
  for (const RowSchedule& other : alike) {
    if (answers.front()->answer.in.stored_as == "f32" || same_steps(other, *card.schedule, cols)) continue;
    for (CardField& field : card.fields) {
      const std::string value = value_in(print_schedule(other), field.field);
      if (field.concluded && value != field.value)
        field.concluded = false, field.against += fmt::format("; {} has the same bits", value);
    }
  }
  if (!exponential.empty())
    if (auto exp = std::ranges::find(card.fields, "exp", &CardField::field); exp != card.fields.end())
      exp->against = exponential;
  card.also = std::ranges::count_if(
      alike, [&](const RowSchedule& s) { return !same_steps(s, *card.schedule, cols); });
}

}  // namespace assay
