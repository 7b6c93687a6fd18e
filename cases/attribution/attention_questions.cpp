#include "cases/attribution/attention_questions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "reference/inputs/random.hpp"

namespace assay::attribution {
namespace {

constexpr double kSlope = 0.0371;  // of the first head, and the step from one to the next

double logit_of(Logits kind, std::int64_t j, std::int64_t head, std::int64_t kv_heads, std::int64_t len,
                std::int64_t tile, std::int64_t split, double cap, bool capped) {
  const double tilt = 1 + 0.3 * static_cast<double>(head) / static_cast<double>(kv_heads);
  const std::int64_t part = (len + split - 1) / split;
  const auto at = static_cast<double>(j);
  switch (kind) {
    case Logits::first:
    case Logits::first_of_few_bits:
    case Logits::first_at_last: {
      const double n = static_cast<double>(std::min({tile, len, part}));
      return at < n ? -4.3 * tilt * at / n : -25.0;
    }
    case Logits::parts:
      // Two equal keys in each, of which one part or the other has the maximum.
      return j % part < 2 ? (head % 2 == 0 ? -2.71 : 2.71) * tilt * static_cast<double>(j / part) : -25.0;
    case Logits::rising:
      return 9.1 * tilt * at / static_cast<double>(len) - 4.5;
    case Logits::as_slopes:
      return kSlope * static_cast<double>(head + 1) * (at - static_cast<double>(len - 1));
    case Logits::beyond_cap: {
      const double s = cap * (8 * at / static_cast<double>(len) - 4);
      return capped ? s : cap * std::tanh(s / cap);
    }
    case Logits::alone:
      return j + 1 == len ? 0 : -100;
    case Logits::low:
      return -40000;
    case Logits::steep:
      return 300.0 * static_cast<double>(j / tile) - 40000;
    case Logits::equal:
    case Logits::spread:
    case Logits::spread_of_codes:
    case Logits::spread_alike:
      return 0;
  }
  return 0;
}

}  // namespace

std::int64_t key_of_row(const AttentionGeometry& g, const TensorSet& set, std::int64_t slot) {
  if (g.page == 0) return slot % g.length;
  const auto& bytes = set.at("page_table").planes.at(0).bytes;
  for (std::int64_t i = 0; i < g.batch * g.table_width(); ++i) {
    std::int32_t page = 0;
    std::memcpy(&page, bytes.data() + 4 * i, sizeof page);
    if (page == slot / g.page) return i % g.table_width() * g.page + slot % g.page;
  }
  return 0;
}

bool AttentionQuestions::find_plain() {
  const auto text = [](std::int64_t n) { return fmt::format("{}", n); };
  constexpr std::int64_t kv_heads = 8;  // as many draws of the same question
  std::vector<Change> shape = {{"batch", "1"},
                               {"kv_heads", text(kv_heads)},
                               {"heads", text(kv_heads * g.group())},
                               {"len", text(kKeys)},
                               {"dv", "128"},
                               {"q", text(std::min<std::int64_t>(g.rows, 5))},
                               {"mask", "none"},
                               {"window", "0"},
                               {"softcap", "0"},
                               {"sinks", "no"},
                               {"alibi", "no"},
                               {"page", "0"},
                               {"rotate", "none"},
                               {"lengths", "full"},
                               {"layout", "dense"},
                               {"scale", "0"}};
  const std::vector<std::vector<Change>> formats = {
      {{"d", "37"}, {"k", "f32"}, {"v", "f32"}, {"dtype", "f32"}},
      {{"d", "64"}, {"k", g.k_format}, {"v", "f32"}, {"dtype", "f32"}},
      {{"d", "64"}, {"k", g.k_format}, {"v", g.v_format}, {"dtype", "f32"}},
      {{"d", "64"}, {"k", g.k_format}, {"v", g.v_format}, {"dtype", g.dtype}}};
  for (const auto& chosen : formats) {
    plain_ = shape;
    plain_.insert(plain_.end(), chosen.begin(), chosen.end());
    if (const auto declared = bench_.contract_of(plain_)) {
      tile = declared->integer("tile"), split = declared->integer("split");
      casts_weights = declared->text("p") != "f32";
      converts_q = declared->text("q") != "none";
      return true;
    }
  }
  return false;
}

void AttentionQuestions::at_own_shape(std::vector<Change> left_out) {
  plain_ = std::move(left_out);
  own_shape_ = true;
  constexpr std::int64_t kFew = 32;  // columns, which tell too few keys apart
  std::vector<Change> wide = plain_;
  wide.emplace_back("dv", fmt::format("{}", kColumns));
  if (g.dv < kFew && bench_.contract_of(wide)) plain_ = wide;
  if (const auto declared = bench_.contract_of(plain_)) {
    tile = declared->integer("tile"), split = declared->integer("split");
    casts_weights = declared->text("p") != "f32";
    converts_q = declared->text("q") != "none";
  }
}
Change AttentionQuestions::parted_keys() const {
  return {"len", own_shape_ && split > 1 ? bench_.the_case().attributes.text("len") : "3"};
}
Change AttentionQuestions::own_width() const {
  if (own_shape_) return {"d", bench_.the_case().attributes.text("d")};
  return {"d", converts_q ? "64" : bench_.the_case().attributes.text("d")};
}
bool AttentionQuestions::stored_in_codes() const {
  const auto plain_format = [](const std::string& f) { return f == "f32" || f == "f16" || f == "bf16"; };
  return !(plain_format(g.k_format) && plain_format(g.v_format));
}
bool AttentionQuestions::in_codes(std::string_view operand) const {
  const auto at = std::ranges::find(plain_, operand, &Change::first);
  const std::string& format = at != plain_.end() ? at->second : operand == "v" ? g.v_format : g.k_format;
  return format != "f32" && format != "f16" && format != "bf16";
}
bool AttentionQuestions::all_alike(const Answer& a) {
  if (a.got.empty()) return false;  // it ended early
  double least = INFINITY, most = -INFINITY;
  for (std::size_t i = 0; i < a.got[0].size(); ++i)
    if (a.truths[0].value[i] > 0) least = std::min(least, a.got[0][i]), most = std::max(most, a.got[0][i]);
  return most - least < kGross * most;
}
Answer AttentionQuestions::ask(const std::vector<Change>& changes, Logits logits, Rows rows) {
  std::vector<Change> all = plain_;
  for (const auto& [key, value] : changes) {
    std::erase_if(all, [&](const Change& c) { return c.first == key; });
    all.emplace_back(key, value);
  }
  return bench_.ask(
      all,
      FullEdit([=, this](const Case& c, const TensorSet& set, const TensorSpec& t, std::vector<float>& x) {
        const AttentionGeometry here = attention_geometry(c.attributes);
        const bool far = logits == Logits::low || logits == Logits::steep;
        const double query = far ? 64 : 4;
        // Numbers of K that meet zeros of q: blocks of codes that are not used have scales of their own.
        const double idle = logits == Logits::first_at_last ? 0.5 : 0;
        const auto is_used = [&](std::int64_t i) {  // of a row of q or K: the dimension that has the logit
          return i % here.d == (logits == Logits::first_at_last ? here.d - 1 : 0);
        };
        const Stream draw(1, t.name);
        for (std::size_t i = 0; i < x.size(); ++i) {
          const auto at = static_cast<std::int64_t>(i);
          if (t.name == "sinks") x[i] = static_cast<float>(at % 2 == 0 ? -1.37 : 2.21);
          if (t.name == "slopes")
            x[i] = static_cast<float>(kSlope * static_cast<double>((own_shape_ ? at / g.group() : at) + 1));
          if (t.name == "q") {
            const bool used = logits != Logits::equal && is_used(at);
            x[i] = static_cast<float>(used ? query : 0);
            if (logits == Logits::spread || logits == Logits::spread_alike)
              x[i] = static_cast<float>(2 * draw.uniform(i) - 1);
            if (logits == Logits::spread_of_codes)  // in every 32 of them one has the largest code
              x[i] =
                  at % 32 == 0 ? 127.0F / 128 : static_cast<float>(draw.below(i, 255)) / 128 - 127.0F / 128;
          }
          if (t.name == "k") {
            const std::int64_t j = key_of_row(here, set, at / here.d / here.kv_heads);
            const double s = logit_of(logits, j, at / here.d % here.kv_heads, here.kv_heads, here.length,
                                      tile, split, g.softcap, here.softcap > 0);
            const bool alike = logits == Logits::spread_alike;
            const bool many = logits == Logits::spread || logits == Logits::spread_of_codes || alike;
            // Every part of a split has the same keys.
            const std::int64_t part = (here.length + split - 1) / split;
            const std::size_t from =
                alike ? static_cast<std::size_t>(at - (j - j % part) * here.kv_heads * here.d) : i;
            x[i] = many ? static_cast<float>(2 * draw.uniform(from) - 1)
                        : static_cast<float>(is_used(at) ? s / (query * here.scale) : idle);
            if (logits == Logits::first_of_few_bits)
              x[i] = static_cast<float>(round_to(scalar_format("bf16"), double{x[i]}));
          }
          if (t.name == "v") {
            const std::int64_t j = key_of_row(here, set, at / here.dv / here.kv_heads);
            if (rows == Rows::ones) x[i] = 1;
            // A column stands for one key; without a mask for as many neighbours as there are more keys than
            // columns.
            const bool many = here.length > here.dv && here.mask == MaskKind::none;
            const std::int64_t column = many ? j * here.dv / here.length : j % here.dv;
            if (rows == Rows::one_hot) x[i] = column == at % here.dv ? 1.0F : 0.0F;
            if (rows == Rows::many_bits) x[i] = static_cast<float>(2 * draw.uniform(i) - 1);
          }
        }
      }));
}
}  // namespace assay::attribution
