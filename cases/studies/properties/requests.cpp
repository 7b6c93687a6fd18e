// Requests over a paged cache, written by kv_write and read by attention: the books that a draw must keep to,
// and what is done.
#include "cases/studies/properties/requests.hpp"

#include <cmath>
#include <cstring>

#include "reference/formats/scaled.hpp"

namespace assay::property_families {

using properties::a_case;
using properties::accused;
using properties::elements;

namespace {

constexpr std::int64_t kMostRows = 4, kMostTokens = 64;

[[noreturn]] void refuse(const Step& step, const std::string& why) {
  throw InputError(InputErrorKind::bad_value, fmt::format("'{}': {}", step.print(), why));
}

}  // namespace

Cache::Cache(const Step& s)
    : to(s.text("to")),
      policy(s.text("policy")),
      heads(s.integer("heads", 1, 16)),
      kv_heads(s.integer("kv_heads", 1, 16)),
      d(s.integer("d", 1, 256)),
      page(s.integer("page", 1, 64)),
      rows(s.integer("rows", 1, kMostRows)),
      length(s.integer("len", 1, kMostTokens)),
      reads(s.text("reads") == "yes") {}

Step Cache::step() const {
  return {"cache",
          {{"to", to},
           {"policy", policy},
           {"heads", number(heads)},
           {"kv_heads", number(kv_heads)},
           {"d", number(d)},
           {"page", number(page)},
           {"rows", number(rows)},
           {"len", number(length)},
           {"reads", reads ? "yes" : "no"}}};
}
std::string Cache::write_line(std::int64_t tokens, std::int64_t seed) const {
  // What the harness stores itself has the numbers of any other cache.
  return fmt::format("kv_write tokens={} heads={} d={} to={} policy={} dtype=f32 seed={}", tokens, kv_heads,
                     d, raw() ? "e4m3fn_tok" : to, raw() ? "token" : policy, seed);
}
std::string Cache::read_line(std::int64_t seed) const {
  return fmt::format(
      "attention batch={} heads={} kv_heads={} d={} len={} page={} lengths=ragged k={} v={} dtype=f32 "
      "seed={}",
      rows, heads, kv_heads, d, length, page, to, to, seed);
}

std::vector<char> grows_with_tokens(const Format& f, std::int64_t heads, std::int64_t d) {
  const auto one = planes(f, {64, heads, d}), two = planes(f, {128, heads, d});
  std::vector<char> grows;
  for (std::size_t p = 0; p < one.size(); ++p) grows.push_back(two[p].bytes == 2 * one[p].bytes ? 1 : 0);
  return grows;
}

std::string Books::objection(const Step& s) const {
  if (s.name == "calibrate")
    return cache->locks() && !calibrated ? "" : "the scale is locked, or not of an earlier request";
  if (s.name == "reset") return calibrated || live() > 0 ? "" : "there is nothing to forget";
  if (s.name == "read") return live() > 0 && cache->reads ? "" : "nobody is there to be read";
  if (s.name != "write" && s.name != "share" && s.name != "evict")
    return "the steps are calibrate, write, share, read, evict and reset";
  const auto row = static_cast<std::size_t>(s.integer("row", 0, cache->rows - 1));
  if (s.name == "evict") return tokens[row] > 0 ? "" : "that row is free";
  if (tokens[row] > 0) return "that row is taken";
  if (cache->locks() && !calibrated) return "the scale is not calibrated";
  const std::int64_t own = s.integer("tokens", 1, cache->length);
  if (s.name == "write") return "";
  const auto from = static_cast<std::size_t>(s.integer("from", 0, cache->rows - 1));
  if (tokens[from] < cache->page) return "that row has no whole page to share";
  return cache->page + own <= cache->length ? "" : "it is longer than a row";
}

void Books::enter(const Step& s) {
  if (s.name == "calibrate") calibrated = true;
  if (s.name == "reset") *this = Books(cache);
  if (s.name == "evict") tokens[static_cast<std::size_t>(s.integer("row", 0, cache->rows - 1))] = 0;
  if (s.name == "write" || s.name == "share")
    tokens[static_cast<std::size_t>(s.integer("row", 0, cache->rows - 1))] =
        s.integer("tokens", 1, cache->length) + (s.name == "share" ? cache->page : 0);
}

namespace {

// Zeros, under scales of 1 where these are a plane of their own.
Plane blank(const PlaneSpec& spec) {
  Plane plane{spec, std::vector<std::byte>(spec.bytes)};
  if (spec.suffix == ".scale")
    if (const ScalarFormat* f = find_scalar_format(spec.format); f != nullptr && f->storage_bytes > 0) {
      const std::uint32_t one = encode(*f, 1);
      for (std::size_t i = 0; i < plane.bytes.size(); i += static_cast<std::size_t>(f->storage_bytes))
        std::memcpy(&plane.bytes[i], &one, static_cast<std::size_t>(f->storage_bytes));
    }
  return plane;
}

// The pages of a cache, and what has been written to them.
class Pool {
 public:
  Pool(const Cache& cache, Subject& subject)
      : cache_(cache),
        subject_(subject),
        read_(a_case(cache.read_line(1))),
        grows_(grows_with_tokens(format(cache.to), cache.kv_heads, cache.d)),
        rows_(static_cast<std::size_t>(cache.rows)) {
    for (const TensorSpec& t : read_.op->tensors(read_.attributes))
      if (t.name == "k" || t.name == "v") {
        Encoded& side = t.name == "k" ? k_ : v_;
        side = {t.format, t.shape, {}};
        for (const PlaneSpec& plane : planes(format(t.format), t.shape)) side.planes.push_back(blank(plane));
        pages_ = t.shape[0];
      }
    slots_.assign(static_cast<std::size_t>(pages_ * cache.page), Slot::never);
    reset();
  }

