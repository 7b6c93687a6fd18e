#include "cases/studies/worlds/world.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "reference/formats/format.hpp"
#include "reference/word_list.hpp"

namespace assay::worlds {
namespace {

constexpr std::ptrdiff_t kLinesShown = 4;

std::string text_of(const auto& pairs) {
  std::string text;
  for (const auto& [key, value] : pairs) text += (text.empty() ? "" : " ") + key + "=" + value;
  return text;
}

Contract contract_of(const World& w) {
  Contract c = Contract::parse("", op(w.op).contract);
  for (const auto& [key, value] : w.contract) c = c.with(key, value);
  return c;
}

// How far a number lies from value, in limits: above 1 it is a violation.
double ratio(double got, double value, double limit) {
  if (limit == HUGE_VAL) return 0;
  if (limit == kAnyNumber) return std::isfinite(got) ? 0 : HUGE_VAL;
  if (!std::isfinite(value)) return (std::isnan(value) ? std::isnan(got) : got == value) ? 0 : HUGE_VAL;
  const double error = std::fabs(got - value);
  if (!(error <= limit)) return limit > 0 && std::isfinite(error) ? error / limit : HUGE_VAL;
  return limit > 0 ? error / limit : 0;
}

}  // namespace

World named(std::string op, std::string_view size, Words attributes, Keys contract, std::string sentence,
            std::function<std::vector<Batch>(const World&, std::size_t)> batches) {
  std::string name = op;
  for (const std::string& part : {std::string(size), text_of(attributes), text_of(contract)})
    if (!part.empty()) name += " " + part;
  return {std::move(op),       std::move(name),     std::move(attributes),
          std::move(contract), std::move(sentence), std::move(batches)};
}

std::string_view declared(const World& world, std::string_view key) {
  for (const auto& [name, value] : world.contract)
    if (name == key) return value;
  for (const KeySpec& k : op(world.op).contract)
    if (k.name == key) return k.fallback;
  throw InputError(InputErrorKind::unknown_name, "no contract key '" + std::string(key) + "'");
}

std::string_view meaning(const World& world, std::string_view key) {
  for (const KeySpec& k : op(world.op).contract)
    if (k.name == key) return k.meaning;
  return {};
}

bool has_word(std::string_view the_op, std::string_view key, std::string_view word) {
  for (const KeySpec& k : op(the_op).contract)
    if (k.name == key) return word.empty() || assay::has_word(k.allowed, word);
  return false;
}

Set stored(const Set& results, const World& world, std::string_view dtype) {
  // An op that has no such key stores to nearest, without flushing, and infinities beyond the largest number.
  const auto has = [&](std::string_view key) {
    return std::ranges::any_of(op(world.op).contract, [&](const KeySpec& k) { return k.name == key; });
  };
  const auto word = [&](std::string_view key) {
    return has(key) ? declared(world, key) : std::string_view();
  };
  const bool flush = word("ftz") == "yes";
  const std::string_view through = declared(world, "out");
  EncodePolicy policy;
  policy.overflow = word("overflow") == "saturate" ? Overflow::saturate : Overflow::ieee;
  const std::string_view round = word("round");
  policy.rounding = round == "toward_zero"    ? Rounding::toward_zero
                    : round == "nearest_away" ? Rounding::nearest_away
                                              : Rounding::nearest_even;
  // "round=stochastic: to either neighbour"; "out: rounded to this, to nearest even or Inf, before the
  // output's type".
  const bool stochastic = round == "stochastic";
  const bool out_to_nearest = meaning(world, "out").find("to nearest even or Inf") != std::string_view::npos;
  const EncodePolicy declared_policy = policy;
  const auto step = [&](const Set& s, std::string_view format, bool last) {
    const ScalarFormat& f = scalar_format(format);
    policy = declared_policy;
    if (!last && out_to_nearest) policy = {Rounding::nearest_even, Overflow::ieee};
    const Arithmetic a = arithmetic(format, flush);
    return each(s, [&](double x) {
      Set r = worlds::results(a, round_to(f, x, policy));
      if (stochastic && last) {
        for (const Rounding way : {Rounding::toward_zero, Rounding::toward_negative}) {
          EncodePolicy other = policy;
          other.rounding = way;
          join(r, worlds::results(a, round_to(f, x, other)));
          join(r, worlds::results(a, -round_to(f, -x, other)));
        }
      }
      if (f.bits == 32 && flush && is_subnormal(a, x)) join(r, {0});
      return r;
    });
  };
  Set s = results;
  if (through != "dtype") s = step(s, through, false);
  return step(s, dtype, true);
}

Encoded tensor(const std::string& name, const Shape& shape, const std::vector<double>& values) {
  const std::vector<float> narrow(values.begin(), values.end());
  return encode_tensor(format(name), shape, narrow);
}

std::string hex(const std::vector<double>& values) {
  std::string text = "[";
  for (std::size_t i = 0; i < values.size(); ++i) text += fmt::format("{}{:a}", i == 0 ? "" : ",", values[i]);
  return text + "]";
}

Batch products_batch(const World& w, const std::vector<std::vector<double>>& rows,
                     const std::vector<std::vector<double>>& columns,
                     const std::function<Set(const std::vector<double>&, const std::vector<double>&)>& sums) {
  const std::string &format = w.attributes.at("a"), &dtype = w.attributes.at("dtype");
  const auto m = static_cast<std::int64_t>(rows.size()), n = static_cast<std::int64_t>(columns.size());
  // Two codes of four bits share a byte: a zero is added, which adds nothing to a sum in any order.
  const std::size_t length = rows[0].size(), padding = scalar_format(format).bits == 4 ? length % 2 : 0;
  const auto k = static_cast<std::int64_t>(length + padding);
  Batch b;
  b.attributes = w.attributes;
  b.attributes["m"] = std::to_string(m);
  b.attributes["n"] = std::to_string(n);
  b.attributes["k"] = std::to_string(k);
  const auto flat = [&](const std::vector<std::vector<double>>& from) {
    std::vector<double> values;
    for (const auto& row : from) {
      values.insert(values.end(), row.begin(), row.end());
      values.insert(values.end(), padding, 0);
    }
    return values;
  };
  b.inputs["a"] = tensor(format, {m, k}, flat(rows));
  b.inputs["b"] = tensor(format, {n, k}, flat(columns));
  for (const auto& row : rows)
    for (const auto& column : columns) b.members.push_back(stored(sums(row, column), w, dtype));
  b.inputs_of = [rows, columns](std::size_t i) {
    return "a=" + hex(rows[i / columns.size()]) + " b=" + hex(columns[i % columns.size()]);
  };
  return b;
}

Tally judge(const World& world, std::size_t budget) {
  const auto start = std::chrono::steady_clock::now();
  Tally tally;
  tally.name = world.name;
  tally.sentence = world.sentence;
  const Op& the_op = op(world.op);
  const Contract contract = contract_of(world);
  std::vector<double> loose;
  const double unit = power_of_two(-24);
  for (const Batch& batch : world.batches(world, budget)) {
    const Attributes attributes = Attributes::complete(the_op.attributes, batch.attributes);
    const Truth truth = the_op.truth(attributes, batch.inputs, contract).front();
    for (std::size_t i = 0; i < batch.members.size(); ++i) {
      const Set& members = batch.members[i];
      if (members.empty()) {
        ++tally.silent;
        continue;
      }
      ++tally.elements;
      tally.members += members.size();
      const double limit = truth.limit[i], value = truth.value[i];
      if (limit == HUGE_VAL) ++tally.unclaimed;
      double reach = 0, worst = 0, got = 0;
      for (const double m : members) {
        const double r = ratio(m, value, limit);
        if (r > worst) worst = r, got = m;
        if (std::isfinite(m)) reach = std::max(reach, std::fabs(m - value));
      }
      if (limit < kAnyNumber && reach >= unit * std::fabs(value) && reach > 0) loose.push_back(limit / reach);
      tally.tightest = std::max(tally.tightest, worst);
      if (!(worst > 1)) continue;
      ++tally.violations;
      auto at = tally.lines.begin();
      while (at != tally.lines.end() && at->first >= worst) ++at;
      if (at - tally.lines.begin() < kLinesShown) {
        const std::string line =
            fmt::format("{} {} | {} | {} element {} | got {:a} value {:a} limit {:a} ratio {:.4g} | {}",
                        world.op, text_of(batch.attributes), text_of(world.contract), batch.inputs_of(i), i,
                        got, value, limit, worst, world.sentence);
        tally.lines.insert(at, {worst, line});
        if (tally.lines.size() > kLinesShown) tally.lines.pop_back();
      }
    }
  }
  if (!loose.empty()) {
    std::sort(loose.begin(), loose.end());
    tally.loosest = loose.back();
    tally.median = loose[loose.size() / 2];
  }
  tally.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return tally;
}

std::vector<World> worlds(std::string_view op) {
  std::vector<World> all;
  for (const auto& family : {row_worlds, norm_worlds, product_worlds, unit_worlds, transform_worlds,
                             quantise_worlds, attention_worlds, scaled_product_worlds, moe_worlds}) {
    for (World& w : family())
      if (op.empty() || w.op == op) all.push_back(std::move(w));
  }
  return all;
}

std::string json_line(const Tally& t) {
  const auto number = [](double x) {
    return std::isfinite(x) ? fmt::format("{:.6g}", x) : std::string("null");
  };
  return fmt::format(
      R"({{"world": "{}", "elements": {}, "members": {}, "violations": {}, "unclaimed": {}, "silent": {}, )"
      R"("tightest": {}, )"
      R"("median_loose": {}, "loosest": {}, "seconds": {:.2f}}})",
      t.name, t.elements, t.members, t.violations, t.unclaimed, t.silent, number(t.tightest),
      number(t.median), number(t.loosest), t.seconds);
}

std::string table(const std::vector<Tally>& tallies) {
  std::string text =
      fmt::format("{:<92} {:>8} {:>9} {:>6} {:>6} {:>9} {:>8} {:>8} {:>6}\n", "world", "elements", "members",
                  "beyond", "none", "tightest", "median", "loosest", "s");
  for (const Tally& t : tallies) {
    text += fmt::format("{:<92} {:>8} {:>9} {:>6} {:>6} {:>9.4g} {:>8.3g} {:>8.3g} {:>6.2f}\n", t.name,
                        t.elements, t.members, t.violations, t.unclaimed, t.tightest, t.median, t.loosest,
                        t.seconds);
  }
  return text;
}

}  // namespace assay::worlds
