// The probes of the matrix product.
#include "cases/attribution/rows_common.hpp"

namespace assay::attribution {
namespace {

// Numbers of many bits.
void many_bits(const TensorSpec& t, std::vector<float>& x) {
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<float>(std::sin(1.7 * static_cast<double>(i) + static_cast<double>(t.name[0])));
}

// Where most products are right, and others are left out or counted twice, each whole.
bool few_are_lost_or_doubled(const Answer& answer) {
  if (answer.got.empty()) return false;
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < answer.got[0].size(); ++i) {
    const double got = answer.got[0][i], want = answer.truths[0].value[i], limit = answer.truths[0].limit[i];
    if (std::fabs(got - want) <= limit) continue;
    if (!(std::fabs(got) <= limit) && !(std::fabs(got - 2 * want) <= 2 * limit)) return false;
    ++wrong;
  }
  return 4 * wrong < answer.got[0].size();
}

// One element of each row of an operand alone: the other has a single 1 in each row.
bool single_is_wrong(Bench& bench, const std::vector<Change>& changes, std::string_view operand,
                     const Edit& numbers) {
  const Answer one = bench.ask(changes, Edit([&](const TensorSpec& t, std::vector<float>& x) {
                                 numbers(t, x);
                                 const auto columns = static_cast<std::size_t>(t.shape.back());
                                 if ((t.name != "a" && t.name != "b") || t.name == operand) return;
                                 const bool each = x.size() >= columns * columns;  // a row for each element
                                 for (std::size_t i = 0; i < x.size(); ++i)
                                   x[i] =
                                       i % columns == (i / columns * (each ? 1 : 7)) % columns ? 1.0F : 0.0F;
                               }));
  return !one.ran || (one.bad && !few_are_lost_or_doubled(one));
}
// What is wrong of operands in their own formats: their sum, where each of their elements alone is right.
void sum_or_codec(Bench& bench, Attribution& a, const std::vector<Change>& changes, const char* why) {
  for (const std::string operand : {"a", "b"}) {
    std::vector<Change> all = changes;
    for (Change& c : all)
      if (c.first == (operand == "a" ? "n" : "m")) c.second = "64";
    if (single_is_wrong(bench, bench.contract_of(all) ? all : changes, operand, many_bits))
      return name(a, "codec", why);
  }
  name(a, "dot", "single elements of operands in their own formats come out right, sums of them do not");
}

// What the case's own shape shows, and its own numbers one at a time.
void matmul_as_given(Bench& bench, Attribution& a) {
  if (only_by_layout(bench, a)) return;
  const auto& all = bench.the_case().attributes;
  const auto bad = [](const Answer& answer) { return answer.ran && answer.bad; };
  constexpr double kGrossly = 8;  // times the limit: less may be roundings of codes that add up
  const Answer whole = bench.ask({{"dtype", "f32"}}, Edit(many_bits));
  if (bad(whole) && whole.worst > kGrossly) {
    const std::string few = all.text("k").size() > 2 ? "64" : all.text("k");
    if (bad(bench.ask({{"dtype", "f32"}, {"k", few}}, Edit(many_bits))))
      return name(a, "addressing", "few products: in a small matrix they are right, in this one not");
    return name(a, "dot", "few products are summed rightly, all of k are not");
  }
  // One element of each row of an operand alone, as it is: the other operand has a 1 where the largest, or
  // the smallest, of that column is.
  for (const char* operand : {"a", "b"}) {
    if (all.text(operand) == "f32") continue;
    if (single_is_wrong(bench, {{"dtype", "f32"}}, operand, [](const TensorSpec&, std::vector<float>&) {}))
      return name(a, "codec", fmt::format("single elements of {} come out wrong", operand));
  }
  a.against.push_back("no probe is wrong: what the case's own data have is not among them");
}

}  // namespace

void attribute_matmul(Bench& bench, Attribution& a) {
  if (early(bench, a)) return;
  const auto& all = bench.the_case().attributes;
  const auto own = [&](const char* key) { return Change{key, all.text(key)}; };
  // Whole numbers whose scale by any of the usual rules is a power of two: each group of 32 has the
  // largest code.
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
  const Answer plain = bench.ask(shape, Edit(many_bits));
  std::vector<Change> longer = shape;
  longer[2].second = "37";
  const Answer plain_long = plain.ran && !plain.bad ? bench.ask(longer, Edit(many_bits)) : Answer{};
  if ((plain.ran && plain.bad) || (plain_long.ran && plain_long.bad))
    return name(a, "dot", "products of plain f32 are wrong");
  if (plain.ran) {
    a.support.push_back("products of plain f32 are right");
    // Products beyond f16's range, and below its smallest number, of operands and with sums that are within
    // it.
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
  const Answer stored = bench.ask(formats, Edit(many_bits));
  if (stored.ran && !stored.bad) {
    if (has(bench, "dtype", "f32")) {
      std::vector<Change> output = formats;
      output[6] = own("dtype");
      const Answer rounded = bench.ask(output, Edit(many_bits));
      if (rounded.ran && rounded.bad) return name(a, "output", "the output's format makes it wrong");
    }
    return matmul_as_given(bench, a);
  }
  if (!stored.ran) return;
  const auto family = [&](const char* key) { return all.text(key).substr(0, all.text(key).find('_')); };
  const bool dynamic = all.text("path") == "e4m3fn" || all.text("path") == "q8";
  const bool scaled = all.text("a").find('_') != std::string::npos || dynamic;
  if (!scaled) return sum_or_codec(bench, a, formats, "operands in their own formats make it wrong");
  const float largest = family("a") == "e4m3fn" || all.text("path") == "e4m3fn" ? 448.0F : 127.0F;
  const Answer units = bench.ask(formats, Edit(codes(largest, 1)));
  if (units.ran && units.bad) {
    if (!units.not_finite && all.text("path") != "q8" && look(units, width(units)).factor)
      return name(a, "scale", "codes under scales of 1 are wrong by one factor to a row");
    return sum_or_codec(bench, a, formats, "codes under scales of 1 are wrong already");
  }
  const Answer powers = bench.ask(formats, Edit(codes(largest, 0.25F)));
  if (powers.ran && powers.bad) return name(a, "scale", "scales that are powers of two are applied wrongly");
  if (dynamic) return name(a, "codec", "scales that are powers of two are right, others are not");
  name(a, "scale", "codes under scales of 1 are right, under others they are not");
}

}  // namespace assay::attribution
