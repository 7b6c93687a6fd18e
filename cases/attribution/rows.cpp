// The probes of ops over rows: softmax, logsumexp, the norms.
#include "cases/attribution/rows_common.hpp"

namespace assay::attribution {

namespace {

// Whether all that is wrong are weights of next to nothing that became 0.
bool only_tiny(const Answer& answer) {
  constexpr double kTiny = 0x1p-60;      // far below what a rounding of any weight leaves
  if (answer.got.empty()) return false;  // it ended early
  for (std::size_t i = 0; i < answer.got[0].size(); ++i)
    if (!(std::fabs(answer.got[0][i] - answer.truths[0].value[i]) <= answer.truths[0].limit[i]) &&
        !(answer.got[0][i] == 0 && answer.truths[0].value[i] < kTiny))
      return false;
  return true;
}

// Whether some of equal logits have no weight at all.
bool some_unseen(const Answer& answer) {
  return !answer.got.empty() &&
         std::find(answer.got[0].begin(), answer.got[0].end(), 0.0) != answer.got[0].end();
}

// Whether each row that is wrong is alpha times the truth plus beta, with alpha and beta of its own.
bool one_affine_map_each(const Answer& a) {
  if (!a.ran || a.got.empty()) return false;
  const auto &want = a.truths[0].value, &got = a.got[0], &limit = a.truths[0].limit;
  const auto n = static_cast<std::size_t>(width(a));
  for (std::size_t row = 0; row + n <= want.size(); row += n) {
    double mx = 0, my = 0, xx = 0, xy = 0;
    for (std::size_t i = row; i < row + n; ++i)
      mx += want[i] / static_cast<double>(n), my += got[i] / static_cast<double>(n);
    for (std::size_t i = row; i < row + n; ++i)
      xx += (want[i] - mx) * (want[i] - mx), xy += (want[i] - mx) * (got[i] - my);
    const double alpha = xx > 0 ? xy / xx : 1;
    for (std::size_t i = row; i < row + n; ++i)
      if (!(std::fabs(got[i] - my - alpha * (want[i] - mx)) <= 2 * (1 + std::fabs(alpha)) * limit[i]))
        return false;
  }
  return true;
}

// A row that depends on others: by its sum or moments alone, or by its elements.
bool reads_others(Bench& bench, Attribution& a) {
  if (bench.first().verdict.status != Status::wrong || !reads_other_rows(bench)) return false;
  a.decided = true;
  const std::string_view op = bench.the_case().op->name;
  if (op == "softmax" && look(bench.original(), width(bench.original())).factor)
    name(a, "row_sum", "each weight of a row is off by one factor, and right where all rows are alike");
  else if (op.ends_with("norm") &&
           one_affine_map_each(bench.ask(Edit([](const TensorSpec& t, std::vector<float>& x) {
             if (t.name == "gamma") std::fill(x.begin(), x.end(), 1.0F);
             if (t.name == "beta") std::fill(x.begin(), x.end(), 0.0F);
           }))))
    name(a, "moments", "a row's mean and factor alone depend on other rows");
  else
    name(a, "addressing", "the worst row is right where all others have its numbers: it depends on theirs");
  return true;
}

// The same rows, each with its largest logit everywhere: whatever a maximum is taken of, it is that.
bool right_with_each_row_its_largest(Bench& bench) {
  const Answer answer = bench.ask(Edit([](const TensorSpec& t, std::vector<float>& x) {
    if (t.name != "x") return;
    const std::ptrdiff_t columns = t.shape.back();
    for (auto row = x.begin(); row != x.end(); row += columns)
      std::fill(row, row + columns, *std::max_element(row, row + columns));
  }));
  return answer.ran && !answer.bad;
}

}  // namespace

void attribute_softmax(Bench& bench, Attribution& a) {
  if (early(bench, a) || reads_others(bench, a)) return;
  const bool summed = bench.the_case().op->name == "logsumexp";  // one number comes of a row
  // Short rows, whose limits are a few roundings wide; many of them, so that one rounding that happens to be
  // none hides nothing. What they do not show, rows of the case's own length may.
  bool own_shape = false;
  const auto& given = bench.the_case().attributes;
  const auto ask = [&](const std::vector<Change>& more,
                       const std::function<double(double row, std::int64_t i)>& logit,
                       const char* cols = "3") {
    std::vector<Change> changes = {{"rows", "16"}, {"cols", cols}, {"dtype", "f32"}, {"layout", "dense"}};
    if (own_shape) changes[0].second = given.text("rows"), changes[1].second = given.text("cols");
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

  const auto named = [&](const char* stage, const char* why) {
    name(a, stage, why);
    if (own_shape) a.support.emplace_back("so in rows of the case's own length");
    return true;
  };
  const auto plain = [&] {
    const Answer equal = ask({}, zero, "33");
    if (equal.ran && equal.bad) {
      if (equal.not_finite) return named("scale", "equal logits of 0 leave no finite weight");
      const Rows rows = summed ? Rows{} : look(equal, width(equal));
      if (summed || (rows.factor && rows.gross))
        return named("row_sum", "equal logits: the sum of equal weights is wrong");
      if (rows.factor) return named("output", "equal logits: 1/n is off by a small factor");
      if (some_unseen(equal)) return named("mask", "some of equal logits have no weight");
      return named("addressing", "equal logits give unequal weights");
    }
    const Answer falling = ask({}, falls);
    const Answer wide = ask({}, falls, "64");  // more than a vector is wide
    if (falling.ran && falling.bad) {
      if (summed) {
        const Answer one = ask({}, [](double row, std::int64_t i) { return i == 0 ? row / 7 : -200.0; });
        if (one.ran && one.bad) return named("output", "a single weight of 1 gives a wrong logarithm");
        const Answer powers = ask({}, [](double row, std::int64_t i) {
          return i == 0 ? 0.0 : -std::log(2.0) * (static_cast<double>(i) * 9 + row);
        });
        if (powers.ran && powers.bad)
          return named("row_sum", "weights that are powers of two are summed wrongly");
        return named("exp", "weights that are powers of two are right, others are not");
      }
      const Rows rows = look(falling, width(falling));
      if (rows.factor && !rows.sloped) return named("row_sum", "all weights of a row are off by one factor");
      if (rows.sloped) return named("scale", "the error of log(weight) grows with the logit");
      // Logits of few bits: what still is wrong is the exponential of them.
      const Answer whole = ask({}, [](double row, std::int64_t i) {
        return -static_cast<double>(i) * (1 + std::fmod(row, 4)) / 4;
      });
      if (whole.ran && !whole.bad) return named("scale", "logits of few bits are right, others are not");
      return named("exp", "weights are off, not by one factor and not by the logit");
    }
    if (summed && wide.ran && wide.bad)
      return named("row_sum", "of three weights the sum is right, of more that fall off it is not");
    const Answer rising = ask({}, [](double, std::int64_t i) { return 3.0 * static_cast<double>(i); }, "100");
    const Answer low = ask({}, [](double, std::int64_t) { return -1000.0; });
    const Answer steps = ask({}, [](double row, std::int64_t) { return 60.0 * row; });
    if (!summed && rising.ran && rising.bad && only_tiny(rising))
      return named("exp", "weights below 2^-60 are 0, others are right");
    if ((steps.ran && steps.bad) || (rising.ran && rising.bad) || (low.ran && low.bad))
      return named("max", "logits far from 0 give wrong weights, those near it right ones");
    return false;
  };
  if (plain()) return;
  a.support.push_back("without sinks, mask, softcap and temperature every stage is right");
  const auto features = [&] {
    if (summed) return false;
    const auto bad = [&](const std::vector<Change>& more, const char* cols = "3") {
      const Answer answer = ask(more, falls, cols);
      return answer.ran && answer.bad;
    };
    if (has(bench, "temperature", "1") && bad({own("temperature")}))
      return named("scale", "the temperature makes it wrong");
    if (has(bench, "softcap", "0") && bad({own("softcap")}))
      return named("scale", "the softcap makes it wrong");
    if (has(bench, "sinks", "no") && bad({{"sinks", "yes"}})) return named("sink", "sinks make it wrong");
    if (has(bench, "mask", "none") && bad({own("mask")}, "33"))
      return named("mask", "the mask makes it wrong");
    return false;
  };
  if (features()) return;
  if (has(bench, "dtype", "f32")) {
    const Answer stored = ask({own("dtype")}, falls, "33");
    if (stored.ran && stored.bad) return name(a, "output", "the format of what is stored makes it wrong");
  }
  if (only_by_layout(bench, a)) return;
  own_shape = true;
  if (plain() || features()) return;
  if (bench.original().not_finite && right_with_each_row_its_largest(bench))
    return name(a, "max", "weights overflow; where all logits of a row are its largest, none does");
  a.against.push_back("no probe is wrong: what the case's own data have is not among them");
}

namespace {

// Of rows with one square each, under an eps of its size: y = x / sqrt(c x^2 + eps), with one c that is not
// 1.
bool mean_is_off(const Answer& exact) {
  constexpr double kEps = 0.37, kAlike = 0x1p-10;  // c is known within some roundings of f32
  if (exact.got.empty()) return false;
  const std::vector<double> x = decode_tensor(exact.set.at("x"));
  double low = INFINITY, high = -INFINITY;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double root = x[i] / exact.got[0][i], c = (root * root - kEps) / (x[i] * x[i]);
    low = std::min(low, c), high = std::max(high, c);
  }
  return high - low < kAlike * high && std::fabs(high - 1) > 8 * kAlike;
}

}  // namespace

void attribute_norm(Bench& bench, Attribution& a) {
  if (early(bench, a) || reads_others(bench, a)) return;
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
  // One element, or two around 0: what is summed is exact, and what is left is 1/sqrt and the product. Many
  // rows, so that one rounding that happens to be none hides nothing.
  const auto summed_exactly = [&](const char* eps, double unit) {
    return bench.ask(
        {{"rows", "16"}, {"cols", centred ? "2" : "1"}, {"eps", eps}, {"dtype", "f32"}, {"layout", "dense"}},
        Edit([&](const TensorSpec& t, std::vector<float>& x) {
          plain(t, x);
          if (t.name != "x") return;
          const auto columns = static_cast<std::size_t>(t.shape.back());
          for (std::size_t i = 0; i < x.size(); ++i)
            x[i] =
                static_cast<float>((i % columns == 0 ? unit : -unit) * static_cast<double>(i / columns + 3));
        }));
  };
  const Answer exact = summed_exactly("0.37", 0.25);
  if (exact.ran && exact.bad && mean_is_off(exact))
    return name(a, "moments", "one element: its square enters the mean with another factor than 1 / count");
  if (exact.ran && exact.bad) {
    // Squares that vanish beside eps leave 1/sqrt(eps) and the product, at two numbers.
    const auto right = [&](const char* eps) {
      const Answer answer = summed_exactly(eps, 0x1p-20);
      return answer.ran && !answer.bad;
    };
    if (right("0.37") && right("0.83"))
      return name(a, "moments",
                  "right where the squares vanish beside eps, wrong where their sum is exact and counts");
  }
  if (exact.ran && exact.bad)
    return name(a, "normalise", "an exact sum of squares is followed by a wrong number");
  if (exact.ran) a.support.push_back("an exact sum of squares is followed by the right number");
  if (!centred && unscaled.ran && !unscaled.not_finite && !look(unscaled, width(unscaled)).factor) {
    const Answer plain_numbers = bench.ask(Edit([](const TensorSpec& t, std::vector<float>& x) {
      for (std::size_t i = 0; t.name == "x" && i < x.size(); ++i)
        x[i] = static_cast<float>(std::sin(1.7 * static_cast<double>(i) + 1));
    }));
    const bool decoded = has(bench, "dtype", "f32");
    if (plain_numbers.ran && !plain_numbers.bad && !decoded)
      return name(a, "moments", "numbers about 1 are right, the case's own are not");
    if (plain_numbers.ran && !plain_numbers.bad)
      return name(a, "codec", "numbers about 1 are right, the case's own are not, each in its own way");
    return name(a, "normalise", "a row is not one factor times the truth: elements are treated differently");
  }
  if (exact.ran) return name(a, "moments", "longer rows are wrong");
}

}  // namespace assay::attribution