  Verdict apply(const Step& s) {
    if (s.name == "calibrate") range_ = static_cast<float>(s.real("range", 1e-3, 1e6));
    if (s.name == "reset") reset();
    if (s.name == "evict") leave(row_of(s));
    if (s.name == "read") return read(s);
    if (s.name == "write" || s.name == "share") return write(s);
    return std::nullopt;
  }

 private:
  struct Row {
    std::vector<std::int32_t> pages;
    std::int64_t tokens = 0;
  };
  Row& row_of(const Step& s) { return rows_[static_cast<std::size_t>(s.integer("row", 0, cache_.rows - 1))]; }

  void reset() {
    range_ = 0;
    for (Row& r : rows_) r = {};
    uses_.assign(static_cast<std::size_t>(pages_), 0);
    free_.clear();
    for (std::int64_t p = pages_; p-- > 1;)
      free_.push_back(static_cast<std::int32_t>(p));  // page 0 is nobody's
    locked_.clear();
  }
  // What was freed last is used first, as it was left.
  std::int32_t take() {
    const std::int32_t p = free_.back();
    free_.pop_back();
    uses_[static_cast<std::size_t>(p)] = 1;
    return p;
  }
  void leave(Row& row) {
    for (const std::int32_t p : row.pages)
      if (--uses_[static_cast<std::size_t>(p)] == 0) free_.push_back(p);
    row = {};
  }

  Verdict write(const Step& s) {
    Row& row = row_of(s);
    if (s.name == "share") {
      const Row& from = rows_[static_cast<std::size_t>(s.integer("from", 0, cache_.rows - 1))];
      row.pages = {from.pages[0]};
      ++uses_[static_cast<std::size_t>(row.pages[0])];
      row.tokens = cache_.page;
    }
    const std::int64_t first = row.tokens, tokens = s.integer("tokens", 1, cache_.length);
    row.tokens += tokens;
    while (static_cast<std::int64_t>(row.pages.size()) * cache_.page < row.tokens)
      row.pages.push_back(take());
    for (const char* side : {"k", "v"}) {
      Encoded written;
      if (auto broken = quantised(s, side, tokens, written)) return broken;
      for (std::int64_t t = 0; t < tokens; ++t) {
        const std::int64_t to = slot(row, first + t);
        place(written, t, tokens, side == std::string("k") ? k_ : v_, to);
        slots_[static_cast<std::size_t>(to)] = t == 0 && s.text("nan") != "no" ? Slot::nan : Slot::number;
      }
    }
    return std::nullopt;
  }
  std::int64_t slot(const Row& row, std::int64_t token) const {
    return row.pages[static_cast<std::size_t>(token / cache_.page)] * cache_.page + token % cache_.page;
  }

