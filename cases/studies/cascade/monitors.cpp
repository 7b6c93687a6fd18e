#include "cases/studies/cascade/monitors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <bitset>
#include <cmath>

#include "cases/studies/cascade/e4m3.hpp"
#include "cases/studies/cascade/model.hpp"
#include "reference/inputs/random.hpp"

namespace assay::scenarios {
namespace {

// A request whose largest code is below this part of 448 has lost resolution. The published bad scale leaves
// 8 (+-2 under a scale from +-50); a scale calibrated for a range 25 times that of the request leaves 17;
// this is between.
constexpr float kLostBelow = 12;
constexpr int kRepeats = 4;

int nans(std::span<const float> x) {  // integers only, so that the loop is vectorised
  int n = 0;
  for (const float v : x) n += (std::bit_cast<std::uint32_t>(v) & 0x7FFFFFFFU) > 0x7F800000U ? 1 : 0;
  return n;
}
bool finite(std::span<const float> x) {
  std::uint32_t worst = 0;
  for (const float v : x) worst = std::max(worst, std::bit_cast<std::uint32_t>(v) & 0x7F800000U);
  return worst < 0x7F800000U;
}
template <class T>
std::span<const T> row_of(std::span<const T> x, std::size_t rows, std::size_t r) {
  return x.subspan(r * (x.size() / rows), x.size() / rows);
}
std::uint64_t hash_bytes(std::span<const std::byte> x) {
  std::uint64_t h = x.size();
  std::size_t i = 0;
  for (; i + 8 <= x.size(); i += 8) {
    std::uint64_t word;
    __builtin_memcpy(&word, x.data() + i, 8);
    h = (h ^ word) * 0x9E3779B97F4A7C15U;
    h ^= h >> 29;
  }
  for (; i < x.size(); ++i) h = (h ^ static_cast<std::uint64_t>(x[i])) * 0x9E3779B97F4A7C15U;
  return h;
}

}  // namespace

void Monitors::note(Watch watch, int layer, int token, int request, double value, std::string detail,
                    Origin origin) {
  if (enabled_) seen_.push_back({watch, layer, token, request, value, origin, std::move(detail)});
}

void Monitors::mark(const Row& row, int layer, Cell cell) {
  auto& layers = cells_[row.request];
  if (layers.size() <= static_cast<std::size_t>(layer)) layers.resize(static_cast<std::size_t>(layer) + 1);
  auto& line = layers[static_cast<std::size_t>(layer)];
  if (line.size() <= static_cast<std::size_t>(row.position))
    line.resize(static_cast<std::size_t>(row.position) + 1);
  Cell& at = line[static_cast<std::size_t>(row.position)];
  if (cell > at) at = cell;
}

int Monitors::count(std::string_view stage, std::span<const float> x) {
  const int n = nans(x);
  auto found = fraction_.find(stage);
  if (found == fraction_.end()) found = fraction_.emplace(std::string(stage), Fraction{}).first;
  found->second.nan += static_cast<std::uint64_t>(n);
  found->second.all += x.size();
  return n;
}

void Monitors::engine(bool one_time) {
  if (one_time)
    note(Watch::one_time_scale, -1, -1, -1, 1, "the KV cache is e4m3fn and its scales are made once");
}

void Monitors::locked(int layer, char side, int request, float scale, Origin origin) {
  note(Watch::scale_locked, layer, -1, request, scale,
       fmt::format("{} scale {:.6g} for ever, from {}: largest storable {:.4g}", side, scale,
                   kOriginNames[static_cast<std::size_t>(origin)], 448 * scale),
       origin);
}

void Monitors::write(int layer, char side, std::span<const Row> rows, std::span<const float> x,
                     std::span<const std::uint8_t> codes, std::span<const float> scale, bool per_head,
                     Origin origin) {
  if (!enabled_ || codes.empty()) return;
  const std::size_t n = rows.size(), width = x.size() / n;
  if (const auto book = checkpoint_.find(layer); book != checkpoint_.end()) {
    const auto& [k_scale, v_scale] = book->second;
    const float own = side == 'K' ? k_scale : v_scale, other = side == 'K' ? v_scale : k_scale;
    if (scale[0] != own && told_.insert({layer, side}).second)
      note(scale[0] == other ? Watch::checkpoint_swapped : Watch::checkpoint_dropped, layer, rows[0].position,
           rows[0].request, scale[0],
           fmt::format("{} is stored with scale {:.4g}, the checkpoint says {:.4g}{}", side, scale[0], own,
                       scale[0] == other ? ", and this for the other of K and V" : ""),
           origin);
  }
  for (std::size_t r = 0; r < n; ++r) {
    const auto values = row_of(x, n, r);
    const auto line = row_of(codes, n, r);
    if (per_head) continue;  // ranges differ by head: the whole call is looked at below
    const float s = scale[scale.size() == n ? r : 0];
    const float top = finite_absmax(values), limit = 448 * s;
    Peak& peak = peaks_[{rows[r].request, layer, side}];
    peak.scale = s;
    peak.origin = origin;
    // NaN: nothing to say.
    peak.code = finite(values) ? std::max(peak.code, std::min(448.0F, top / s)) : 448.0F;
    // A code is off by at most half its step; the top of the range is 448, so anything within half a step of
    // it is stored as well as any other number.
    if (top > 464 * s) {
      int clipped = 0, at = -1;
      for (std::size_t i = 0; i < width; ++i)
        if (std::fabs(values[i]) > 464 * s) {
          ++clipped;
          if (at < 0 || std::fabs(values[i]) > std::fabs(values[static_cast<std::size_t>(at)]))
            at = static_cast<int>(i);
        }
      const float worst = values[static_cast<std::size_t>(at)];
      mark(rows[r], layer, Cell::clipped);
      note(Watch::out_of_range, layer, rows[r].position, rows[r].request, worst,
           fmt::format("{} = {:.4g}, storable +-{:.4g}", side, worst, limit), origin);
      note(Watch::saturated, layer, rows[r].position, rows[r].request,
           static_cast<double>(clipped) / static_cast<double>(width),
           fmt::format("{:.1f} % of {} at 448; {:.4g} comes back as {:.4g}, {:.1f} % less",
                       100.0 * clipped / static_cast<double>(width), side, std::fabs(worst), limit,
                       100 * (1 - limit / std::fabs(worst))),
           origin);
      // Only rows that clip can collide: what is in range keeps three bits of every element.
      const std::uint64_t code_hash = hash_bytes(std::as_bytes(line));
      const std::uint64_t value_hash = hash_bytes(std::as_bytes(values));
      auto& kept = rows_seen_[{layer, side}];
      const auto [found, fresh] = kept.try_emplace(code_hash, Kept{value_hash, rows[r].token, rows[r]});
      if (!fresh && found->second.x != value_hash && found->second.token != rows[r].token) {
        std::bitset<128> distinct;
        for (const auto code : line) distinct.set(code & 0x7F);
        note(Watch::tokens_identical, layer, rows[r].position, rows[r].request,
             static_cast<double>(distinct.count()),
             fmt::format("{} of tokens {} and {} is the same {} codes, {} distinct magnitude{}", side,
                         found->second.row.position, rows[r].position, width, distinct.count(),
                         distinct.count() == 1 ? "" : "s"),
             origin);
      }
    }
  }
  if (per_head) {
    const std::size_t d = width / scale.size();
    for (std::size_t r = 0; r < n; ++r)
      for (std::size_t h = 0; h < scale.size(); ++h) {
        const float top = finite_absmax(x.subspan(r * width + h * d, d));
        Peak& peak = peaks_[{rows[r].request, layer, side}];
        peak.scale = scale[h];
        peak.origin = origin;
        peak.code = std::max(peak.code, std::min(448.0F, top / scale[h]));
        if (top > 464 * scale[h]) {
          mark(rows[r], layer, Cell::clipped);
          note(Watch::saturated, layer, rows[r].position, rows[r].request, 0,
               fmt::format("{} head {}: {:.4g}, storable {:.4g}", side, h, top, 448 * scale[h]), origin);
        }
      }
  }
}

void Monitors::read(int layer, char side, const Row& row, std::span<const float> written,
                    std::span<const float> read) {
  if (!enabled_ || std::ranges::equal(written, read) || !diverged_.insert({layer, side}).second) return;
  note(Watch::copies_diverge, layer, row.position, row.request, read[0] / written[0],
       fmt::format("{} is written with scale {:.4g} and read with {:.4g}", side, written[0], read[0]));
}

void Monitors::prompt_done(int request) {
  if (!enabled_) return;
  for (const auto& [key, peak] : peaks_) {
    const auto [owner, layer, side] = key;
    if (owner == request && peak.code < kLostBelow)
      note(Watch::resolution_lost, layer, -1, request, peak.code,
           fmt::format("{}: {:.3g} of 448 used, scale {:.4g}", side, peak.code, peak.scale), peak.origin);
  }
}

void Monitors::norm(int layer, std::string_view name, std::span<const Row> rows, std::span<const float> x,
                    std::span<const float> y, float eps) {
  if (!enabled_) return;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const auto in = row_of(x, rows.size(), r);
    float low = in[0], high = in[0];
    for (const float v : in) {
      low = v < low ? v : low;
      high = v > high ? v : high;
    }
    const float half = (high - low) / 2;  // the variance is at most its square
    if (half * half <= eps && finite(in))
      note(Watch::variance_degenerate, layer, rows[r].position, rows[r].request,
           static_cast<double>(half) * half,
           fmt::format("{}: all {} elements are {:.9g}, variance <= {:.3g}, eps {:.3g}", name, in.size(),
                       in[0], static_cast<double>(half) * half, eps));
  }
  stage(layer, name, rows, x, y);
}

