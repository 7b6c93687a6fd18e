// The machine of requests: RapidCheck draws what the books allow, and takes steps away where a sequence
// fails.
#include <rapidcheck/state.h>

#include "cases/studies/properties/requests.hpp"

namespace assay::property_families {
namespace {

using properties::a_case;

// At most so many steps: a row written, shared, read, evicted and used again, twice over.
constexpr int kMostSteps = 12;
constexpr std::int64_t kPages[] = {4, 1, 16};
constexpr const char* kRanges[] = {"1", "4", "16", "256", "0.0625"};

using Command = rc::state::Command<Books, int>;

struct Act : Command {
  explicit Act(Step s) : step(std::move(s)) {}
  void checkPreconditions(const Books& books) const override { RC_PRE(books.objection(step).empty()); }
  void apply(Books& books) const override { books.enter(step); }
  void show(std::ostream& out) const override { out << step.print(); }
  Step step;
};

Step request(const Books& books, const std::string& name, bool nan) {
  static constexpr const char* kNan[] = {"no", "k", "v"};
  Step s{name, {{"row", number(drawn(0, books.cache->rows - 1))}}};
  if (name == "share") s.values.emplace_back("from", number(drawn(0, books.cache->rows - 1)));
  s.values.emplace_back("tokens", number(drawn(1, books.cache->length)));
  s.values.emplace_back("range", nan ? "1" : one_of(kRanges));
  s.values.emplace_back("seed", number(drawn(1, 3)));  // few: the same request comes again
  s.values.emplace_back("nan", nan ? one_of(kNan) : "no");
  return s;
}

Step next(const Books& books, bool nan) {
  std::vector<std::string> names;
  if (books.cache->locks() && !books.calibrated)
    names.emplace_back("calibrate");
  else if (books.live() < books.cache->rows)
    names.insert(names.end(), {"write", "write"});
  if (books.live() > 0 && books.live() < books.cache->rows) names.emplace_back("share");
  if (books.live() > 0) {
    if (books.cache->reads) names.insert(names.end(), {"read", "read"});
    names.insert(names.end(), {"evict", "reset"});
  }
  const std::string name = one_of(names);
  if (name == "calibrate") return {name, {{"range", one_of(kRanges)}}};
  if (name == "read") return {name, {{"seed", number(drawn(1, 3))}}};
  if (name == "evict") return {name, {{"row", number(drawn(0, books.cache->rows - 1))}}};
  if (name == "reset") return {name, {}};
  return request(books, name, nan);
}

Steps sequence(const Step& kind, bool nan) {
  Step first = kind;
  const auto set = [&](const std::string& key, std::int64_t value) {
    for (auto& [name, text] : first.values)
      if (name == key) text = number(value);
  };
  const std::int64_t kv_heads = drawn(1, 2);
  set("kv_heads", kv_heads);
  set("heads", kv_heads * drawn(1, 2));
  set("d", 32 * drawn(1, 2));
  set("page", one_of(kPages));
  set("rows", drawn(2, 3));
  set("len", drawn(1, 24));
  const auto cache = std::make_shared<const Cache>(first);
  const auto commands =
      *rc::gen::resize(kMostSteps, rc::state::gen::commands(Books(cache), [nan](const Books& books) {
                         return rc::gen::exec([books, nan] {
                           return std::shared_ptr<const Command>(new Act(next(books, nan)));
                         });
                       }));
  Steps steps{first};
  for (const auto& command : commands) steps.push_back(dynamic_cast<const Act&>(*command).step);
  return steps;
}

// Caches of which the subject takes the write (unless it is raw) or the read, and says so.
std::vector<Step> kinds(Subject& subject, const std::vector<std::pair<std::string, std::string>>& formats,
                        bool must_read) {
  std::vector<std::string> lines;
  std::vector<Step> all;
  for (const auto& [to, policy] : formats) {
    Step s{"cache",
           {{"to", to},
            {"policy", policy},
            {"heads", "2"},
            {"kv_heads", "1"},
            {"d", "32"},
            {"page", "4"},
            {"rows", "2"},
            {"len", "8"},
            {"reads", "yes"}}};
    const Cache cache(s);
    const auto takes = [&](const std::string& line) {
      try {
        return !taken(subject, {line}).empty();
      } catch (const NotTaken& e) {
        if (lines.empty()) lines.push_back(e.why);
        return false;
      }
    };
    const bool reads = takes(cache.read_line(1));
    if (!reads) s.values.back().second = "no";
    if ((reads || !must_read) && (cache.raw() || takes(cache.write_line(2, 1)))) all.push_back(s);
  }
  if (all.empty()) throw NotTaken{lines.empty() ? "no cache of it is possible" : lines.front()};
  return all;
}

Draws sequences(std::vector<Step> kinds, bool nan) {
  return always(rc::gen::exec([kinds = std::move(kinds), nan] { return sequence(one_of(kinds), nan); }));
}

}  // namespace

Draws draw_locked(Subject& subject, std::uint64_t) {
  std::vector<std::pair<std::string, std::string>> list;
  for (const Format& f : formats()) {
    if (f.kind == FormatKind::block && !quantiser_rule(f).empty() &&
        !std::ranges::count(grows_with_tokens(f, 1, 256), 0))
      list.emplace_back(f.name, "token");
    if (f.kind != FormatKind::scaled) continue;
    if (f.axis == ScaleAxis::token) list.emplace_back(f.name, "token");
    if (f.axis == ScaleAxis::tensor || f.axis == ScaleAxis::head)
      list.insert(list.end(), {{std::string(f.name), "locked"}, {std::string(f.name), "calibrated"}});
  }
  return sequences(kinds(subject, list, false), false);
}

// Formats whose elements have a NaN, stored by the backend where it has a kernel for it; what has no scale,
// as it is.
Draws draw_nan(Subject& subject, std::uint64_t) {
  std::vector<std::pair<std::string, std::string>> wide, list;
  for (const Format& f : formats()) {
    if (f.kind == FormatKind::block) continue;
    const ScalarFormat& e = scalar_format(f.element);
    if (!has_nan(e) || e.kind != ScalarKind::floating || e.storage_bytes == 0) continue;
    if (f.axis == ScaleAxis::token) list.emplace_back(f.name, "token");
    if (f.kind != FormatKind::scalar) continue;
    if (e.storage_bytes == 1) list.emplace_back(f.name, "raw");
    // What most caches are stored in comes more often, and is what a draw shrinks to.
    for (int times = 0; e.storage_bytes > 1 && times < 3; ++times) wide.emplace_back(f.name, "raw");
  }
  list.insert(list.begin(), wide.begin(), wide.end());
  return sequences(kinds(subject, list, true), true);
}

}  // namespace assay::property_families
