// Faults of an attention cache, by logical key: pages are resolved through the clean page table.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>

#include "cases/faults/families.hpp"
#include "reference/inputs/random.hpp"
#include "reference/ops/attention/problem.hpp"

namespace assay::fault_families {
namespace {

// All bits set is a NaN in f16, bf16, f32, e4m3fn and e5m2, and in the f16 or e8m0 scale inside a block; the
// FNUZ formats have their own.
void poison(Encoded& tensor, std::int64_t first, std::int64_t count) {
  const std::string& name = tensor.planes.front().spec.format;
  const auto pattern = name.find("fnuz") != std::string::npos ? std::byte{0x80} : std::byte{0xFF};
  std::ranges::fill(payload_bytes(tensor, first, count), pattern);
}

void put_nan(const FaultSite& site, Encoded& tensor, KeyElements at) {
  poison(tensor, at.first, at.count);
  std::vector<double> decoded(static_cast<std::size_t>(at.count));
  decode_range(tensor, at.first, decoded);
  if (!std::ranges::all_of(decoded, [](double x) { return std::isnan(x); }))
    no_site(site, fmt::format("a format that can hold NaN; {} cannot", tensor.format));
}

// One element of the seldom seen key's V, of KV head 0.
void put_value(const FaultSite& site, TensorSet& set, double x) {
  Encoded& v = set.at("v");
  const KeyElements at = key_elements(site, "v", 0, seldom_seen_key(site), 0);
  const auto column =
      static_cast<std::int64_t>(Stream(site.seed, "fault").below(1, static_cast<std::uint64_t>(at.count)));
  put_code(site, v, at.first + column, x);
}

std::int64_t viewers(const AttentionProblem& problem, std::int64_t b, std::int64_t j) {
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < problem.geometry().rows; ++i) count += problem.visible(b, i, j) ? 1 : 0;
  return count;
}

}  // namespace

KeyElements key_elements(const FaultSite& site, std::string_view tensor, std::int64_t b, std::int64_t j,
                         std::int64_t g) {
  const AttentionProblem problem(site.attributes, site.clean);
  const AttentionGeometry& shape = problem.geometry();
  const std::int64_t width = tensor == "k" ? shape.d : shape.dv;
  return {(problem.token(b, j) * shape.kv_heads + g) * width, width};
}

std::int64_t seldom_seen_key(const FaultSite& site) {
  const AttentionProblem problem(site.attributes, site.clean);
  std::int64_t best = -1, fewest = std::numeric_limits<std::int64_t>::max();
  for (std::int64_t j = 0; j < problem.length(0); ++j) {
    const std::int64_t n = viewers(problem, 0, j);
    if (n > 0 && n <= fewest) best = j, fewest = n;
  }
  if (best < 0) no_site(site, "a key that some row sees");
  return best;
}

void nan_hidden_keys(const FaultSite& site, TensorSet& set) {
  const AttentionProblem problem(site.attributes, site.clean);
  std::int64_t hidden = 0;
  for (std::int64_t b = 0; b < problem.geometry().batch; ++b)
    for (std::int64_t j = 0; j < problem.length(b); ++j) {
      if (viewers(problem, b, j) > 0) continue;
      ++hidden;
      for (std::int64_t g = 0; g < problem.geometry().kv_heads; ++g)
        for (const char* name : {"k", "v"}) put_nan(site, set.at(name), key_elements(site, name, b, j, g));
    }
  if (hidden == 0) no_site(site, "a key that no row sees (mask=window, or mask=random with few rows)");
}

void nan_visible_key(const FaultSite& site, TensorSet& set) {
  put_nan(site, set.at("k"), key_elements(site, "k", 0, seldom_seen_key(site), 0));
}
void nan_visible_value(const FaultSite& site, TensorSet& set) {
  put_value(site, set, std::numeric_limits<double>::quiet_NaN());
}
void inf_visible_value(const FaultSite& site, TensorSet& set) {
  put_value(site, set, std::numeric_limits<double>::infinity());
}

void poison_unused_pages(const FaultSite& site, TensorSet& set) {
  const AttentionProblem problem(site.attributes, site.clean);
  const AttentionGeometry& g = problem.geometry();
  if (g.page == 0) no_site(site, "page > 0");
  const auto table = entries(set, site, "page_table");
  const std::set<std::int64_t> used(table.begin(), table.end());
  for (std::int64_t p = 0; p < g.pages(); ++p) {
    if (used.contains(p)) continue;
    for (const char* name : {"k", "v"}) {
      const std::int64_t page = g.page * g.kv_heads * (*name == 'k' ? g.d : g.dv);
      poison(set.at(name), p * page, page);
    }
  }
}

