#include "cases/studies/cascade/cache.hpp"

#include <stdexcept>

#include "reference/inputs/random.hpp"

namespace assay::scenarios {

Pages::Pages(int count, int page) : page_(page), pages_(static_cast<std::size_t>(count)) {
  for (int i = count; i-- > 0;) free_.push_back(i);
}

std::uint64_t Pages::hash(std::uint64_t before, std::span<const int> tokens) {
  std::uint64_t h = mix(before);
  for (const int t : tokens) h = mix(h ^ static_cast<std::uint64_t>(t));
  return h;
}

int Pages::find(std::uint64_t hash) const {
  const auto found = committed_.find(hash);
  return found == committed_.end() ? -1 : found->second;
}

int Pages::allocate() {
  if (free_.empty()) {
    int oldest = -1;
    for (int i = 0; i < count(); ++i)
      if (pages_[i].references == 0 && pages_[i].evictable &&
          (oldest < 0 || pages_[i].used < pages_[oldest].used))
        oldest = i;
    if (oldest < 0) throw std::runtime_error("the KV cache is full: every page is in use");
    forget(oldest);
    ++evictions_;
    free_.push_back(oldest);
  }
  const int p = free_.back();
  free_.pop_back();
  reuses_ += pages_[p].writer >= 0 ? 1 : 0;
  const std::uint64_t used = pages_[p].used;
  pages_[p] = {};
  pages_[p].references = 1;
  pages_[p].used = used;
  return p;
}

void Pages::retain(int page) {
  Page& p = (*this)[page];
  ++p.references;
  p.evictable = false;
}

void Pages::release(int page) {
  Page& p = (*this)[page];
  if (--p.references > 0) return;
  p.used = ++clock_;
  if (p.committed)
    p.evictable = true;
  else
    free_.push_back(page);
}

void Pages::commit(int page, std::uint64_t hash) {
  Page& p = (*this)[page];
  if (p.committed || committed_.contains(hash)) return;
  p.committed = true;
  p.hash = hash;
  committed_.emplace(hash, page);
}

void Pages::forget(int page) {
  Page& p = (*this)[page];
  if (p.committed) committed_.erase(p.hash);
  p.committed = p.evictable = false;
}

}  // namespace assay::scenarios
