// The model of attention: online softmax over tiles, parts of a split apart, as the contract declares them.
#include <algorithm>
#include <cmath>
#include <limits>

#include "cases/attribution/models.hpp"
#include "cases/attribution/models_attention_steps.hpp"
#include "reference/formats/scalar.hpp"
#include "reference/ops/attention/conversions.hpp"

namespace assay::attribution {
namespace {

using namespace attention_steps;

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

class Attention final : public Model {
 public:
  explicit Attention(const Answer& a) : problem_(a.attributes, a.set), g_(problem_.geometry()) {
    const Contract& contract = *a.contract;
    const std::int64_t rows = std::min(kMostRows, g_.batch * g_.rows * g_.heads);
    work_ = rows * g_.length * std::min(kMostColumns, g_.dv);
    if (work_ > kMostWork || g_.batch * g_.length * g_.kv_heads * (g_.d + g_.dv) > kMostDecoded) return;
    quantises_ = contract.text("q") == "q8_0";
    for (const double x : problem_.all_q()) plain_q_.push_back(x);
    apply_conversions(problem_, contract);
    tile_ = std::max<std::int64_t>(1, contract.integer("tile"));
    parts_ = std::clamp<std::int64_t>(contract.integer("split"), 1, std::max<std::int64_t>(1, g_.length));
    cast_ = contract.text("p");
    cast_sum_ = contract.text("denominator") == "cast";
    for (std::int64_t b = 0; b < g_.batch; ++b)
      for (std::int64_t h = 0; h < g_.kv_heads; ++h) {
        keys_.emplace_back(static_cast<std::size_t>(g_.length * g_.d));
        values_.emplace_back(static_cast<std::size_t>(g_.length * g_.dv));
        problem_.decode_k(b, h, 0, problem_.length(b), keys_.back().data());
        problem_.decode_v(b, h, 0, problem_.length(b), values_.back().data());
      }
    for (const std::int64_t row : some_rows(a, g_.dv, kMostRows)) {
      rows_.push_back({row / g_.heads / g_.rows, row / g_.heads % g_.rows, row % g_.heads, {}});
      for (std::int64_t j = 0; j < g_.length; ++j)
        rows_.back().dots.push_back(
            dot_of({}, rows_.back(), std::min(j, problem_.length(rows_.back().b) - 1)));
    }
    const std::int64_t step = (g_.dv + kMostColumns - 1) / kMostColumns;
    for (std::int64_t c = worst_element(a) % g_.dv % step; c < g_.dv; c += step) columns_.push_back(c);
    for (const Row& r : rows_)
      for (const std::int64_t c : columns_)
        elements_.push_back(static_cast<std::size_t>(problem_.out_index(r.b, r.row, r.head) + c));
  }
  std::span<const Node> nodes() const override { return kNodes; }
  std::int64_t work() const override { return work_; }
  std::span<const std::size_t> elements() const override { return elements_; }
  std::vector<double> run(const Fault& f) const override {
    std::vector<double> out;
    for (const Row& r : rows_) one(f, r, out);
    return out;
  }

 private:
  static constexpr std::int64_t kMostWork = 20'000, kMostDecoded = 2'000'000, kMostRows = 16,
                                kMostColumns = 8;

  struct Row {
    std::int64_t b, row, head;
    std::vector<double> dots;  // q.k of each key, without a fault
  };
  struct Stream {
    double top = kMinusInfinity, sum = 0;
    std::vector<double> acc;
  };

  // Of number i, which should be `right` of `count`, at this node or at the one that moves two together.
  static std::int64_t taken(const Fault& f, int node, int both, std::int64_t i, std::int64_t right,
                            std::int64_t count) {
    const bool here = (f.at(node) || f.at(both)) && f.wrong == Wrong::elsewhere;
    return here ? source(static_cast<Source>(f.lane), i, right, count) : right;
  }
  std::int64_t query(const Fault& f, const Row& r) const {  // as its place in the output, over dv
    return problem_.out_index(r.b, taken(f, query_row, query_row, r.row, r.row, g_.rows),
                              taken(f, query_head, query_head, r.head, r.head, g_.heads)) /
           g_.dv;
  }
  std::size_t cache(const Fault& f, const Row& r, int head, int sequence) const {
    return static_cast<std::size_t>(
        taken(f, sequence, both_sequences, r.b, r.b, g_.batch) * g_.kv_heads +
        taken(f, head, both_heads, r.head, problem_.kv_head(r.head), g_.kv_heads));
  }
  static bool moves_logits(const Fault& f) { return f.node >= query_row && f.node <= statistics_head; }

