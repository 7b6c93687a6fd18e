#include "harness/culprit/shrink.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "harness/culprit/crop.hpp"
#include "harness/history.hpp"

namespace assay::culprit {
namespace {

using Clock = std::chrono::steady_clock;

// Verdicts that a process's memory may bring about: each attempt is made in a new one.
bool needs_new_process(Status s) {
  return s == Status::nondeterministic || s == Status::leak || s == Status::unwritten || s == Status::missed;
}

bool worth_shrinking(Status s) {
  return s != Status::pass && s != Status::unsupported && s != Status::impossible && s != Status::too_big &&
         s != Status::distrust && s != Status::blind && s != Status::suspect;
}

const KeySpec* attribute(const Op& op, std::string_view name) {
  const auto found = std::ranges::find(op.attributes, name, &KeySpec::name);
  return found == op.attributes.end() ? nullptr : &*found;
}

class Shrinker {
 public:
  Shrinker(Specimen specimen, Finding finding, const InputLists& lists, Workers& workers,
           const ShrinkOptions& options, bool fresh)
      : best_(std::move(specimen)),
        found_(std::move(finding)),
        lists_(lists),
        workers_(workers),
        options_(options),
        fresh_(fresh || needs_new_process(found_.symptom.status)),
        end_(Clock::now() + options.budget) {}

  // Until nothing gets smaller. Whether that was reached within the budget.
  bool run() {
    history();
    for (bool smaller = true; smaller && !over();) {
      smaller = words();
      smaller = shapes() || smaller;
      smaller = axes() || smaller;
      smaller = data() || smaller;
    }
    return !over();
  }
  const Specimen& best() const { return best_; }
  int judged() const { return judged_; }

 private:
  bool over() const { return options_.stopped() || Clock::now() >= end_; }

  bool fails(Specimen candidate) {
    if (over()) return false;
    ++judged_;
    Finding f;
    try {
      f = judge_specimen(candidate, lists_, workers_, options_.judge, fresh_);
    } catch (const InputError&) {
      return false;
    }
    if (f.symptom != found_.symptom || (found_.shows && !f.shows)) return false;
    if (!counterpart_passes(candidate)) return false;
    best_ = std::move(candidate);
    return true;
  }

  bool counterpart_passes(const Specimen& candidate) {
    if (options_.counterpart.empty()) return true;
    Specimen other = candidate;
    other.c.backend = options_.counterpart;
    other.c.variant = options_.counterpart_variant;
    try {
      return judge_specimen(other, lists_, workers_, options_.judge).symptom.status == Status::pass;
    } catch (const InputError&) {
      return false;
    }
  }

  void history() {
    if (best_.c.after.empty()) return;
    const auto shows = [&](const std::vector<std::string>& after) {
      Specimen candidate = best_;
      candidate.c.after = after;
      if (after.empty()) workers_.of(candidate.c.backend).worker->restart();
      return fails(std::move(candidate));
    };
    (void)shortest_history(best_.c.after, shows,
                           std::chrono::duration_cast<std::chrono::milliseconds>(end_ - Clock::now()));
  }

  // The case with one key changed ("" takes it out); nothing when no such case can be.
  std::optional<Case> changed(const std::string& key, const std::string& value) const {
    CaseSet set = parse_case(best_.c.line());
    std::erase_if(set.sets, [&](const auto& s) { return s.first == key; });
    if (!value.empty()) set.sets.emplace_back(key, std::vector{value});
    try {
      Case c = expand(set).front();
      if (c.line() == best_.c.line()) return std::nullopt;
      return c;
    } catch (const InputError&) {
      return std::nullopt;
    }
  }

  bool try_refilled(const Case& c) {
    if (file_of_fill(c.fill)) return false;
    try {
      return fails({c, make_inputs(c, lists_)});
    } catch (const InputError&) {
      return false;
    }
  }
  bool try_cropped(const Case& c, const Cut& cut) {
    for (const bool new_indices : {false, true}) {
      if (new_indices && c.op->indices == nullptr) break;
      try {
        auto inputs = cropped(best_, c, cut, new_indices, lists_);
        if (inputs && fails({c, std::move(*inputs)})) return true;
      } catch (const InputError&) {
      }
    }
    return false;
  }