void Monitors::stage(int layer, std::string_view name, std::span<const Row> rows, std::span<const float> in,
                     std::span<const float> out) {
  if (!enabled_ || count(name, out) == 0) return;
  for (std::size_t r = 0; r < rows.size(); ++r)
    if (nans(row_of(out, rows.size(), r)) > 0 && finite(row_of(in, rows.size(), r)))
      note(Watch::first_nan, layer, rows[r].position, rows[r].request, std::nan(""),
           fmt::format("{} of a finite row gives NaN", name));
}

void Monitors::projection(int layer, std::span<const Row> rows, std::span<const float> in,
                          std::span<const float> qkv) {
  if (!enabled_ || nans(qkv) == 0) {
    if (enabled_) count("qkv", qkv);
    return;
  }
  stage(layer, "qkv", rows, in, qkv);
  for (std::size_t r = 0; r < rows.size(); ++r)
    if (const int n = nans(row_of(qkv, rows.size(), r)); n > 0) {
      note(Watch::projection_nan, layer, rows[r].position, rows[r].request, n,
           fmt::format("{} of {} elements of Q, K and V", n, qkv.size() / rows.size()));
    }
}

void Monitors::attention(int layer, std::span<const Row> rows, std::span<const float> queries, int keys_nan,
                         int first_key, int keys, std::span<const float> out, int heads) {
  if (!enabled_) return;
  if (keys_nan > 0)
    note(
        Watch::score_column_nan, layer, first_key, rows[0].request, keys_nan,
        fmt::format("key {} of {}: its column of QK^T is NaN for every query that sees it", first_key, keys));
  if (count("attention", out) == 0) return;
  int poisoned = 0;
  const std::size_t parts = rows.size() * static_cast<std::size_t>(heads);
  for (std::size_t p = 0; p < parts; ++p) poisoned += nans(row_of(out, parts, p)) > 0 ? 1 : 0;
  if (keys_nan == 0 && finite(queries)) {
    note(Watch::unused_key_read, layer, rows[0].position, rows[0].request, poisoned,
         fmt::format("{} of {} rows are NaN, and no query and no visible key is", poisoned, parts));
    return;
  }
  note(Watch::softmax_row_poisoned, layer, rows[0].position, rows[0].request, poisoned,
       fmt::format("{} of {} softmax rows", poisoned, parts));
}

