#include "harness/expectations.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <ctime>

#include "harness/backend_names.hpp"
#include "harness/suite_text.hpp"
#include "reference/near_names.hpp"

namespace assay {
namespace {

Status parse_status(const std::string& word, const std::string& where) {
  const auto at = std::ranges::find(kStatusNames, word);
  if (at != kStatusNames.end() && word != "pass") return static_cast<Status>(at - kStatusNames.begin());
  const std::vector<std::string> allowed(kStatusNames.begin() + 1, kStatusNames.end());
  throw InputError(InputErrorKind::unknown_name,
                   fmt::format("{}: no verdict '{}'; {}", where, excerpt(word), suggest(word, allowed)));
}

// "2027-01-31": days in this spelling compare as text.
bool is_day(std::string_view text) {
  if (text.size() != 10) return false;
  for (std::size_t at = 0; at < text.size(); ++at)
    if (at == 4 || at == 7 ? text[at] != '-' : text[at] < '0' || text[at] > '9') return false;
  return text.substr(5, 2) >= "01" && text.substr(5, 2) <= "12" && text.substr(8) >= "01" &&
         text.substr(8) <= "31";
}

// Takes the words that begin with @ out of the text.
std::string take_conditions(std::string_view text, Expectation& e, const std::string& where) {
  std::string rest;
  const auto refuse = [&](std::string_view word, const std::string& allowed) {
    throw InputError(InputErrorKind::bad_value,
                     fmt::format("{}: {}: allowed: {}", where, excerpt(std::string(word)), allowed));
  };
  while (!text.empty()) {
    const auto end = std::min(text.find_first_of(" \t"), text.size());
    const std::string_view word = text.substr(0, end);
    text = trimmed(text.substr(end));
    if (!word.starts_with('@')) {
      rest += (rest.empty() ? "" : " ") + std::string(word);
    } else if (word.starts_with("@ratio=")) {
      const auto value = word.substr(7);
      const auto [last, error] = std::from_chars(value.data(), value.data() + value.size(), e.ratio);
      if (error != std::errc{} || last != value.data() + value.size() || !(e.ratio >= 1) ||
          std::isinf(e.ratio))
        refuse(word, "@ratio=NUMBER, 1 or more");
    } else if (word.starts_with("@rate=")) {
      const auto value = word.substr(6);
      const auto [last, error] = std::from_chars(value.data(), value.data() + value.size(), e.rate);
      if (error != std::errc{} || last != value.data() + value.size() || !(e.rate > 0 && e.rate < 1))
        refuse(word, "@rate=NUMBER, between 0 and 1");
    } else if (word.starts_with("@owner=") && word.size() > 7) {
      e.owner = word.substr(7);
    } else if (word.starts_with("@machine=") && word.size() > 9) {
      e.machine = word.substr(9);
    } else if (word.starts_with("@until=")) {
      e.until = word.substr(7);
      if (!is_day(e.until)) refuse(word, "@until=YYYY-MM-DD");
    } else {
      refuse(word, "@ratio=NUMBER, @rate=NUMBER, @machine=NAME, @owner=NAME, @until=YYYY-MM-DD");
    }
  }
  return rest;
}

// P(Binomial(n, p) >= k).
double tail(std::size_t k, std::size_t n, double p) {
  const auto all = static_cast<double>(n);
  double sum = 0;
  for (std::size_t i = k; i <= n; ++i) {
    const auto x = static_cast<double>(i);
    sum += std::exp(std::lgamma(all + 1) - std::lgamma(x + 1) - std::lgamma(all - x + 1) + x * std::log(p) +
                    (all - x) * std::log1p(-p));
  }
  return sum;
}

// Whether one more finding is no more than the rate lets expect of the cases so far.
bool is_within_rate(const Expectation& e) {
  // Derivation: the probability that a finding of just this rate is called more frequent, one run in 10,000,
  // as the header says.
  constexpr double kChance = 1e-4;
  return e.rate == 1 || tail(e.confirmed + 1, e.cases, e.rate) > kChance;
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm day{};
  gmtime_r(&now, &day);
  return fmt::format("{:04}-{:02}-{:02}", day.tm_year + 1900, day.tm_mon + 1, day.tm_mday);
}

}  // namespace

std::vector<Expectation> parse_expectations(std::string_view content, const std::string& name,
                                            const std::string& today) {
  refuse_binary(content, name);
  std::vector<Expectation> list;
  for (int number = 1; !content.empty(); ++number) {
    const std::string_view line = content.substr(0, content.find('\n'));
    content.remove_prefix(std::min(content.size(), line.size() + 1));
    const std::string where = fmt::format("{}:{}", name, number);
    const auto comment = line.find('#');
    const std::string_view text = trimmed(line.substr(0, comment));
    if (text.empty()) continue;
    const std::string_view reason =
        comment == std::string_view::npos ? "" : trimmed(line.substr(comment + 1));
    if (reason.empty())
      throw InputError(InputErrorKind::bad_value,
                       fmt::format("{}: an expectation needs its reason behind a #", where));
    const auto blank = text.find_first_of(" \t");
    Expectation e;
    for (std::string_view words = text.substr(0, blank);;) {
      const auto comma = words.find(',');
      e.statuses.push_back(parse_status(std::string(words.substr(0, comma)), where));
      if (comma == std::string_view::npos) break;
      words.remove_prefix(comma + 1);
    }
    e.set = parse_case(
        take_conditions(blank == std::string_view::npos ? "" : trimmed(text.substr(blank + 1)), e, where),
        where);
    make_matchable(e.set, where);
    e.reason = reason, e.where = where;
    if (!e.owner.empty()) e.reason += fmt::format(" (owner {})", e.owner);
    e.expired = !e.until.empty() && e.until < today;
    list.push_back(std::move(e));
  }
  return list;
}

std::string Expectation::verdicts() const {
  std::string text;
  for (const Status s : statuses) text += fmt::format("{}{}", text.empty() ? "" : ",", to_string(s));
  return text;
}

std::vector<Expectation> read_expectations(const std::string& path) {
  return parse_expectations(read_text(path, "list"), path, today());
}

bool explains(const Expectation& e, const Case& c, const Verdict& verdict) {
  const bool has_status = std::ranges::find(e.statuses, verdict.status) != e.statuses.end();
  return !e.expired && has_status && verdict.worst_ratio <= e.ratio && matches(e.set, c);
}

std::string expectation_line(const Case& c, const Verdict& verdict, const std::string& reason) {
  std::string line = fmt::format("{} {}", to_string(verdict.status), c.op->name);
  for (const auto& [key, value] : c.attributes.all()) line += fmt::format(" {}={}", key, value);
  line += fmt::format(" fill={} fault={} layout={} seed={} backend={}", c.fill, c.fault, c.layout, c.seed,
                      c.backend);
  if (!c.variant.empty()) line += " variant=" + escaped_text(c.variant);
  if (verdict.status == Status::wrong && std::isfinite(verdict.worst_ratio))
    line += fmt::format(" @ratio={:.3g}", 2 * std::max(1.0, verdict.worst_ratio));
  return line + " # " + reason;
}

void apply_expectations(std::vector<Expectation>& expectations, const Case& c, Verdict& verdict) {
  for (auto& e : expectations) {
    if (!matches(e.set, c)) continue;
    ++e.cases;
    if (!explains(e, c, verdict) || !is_within_rate(e)) continue;
    ++e.confirmed;
    verdict.expected = true;
    verdict.reason = e.reason;
  }
}

std::vector<const Expectation*> stale(const std::vector<Expectation>& expectations) {
  std::vector<const Expectation*> list;
  for (const auto& e : expectations)
    if (e.cases > 0 && e.confirmed == 0 && ((e.rate == 1 && e.machine.empty()) || e.expired))
      list.push_back(&e);  // one that has expired confirms nothing
  return list;
}

}  // namespace assay
