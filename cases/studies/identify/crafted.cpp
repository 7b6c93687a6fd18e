#include "cases/studies/identify/crafted.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "reference/error.hpp"
#include "reference/mix.hpp"

namespace assay {
namespace {

constexpr int kAlikeCalls = 4;

// Numbers of a scalar format with exponents all over the range [low, high], of either sign: what a Gaussian
// never shows of a unit's width, of a flush or of its least exponent.
std::vector<float> wide_numbers(const std::string& format, std::int64_t count, int low, int high,
                                std::uint64_t seed) {
  const int bits = format == "f32"                       ? 24
                   : format == "bf16"                    ? 8
                   : format == "f16" || format == "tf32" ? 11
                   : format.starts_with("e5m2")          ? 3
                                                         : 4;
  std::vector<float> list;
  std::uint64_t state = seed;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint64_t draw = mix(next_mixed(state));
    const auto significand = static_cast<float>((std::uint64_t{1} << (bits - 1)) |
                                                (draw >> 20 & ((std::uint64_t{1} << (bits - 1)) - 1)));
    const int exponent =
        low + static_cast<int>((draw >> 8) % static_cast<std::uint64_t>(high - low + 1)) - (bits - 1);
    list.push_back(std::ldexp((draw & 1) != 0 ? -significand : significand, exponent));
  }
  return list;
}

struct Wide {
  std::string_view what;
  int low, high;
};
// Products near the least exponents of f32, and sums whose terms are far apart.
std::vector<Wide> wide_calls(const std::string& format) {
  if (format == "f32" || format == "bf16" || format == "tf32") return {{kTiny, -82, -60}, {kWide, -12, 12}};
  if (format == "f16") return {{kTiny, -14, -9}, {kWide, -14, 4}};
  if (format.starts_with("e5m2")) return {{kWide, -14, 6}};
  if (format.starts_with("e4m3")) return {{kWide, -6, 7}};
  return {};
}

// Codes of integers near the largest, of one sign: sums of thousands are above what f32 holds exactly.
std::optional<Answer> ask_large(GemmSubject& subject, const GemmShape& shape) {
  std::uint64_t state = 71;
  const auto draw = [&](const std::string& format, std::int64_t count) {
    const int most = format == "int8" ? 127 : 7;
    std::vector<float> list;
    for (std::int64_t i = 0; i < count; ++i)
      list.push_back(static_cast<float>(
          most - static_cast<int>(mix(next_mixed(state)) % static_cast<std::uint64_t>(most / 2))));
    return list;
  };
  return subject.crafted(shape, draw(subject.a_element(), shape.m * shape.k),
                         draw(subject.b_element(), shape.n * shape.k), "large integers");
}

// Products that cancel in pairs far apart: the exact sums are 0, and what is stored is the rounding errors of
// the sum alone. So every step shows, through a store of 8 bits as well.
std::optional<std::pair<std::vector<float>, std::vector<float>>> cancelling(GemmSubject& subject,
                                                                            const GemmShape& shape,
                                                                            std::uint64_t seed) {
  const std::string a_format = subject.a_element(), b_format = subject.b_element();
  if (wide_calls(a_format).empty() || wide_calls(b_format).empty() || shape.k < 4) return std::nullopt;
  std::vector<float> a = wide_numbers(a_format, shape.m * shape.k, -2, 2, seed);
  std::vector<float> b = wide_numbers(b_format, shape.n * shape.k, -2, 2, seed + 1);
  std::vector<std::int64_t> order(static_cast<std::size_t>(shape.k));
  for (std::int64_t k = 0; k < shape.k; ++k) order[static_cast<std::size_t>(k)] = k;
  std::uint64_t state = seed + 2;
  for (std::size_t k = order.size(); k-- > 1;) std::swap(order[k], order[mix(next_mixed(state)) % (k + 1)]);
  for (std::size_t k = 0; k + 1 < order.size(); k += 2) {
    for (std::int64_t r = 0; r < shape.m; ++r)
      a[static_cast<std::size_t>(r * shape.k + order[k + 1])] =
          a[static_cast<std::size_t>(r * shape.k + order[k])];
    for (std::int64_t c = 0; c < shape.n; ++c)
      b[static_cast<std::size_t>(c * shape.k + order[k + 1])] =
          -b[static_cast<std::size_t>(c * shape.k + order[k])];
  }
  return std::pair(std::move(a), std::move(b));
}
std::optional<Answer> ask_cancelling(GemmSubject& subject, const GemmShape& shape, std::uint64_t seed) {
  auto sides = cancelling(subject, shape, seed);
  if (!sides) return std::nullopt;
  return subject.crafted(shape, std::move(sides->first), std::move(sides->second), std::string(kCancelling));
}

// Runs of columns, each with an exponent of its own: sums of neighbouring chunks are far apart, and in which
// order they are added shows in f32. Of drawn numbers in 8 bits the chunks' sums are so short that f32 adds
// them exactly, in any order.
std::optional<Answer> ask_uneven(GemmSubject& subject, const GemmShape& shape, const Wide& wide,
                                 std::int64_t run) {
  const std::string a_format = subject.a_element(), b_format = subject.b_element();
  std::vector<float> a = wide_numbers(a_format, shape.m * shape.k, 0, 0, 31);
  std::vector<float> b = wide_numbers(b_format, shape.n * shape.k, 0, 0, 32);
  std::uint64_t state = 33;
  for (std::int64_t from = 0; from < shape.k; from += run) {
    const auto span = static_cast<std::uint64_t>(wide.high - wide.low + 1);
    const int exponent = wide.low + static_cast<int>(mix(next_mixed(state)) % span);
    for (std::int64_t k = from; k < std::min(from + run, shape.k); ++k) {
      for (std::int64_t r = 0; r < shape.m; ++r) {
        float& x = a[static_cast<std::size_t>(r * shape.k + k)];
        x = std::ldexp(x, exponent);
      }
      for (std::int64_t c = 0; c < shape.n; ++c) {
        float& x = b[static_cast<std::size_t>(c * shape.k + k)];
        x = std::ldexp(x, exponent);
      }
    }
  }
  return subject.crafted(shape, std::move(a), std::move(b), std::string(kUneven));
}

}  // namespace