void Monitors::residual(int layer, std::span<const Row> rows, std::span<const float> before,
                        std::span<const float> after) {
  if (!enabled_) return;
  for (const Row& row : rows) mark(row, layer, Cell::clean);
  if (count("residual", after) == 0) return;
  for (std::size_t first = 0; first < rows.size();) {
    std::size_t last = first;
    int had = 0, has = 0;
    for (; last < rows.size() && rows[last].request == rows[first].request; ++last) {
      had += nans(row_of(before, rows.size(), last)) > 0 ? 1 : 0;
      const bool bad = nans(row_of(after, rows.size(), last)) > 0;
      has += bad ? 1 : 0;
      if (bad) mark(rows[last], layer, Cell::nan);
    }
    if (had > 0 && has > had)
      note(Watch::residual_spread, layer, rows[first].position, rows[first].request, has,
           fmt::format("{} of {} tokens NaN before the layer, {} of {} after", had, last - first, has,
                       last - first));
    first = last;
  }
}

void Monitors::inherited(int layer, int request, int page, int writer) {
  note(Watch::poison_inherited, layer, -1, request, page,
       fmt::format("attends to NaN in page {} that request {} wrote", page, writer));
}

void Monitors::block(int request, int page, int layer) {
  note(Watch::block_poisoned, layer, -1, request, page,
       fmt::format("page {} is committed with NaN in layer {}", page, layer));
}

void Monitors::logits(std::span<const Row> rows, std::span<const float> logits,
                      std::span<const std::int32_t> chosen) {
  if (!enabled_) return;
  count("logits", logits);
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const auto row = row_of(logits, rows.size(), r);
    const int bad = nans(row);
    if (bad == static_cast<int>(row.size())) {
      note(Watch::argmax_all_nan, -1, rows[r].position, rows[r].request, chosen[r],
           chosen[r] == kExclamation ? "every logit is NaN; argmax gives index 0, \"" + text_of(0) + "\""
                                     : fmt::format("every logit is NaN; argmax gives {}", chosen[r]));
    } else if (bad == 0) {
      int equal = 0;
      for (const float v : row) equal += v == row[static_cast<std::size_t>(chosen[r])] ? 1 : 0;
      if (equal > 1)
        note(Watch::argmax_tie, -1, rows[r].position, rows[r].request, equal,
             fmt::format("{} logits are the largest", equal));
    }
    auto& [token, times] = repeats_[rows[r].request];
    times = token == chosen[r] ? times + 1 : 1;
    token = chosen[r];
    if (times == kRepeats)
      note(Watch::repeated_token, -1, rows[r].position, rows[r].request, token,
           fmt::format("token {} {} times on end", token, times));
  }
}

}  // namespace assay::scenarios