void poison_tails(const FaultSite& site, TensorSet& set) {
  const AttentionProblem problem(site.attributes, site.clean);
  const AttentionGeometry& g = problem.geometry();
  const std::int64_t end = g.page == 0 ? g.length : g.table_width() * g.page;
  std::int64_t count = 0;
  for (std::int64_t b = 0; b < g.batch; ++b)
    for (std::int64_t j = problem.length(b); j < end; ++j, ++count) {
      // token() knows the keys of the declared length; the rest of the last page follows it.
      const std::int64_t inside = std::min(j, g.length - 1);
      const std::int64_t token = problem.token(b, inside) + (j - inside);
      for (const char* name : {"k", "v"}) {
        const std::int64_t row = g.kv_heads * (*name == 'k' ? g.d : g.dv);
        poison(set.at(name), token * row, row);
      }
    }
  if (count == 0) no_site(site, "tokens behind the end: lengths=ragged, or a page that does not divide len");
}

// The first and the last page of sequence 0: two full pages of an unmasked sequence may be exchanged freely.
void page_swap(const FaultSite& site, TensorSet& set) {
  const AttentionProblem problem(site.attributes, site.clean);
  const auto table = entries(set, site, "page_table");
  const std::int64_t last = (problem.length(0) - 1) / problem.geometry().page;
  if (last < 1) no_site(site, "two pages");
  std::swap(table[0], table[static_cast<std::size_t>(last)]);
}

void page_bit(const FaultSite& site, TensorSet& set) {
  const auto table = entries(set, site, "page_table");
  const auto pages = attention_geometry(site.attributes).pages();
  for (const int bit : {1, 2, 4})
    if ((table[0] ^ bit) < pages) {
      table[0] ^= bit;
      return;
    }
  no_site(site, "two pages");
}

void page_16_bits(const FaultSite& site, TensorSet& set) {
  if (attention_geometry(site.attributes).pages() <= 65536) no_site(site, "more than 65,536 pages");
  for (auto& id : entries(set, site, "page_table")) id &= 0xFFFF;
}

void length_off_by_one(const FaultSite& site, TensorSet& set) {
  const std::int64_t len = site.attributes.integer("len");
  const auto lengths = entries(set, site, "lengths");
  for (auto& n : lengths)
    if (n < len) {
      ++n;
      return;
    }
  --lengths[0];
}

void stale_tail(const FaultSite& site, TensorSet& set) {
  const AttentionProblem problem(site.attributes, site.clean);
  const std::int64_t last = problem.length(0) - 1;
  if (last < 1) no_site(site, "two keys");
  for (std::int64_t g = 0; g < problem.geometry().kv_heads; ++g)
    for (const char* name : {"k", "v"}) {
      const KeyElements to = key_elements(site, name, 0, last, g);
      const KeyElements from = key_elements(site, name, 0, last - 1, g);
      Encoded& tensor = set.at(name);
      std::ranges::copy(payload_bytes(tensor, from.first, from.count),
                        payload_bytes(tensor, to.first, to.count).begin());
    }
}

void wrong_head(const FaultSite& site, TensorSet& set) {
  const AttentionGeometry g = attention_geometry(site.attributes);
  if (g.kv_heads < 2) no_site(site, "two KV heads");
  Encoded& k = set.at("k");
  const std::int64_t tokens = element_count(k.shape) / (g.kv_heads * g.d);
  for (std::int64_t t = 0; t < tokens; ++t) {
    const auto row = payload_bytes(k, t * g.kv_heads * g.d, g.kv_heads * g.d);
    std::ranges::rotate(row, row.begin() + static_cast<std::ptrdiff_t>(row.size()) / g.kv_heads);
  }
}

void swapped_kv(const FaultSite& site, TensorSet& set) {
  Encoded &k = set.at("k"), &v = set.at("v");
  if (k.format != v.format || k.shape != v.shape) no_site(site, "K and V of one format and shape");
  std::swap(k.planes, v.planes);
}

void mask_bit(const FaultSite& site, TensorSet& set) {
  const auto found = set.find("mask");
  if (found == set.end()) no_site(site, "mask=random");
  auto& bytes = found->second.planes.front().bytes;
  bytes[Stream(site.seed, "fault").below(0, bytes.size())] ^= std::byte{1};
}

}  // namespace assay::fault_families