  // K or V of the step's tokens as the cache stores them, in the order of the tokens. The numbers of a seed
  // are the same in every request, times the range.
  Verdict quantised(const Step& s, const std::string& side, std::int64_t tokens, Encoded& written) {
    const Case c =
        a_case(cache_.write_line(tokens, 2 * s.integer("seed", 1, 1'000'000) + (side == "v" ? 1 : 0)));
    const std::string key =
        fmt::format("{} range={} first={} nan={} {}", c.line(), s.text("range"), range_, s.text("nan"), side);
    Inputs inputs = make_inputs(c, input_lists());
    const auto x = elements<float>(inputs.set, "x");
    for (float& v : x) v *= static_cast<float>(s.real("range", 1e-3, 1e6));
    if (s.text("nan") == side) x[0] = std::nanf("");
    if (cache_.raw()) {
      written = encode_tensor(format(cache_.to), {tokens, cache_.kv_heads, cache_.d}, x);
      return std::nullopt;
    }
    if (cache_.locks()) {  // an earlier request of this range, in every head
      const auto first = elements<float>(inputs.set, "first");
      std::ranges::fill(first, 0.0F);
      for (std::int64_t h = 0; h < cache_.kv_heads; ++h)
        first[static_cast<std::size_t>(h * cache_.d)] = range_;
    }
    auto [result, outputs] = subject_.judged(c, inputs);
    if (auto broken = accused(result)) return broken;
    const Encoded& stored = outputs.at("cache");
    const auto slots = elements<std::int32_t>(inputs.set, "slots");
    written = stored;
    for (std::int64_t t = 0; t < tokens; ++t)
      place(stored, slots[static_cast<std::size_t>(t)], tokens, written, t);
    if (!result.deterministic) return std::nullopt;
    const auto [known, missing] = known_.try_emplace(key, written);
    if (!missing)
      for (std::size_t p = 0; p < written.planes.size(); ++p)
        if (written.planes[p].bytes != known->second.planes[p].bytes)
          return Broken{fmt::format("the same request was stored otherwise than before: {}{}", side,
                                    written.planes[p].spec.suffix),
                        c.line()};
    if (!cache_.locks()) return std::nullopt;
    const auto& scale = written.planes.back().bytes;
    if (locked_.empty()) locked_ = scale;
    if (locked_ != scale) return Broken{"a locked scale moved", c.line()};
    return std::nullopt;
  }

  // Token `from` of `tokens` to the place `to` of a cache of any number of tokens. A scale of all tokens goes
  // along.
  void place(const Encoded& source, std::int64_t from, std::int64_t tokens, Encoded& target,
             std::int64_t to) const {
    for (std::size_t p = 0; p < source.planes.size(); ++p) {
      const auto& bytes = source.planes[p].bytes;
      auto& into = target.planes[p].bytes;
      const auto one = static_cast<std::int64_t>(bytes.size()) / tokens;
      if (grows_[p] != 0)
        std::copy_n(bytes.begin() + from * one, one, into.begin() + to * one);
      else
        into = bytes;
    }
  }