  // Words and formats to their defaults, the plainest format, no fault, no layout.
  bool words() {
    bool smaller = false;
    const CaseSet set = parse_case(best_.c.line());
    for (const auto& [key, values] : set.sets) {
      if (key == "backend" || key == "variant" || key == "after" || over()) continue;
      const KeySpec* spec = attribute(*best_.c.op, key);
      // What must be given says which kernel it is.
      if (spec != nullptr && spec->fallback.empty()) continue;
      if (key == "fault") {
        // The spoilt inputs as plain ones: what they do needs no comparison with unspoilt ones.
        if (auto c = changed(key, "")) {
          Specimen plain{*c, best_.inputs};
          plain.inputs.fault = nullptr;
          if (!plain.inputs.corrupted.empty()) plain.inputs.set = plain.inputs.corrupted;
          plain.inputs.clean.clear(), plain.inputs.corrupted.clear();
          smaller = fails(std::move(plain)) || smaller;
        }
        continue;
      }
      std::vector<std::string> plainer{""};
      if (spec != nullptr && spec->kind == KeyKind::format) plainer.push_back("f32");
      for (const std::string& value : plainer) {
        const auto c = changed(key, value);
        if (!c) continue;
        if (try_refilled(*c) || (key != "fill" && key != "seed" && try_cropped(*c, Cut{}))) {
          smaller = true;
          break;
        }
      }
    }
    return smaller;
  }

  bool try_size(const std::string& key, std::int64_t from, std::int64_t to) {
    const auto c = changed(key, fmt::format("{}", to));
    if (!c) return false;
    return try_cropped(*c, first_of(from, to)) || try_cropped(*c, last_of(from, to)) || try_refilled(*c);
  }

  std::vector<std::string> integers() const {
    std::vector<std::string> names;
    for (const KeySpec& spec : best_.c.op->attributes)
      if (spec.kind == KeyKind::integer) names.emplace_back(spec.name);
    return names;
  }

  // Counts to the least that still fails: powers of two upwards, then halving of what lies between.
  bool shapes() {
    bool smaller = false;
    for (const std::string& key : integers()) {
      const std::int64_t from = best_.c.attributes.integer(key);
      std::int64_t low = 0;
      for (std::int64_t to = 1; to < best_.c.attributes.integer(key) && !over(); to *= 2) {
        if (try_size(key, best_.c.attributes.integer(key), to)) break;
        low = to;
      }
      for (std::int64_t high = best_.c.attributes.integer(key); high - low > 1 && low > 0 && !over();) {
        const std::int64_t middle = low + (high - low) / 2;
        if (try_size(key, high, middle))
          high = middle;
        else
          low = middle;
      }
      smaller = smaller || best_.c.attributes.integer(key) < from;
    }
    return smaller;
  }

  // Parts of an axis from anywhere in it: delta debugging over keys, dimensions, heads, rows.
  bool axes() {
    bool smaller = false;
    for (const std::string& key : integers()) {
      for (std::int64_t piece = best_.c.attributes.integer(key) / 2; piece >= 1 && !over(); piece /= 2) {
        for (std::int64_t at = 0; at + piece <= best_.c.attributes.integer(key) && !over();) {
          const std::int64_t n = best_.c.attributes.integer(key);
          const auto c = n > piece ? changed(key, fmt::format("{}", n - piece)) : std::nullopt;
          if (c && try_cropped(*c, without(n, at, piece)))
            smaller = true;
          else
            at += piece;
        }
      }
    }
    return smaller;
  }

  // One tensor with other numbers.
  bool try_numbers(const std::string& tensor, const std::vector<float>& numbers) {
    Specimen candidate = best_;
    Encoded& stored = candidate.inputs.set.at(tensor);
    try {
      Encoded other = encoded_as(stored, numbers);
      bool same = true;
      for (std::size_t p = 0; p < other.planes.size(); ++p)
        same = same && other.planes[p].bytes == stored.planes[p].bytes;
      if (same || !(weight_of(numbers_of(other)) < weight_of(numbers_of(stored)))) return false;
      stored = std::move(other);
      return fails(std::move(candidate));
    } catch (const InputError&) {
      return false;
    }
  }