std::vector<Answer> crafted_calls(GemmSubject& subject, const GemmShape& shape) {
  std::vector<Answer> list;
  if (subject.a_element().starts_with("int") && subject.b_element().starts_with("int")) {
    if (std::optional<Answer> large = ask_large(subject, shape)) list.push_back(std::move(*large));
    return list;
  }
  for (int i = 0; i < subject.residues(shape); ++i)
    if (std::optional<Answer> residue =
            ask_cancelling(subject, shape, 21 + 3 * static_cast<std::uint64_t>(i)))
      list.push_back(std::move(*residue));
  if (subject.a_element() != subject.b_element()) return list;
  for (const Wide& wide : wide_calls(subject.a_element()))
    for (const std::int64_t run : {32, 128})
      if (wide.what == kWide && 4 * run <= shape.k)
        if (std::optional<Answer> uneven = ask_uneven(subject, shape, wide, run))
          list.push_back(std::move(*uneven));
  for (const Wide& wide : wide_calls(subject.a_element()))
    if (std::optional<Answer> answer = subject.crafted(
            shape, wide_numbers(subject.a_element(), shape.m * shape.k, wide.low, wide.high, 11),
            wide_numbers(subject.b_element(), shape.n * shape.k, wide.low, wide.high, 12),
            std::string(wide.what)))
      list.push_back(std::move(*answer));
  return list;
}

std::vector<std::vector<std::int64_t>> columns_alike(GemmSubject& subject, const GemmShape& shape) {
  std::map<std::vector<std::uint64_t>, std::vector<std::int64_t>> by_outputs;
  std::vector<std::vector<std::uint64_t>> outputs(static_cast<std::size_t>(shape.n));
  for (int i = 0; i < kAlikeCalls; ++i) {
    auto sides = cancelling(subject, {shape.m, 1, shape.k}, 41 + 3 * static_cast<std::uint64_t>(i));
    if (!sides) return {};
    std::vector<float> b;
    for (std::int64_t c = 0; c < shape.n; ++c) b.insert(b.end(), sides->second.begin(), sides->second.end());
    const std::optional<Answer> answer =
        subject.crafted(shape, std::move(sides->first), std::move(b), "one column");
    if (!answer) return {};
    for (std::size_t at = 0; at < answer->got.size(); ++at)
      outputs[at % outputs.size()].push_back(std::bit_cast<std::uint64_t>(answer->got[at] + 0.0));  // -0 is 0
  }
  for (std::int64_t c = 0; c < shape.n; ++c) by_outputs[outputs[static_cast<std::size_t>(c)]].push_back(c);
  std::vector<std::vector<std::int64_t>> list;
  for (auto& each : by_outputs) list.push_back(std::move(each.second));
  std::ranges::sort(list);
  return list;
}