  double dot_of(const Fault& f, const Row& r, std::int64_t key) const {
    const auto q = std::span(problem_.all_q())
                       .subspan(static_cast<std::size_t>(query(f, r) * g_.d), static_cast<std::size_t>(g_.d));
    const auto& keys = keys_[cache(f, r, key_head, key_sequence)];
    const double* k = &keys[static_cast<std::size_t>(key * g_.d)];
    if (quantises_) return dot_of_codes(f, r, k);
    Sum s(f, dot_addition, g_.d);
    for (std::int64_t c = 0; c < g_.d; ++c)
      s.add(f.multiply(dot_product, f.value(q_read, q[static_cast<std::size_t>(c)]), f.value(k_read, k[c])));
    return s.total();
  }
  static double rounded(double x) { return std::isnan(x) ? 0 : std::clamp(std::nearbyint(x), -127.0, 127.0); }
  // q as int8 in blocks of 32, each with the largest over 127 as its scale, in f16.
  double dot_of_codes(const Fault& f, const Row& r, const double* k) const {
    const double* q = &plain_q_[static_cast<std::size_t>(query(f, r) * g_.d)];
    Sum s(f, block_added, g_.d / 32);
    for (std::int64_t first = 0; first < g_.d; first += 32) {
      double most = 0;
      Sum sum(f, dot_addition, 32);
      bool nan = false;
      for (std::int64_t c = first; c < first + 32; ++c)
        most = std::fmax(most, std::fabs(q[c])), nan = nan || std::isnan(q[c]);
      const double step = f.divide(q_step, f.value(q_largest, most), 127);
      const double inverse = step == 0 ? 0 : f.divide(q_inverse, 1, step);
      const double scale = f.value(q_scale, nan ? NAN : round_to(scalar_format("f16"), step));
      for (std::int64_t c = first; c < first + 32; ++c)
        sum.add(f.multiply(dot_product, f.value(q_code, rounded(f.multiply(q_over_scale, q[c], inverse))),
                           f.value(k_read, k[c])));
      s.add(f.multiply(block_scaled, sum.total(), scale));
    }
    return s.total();
  }
  double logit(const Fault& f, const Row& r, std::int64_t key) const {
    double s = moves_logits(f) || (f.node >= dot_product && f.node <= block_added)
                   ? dot_of(f, r, key)
                   : r.dots[static_cast<std::size_t>(key)];
    const bool scaled_last = f.at(cap_first) && f.wrong == Wrong::uncalled;
    const auto scale = [&] { s = f.multiply(scaled, f.value(dot, s), f.value(scale_read, g_.scale)); };
    if (!scaled_last) scale();
    if (g_.softcap > 0 || (f.at(cap_product) && f.wrong == Wrong::uncalled)) {
      const double cap = f.value(cap_read, g_.softcap);
      s = f.multiply(cap_product, cap, f.tangent(cap_tanh, f.divide(cap_quotient, s, cap)));
    }
    if (scaled_last) scale();
    if (g_.alibi) {
      const double far = std::fabs(static_cast<double>(problem_.position(r.b, r.row) - key));
      const double slope =
          f.value(slope_read, problem_.slope(taken(f, slope_head, slope_head, r.head, r.head, g_.heads)));
      const double bias = f.multiply(slope_product, slope, f.value(distance, far));
      s = f.subtract(biased, s, f.at(bias_scaled) && f.wrong == Wrong::uncalled ? bias * g_.scale : bias);
    }
    return s;
  }

  int bits_of_cast() const { return cast_ == "f16" ? 11 : cast_ == "e4m3fn" ? 4 : cast_ == "e5m2" ? 3 : 8; }
  // Narrower, or rounded in a direction: of the weight itself, not of what the cast made of it.
  double cast_weight(const Fault& f, double weight) const {
    const bool other_cast = f.wrong == Wrong::identity || f.wrong == Wrong::narrow || f.wrong == Wrong::cut;
    if (f.at(cast) && other_cast) return f.wrong == Wrong::identity ? weight : f.value(cast, weight);
    if (f.at(cast) && f.wrong >= Wrong::stored_down && f.wrong <= Wrong::stored_away && cast_ != "f32")
      return directed(weight, bits_of_cast(), f.wrong);
    return f.value(cast, cast_ == "f32" ? weight : round_to(scalar_format(cast_), weight));
  }