  bool data() {
    if (best_.inputs.fault != nullptr) return false;  // two sets of data that differ by the fault alone
    bool smaller = false;
    for (const TensorSpec& t : std::vector(best_.inputs.tensors)) {
      if (t.role != TensorRole::data) continue;
      smaller = pieces(t.name) || smaller;
      smaller = singles(t.name) || smaller;
    }
    return smaller;
  }

  // Runs of elements to 0, or to 1.
  bool pieces(const std::string& tensor) {
    bool smaller = false;
    std::vector<float> numbers = numbers_of(best_.inputs.set.at(tensor));
    const auto simple = [](float x) { return x == 0 || x == 1; };
    for (std::size_t piece = numbers.size(); piece >= 1 && !over(); piece /= 2)
      for (std::size_t at = 0; at < numbers.size() && !over(); at += piece) {
        const std::size_t end = std::min(numbers.size(), at + piece);
        if (std::all_of(numbers.begin() + at, numbers.begin() + end, simple)) continue;
        for (const float value : {0.0F, 1.0F}) {
          std::vector<float> fewer = numbers;
          std::fill(fewer.begin() + at, fewer.begin() + end, value);
          if (!try_numbers(tensor, fewer)) continue;
          numbers = numbers_of(best_.inputs.set.at(tensor));
          smaller = true;
          break;
        }
      }
    return smaller;
  }

  // Each element that is left to a power of two, or to fewer bits.
  bool singles(const std::string& tensor) {
    bool smaller = false;
    std::vector<float> numbers = numbers_of(best_.inputs.set.at(tensor));
    for (std::size_t i = 0; i < numbers.size() && !over(); ++i) {
      const float x = numbers[i];
      if (!std::isfinite(x) || x == 0) continue;
      int exponent = 0;
      const float fraction = std::frexp(std::fabs(x), &exponent);
      if (fraction == 0.5F) continue;  // a power of two
      for (const int bits : {1, 2, 4, 8}) {
        const float rounded =
            std::copysign(std::ldexp(std::nearbyint(std::ldexp(fraction, bits)), exponent - bits), x);
        if (rounded == x) break;
        std::vector<float> plainer = numbers;
        plainer[i] = rounded;
        if (!try_numbers(tensor, plainer)) continue;
        numbers = numbers_of(best_.inputs.set.at(tensor));
        smaller = true;
        break;
      }
    }
    return smaller;
  }

  Specimen best_;
  Finding found_;
  const InputLists& lists_;
  Workers& workers_;
  const ShrinkOptions& options_;
  bool fresh_;
  Clock::time_point end_;
  int judged_ = 0;
};

}  // namespace

std::size_t data_elements(const Specimen& specimen) {
  std::size_t most = 0;
  for (const TensorSpec& t : specimen.inputs.tensors)
    if (t.role == TensorRole::data) most = std::max(most, static_cast<std::size_t>(element_count(t.shape)));
  return most;
}

Shrunk shrink(const Case& c, const InputLists& lists, Workers& workers, const ShrinkOptions& options) {
  Shrunk s;
  s.specimen = {c, make_inputs(c, lists)};
  s.first = judge_specimen(s.specimen, lists, workers, options.judge, true);
  s.finding = s.first;
  ++s.judged;
  if (!worth_shrinking(s.first.symptom.status)) return s;
  const auto start = Clock::now();
  for (const bool fresh : {false, true}) {
    ShrinkOptions left = options;
    left.budget -= std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start);
    Shrinker shrinker({c, make_inputs(c, lists)}, s.first, lists, workers, left, fresh);
    s.done = shrinker.run();
    s.judged += shrinker.judged();
    // A new process decides: what it does not show again depended on the attempts before.
    const Finding again = judge_specimen(shrinker.best(), lists, workers, options.judge, true);
    s.repeats = again.symptom == s.first.symptom;
    if (s.repeats) {
      s.specimen = shrinker.best();
      s.finding = again;
      break;
    }
  }
  return s;
}

}  // namespace assay::culprit
