#include "reference/ops/bench_second_opinion.hpp"

#include <algorithm>
#include <cmath>
#include <random>
#include <span>
#include <vector>

#include "reference/arithmetic/rounding.hpp"
#include "reference/ops/second_opinion.hpp"

namespace assay {
namespace {

constexpr std::int64_t kSide = 128;  // rows of a and of b: kSide^2 outputs a product
constexpr double kOneIn = 1e-4;      // the rate that the second opinion is calibrated at

using Columns = std::vector<double>;  // one number of each column; every one a number of the accumulator

// One operation of the accumulator for all columns. f32 is the machine's own; narrower sums are rounded once
// from the exact one.
struct Sums {
  Precision precision;
  bool fused;

  double add(double x, double y) const {
    return precision.p == 24 ? static_cast<double>(static_cast<float>(x) + static_cast<float>(y))
                             : round_sum(x, y, precision);
  }
  double product(double x, double y) const {
    return precision.p == 24 ? static_cast<double>(static_cast<float>(x) * static_cast<float>(y))
                             : round_to_precision(x * y, precision);
  }
  double onto(double s, double x, double y) const {
    if (!fused) return add(s, product(x, y));
    return precision.p == 24 ? static_cast<double>(std::fmaf(static_cast<float>(x), static_cast<float>(y),
                                                             static_cast<float>(s)))
                             : round_sum(x * y, s, precision);
  }
};

// All columns of one row of the product. b: [k, kSide].
class Kernel {
 public:
  Kernel(Sums sums, std::string order) : sums_(sums), order_(std::move(order)) {}

  Columns row(std::span<const double> a, std::span<const double> b) const {
    const std::size_t k = a.size();
    if (order_ == "sequential") return chain(a, b, 0, k, 1);
    std::vector<Columns> parts;
    if (order_ == "lanes") {
      constexpr std::size_t kLanes = 32;
      for (std::size_t lane = 0; lane < kLanes; ++lane) parts.push_back(chain(a, b, lane, k, kLanes));
      return tree(std::move(parts));
    }
    if (order_ == "blocks") {
      constexpr std::size_t kBlock = 64;
      Columns sum = chain(a, b, 0, kBlock, 1);
      for (std::size_t at = kBlock; at < k; at += kBlock) join(sum, chain(a, b, at, at + kBlock, 1));
      return sum;
    }
    // A tree over all terms, whose finished subtrees wait on a stack: at each bit of the count one.
    for (std::size_t i = 0; i < k; ++i) {
      parts.push_back(chain(a, b, i, i + 1, 1));
      for (std::size_t bit = i + 1; bit % 2 == 0; bit /= 2) {
        join(parts[parts.size() - 2], parts.back());
        parts.pop_back();
      }
    }
    return tree(std::move(parts));
  }

 private:
  Columns chain(std::span<const double> a, std::span<const double> b, std::size_t first, std::size_t last,
                std::size_t step) const {
    Columns sum(kSide);
    for (std::size_t c = 0; c < kSide; ++c) sum[c] = sums_.product(a[first], b[first * kSide + c]);
    for (std::size_t i = first + step; i < last; i += step)
      for (std::size_t c = 0; c < kSide; ++c) sum[c] = sums_.onto(sum[c], a[i], b[i * kSide + c]);
    return sum;
  }
  void join(Columns& x, const Columns& y) const {
    for (std::size_t c = 0; c < kSide; ++c) x[c] = sums_.add(x[c], y[c]);
  }
  Columns tree(std::vector<Columns> parts) const {
    while (parts.size() > 1) {
      std::vector<Columns> next;
      for (std::size_t i = 0; i < parts.size(); i += 2) {
        if (i + 1 < parts.size()) join(parts[i], parts[i + 1]);
        next.push_back(std::move(parts[i]));
      }
      parts = std::move(next);
    }
    return parts.front();
  }