  void absorb(const Fault& f, const Row& r, std::int64_t first, std::int64_t last, Stream& stream) const {
    std::vector<double> w;
    std::vector<std::int64_t> keys;
    // A softcap behind the mask makes -cap of what is hidden.
    const bool capped = g_.softcap > 0 && f.at(visible) && f.wrong == Wrong::uncalled;
    const bool low = capped || (f.at(visible) && f.wrong == Wrong::low_logit);
    for (std::int64_t j = first; j < last; ++j) {
      const bool seen = f.value(visible, problem_.visible(r.b, r.row, j) ? 1 : 0) > 0;
      if (seen || low) keys.push_back(j), w.push_back(seen ? logit(f, r, j) : capped ? -g_.softcap : -f.bits);
    }
    if (w.empty()) return;
    const double top = largest(f, tile_maximum, w);
    if (top > stream.top) {
      if (stream.top != kMinusInfinity) {
        const double factor = f.exponential(rescale, f.subtract(fall, stream.top, top));
        stream.sum = f.multiply(sum_rescaled, stream.sum, factor);
        for (double& x : stream.acc) x = f.multiply(rescaled, x, factor);
      }
      stream.top = f.larger(maximum, stream.top, top);
    }
    const double shift = f.value(shift_taken, stream.top == kMinusInfinity ? 0 : stream.top);
    const auto n = static_cast<std::int64_t>(w.size());
    Sum sum(f, weight_addition, n);
    for (std::int64_t j = 0; j < n; ++j) {
      double& weight = w[static_cast<std::size_t>(j)];
      weight = f.exponential(exponent, f.subtract(shifted, weight, shift));
      const double rounded = cast_weight(f, weight);
      sum.add(cast_sum_ ? rounded : weight);
      weight = rounded;
    }
    stream.sum = f.add(sum_addition, stream.sum, f.value(tile_sum, sum.total()));
    const auto& values = values_[cache(f, r, value_head, value_sequence)];
    for (std::size_t at = 0; at < columns_.size(); ++at) {
      Sum block(f, value_addition, n);
      for (std::int64_t j = 0; j < n; ++j)
        block.add(f.multiply(
            weighed, w[static_cast<std::size_t>(j)],
            f.value(
                v_read,
                values[static_cast<std::size_t>(keys[static_cast<std::size_t>(j)] * g_.dv + columns_[at])])));
      double& acc = stream.acc[at];
      acc = f.add(block_addition, acc, block.total());
    }
  }

  // In two passes over the keys: the second takes the maximum and the sum of another row or head.
  void by_other_statistics(const Fault& f, const Row& r, std::vector<double>& out) const {
    const Row other{r.b,
                    taken(f, statistics_row, statistics_row, r.row, r.row, g_.rows),
                    taken(f, statistics_head, statistics_head, r.head, r.head, g_.heads),
                    {}};
    const auto logits = [&](const Row& of) {
      std::vector<std::pair<std::int64_t, double>> all;
      const KeyRange range = problem_.range(of.b, of.row);
      for (std::int64_t j = range.first; j < range.last; ++j)
        if (problem_.visible(of.b, of.row, j)) all.emplace_back(j, logit(f, of, j));
      return all;
    };
    const auto theirs = logits(other);
    double top = kMinusInfinity, sum = 0;
    for (const auto& [j, s] : theirs) top = std::max(top, s);
    if (g_.sinks) top = std::max(top, problem_.sink(other.head));
    for (const auto& [j, s] : theirs) sum += std::exp(s - top);
    if (g_.sinks) sum += std::exp(problem_.sink(other.head) - top);
    std::vector<double> acc(columns_.size(), 0.0);
    const auto& values = values_[cache(f, r, value_head, value_sequence)];
    for (const auto& [j, s] : logits(r))
      for (std::size_t c = 0; c < acc.size(); ++c)
        acc[c] += std::exp(s - top) * values[static_cast<std::size_t>(j * g_.dv + columns_[c])];
    for (const double each : acc) out.push_back(stored(f, result, g_.dtype, sum == 0 ? 0 : each / sum));
  }

