#include "cases/studies/cascade/engine.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cases/studies/cascade/engine_state.hpp"

namespace assay::scenarios {

Engine::Engine(const Model& model, const std::vector<Request>& requests, const Settings& settings,
               Arithmetic& arithmetic, const std::vector<std::vector<int>>* forced)
    : model_(model),
      shape_(model.shape),
      requests_(requests),
      s_(settings),
      math_(arithmetic),
      forced_(forced),
      pages_(settings.pages, settings.page) {
  run_.monitors = Monitors(settings.monitors);
  run_.answers.resize(requests.size());
  const int slots = s_.page * s_.pages;
  if (s_.defects.null_block) null_page_ = pages_.allocate();
  for (int l = 0; l < shape_.layers; ++l) {
    k_.emplace_back(s_.policy, shape_, slots, s_.k_constant);
    v_.emplace_back(s_.policy, shape_, slots, s_.v_constant);
  }
  prepare();
}

Run Engine::run() {
  const auto start = Clock::now();
  std::size_t next = 0;
  int finished = 0;
  while (finished < static_cast<int>(requests_.size())) {
    while (next < requests_.size() && may_start(next, finished)) start_request(static_cast<int>(next++));
    step();
    ++run_.steps;
    finished += finish_requests();
  }
  run_.evictions = pages_.evictions();
  run_.reuses = pages_.reuses();
  run_.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return std::move(run_);
}

void Engine::prepare() {
  const bool one_time = s_.policy == Policy::locked || s_.policy == Policy::locked_dummy ||
                        s_.policy == Policy::locked_zero || s_.policy == Policy::diverging;
  watch([&](Monitors& m) { m.engine(one_time); });
  const auto everywhere = [&](auto range, Origin origin) {
    for (int l = 0; l < shape_.layers; ++l) {
      k_[l].lock(range(l, true), origin);
      v_[l].lock(range(l, false), origin);
    }
  };
  const auto top = [](const std::vector<float>& heads) {
    return std::vector{*std::ranges::max_element(heads)};
  };
  if (s_.policy == Policy::checkpoint || s_.policy == Policy::checkpoint_dropped ||
      s_.policy == Policy::checkpoint_swapped) {
    const Ranges r = calibrate(model_);
    for (int l = 0; l < shape_.layers; ++l)
      run_.monitors.checkpoint(l, top(r.k[l])[0] / 448.0F, top(r.v[l])[0] / 448.0F);
  }
  rotated_ = s_.rotate;
  reordered_ = model_.layers[0].up;
  for (std::size_t i = 0; i < reordered_.size(); i += 8)  // tiles of 8, halves interleaved
    for (std::size_t e = 0; e < 8; ++e) reordered_[i + e] = model_.layers[0].up[i + e / 2 + e % 2 * 4];
  switch (s_.policy) {
    case Policy::per_head:
    case Policy::calibrated:
    case Policy::checkpoint: {
      const Ranges r = calibrate(model_);
      const bool heads = s_.policy == Policy::per_head;
      everywhere([&](int l, bool k) { return heads ? (k ? r.k[l] : r.v[l]) : top(k ? r.k[l] : r.v[l]); },
                 s_.policy == Policy::checkpoint ? Origin::checkpoint : Origin::calibration);
      break;
    }
    case Policy::checkpoint_swapped: {
      const Ranges r = calibrate(model_);
      everywhere([&](int l, bool k) { return top(k ? r.v[l] : r.k[l]); }, Origin::checkpoint);
      break;
    }
    case Policy::checkpoint_dropped:
    case Policy::fixed:
      everywhere([](int, bool) { return std::vector{448.0F}; }, Origin::fixed);
      break;
    case Policy::locked_dummy:
      warm_up(kExclamation, Origin::dummy_pass);
      break;
    case Policy::locked_zero:
      warm_up(kZeroToken, Origin::zero_request);
      break;
    default:
      break;
  }
}

void Engine::warm_up(int token, Origin origin) {
  lock_origin_ = origin;
  Active a{-1, std::vector<int>(static_cast<std::size_t>(s_.page), token), {}, 0, 0, {}, 0, 0, {}};
  Monitors off(false);
  std::swap(off, run_.monitors);
  active_ = {a};
  step();
  for (const int p : active_[0].pages) pages_.release(p);
  active_.clear();
  std::swap(off, run_.monitors);
  run_.stages.clear();
  for (int l = 0; l < shape_.layers; ++l)
    watch([&](Monitors& m) {
      m.locked(l, 'K', -1, k_[l].scale()[0], origin);
      m.locked(l, 'V', -1, v_[l].scale()[0], origin);
    });
}

bool Engine::may_start(std::size_t i, int finished) const {
  const Request& r = requests_[i];
  if (i == 0) return true;
  if (r.waits) return finished == static_cast<int>(i);
  return run_.steps >= last_start_ + r.delay;
}

void Engine::start_request(int index) {
  Active a{index, requests_[static_cast<std::size_t>(index)].prompt, {}, 0, run_.steps, {}, 0, 0, {}};
  last_start_ = run_.steps;
  const int full = static_cast<int>(a.tokens.size()) / s_.page;
  std::uint64_t hash = 0;
  for (int b = 0; b < full; ++b) {
    hash = Pages::hash(hash, std::span(a.tokens).subspan(static_cast<std::size_t>(b) * s_.page, s_.page));
    a.hashes.push_back(hash);
  }
  // The last token is always computed: its logits are wanted.
  const int reusable = (static_cast<int>(a.tokens.size()) - 1) / s_.page;
  for (int b = 0; b < reusable; ++b) {
    const int page = pages_.find(a.hashes[static_cast<std::size_t>(b)]);
    if (page < 0) break;
    if (s_.scrub && page_nan_layer(page) >= 0) {
      pages_.forget(page);
      break;
    }
    if (pages_[page].rotated != rotated_) {
      if (!s_.defects.blind_restore) break;
      watch([&](Monitors& m) {
        m.note(Watch::rotation_mismatch, -1, b * s_.page, index, page,
               fmt::format("page {} was written {}rotated and is read {}rotated", page,
                           pages_[page].rotated ? "" : "not ", rotated_ ? "" : "not "));
      });
    }
    pages_.retain(page);
    a.pages.push_back(page);
    a.position += s_.page;
    ++run_.prefix_hits;
    if (pages_[page].written < s_.page)
      watch([&](Monitors& m) {
        m.note(Watch::committed_before_written, -1, b * s_.page, index, page,
               fmt::format("page {} is found by its hash with {} of {} tokens written", page,
                           pages_[page].written, s_.page));
      });
    if (!pages_[page].nan && page_nan_layer(page) >= 0)
      watch([&](Monitors& m) {
        m.note(Watch::nan_appeared, page_nan_layer(page), b * s_.page, index, page,
               fmt::format("page {} holds NaN, and none was written to it", page));
      });
  }
  if (s_.defects.commit_early)
    for (int b = static_cast<int>(a.pages.size()); b < full; ++b) {
      a.pages.push_back(pages_.allocate());
      pages_[a.pages.back()].writer = index;
      pages_.commit(a.pages.back(), a.hashes[static_cast<std::size_t>(b)]);
    }
  active_.push_back(std::move(a));
}

int Engine::page_nan_layer(int page) const {
  for (int l = 0; l < shape_.layers; ++l)
    for (int t = 0; t < s_.page; ++t)
      if (k_[l].slot_has_nan(page * s_.page + t) || v_[l].slot_has_nan(page * s_.page + t)) return l;
  return -1;
}

void Engine::commit(Active& a) {
  if (a.index < 0) return;
  const int full = std::min(a.position / s_.page, static_cast<int>(a.hashes.size()));
  for (int b = 0; b < full; ++b) {
    const int page = a.pages[static_cast<std::size_t>(b)];
    if (pages_[page].committed) continue;
    const bool poisoned = pages_[page].nan;
    if (poisoned && s_.scrub) continue;
    pages_.commit(page, a.hashes[static_cast<std::size_t>(b)]);
    if (poisoned) watch([&](Monitors& m) { m.block(a.index, page, page_nan_layer(page)); });
  }
}

int Engine::finish_requests() {
  int finished = 0;
  for (std::size_t i = 0; i < active_.size();) {
    const Active& a = active_[i];
    const Answer& answer = run_.answers[static_cast<std::size_t>(a.index)];
    const int wanted = forced_ ? static_cast<int>((*forced_)[static_cast<std::size_t>(a.index)].size())
                               : requests_[static_cast<std::size_t>(a.index)].generate;
    if (!answer.aborted && static_cast<int>(answer.tokens.size()) < wanted) {
      ++i;
      continue;
    }
    if (s_.defects.null_block && active_.size() > 1) {
      const int last = a.pages[static_cast<std::size_t>((a.position - 1) / s_.page)] * s_.page +
                       (a.position - 1) % s_.page;
      for (int l = 0; l < shape_.layers; ++l)
        for (KvStore* store : {&k_[l], &v_[l]}) store->copy(last, null_page_ * s_.page);
    }
    const Events& events = s_.events;
    if (events.nan_in_prefix_after == a.index) v_[0].fill(a.pages[0] * s_.page, true);
    if (events.reorder_after == a.index) repacked_ = true;
    if (events.restart_after == a.index) rotated_ = false;
    if (events.nan_in_freed_after == a.index)
      for (const int p : a.pages)
        for (int t = 0; t < s_.page && !pages_[p].committed; ++t) v_[0].fill(p * s_.page + t, true);
    for (const int p : a.pages) {
      if (s_.scrub && pages_[p].nan && pages_[p].references == 1)
        for (int l = 0; l < shape_.layers; ++l)
          for (int t = 0; t < s_.page; ++t) {
            k_[l].fill(p * s_.page + t, false);
            v_[l].fill(p * s_.page + t, false);
          }
      pages_.release(p);
    }
    active_.erase(active_.begin() + static_cast<std::ptrdiff_t>(i));
    ++finished;
  }
  return finished;
}

Run run_engine(const Model& model, const std::vector<Request>& requests, const Settings& settings,
               Arithmetic& arithmetic, const std::vector<std::vector<int>>* forced) {
  return Engine(model, requests, settings, arithmetic, forced).run();
}

}  // namespace assay::scenarios
