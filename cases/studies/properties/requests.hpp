// A paged cache and the books of its requests: what a machine of requests (request_draws.cpp) draws by, and
// what a sequence of them (requests.cpp) is held to.
//
//   cache      formats, shapes, and how many requests it holds
//   calibrate  range=: policies that look back lock their scale on it
//   write      row= tokens= range= seed= nan=: a request of so many tokens, K and V with or without a NaN
//   share      the same, behind the first page of row from=
//   read       seed=: every request's query against its keys, in one call
//   evict      row=: its pages are free, as they are, and the next request gets them
//   reset      all requests and the scale are forgotten
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cases/studies/properties/families.hpp"

namespace assay::property_families {

struct Cache {
  explicit Cache(const Step& step);
  std::string to;
  std::string policy;  // raw (stored by the harness, no kernel is asked), token, locked or calibrated
  std::int64_t heads, kv_heads, d, page, rows, length;
  bool reads;  // the backend has an attention for it

  bool raw() const { return policy == "raw"; }
  bool locks() const { return policy == "locked" || policy == "calibrated"; }
  Step step() const;
  std::string write_line(std::int64_t tokens, std::int64_t seed) const;
  std::string read_line(std::int64_t seed) const;
};

// Of each plane of a cache of this format, whether it grows with the tokens: scales of a tensor or of heads
// do not.
std::vector<char> grows_with_tokens(const Format& format, std::int64_t heads, std::int64_t d);

struct Books {
  explicit Books(std::shared_ptr<const Cache> of)
      : cache(std::move(of)), tokens(static_cast<std::size_t>(cache->rows), 0) {}
  std::shared_ptr<const Cache> cache;
  bool calibrated = false;
  std::vector<std::int64_t> tokens;  // of each row; 0: it is free

  std::int64_t live() const {
    return std::ranges::count_if(tokens, [](std::int64_t n) { return n > 0; });
  }
  // Why the step cannot come now; "" when it can. Throws InputError for values that it cannot have.
  std::string objection(const Step& step) const;
  void enter(const Step& step);
};

}  // namespace assay::property_families