  Sums sums_;
  std::string order_;
};

std::vector<float> filled(const std::string& fill, std::size_t count, std::mt19937_64& random) {
  std::normal_distribution<float> normal;
  std::uniform_real_distribution<float> uniform(0, 1);
  std::vector<float> list(count);
  for (float& x : list) {
    x = fill == "positive" ? uniform(random) : normal(random);
    if (fill == "outlier" && random() % 64 == 0) x *= 64;
  }
  return list;
}

}  // namespace

void measure_second_opinion(std::size_t outputs, const std::function<void(const OpinionFigure&)>& each) {
  struct Row {
    const char *accumulator, *order;
    bool fused;
    const char* fill;
    std::int64_t terms;
  };
  std::vector<Row> rows;
  for (const char* order : {"sequential", "tree", "lanes", "blocks"})
    for (const char* fill : {"gaussian", "positive", "outlier"}) {
      for (const std::int64_t terms : {256, 1024, 4096})
        for (const bool fused : {false, true}) rows.push_back({"f32", order, fused, fill, terms});
      // Up to where the proof claims nothing, and neither does the opinion: as many terms as 1 / u.
      for (const std::int64_t terms : {64, 1024, 1984}) rows.push_back({"f16", order, false, fill, terms});
      for (const std::int64_t terms : {64, 192, 1024}) rows.push_back({"bf16", order, false, fill, terms});
    }
  const auto wide = static_cast<std::size_t>(
      std::ranges::count_if(rows, [](const Row& r) { return std::string_view(r.accumulator) == "f32"; }));
  const Op& o = op("matmul");
  std::uint64_t seed = 0;
  for (const Row& row : rows) {
    const bool narrow = std::string_view(row.accumulator) != "f32";
    const std::size_t wanted = outputs / wide / (narrow ? 10 : 1) + 1;
    const Attributes attributes = Attributes::complete(o.attributes, {{"m", std::to_string(kSide)},
                                                                      {"n", std::to_string(kSide)},
                                                                      {"k", std::to_string(row.terms)},
                                                                      {"a", narrow ? row.accumulator : "f32"},
                                                                      {"b", narrow ? row.accumulator : "f32"},
                                                                      {"dtype", "f32"}});
    const Contract contract = Contract::parse(std::string("acc=") + row.accumulator, o.contract);
    const Kernel kernel(
        {narrow ? (row.accumulator[0] == 'f' ? kPrecisionF16 : kPrecisionBf16) : kPrecisionF32, row.fused},
        row.order);
    OpinionFigure figure{row.accumulator, std::string(row.order) + (row.fused ? " fused" : ""), row.fill,
                         row.terms};
    std::vector<double> ratios, looser;
    while (ratios.size() < wanted) {
      std::mt19937_64 random(++seed);
      TensorSet inputs;
      for (const TensorSpec& spec : o.tensors(attributes))
        if (spec.role == TensorRole::data)
          inputs[spec.name] =
              encode_tensor(format(spec.format), spec.shape,
                            filled(row.fill, static_cast<std::size_t>(element_count(spec.shape)), random));
      const std::optional<Contract> likely = second_opinion(o, attributes, inputs, contract);
      if (!likely) break;  // the model is refused
      const std::vector<Truth> proofs = o.truth(attributes, inputs, contract);
      std::vector<Truth> truths = o.truth(attributes, inputs, *likely);
      keep_silent_with(proofs, truths);
      const Truth &truth = truths.front(), &proof = proofs.front();
      const std::vector<double> a = decode_tensor(inputs.at("a")), b = decode_tensor(inputs.at("b"));
      const auto k = static_cast<std::size_t>(row.terms);
      std::vector<double> turned(b.size());
      for (std::size_t c = 0; c < kSide; ++c)
        for (std::size_t i = 0; i < k; ++i) turned[i * kSide + c] = b[c * k + i];
      for (std::size_t r = 0; r < kSide; ++r) {
        const Columns got = kernel.row({a.data() + r * k, k}, turned);
        for (std::size_t c = 0; c < kSide; ++c) {
          const std::size_t at = r * kSide + c;
          if (!(truth.limit[at] < kAnyNumber)) continue;  // nothing is claimed, or any number is
          ratios.push_back(std::fabs(got[c] - truth.value[at]) / truth.limit[at]);
          looser.push_back(proof.limit[at] / truth.limit[at]);
        }
      }
      if (ratios.empty()) break;
    }
    figure.outputs = ratios.size();
    if (!ratios.empty()) {
      figure.suspect =
          static_cast<std::size_t>(std::ranges::count_if(ratios, [](double r) { return !(r <= 1); }));
      std::ranges::sort(ratios);
      figure.largest = ratios.back();
      figure.one_in_10000 =
          ratios[static_cast<std::size_t>((1 - kOneIn) * static_cast<double>(ratios.size() - 1))];
      std::ranges::nth_element(looser, looser.begin() + std::ssize(looser) / 2);
      figure.proof_over_it = looser[looser.size() / 2];
    }
    each(figure);
  }
}

}  // namespace assay
