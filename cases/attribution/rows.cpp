// The probes of ops over rows (softmax, logsumexp, the norms) and of the matrix product.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cases/attribution/conclusion.hpp"

namespace assay::attribution {
namespace {

void name(Attribution& a, const std::string& stage, const std::string& why) {
  a.stage = stage;
  a.support.push_back(why);
}

// Whether the case is right without something: what was taken away is what the fault needs.
bool passes(Bench& bench, Attribution& a, const std::vector<Change>& changes, const Edit& edit,
            const std::string& how) {
  const Answer answer = bench.ask(changes, edit);
  if (!answer.ran) return false;
  (answer.bad ? a.against : a.support)
      .push_back(fmt::format("{}: {}", how, answer.bad ? "still wrong" : "right"));
  return !answer.bad;
}

bool has(const Bench& bench, std::string_view key, std::string_view other_than) {
  const auto& all = bench.the_case().attributes.all();
  const auto found = all.find(std::string(key));
  return found != all.end() && found->second != other_than;
}

// A factor that is off by more is no matter of roundings: f16 and bf16 keep 1/128. Rows whose logarithms are nearly alike (their
// squared distance from the mean, summed) show no slope.
constexpr double kGross = 0.01, kSpread = 0.01;

// How a wrong answer's rows are related to the truth's.
struct Rows {
  bool factor = true;   // each bad row is one factor times the truth
  bool gross = false;   // by more than a per cent
  bool sloped = false;  // log(got / truth) follows log(truth)
};
Rows look(const Answer& a, std::int64_t columns) {
  Rows r;
  std::size_t sloped = 0, varied = 0;
  const std::size_t n = static_cast<std::size_t>(columns);
  const auto &want = a.truths.at(0).value, &limit = a.truths[0].limit, &got = a.got.at(0);
  for (std::size_t row = 0; row + n <= want.size(); row += n) {
    double floor = -INFINITY, ceiling = INFINITY, mx = 0, my = 0, xx = 0, xy = 0, yy = 0, count = 0;
    bool bad = false;
    for (std::size_t i = row; i < row + n; ++i) {
      bad = bad || !(std::fabs(got[i] - want[i]) <= limit[i]);
      if (!(std::fabs(want[i]) > 8 * limit[i])) continue;
      const double low = (got[i] - limit[i]) / want[i], high = (got[i] + limit[i]) / want[i];
      floor = std::max(floor, std::min(low, high)), ceiling = std::min(ceiling, std::max(low, high));
      if (std::fabs(got[i] / want[i] - 1) > kGross) r.gross = true;
      if (want[i] > 0 && got[i] > 0) ++count, mx += std::log(want[i]), my += std::log(got[i] / want[i]);
    }
    if (!bad) continue;
    if (!(floor <= ceiling)) r.factor = false;
    for (std::size_t i = row; i < row + n && count >= 3; ++i) {
      if (!(want[i] > 8 * limit[i] && got[i] > 0)) continue;
      const double x = std::log(want[i]) - mx / count, y = std::log(got[i] / want[i]) - my / count;
      xx += x * x, xy += x * y, yy += y * y;
    }
    if (xx > kSpread && yy > 0) {
      ++varied;
      if (xy * xy > 0.8 * xx * yy) ++sloped;
    }
  }
  r.sloped = varied > 0 && 4 * sloped >= 3 * varied;
  return r;
}

std::int64_t width(const Answer& a) {
  return a.truths.at(0).value.empty()
             ? 1
             : std::ranges::find(a.tensors, a.truths[0].output, &TensorSpec::name)->shape.back();
}

bool early(Bench& bench, Attribution& a) {
  const Status status = bench.first().verdict.status;
  if (status == Status::wrong || status == Status::distrust) return false;
  if (status == Status::crash && bench.the_case().op->name == "softmax" && !has(bench, "mask", "none")) {
    const Answer masked = bench.ask({{"mask", "random"}}, Edit{});
    if (masked.ran && masked.status == RunStatus::done) {
      name(a, "mask", "it ends with a mask, and not without one");
      return true;
    }
  }
  name(a, "addressing", fmt::format("verdict {}", to_string(status)));
  return true;
}

}  // namespace

void attribute_softmax(Bench& bench, Attribution& a) {
  if (early(bench, a)) return;
  const bool summed = bench.the_case().op->name == "logsumexp";  // one number comes of a row
  // Short rows, whose limits are a few roundings wide; many of them, so that one rounding that happens to be none hides nothing.
  const auto ask = [&](const std::vector<Change>& more,
                       const std::function<double(double row, std::int64_t i)>& logit,
                       const char* cols = "3") {
    std::vector<Change> changes = {{"rows", "16"}, {"cols", cols}, {"dtype", "f32"}, {"layout", "dense"}};
    if (!summed)
      changes.insert(changes.end(),
                     {{"mask", "none"}, {"sinks", "no"}, {"softcap", "0"}, {"temperature", "1"}});
    for (const Change& c : more) {
      std::erase_if(changes, [&](const Change& old) { return old.first == c.first; });
      changes.push_back(c);
    }
    return bench.ask(changes, Edit([&](const TensorSpec& t, std::vector<float>& x) {
                       for (std::size_t i = 0; i < x.size(); ++i) {
                         if (t.name == "sinks")
                           x[i] =
                               static_cast<float>(i % 2 == 0 ? -1.37 - 0.1 * static_cast<double>(i) : 2.21);
                         const auto columns = static_cast<std::size_t>(t.shape.back());
                         if (t.name == "x")
                           x[i] = static_cast<float>(logit(static_cast<double>(i / columns),
                                                           static_cast<std::int64_t>(i % columns)));
                       }
                     }));
  };
  const auto zero = [](double, std::int64_t) { return 0.0; };
  const auto falls = [](double row, std::int64_t i) {
    return -0.37 * (1 + 0.13 * row) * static_cast<double>(i);
  };
  const auto own = [&](const char* key) { return Change{key, bench.the_case().attributes.text(key)}; };

  const Answer equal = ask({}, zero, "33");
  if (equal.ran && equal.bad) {
    if (equal.not_finite) return name(a, "scale", "equal logits of 0 leave no finite weight");
    const Rows rows = summed ? Rows{} : look(equal, width(equal));
    if (summed || (rows.factor && rows.gross))
      return name(a, "row_sum", "equal logits: the sum of equal weights is wrong");
    if (rows.factor) return name(a, "output", "equal logits: 1/n is off by a small factor");
    return name(a, "addressing", "equal logits give unequal weights");
  }
  const Answer falling = ask({}, falls);
  (void)ask({}, falls, "64");  // more than a vector is wide
  if (falling.ran && falling.bad) {
    if (summed) {
      const Answer one = ask({}, [](double row, std::int64_t i) { return i == 0 ? row / 7 : -200.0; });
      if (one.ran && one.bad) return name(a, "output", "a single weight of 1 gives a wrong logarithm");
      const Answer powers = ask({}, [](double row, std::int64_t i) {
        return i == 0 ? 0.0 : -std::log(2.0) * (static_cast<double>(i) * 9 + row);
      });
      if (powers.ran && powers.bad)
        return name(a, "row_sum", "weights that are powers of two are summed wrongly");
      return name(a, "exp", "weights that are powers of two are right, others are not");
    }
    const Rows rows = look(falling, width(falling));
    if (rows.factor && !rows.sloped) return name(a, "row_sum", "all weights of a row are off by one factor");
    if (rows.sloped) return name(a, "scale", "the error of log(weight) grows with the logit");
    // Logits of few bits: what still is wrong is the exponential of them.
    const Answer whole = ask(
        {}, [](double row, std::int64_t i) { return -static_cast<double>(i) * (1 + std::fmod(row, 4)) / 4; });
    if (whole.ran && !whole.bad) return name(a, "scale", "logits of few bits are right, others are not");
    return name(a, "exp", "weights are off, not by one factor and not by the logit");
  }
  const Answer rising = ask({}, [](double, std::int64_t i) { return 3.0 * static_cast<double>(i); }, "100");
  const Answer low = ask({}, [](double, std::int64_t) { return -1000.0; });
  if ((rising.ran && rising.bad) || (low.ran && low.bad))
    return name(a, "max", "logits far from 0 give wrong weights, those near it right ones");
  a.support.push_back("without sinks, mask, softcap and temperature every stage is right");
  if (!summed) {
    const auto bad = [&](const std::vector<Change>& more, const char* cols = "3") {
      const Answer answer = ask(more, falls, cols);
      return answer.ran && answer.bad;
    };
    if (has(bench, "temperature", "1") && bad({own("temperature")}))
      return name(a, "scale", "the temperature makes it wrong");
    if (has(bench, "softcap", "0") && bad({own("softcap")}))
      return name(a, "scale", "the softcap makes it wrong");
    if (has(bench, "sinks", "no") && bad({{"sinks", "yes"}})) return name(a, "sink", "sinks make it wrong");
    if (has(bench, "mask", "none") && bad({own("mask")}, "33"))
      return name(a, "mask", "the mask makes it wrong");
  }
  if (has(bench, "dtype", "f32")) {
    const Answer stored = ask({own("dtype")}, falls, "33");
    if (stored.ran && stored.bad) return name(a, "output", "the format of what is stored makes it wrong");
  }
  a.against.push_back("no probe is wrong: what the case's own data have is not among them");
}

void attribute_norm(Bench& bench, Attribution& a) {
  if (early(bench, a)) return;
  if (has(bench, "dtype", "f32") && !bench.original().not_finite &&
      passes(bench, a, {{"dtype", "f32"}}, Edit{}, "stored as f32"))
    return name(a, "output", "the rounding to the output's format is what it needs");
  const bool centred = bench.the_case().op->name == "layernorm";
  const auto plain = [](const TensorSpec& t, std::vector<float>& x) {
    if (t.name == "gamma") std::fill(x.begin(), x.end(), 1.0F);
    if (t.name == "beta") std::fill(x.begin(), x.end(), 0.0F);
  };
  const Answer unscaled = bench.ask({{"dtype", "f32"}}, plain);
  if (unscaled.ran && !unscaled.bad) {
    const Answer scaled = bench.ask({{"dtype", "f32"}}, Edit{});
    if (scaled.ran && scaled.bad) return name(a, "normalise", "gamma = 1 and beta = 0: right");
  }
  // An eps that is as large as what it is added to tells apart what is done before and behind.
  (void)bench.ask({{"dtype", "f32"}, {"eps", "0.37"}}, Edit{});
  // One element, or two around 0: what is summed is exact, and what is left is 1/sqrt and the product. Many rows, so that one
  // rounding that happens to be none hides nothing.
  const Answer exact = bench.ask(
      {{"rows", "16"}, {"cols", centred ? "2" : "1"}, {"eps", "0.37"}, {"dtype", "f32"}, {"layout", "dense"}},
      Edit([&](const TensorSpec& t, std::vector<float>& x) {
        plain(t, x);
        if (t.name != "x") return;
        const auto columns = static_cast<std::size_t>(t.shape.back());
        for (std::size_t i = 0; i < x.size(); ++i)
          x[i] = (i % columns == 0 ? 0.25F : -0.25F) * static_cast<float>(i / columns + 3);
      }));
  if (exact.ran && exact.bad)
    return name(a, "normalise", "an exact sum of squares is followed by a wrong number");
  if (exact.ran) a.support.push_back("an exact sum of squares is followed by the right number");
  if (!centred && unscaled.ran && !unscaled.not_finite && !look(unscaled, width(unscaled)).factor)
    return name(a, "normalise", "a row is not one factor times the truth: elements are treated differently");
  if (exact.ran) return name(a, "moments", "longer rows are wrong");
}

void attribute_matmul(Bench& bench, Attribution& a) {
  if (early(bench, a)) return;
  const auto& all = bench.the_case().attributes;
  const auto own = [&](const char* key) { return Change{key, all.text(key)}; };
  // Numbers of many bits; or whole ones whose scale by any of the usual rules is a power of two: each group of 32 has the
  // largest code.
  const auto many = [](const TensorSpec& t, std::vector<float>& x) {
    for (std::size_t i = 0; i < x.size(); ++i)
      x[i] = static_cast<float>(std::sin(1.7 * static_cast<double>(i) + static_cast<double>(t.name[0])));
  };
  const auto codes = [](float largest, float unit) {
    return [=](const TensorSpec& t, std::vector<float>& x) {
      const auto columns = static_cast<std::size_t>(t.shape.back());
      for (std::size_t i = 0; i < x.size(); ++i)
        x[i] =
            unit * (i % columns % 32 == 0 ? largest : static_cast<float>(static_cast<int>(i * 7 % 13) - 6));
    };
  };
  const std::vector<Change> shape = {{"m", "4"},   {"n", "8"},      {"k", "3"},       {"a", "f32"},
                                     {"b", "f32"}, {"path", "f32"}, {"dtype", "f32"}, {"layout", "dense"}};
  const Answer plain = bench.ask(shape, Edit(many));
  std::vector<Change> longer = shape;
  longer[2].second = "37";
  const Answer plain_long = plain.ran && !plain.bad ? bench.ask(longer, Edit(many)) : Answer{};
  if ((plain.ran && plain.bad) || (plain_long.ran && plain_long.bad))
    return name(a, "dot", "products of plain f32 are wrong");
  if (plain.ran) {
    a.support.push_back("products of plain f32 are right");
    // Products beyond f16's range, and below its smallest number, of operands and with sums that are within it.
    const auto sized = [&](double size) {
      return bench.ask(
          longer, Edit([=](const TensorSpec& t, std::vector<float>& x) {
            const auto columns = static_cast<std::size_t>(t.shape.back());
            for (std::size_t i = 0; i < x.size(); ++i) {
              const std::size_t c = i % columns;
              const double sign = t.name == "b" && size > 1 && c % 2 == 1 ? -1 : 1;
              const double last = size > 1 && c + 1 == columns ? 1 / size : 1;
              x[i] = static_cast<float>(sign * last * size *
                                        (1 + 0.1 * std::sin(static_cast<double>(i / columns + c / 2))));
            }
          }));
    };
    for (const double size : {600.0, 0x1p-13}) {
      const Answer answer = sized(size);
      if (answer.ran && answer.bad) return name(a, "dot", "products of plain f32 of another size are wrong");
    }
  }
  const std::vector<Change> formats = {{"m", "4"}, {"n", "8"},  {"k", "64"},      own("a"),
                                       own("b"),   own("path"), {"dtype", "f32"}, {"layout", "dense"}};
  const Answer stored = bench.ask(formats, Edit(many));
  if (stored.ran && !stored.bad) {
    if (has(bench, "dtype", "f32")) {
      std::vector<Change> output = formats;
      output[6] = own("dtype");
      const Answer rounded = bench.ask(output, Edit(many));
      if (rounded.ran && rounded.bad) return name(a, "output", "the output's format makes it wrong");
    }
    a.against.push_back("no probe is wrong: what the case's own data have is not among them");
    return;
  }
  if (!stored.ran) return;
  const auto family = [&](const char* key) { return all.text(key).substr(0, all.text(key).find('_')); };
  const bool dynamic = all.text("path") == "e4m3fn" || all.text("path") == "q8";
  const bool scaled = all.text("a").find('_') != std::string::npos || dynamic;
  if (!scaled) return name(a, "codec", "operands in their own formats make it wrong");
  const float largest = family("a") == "e4m3fn" || all.text("path") == "e4m3fn" ? 448.0F : 127.0F;
  const Answer units = bench.ask(formats, Edit(codes(largest, 1)));
  if (units.ran && units.bad) {
    if (!units.not_finite && all.text("path") != "q8" && look(units, width(units)).factor)
      return name(a, "scale", "codes under scales of 1 are wrong by one factor to a row");
    return name(a, "codec", "codes under scales of 1 are wrong already");
  }
  const Answer powers = bench.ask(formats, Edit(codes(largest, 0.25F)));
  if (powers.ran && powers.bad) return name(a, "scale", "scales that are powers of two are applied wrongly");
  if (dynamic) return name(a, "codec", "scales that are powers of two are right, others are not");
  name(a, "scale", "codes under scales of 1 are right, under others they are not");
}

}  // namespace assay::attribution