  Inputs inputs_of(const Case& c, const Encoded& k, const Encoded& v) const {
    Inputs inputs = make_inputs(c, input_lists());
    inputs.set.at("k") = k, inputs.set.at("v") = v;
    auto table = elements<std::int32_t>(inputs.set, "page_table");
    const auto lengths = elements<std::int32_t>(inputs.set, "lengths");
    std::ranges::fill(table, 0);
    const std::size_t width = table.size() / rows_.size();
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      std::ranges::copy(rows_[r].pages, table.begin() + static_cast<std::ptrdiff_t>(r * width));
      lengths[r] = static_cast<std::int32_t>(std::max<std::int64_t>(1, rows_[r].tokens));
    }
    // What pages and tails held before stays in them: a kernel has no business there, and the truth does not
    // know of it.
    inputs.unused.clear();
    return inputs;
  }

  Verdict read(const Step& s) {
    const Case c = a_case(cache_.read_line(s.integer("seed", 1, 1'000'000)));
    const auto [result, outputs] = subject_.judged(c, inputs_of(c, k_, v_));
    if (auto broken = accused(result)) return broken;
    // Once more with nothing but the rows that see no NaN: these keep their bits.
    std::vector<char> kept(slots_.size(), 0), clean;
    for (const Row& r : rows_) {
      clean.push_back(1);
      for (std::int64_t t = 0; t < r.tokens; ++t)
        if (slots_[static_cast<std::size_t>(slot(r, t))] == Slot::nan) clean.back() = 0;
      for (std::int64_t t = 0; clean.back() != 0 && t < r.tokens; ++t)
        kept[static_cast<std::size_t>(slot(r, t))] = 1;
    }
    Encoded k = k_, v = v_;
    bool changed = false;
    for (std::size_t i = 0; i < slots_.size(); ++i)
      if (kept[i] == 0 && slots_[i] != Slot::never) {
        changed = true;
        for (Encoded* side : {&k, &v}) clear(*side, i);
      }
    if (!changed || !result.deterministic) return std::nullopt;
    const auto [again, alone] = subject_.judged(c, inputs_of(c, k, v));
    if (auto broken = accused(again)) return broken;
    const auto& a = outputs.at("out").planes[0].bytes;
    const auto& b = alone.at("out").planes[0].bytes;
    const std::size_t bytes = a.size() / rows_.size();
    for (std::size_t r = 0; r < rows_.size(); ++r)
      if (clean[r] != 0 && std::memcmp(&a[r * bytes], &b[r * bytes], bytes) != 0)
        return Broken{
            fmt::format("request {} sees no NaN, and its bits change when what others left is gone", r),
            c.line()};
    return std::nullopt;
  }
  void clear(Encoded& side, std::size_t at) const {
    auto& bytes = side.planes[0].bytes;
    const std::size_t one = bytes.size() / slots_.size();
    std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(one * at), one, std::byte{0});
  }

  enum class Slot : std::uint8_t { never, number, nan };  // what was written last
  const Cache& cache_;
  Subject& subject_;
  Case read_;
  std::vector<char> grows_;  // each plane of K and V
  std::int64_t pages_ = 0;
  Encoded k_, v_;
  std::vector<Row> rows_;
  std::vector<Slot> slots_;  // of all pages
  std::vector<std::int32_t> free_, uses_;
  float range_ = 0;                       // that the scale is locked on
  std::map<std::string, Encoded> known_;  // what was stored, by what was written
  std::vector<std::byte> locked_;         // the scale of this calibration
};

}  // namespace

Verdict check_requests(Subject& subject, const Steps& steps) {
  if (steps[0].name != "cache")
    throw InputError(InputErrorKind::bad_value, "a draw of requests begins with the step 'cache ...'");
  const auto cache = std::make_shared<const Cache>(steps[0]);
  Books books(cache);
  Pool pool(*cache, subject);
  for (std::size_t i = 1; i < steps.size(); ++i) {
    if (const std::string why = books.objection(steps[i]); !why.empty()) refuse(steps[i], why);
    if (auto broken = pool.apply(steps[i])) {
      broken->why += fmt::format(" (step {}: {})", i, steps[i].print());
      return broken;
    }
    books.enter(steps[i]);
  }
  return std::nullopt;
}

}  // namespace assay::property_families
