// A paged KV cache with prefix caching: who owns which page, and the bytes of each layer.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace assay::scenarios {

// Pages of `page` tokens. A page is free, or referenced by requests, or unreferenced and still cached under
// the hash of the tokens up to its end; cached pages are evicted, least recently used first, when no page is
// free.
class Pages {
 public:
  Pages(int count, int page);
  struct Page {
    int references = 0;
    bool committed = false;  // found by later requests under `hash`
    bool evictable = false;
    bool rotated = false;  // K is stored rotated
    bool nan = false;      // a NaN was written to it
    int written = 0;       // tokens whose K and V of every layer are in it
    int writer = -1;       // the request that wrote it last
    std::uint64_t hash = 0;
    std::uint64_t used = 0;  // when it was last released
  };
  // The hash of a full page: of its tokens and of the page before it.
  static std::uint64_t hash(std::uint64_t before, std::span<const int> tokens);
  int find(std::uint64_t hash) const;  // -1 when no page is committed under it
  int allocate();                      // throws std::runtime_error when every page is referenced
  void retain(int page);
  void release(int page);  // the last release frees it, or leaves it cached
  void commit(int page, std::uint64_t hash);
  void forget(int page);  // no later request finds it
  Page& operator[](int page) { return pages_[static_cast<std::size_t>(page)]; }
  int count() const { return static_cast<int>(pages_.size()); }
  int page() const { return page_; }
  int evictions() const { return evictions_; }
  int reuses() const { return reuses_; }  // pages given out that had been used before

 private:
  int page_;
  std::vector<Page> pages_;
  std::vector<int> free_;
  std::unordered_map<std::uint64_t, int> committed_;
  std::uint64_t clock_ = 0;
  int evictions_ = 0, reuses_ = 0;
};

}  // namespace assay::scenarios
