#include "harness/smallest_seen.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <sstream>

#include "harness/case_file.hpp"
#include "harness/input_lists.hpp"
#include "harness/suites.hpp"

namespace assay {
namespace {

struct StudyValue {
  std::optional<int> number;
  std::string fill;
};
// "18:front_load", or "nothing".
StudyValue study_value(const std::string& text, const std::string& where) {
  if (text == "nothing") return {};
  const std::size_t colon = text.find(':');
  int n = 0;
  const char* const end = text.data() + std::min(colon, text.size());
  if (colon == std::string::npos || std::from_chars(text.data(), end, n).ptr != end || n < 1)
    throw InputError(InputErrorKind::bad_value,
                     fmt::format("{}: '{}'; allowed: NUMBER:FILL, or nothing", where, text));
  return {n, text.substr(colon + 1)};
}

}  // namespace

SmallestSeen::SmallestSeen(const std::vector<SuiteLine>& study, const InputLists& lists) : lists_(lists) {
  for (const SuiteLine& row : study) {
    const std::size_t arrow = row.text.find(" => ");
    std::istringstream words(arrow == std::string::npos ? "" : row.text.substr(arrow + 4));
    std::string terms, bits, more;
    if (!(words >> terms >> bits) || (words >> more) || !terms.starts_with("terms=") ||
        !bits.starts_with("bits="))
      throw InputError(InputErrorKind::bad_value,
                       fmt::format("{}: allowed: CASE => terms=NUMBER:FILL bits=NUMBER:FILL", row.where));
    const Case c = expand(parse_case(row.text.substr(0, arrow), row.where)).front();
    const StudyValue t = study_value(terms.substr(6), row.where), b = study_value(bits.substr(5), row.where);
    const auto [at, first] = study_.try_emplace({std::string(c.op->name), format_label(c)});
    Planted& all = at->second;
    if (first || (all.terms && (!t.number || *t.number > *all.terms)))
      all.terms = t.number, all.terms_fill = t.fill;
    if (first || (all.bits && (!b.number || *b.number < *all.bits)))
      all.bits = b.number, all.bits_fill = b.fill;
  }
}

SmallestSeen SmallestSeen::of_the_study(const InputLists& lists) {
  return {read_suite(suites_directory() + "/planted.list"), lists};
}

void SmallestSeen::add(const CaseResult& r) {
  const Verdict& v = r.verdict;
  if (v.status != Status::pass || v.seen.elements == 0 || r.c.fault != "none" || file_of_fill(r.c.fill))
    return;
  Seen& seen = seen_[{std::string(r.c.op->name), format_label(r.c)}];
  seen.scale = std::min(seen.scale, v.seen.half);
  const Fill& fill = find_fill(lists_, r.c.fill, r.c.op->name);
  seen.fills.insert(std::string(fill.bare.empty() ? fill.name : fill.bare));  // the probe is the same
  if (fill.terms_seen == nullptr) return;
  seen.derived = true;
  const auto terms = fill.terms_seen(r.c.attributes, v.seen.loosest);
  if (terms && (!seen.terms || *terms < *seen.terms)) seen.terms = terms;
}

namespace {

// "0.78 %", rounded up to a power of two; "any" where the limits are 0: every other bit is seen.
std::string scale_text(double scale) {
  return scale == 0 ? "any" : percent(std::exp2(std::ceil(std::log2(scale))));
}

// The worst of a defect over formats: "1 (bf16), asked of 5 of 12 formats".
struct Worst {
  std::size_t asked = 0, of = 0;
  std::optional<std::int64_t> number;
  bool unseen = false;
  std::string formats;

  // most: the larger number is the worse
  void add(std::optional<std::int64_t> n, bool was_asked, bool most, const std::string& name) {
    ++of;
    if (!was_asked) return;
    ++asked;
    if (unseen) return;
    if (!n || !number || (most ? *n > *number : *n < *number)) number = n, unseen = !n, formats = name;
  }
  std::string text(const std::string& what) const {
    if (asked == 0) return what + " not asked";
    return fmt::format("{} {} ({}), asked of {} of {} formats", what,
                       unseen ? "unseen" : fmt::format("{}", *number), formats, asked, of);
  }
};

}  // namespace

std::vector<std::string> SmallestSeen::by_format() const {
  std::vector<std::string> lines;
  for (const auto& [row, seen] : seen_) {
    std::string text = fmt::format("{} {}: scale {}", row.first, row.second, scale_text(seen.scale));
    if (seen.derived) text += seen.terms ? fmt::format(", terms {}", *seen.terms) : ", terms unseen";
    const auto found = study_.find(row);
    lines.push_back(text +
                    (found == study_.end() ? "; not studied" : "; study: " + study_of(seen, found->second)));
  }
  return lines;
}

std::string SmallestSeen::study_of(const Seen& seen, const Planted& p) {
  std::string text;
  const auto tell = [&](const char* what, const std::optional<int>& number, const std::string& fill) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", what,
                        !number                     ? "unseen"
                        : seen.fills.contains(fill) ? fmt::format("{}", *number)
                                                    : "not asked");
  };
  if (!seen.derived) tell("terms", p.terms, p.terms_fill);
  tell("bits", p.bits, p.bits_fill);
  return text;
}

std::vector<std::string> SmallestSeen::by_op() const {
  struct OfOp {
    std::vector<std::pair<double, std::string>> scales;
    Worst derived, terms, bits;
  };
  std::map<std::string, OfOp> ops;
  for (const auto& [row, seen] : seen_) {
    OfOp& all = ops[row.first];
    all.scales.emplace_back(seen.scale, row.second);
    all.derived.add(seen.terms, seen.derived, true, row.second);
    const auto found = study_.find(row);
    if (found == study_.end()) continue;
    const Planted& p = found->second;
    all.terms.add(p.terms, !p.terms || seen.fills.contains(p.terms_fill), true, row.second);
    all.bits.add(p.bits, !p.bits || seen.fills.contains(p.bits_fill), false, row.second);
  }
  std::vector<std::string> lines;
  for (auto& [op, all] : ops) {
    std::ranges::sort(all.scales);
    const auto& [worst, name] = all.scales.back();
    std::string text = fmt::format("{}: scale {} in the median of {} formats, at worst {} ({})", op,
                                   scale_text(all.scales[all.scales.size() / 2].first), all.scales.size(),
                                   scale_text(worst), name);
    if (all.derived.asked > 0) text += "; " + all.derived.text("terms");
    if (all.terms.of > 0) text += "; " + all.terms.text("study: terms");
    if (all.bits.of > 0) text += "; " + all.bits.text("study: bits");
    lines.push_back(std::move(text));
  }
  return lines;
}

}  // namespace assay
