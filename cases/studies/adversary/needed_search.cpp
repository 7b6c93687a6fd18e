#include "cases/studies/adversary/needed_search.hpp"

#include <algorithm>
#include <chrono>
#include <optional>

#include "reference/error.hpp"

namespace assay::adversary {
namespace {

bool is_asked(const std::string& name, const std::vector<std::string>& of) {
  return of.empty() ||
         std::ranges::any_of(of, [&](const std::string& each) { return name.starts_with(each); });
}

template <typename What>
Wanted wanted(const What& what, std::string op, std::string group) {
  return {print(what), std::move(op), std::move(group),
          [what](const Point& point, const Run& run, const std::vector<Truth>& own) {
            return need(what, point, run, own);
          }};
}

// A point that was run.
struct Tried {
  Point point;
  Run run;
  std::vector<Truth> own;
};
std::optional<Tried> tried(Point point) {
  try {
    Tried t{std::move(point), {}, {}};
    t.run = run_of(t.point);
    t.own = truths_of(t.point, t.run);
    return t;
  } catch (const InputError&) {
    return std::nullopt;
  }
}

// What is missing, and the point that comes nearest to showing it.
struct Open {
  Wanted wanted;
  double best = 0;
  Point point;
  int stuck = 0;  // climbs without a gain
  std::map<std::string_view, std::pair<int, int>>
      seen{};  // of a family: how often it was held against it, and moved a limit
};

class Joint {
 public:
  Joint(std::vector<Wanted> wanted, const std::vector<const Family*>& among, const SearchOptions& options,
        const std::function<void(const Wanted&, const Point&)>& found)
      : options_(options), found_(found), draw_(mix(options.seed)) {
    for (Wanted& each : wanted) open_.emplace_back().wanted = std::move(each);
    for (const Family* each : among)
      if (std::ranges::any_of(open_, [&](const Open& o) { return fits(o, *each); })) among_.push_back(each);
  }

  std::vector<Wanted> run() {
    for (std::size_t turn = 0; !among_.empty() && !open_.empty() && spent() < options_.seconds; ++turn) {
      const Family& family = *among_[turn % among_.size()];
      if (std::ranges::none_of(open_, [&](const Open& o) { return fits(o, family); })) {
        std::erase(among_, &family);
        continue;
      }
      for (int i = 0; i < kDraws; ++i)
        if (const auto drawn = tried(draw_point(family, options_, draw_))) hold(*drawn);
      if (!open_.empty()) climb(turn % open_.size());
    }
    std::vector<Wanted> missing;
    for (Open& each : open_) missing.push_back(std::move(each.wanted));
    return missing;
  }

 private:
  static constexpr int kDraws = 8, kStuck = 6;

  static bool fits(const Open& o, const Family& f) { return o.wanted.op.empty() || o.wanted.op == f.op; }
  double spent() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

  // A rule that has moved no limit of a family's first points is tried on few of the others.
  bool is_worth(Open& o, const Family& f) {
    const auto& [held, moved] = o.seen[f.name];
    return held < 60 || moved * 50 > held || draw_.coin(24);
  }

  // Holds a point against all that is missing; what it shows leaves the list. sure: the group that it was
  // climbed for.
  void hold(const Tried& t, std::string_view sure = {}) {
    const Family& own = family(t.point.family);
    std::string_view refuted;
    for (std::size_t i = 0; i < open_.size();) {
      Open& o = open_[i];
      const bool skip = !fits(o, own) || (!o.wanted.group.empty() && o.wanted.group == refuted) ||
                        (o.wanted.op.empty() && o.wanted.group != sure && !is_worth(o, own));
      if (skip) {
        ++i;
        continue;
      }
      const double score = o.wanted.need(t.point, t.run, t.own);
      auto& [held, moved] = o.seen[own.name];
      ++held, moved += score > 0 ? 1 : 0;
      if (score <= 1) refuted = o.wanted.group;
      if (score > o.best) o.best = score, o.point = t.point, o.stuck = 0;
      if (score <= 1) {
        ++i;
        continue;
      }
      const Wanted is = std::move(o.wanted);
      open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(i));
      found_(is, reduced(t.point, is));
      refuted = {};
    }
  }

  void climb(std::size_t at) {
    if (open_[at].best <= 0) return;
    const Family& own = family(open_[at].point.family);
    bool gained = false;
    for (int step = 0; step < options_.climb && spent() < options_.seconds; ++step) {
      const auto next = tried(changed(own, options_, open_[at].point, draw_));
      if (!next) continue;
      const double score = open_[at].wanted.need(next->point, next->run, next->own);
      if (score < open_[at].best) continue;
      gained = gained || score > open_[at].best;
      open_[at].best = score, open_[at].point = next->point;
      if (score > 1) return hold(*next, std::string(open_[at].wanted.group));
    }
    if (gained)
      open_[at].stuck = 0;
    else if (++open_[at].stuck >= kStuck)
      open_[at].best = 0, open_[at].stuck = 0;  // another draw may begin nearer
  }

  const SearchOptions& options_;
  const std::function<void(const Wanted&, const Point&)>& found_;
  Draw draw_;
  std::vector<Open> open_;
  std::vector<const Family*> among_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace

std::vector<Wanted> wanted_rules(const std::vector<std::string>& of) {
  std::vector<Wanted> all;
  for (const WeakRule& weak : weak_rules())
    if (const std::string name = print(weak); is_asked(name, of))
      all.push_back(wanted(weak, "", name.substr(0, name.find('*'))));
  return all;
}

std::vector<Wanted> wanted_words(const std::vector<std::string>& of) {
  std::vector<Wanted> all;
  for (const ContractWord& word : contract_words())
    if (is_asked(print(word), of)) all.push_back(wanted(word, word.op, ""));
  return all;
}

Point reduced(Point point, const Wanted& wanted) {
  const auto shows = [&](const Point& smaller) {
    const auto t = tried(smaller);
    return t && wanted.need(smaller, t->run, t->own) > 1;
  };
  const Family& own = family(point.family);
  bool changes = true;
  const auto take = [&](const Point& smaller) {
    if (smaller == point || !shows(smaller)) return false;
    point = smaller;
    return changes = true;
  };
  while (changes) {
    changes = false;
    for (std::size_t i = point.inputs.edits.size(); i-- > 0;) {
      Point fewer = point;
      fewer.inputs.edits.erase(fewer.inputs.edits.begin() + static_cast<std::ptrdiff_t>(i));
      take(fewer);
    }
    const auto plainer = [&](std::span<const Axis> axes, Choices Point::* choices) {
      for (const Axis& axis : axes)
        for (const std::string& word : words_of(axis.words)) {  // the plainest first
          const std::string name(axis.name);
          if ((point.*choices)[name] == word) break;
          Point next = point;
          (next.*choices)[name] = word;
          if (take(next)) break;
        }
    };
    plainer(own.attributes, &Point::attributes);
    plainer(own.kernel, &Point::kernel);
    Point quiet = point;
    quiet.kernel["noise"] = "0";
    take(quiet);
    for (const char* fill : {"zero", "powers", "gauss"}) {
      if (point.inputs.fill == fill) break;
      Point next = point;
      next.inputs.fill = fill, next.inputs.seed = 1;
      if (take(next)) break;
    }
  }
  return point;
}

std::vector<Wanted> find_all(std::vector<Wanted> wanted, const std::vector<const Family*>& among,
                             const SearchOptions& options,
                             const std::function<void(const Wanted&, const Point&)>& found) {
  return Joint(std::move(wanted), among, options, found).run();
}

}  // namespace assay::adversary