  void one(const Fault& f, const Row& r, std::vector<double>& out) const {
    if (f.at(statistics_row) || f.at(statistics_head)) return by_other_statistics(f, r, out);
    const bool all_keys =
        f.at(visible) && (f.wrong == Wrong::low_logit || (f.wrong == Wrong::uncalled && g_.softcap > 0));
    const KeyRange range = all_keys ? KeyRange{0, problem_.length(r.b)} : problem_.range(r.b, r.row);
    const std::int64_t part = (g_.length + parts_ - 1) / parts_;
    std::vector<Stream> streams(static_cast<std::size_t>(parts_));
    for (std::int64_t p = 0; p < parts_; ++p) {
      Stream& stream = streams[static_cast<std::size_t>(p)];
      stream.acc.assign(columns_.size(), 0);
      const std::int64_t last = std::min(range.last, (p + 1) * part);
      for (std::int64_t j = std::max(range.first, p * part); j < last; j += tile_)
        absorb(f, r, j, std::min(last, j + tile_), stream);
      stream.sum = f.value(sum_found, stream.sum);
    }
    Stream& whole = streams[0];
    if (parts_ > 1) merge(f, streams);
    if (g_.sinks && !(whole.sum == 0 && whole.top == kMinusInfinity)) {
      double sink =
          f.value(sink_read, problem_.sink(taken(f, sink_head, sink_head, r.head, r.head, g_.heads)));
      if (f.at(sink_scaled) && f.wrong == Wrong::uncalled) sink *= g_.scale;
      if (sink > whole.top) {
        const double factor = f.exponential(sink_rescale, f.subtract(sink_fall, whole.top, sink));
        whole.sum = f.multiply(sink_sum_rescaled, whole.sum, factor);
        for (double& x : whole.acc) x = f.multiply(sink_rescaled, x, factor);
        whole.top = sink;
      }
      whole.sum =
          f.add(sink_added, whole.sum, f.exponential(sink_weight, f.subtract(sink_shifted, sink, whole.top)));
    }
    const double inverse = f.divide(reciprocal, 1, whole.sum);
    for (double& x : whole.acc) x = whole.sum == 0 ? 0 : f.multiply(quotient, x, inverse);
    for (const double each : whole.acc) out.push_back(stored(f, result, g_.dtype, each));
  }

  void merge(const Fault& f, std::vector<Stream>& streams) const {
    double top = kMinusInfinity;
    const double of_empty = f.value(part_empty, kMinusInfinity);
    for (const Stream& s : streams) {
      top = f.larger(part_maximum, top, s.top);
      if (s.top == kMinusInfinity) top = std::max(top, of_empty);
    }
    if (top == kMinusInfinity) top = 0;
    const auto factor = [&](const Stream& s) {
      return s.top == top ? 1.0 : f.exponential(part_weight, f.subtract(part_fall, s.top, top));
    };
    Stream& whole = streams[0];
    const double first = factor(whole);
    whole.sum = f.multiply(first_sum_weighed, whole.sum, first);
    for (double& x : whole.acc) x = f.multiply(first_weighed, x, first);
    for (std::size_t p = 1; p < streams.size(); ++p) {
      const Stream& part = streams[p];
      if (part.top == kMinusInfinity && of_empty != kMinusInfinity) whole.sum += std::exp(of_empty - top);
      if (part.sum == 0) continue;
      const double w = factor(part);
      whole.sum = f.add(part_sum_added, whole.sum, f.multiply(part_sum_weighed, w, part.sum));
      for (std::size_t c = 0; c < whole.acc.size(); ++c)
        whole.acc[c] = f.add(part_added, whole.acc[c], f.multiply(part_weighed, w, part.acc[c]));
    }
    whole.top = top;
  }

  AttentionProblem problem_;
  const AttentionGeometry& g_;
  std::int64_t work_ = 0, tile_ = 1, parts_ = 1;
  std::string cast_;
  bool cast_sum_ = false, quantises_ = false;
  std::vector<double> plain_q_;                     // as it was given
  std::vector<std::vector<double>> keys_, values_;  // by batch and kv head
  std::vector<Row> rows_;
  std::vector<std::int64_t> columns_;
  std::vector<std::size_t> elements_;
};

}  // namespace

// A rotation mixes columns, of which the model has some alone.
std::unique_ptr<Model> attention_model(const Answer& a) {
  return a.attributes.text("rotate") == "qkv" ? nullptr : std::make_unique<Attention>(a);
}

}  // namespace assay::attribution
