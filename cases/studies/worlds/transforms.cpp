// Worlds of wht and dequantize.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cases/studies/worlds/inputs.hpp"
#include "cases/studies/worlds/members_sum.hpp"
#include "cases/studies/worlds/world.hpp"

namespace assay::worlds {
namespace {

std::vector<double> alphabet(const Arithmetic& a, std::string_view format) {
  if (scalar_format(format).bits <= 8) return numbers(format);
  std::vector<double> some;
  for (const double x : {0.0, 0x1p-24, 0x1.8p-23, 0x1.004p-14, 0x1p-14, 0x1p-10, 0.34375, 1.0, 1.375,
                         1.9921875, 255.0, 2048.0, 40000.0})
    for (const double sign : {1.0, -1.0}) some.push_back(round_to_precision(sign * x, a.precision));
  return set_of(std::move(some));
}

bool odd(int x) { return (static_cast<unsigned>(std::popcount(static_cast<unsigned>(x))) & 1U) != 0; }

// "scale: where 1/sqrt(points) is applied": once, before or after the sums; levels: 1/sqrt(2) after each of
// the butterfly's.
std::vector<Set> transformed(const Arithmetic& a, const Order& order, bool levels,
                             const std::vector<double>& x) {
  const int n = static_cast<int>(x.size());
  std::vector<Set> y(x.size());
  // Constants of the kernel: no inputs, and no results of it.
  const Set scale = {round_to_precision(1 / std::sqrt(static_cast<double>(n)), a.precision)},
            root = {round_to_precision(std::sqrt(0.5), a.precision)};
  if (levels) {
    std::vector<Set> now;
    for (const double v : x) now.push_back(used(a, v));
    for (int step = 1; step < n; step *= 2) {
      std::vector<Set> next(x.size());
      for (int i = 0; i < n; ++i) {
        const Set &low = now[static_cast<std::size_t>(i & ~step)],
                  &high = now[static_cast<std::size_t>(i | step)];
        const Set sum =
            each(low, high, [&](double p, double q) { return added(a, p, (i & step) != 0 ? -q : q); });
        next[static_cast<std::size_t>(i)] = multiplied(a, sum, root);
      }
      now = next;
    }
    return now;
  }
  for (int i = 0; i < n; ++i) {
    std::vector<Set> plain, scaled;
    for (int j = 0; j < n; ++j) {
      const double v = odd(i & j) ? -x[static_cast<std::size_t>(j)] : x[static_cast<std::size_t>(j)];
      plain.push_back(used(a, v));
      scaled.push_back(multiplied(a, used(a, v), scale));
    }
    Set& out = y[static_cast<std::size_t>(i)];
    out = multiplied(a, sums(a, plain, order), scale);
    join(out, sums(a, scaled, order));
  }
  return y;
}

std::vector<Batch> wht_batches(const World& w, int n, std::size_t budget) {
  const Arithmetic acc = arithmetic(declared(w, "acc"), declared(w, "ftz") == "yes");
  const std::string dtype = w.attributes.contains("dtype") ? w.attributes.at("dtype") : "f32";
  const auto rows = rows_of(alphabet(acc, declared(w, "acc")), n, false,
                            std::max<std::size_t>(1, budget / static_cast<std::size_t>(n)));
  Batch b;
  const auto count = static_cast<std::int64_t>(rows.size());
  b.attributes = w.attributes;
  b.attributes["rows"] = std::to_string(count);
  b.attributes["cols"] = b.attributes["points"] = std::to_string(n);
  std::vector<double> x;
  for (const auto& row : rows) {
    x.insert(x.end(), row.begin(), row.end());
    for (const Set& s :
         transformed(acc, order_of(declared(w, "order")), declared(w, "scale") == "levels", row))
      b.members.push_back(overflows(acc, s) ? Set{} : stored(s, w, dtype));
  }
  b.inputs["x"] = tensor(dtype, {count, n}, x);
  b.inputs_of = [rows, n](std::size_t i) { return "x=" + hex(rows[i / static_cast<std::size_t>(n)]); };
  return {b};
}

// "roundings: in mid, from code and scale to the number stored"; "scale_format: an f32 scale is rounded to
// this before it multiplies". A code times its scale, rounded in mid.
std::vector<Batch> dequantize_batches(const World& w, std::size_t budget) {
  const bool flush = declared(w, "ftz") == "yes";
  const Arithmetic mid = arithmetic(declared(w, "mid"), flush), f32 = arithmetic("f32", flush);
  const Arithmetic scale_type = arithmetic(declared(w, "scale_format"), flush);
  // "what is subnormal in the type computed in": not what is so in the format of a scale alone.
  const bool all_flush = meaning(w, "ftz").find("the type computed in") == std::string_view::npos;
  const std::string from = w.attributes.at("from"), dtype = w.attributes.at("dtype");
  const Format& format_row = format(from);
  const auto codes = numbers(format_row.element);
  std::vector<Batch> all;
  const std::size_t wanted = std::min<std::size_t>(codes.size(), std::max<std::size_t>(8, budget / 12));
  for (const double scale :
       {1.0, 0x1.55555p-3, 0x1.fffffep+0, 0x1.002p-9, 0x1.01p-14, 0x1.8p-25, 0x1.234568p-120, 0x1.234568p-126,
        0x1p-140, 0x1.8p+7, 0x1.234568p+10, 0x1p+118}) {
    Batch b;
    std::vector<float> values;
    std::vector<double> chosen;
    for (std::size_t i = 0; i < wanted; ++i) {
      const double code = codes[i * codes.size() / wanted];
      const auto value = static_cast<float>(code * scale);
      if (!std::isfinite(value)) continue;
      chosen.push_back(code);
      values.push_back(value);
    }
    if (scale > scale_type.largest) continue;  // refused
    if (chosen.size() % 2 != 0) chosen.pop_back(), values.pop_back();
    const auto count = static_cast<std::int64_t>(values.size());
    const std::vector<float> scales{static_cast<float>(scale)};
    b.inputs["x"] = encode_tensor_with_scales(format_row, {1, count}, values, scales);
    b.attributes = w.attributes;
    b.attributes["rows"] = "1";
    b.attributes["cols"] = std::to_string(count);
    const std::vector<double> exact = decode_tensor(b.inputs["x"]);
    for (std::size_t i = 0; i < exact.size(); ++i) {
      const double code = exact[i] / static_cast<double>(scales[0]);
      Set s = each(used(f32, static_cast<double>(scales[0])), [&](double k) {
        return each(all_flush ? rounded(scale_type, k) : Set{round_to_precision(k, scale_type.precision)},
                    [&](double r) {
                      return each(all_flush ? used(scale_type, r) : used(mid, r),
                                  [&](double factor) { return rounded(mid, code * factor); });
                    });
      });
      if (code != round_to(scalar_format(format_row.element), code))
        s.clear();  // a quotient that f64 rounded
      b.members.push_back(s.empty() ? s : stored(s, w, dtype));
    }
    b.inputs_of = [chosen, scale](std::size_t i) {
      return fmt::format("code={:a} scale={:a}", chosen[i], scale);
    };
    all.push_back(std::move(b));
  }
  return all;
}

}  // namespace

std::vector<World> transform_worlds() {
  std::vector<World> all;
  const auto add = [&](const char* op, int n, Words attributes, Keys contract, const char* why) {
    all.push_back(named(op, n == 0 ? "" : fmt::format("n={}", n), std::move(attributes), std::move(contract),
                        why, [n](const World& w, std::size_t budget) {
                          return n == 0 ? dequantize_batches(w, budget) : wht_batches(w, n, budget);
                        }));
  };
  for (const char* acc : {"e4m3fn", "e2m3", "e3m2", "e5m2", "e2m1", "f16", "bf16"}) {
    for (const int n : {1, 2, 4}) {
      for (const char* order : {"any", "tree", "sequential", "depth:2"})
        add("wht", n, {}, {{"acc", acc}, {"order", order}}, "order: in which the points are added");
      add("wht", n, {}, {{"acc", acc}, {"order", "tree"}, {"scale", "levels"}},
          "scale: where 1/sqrt(points) is applied");
      add("wht", n, {}, {{"acc", acc}, {"ftz", "yes"}}, "ftz: subnormal inputs and results may become zero");
      add("wht", n, {}, {{"acc", acc}, {"order", "tree"}, {"scale", "levels"}, {"ftz", "yes"}},
          "scale: where 1/sqrt(points) is applied; ftz: subnormal inputs and results may become zero");
    }
    for (const char* dtype : {"f16", "bf16"})
      for (const char* round : {"nearest_even", "nearest_away", "toward_zero"})
        add("wht", 2, {{"dtype", dtype}}, {{"acc", acc}, {"round", round}}, "round: rounding to the output");
  }
  for (const char* from : {"e4m3fn_tensor", "e5m2_tensor", "int8_tensor"})
    for (const char* dtype : {"f32", "f16", "bf16"})
      for (const char* mid : {"f32", "f16", "bf16"})
        for (const char* scale : {"f32", "f16", "bf16"})
          for (const char* ftz : {"no", "yes"})
            add("dequantize", 0, {{"from", from}, {"dtype", dtype}},
                {{"mid", mid}, {"scale_format", scale}, {"ftz", ftz}},
                "roundings: in mid, from code and scale to the number stored; scale_format: an f32 scale is "
                "rounded to this");
  return all;
}

}  // namespace assay::worlds