std::vector<Tampered> tampered(const Schedule& s, std::int64_t n) {
  std::vector<Tampered> list;
  const auto with = [&](const char* field, const std::string& value) {
    // Through the text, so that what contradicts itself is left out.
    std::string text;
    for (const std::string& other : {print_schedule(s)})
      for (std::size_t at = 0; at < other.size();) {
        const std::size_t end = std::min(other.find(' ', at), other.size());
        const std::string pair = other.substr(at, end - at);
        at = end + 1;
        const bool refolded = std::string_view(field) == "lanes" && pair.starts_with("fold=");
        if (!pair.starts_with(std::string(field) + "=") && !refolded) text += pair + " ";
      }
    try {
      Schedule other = parse_schedule(text + field + "=" + value);
      if (other != s) list.push_back({field, std::move(other)});
    } catch (const InputError&) {
    }
  };
  const std::int64_t g = s.unit() != nullptr ? s.unit()->group : 1;
  if (s.unit() != nullptr) {
    for (const MatrixUnit& unit : matrix_units())
      if (accepts(unit, s.unit()->inputs.substr(0, s.unit()->inputs.find(' '))) &&
          unit.scale_block == s.unit()->scale_block && unit.standing != Standing::assumed &&
          !same_arithmetic(unit, *s.unit()))
        with("acc", std::string(unit.name));
    for (const char* order : {"ascending", "swapped"})  // no unit at all
      list.push_back({"acc", parse_schedule(fmt::format("acc=f32 fma=yes order={}", order))});
  } else {
    for (const char* acc : {"f64", "f32", "bf16", "f16"}) with("acc", acc);
    with("fma", s.fma ? "no" : "yes");
    for (const std::int64_t lanes : {s.lanes * 2, s.lanes / 2})
      if (lanes >= 1 && lanes <= n) with("lanes", std::to_string(lanes));
    for (const char* fold : {"halving", "adjacent", "sequential", "reverse"})
      if (s.lanes > 2) with("fold", fold);
    if (s.lanes > 1) with("pack", std::to_string(s.pack * 2));
    if (s.lanes > 1 && (n - s.head) % (s.lanes * s.pack) != 0)
      for (const char* tail : {"lanes", "after", "apart", "first:1", "refold", "before:1"})
        with("tail", tail);
    if ((n - s.head) % (s.lanes * s.pack) != 0)
      for (std::int64_t sums = s.lanes / 2; sums >= s.lanes / 8 && sums > 1; sums /= 2)
        with("tail", fmt::format("folded:{}", sums));
    for (const std::int64_t head : {std::int64_t{0}, s.head + 1})
      if (s.head > 0 && s.lanes > 1) with("head", std::to_string(head));
    if (s.head > 0 && s.lanes > 1) with("head_at", s.head_apart ? "lane" : "apart");
    for (const std::int64_t cascade : {std::int64_t{0}, s.cascade * 2, s.cascade / 2})
      if (s.cascade > 0 && cascade != 1) with("cascade", std::to_string(cascade));
  }
  for (const char* order : {"ascending", "descending", "swapped"}) with("order", order);
  for (const std::int64_t chunk : {std::int64_t{0}, s.chunk * 2, s.chunk / 2, 4 * g, 16 * g})
    if (chunk < n) with("chunk", std::to_string(chunk));
  if (s.chunk > 0) with("chunk_acc", "bf16");
  if (s.slicing != Slicing::cuts)
    for (const std::int64_t split : {s.split - 1, s.split + 1})
      if (split >= 1 && split * g <= n) {
        Schedule other = s;
        other.split = split;
        if (split > 1 && other.quantum < g) other.quantum = g;
        other.merge = split == 1 ? "sequential" : to_string(fold_of("sequential", split), split);
        list.push_back({"split", other});
      }
  if (s.split > 1) {
    for (const char* merge : {"sequential", "reverse", "halving", "adjacent"})
      if (s.split > 2) with("merge", merge);
    for (const char* part : {"f32", "bf16", "f16"}) with("part", part);
    if (s.slicing != Slicing::cuts)
      for (const char* slicing : {"even", "balanced", "proportional", "interleaved"})
        with("slicing", slicing);
  }
  return list;
}

}  // namespace assay
