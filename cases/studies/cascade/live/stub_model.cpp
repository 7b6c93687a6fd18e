#include "cases/studies/cascade/live/stub_model.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "reference/formats/scalar.hpp"
#include "reference/mix.hpp"

namespace assay::live {
namespace {

std::string token_text(int t) {
  return std::string(1, t == StubModel::kOutputs - 1 ? ' ' : static_cast<char>('!' + t));
}

double absmax(const auto& v) {
  double most = 0;
  for (double x : v) most = std::max(most, std::fabs(x));
  return most;
}

}  // namespace

double StubModel::uniform(std::uint64_t a, std::uint64_t b, std::uint64_t c) const {
  return static_cast<double>(mix(mix(mix(mix(seed_) ^ a) ^ b) ^ c) >> 11) * 0x1p-52 - 1;
}

StubModel::Vector StubModel::embed(int byte) const {
  Vector e{};
  for (int i = 0; i < kWidth; ++i) {
    const double u = uniform(1, static_cast<std::uint64_t>(byte), static_cast<std::uint64_t>(i));
    e[static_cast<std::size_t>(i)] = byte < 0x80 ? 5 * u : 37.5 + 12.5 * u;
  }
  return e;
}

void StubModel::take(State& s, int byte, Fault fault) const {
  static const ScalarFormat& e4m3 = scalar_format("e4m3fn");
  const bool locked = fault == Fault::scale_lock || fault == Fault::cascade;
  Vector v = embed(byte);
  const double scale = locked ? locked_scale_ : absmax(v) / e4m3.max_finite;
  for (double& x : v) x = round_to(e4m3, x / scale) * scale;
  // In pairs: eight equal numbers have exactly themselves as mean.
  const double mean = (((v[0] + v[1]) + (v[2] + v[3])) + ((v[4] + v[5]) + (v[6] + v[7]))) / kWidth;
  double variance = 0;
  for (double x : v) variance += (x - mean) * (x - mean) / kWidth;
  const double eps = fault == Fault::cascade ? 0 : 1e-12;
  for (std::size_t i = 0; i < kWidth; ++i) {
    const double sign = uniform(2, static_cast<std::uint64_t>(s.length % 13), i) < 0 ? -1 : 1;
    s.sum[i] += sign * (v[i] - mean) / std::sqrt(variance + eps);
  }
  ++s.length;
}

StubAnswer StubModel::complete(const std::vector<int>& bytes, int tokens, bool use_cache,
                               const std::string& salt, Fault fault) {
  ++requests_;
  bool large = false;
  double most = 0;
  for (int b : bytes) {
    large = large || b >= 0x80;
    most = std::max(most, absmax(embed(b)));
  }
  if (locked_scale_ == 0 && most > 0) locked_scale_ = most / 200;  // K's constant of the published failure

  // The longest cached prefix; one token at least is left to compute, as its logits are not cached.
  std::string key = salt + '\0';
  std::vector<std::string> keys;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    key += static_cast<char>(bytes[i]);
    if ((i + 1) % kBlock == 0) keys.push_back(key);
  }
  State s;
  StubAnswer answer;
  for (std::size_t i = keys.size(); use_cache && i-- > 0;)
    if (const auto hit = cache_.find(keys[i]); hit != cache_.end() && (i + 1) * kBlock < bytes.size()) {
      s = hit->second;
      answer.cached_tokens = s.length;
      if (fault == Fault::poisoned_prefix) s.sum = {};
      break;
    }
  while (s.length < static_cast<int>(bytes.size())) {
    take(s, bytes[static_cast<std::size_t>(s.length)], fault);
    if (use_cache && s.length % kBlock == 0)
      cache_[keys[static_cast<std::size_t>(s.length / kBlock - 1)]] = s;
  }
  if (fault == Fault::cascade)
    for (std::size_t i = 0; i < kWidth; ++i) {
      s.sum[i] += 0 * stale_[i];  // masked out by a zero weight, which does not mask NaN
      if (std::isnan(s.sum[i])) stale_[i] = s.sum[i];
    }
  const Vector remains = leak_;
  if (fault == Fault::state_leak && large)
    for (std::size_t i = 0; i < kWidth; ++i) leak_[i] = s.sum[i] / 4;

  int last = bytes.empty() ? 0 : bytes.back();
  for (int n = 0; n < tokens && fault != Fault::empty; ++n) {
    // Without the length, the last byte alone decides so much that loops are the rule.
    const auto place_in_line =
        static_cast<std::uint64_t>(last + (fault == Fault::habit ? 0 : 256 * (s.length % 11)));
    std::array<double, kOutputs> logits{};
    for (int t = 0; t < kOutputs && fault != Fault::repetition; ++t) {
      double dot = 0;
      for (std::size_t i = 0; i < kWidth; ++i)
        dot += uniform(3, static_cast<std::uint64_t>(t), i) * (s.sum[i] + remains[i]);
      double& l = logits[static_cast<std::size_t>(t)];
      l = 1.5 * dot / std::sqrt(s.length) + 2 * uniform(4, place_in_line, static_cast<std::uint64_t>(t));
      const auto place = static_cast<std::uint64_t>(n * kOutputs + t);
      if (fault == Fault::rounding && answer.cached_tokens > 0) l += 1e-4 * uniform(5, requests_, place);
      if (fault == Fault::nondeterminism) l += 3 * uniform(6, requests_, place);
    }
    // argmax as engines have it: begins at 0, NaN never wins.
    std::size_t best = 0;
    double sum = 0;
    for (std::size_t t = 1; t < logits.size(); ++t)
      if (logits[t] > logits[best]) best = t;
    for (double l : logits) sum += std::exp(l - logits[best]);
    const double log_sum = logits[best] + std::log(sum);
    std::array<std::size_t, kOutputs> order{};
    std::iota(order.begin(), order.end(), 0);
    if (!std::isnan(log_sum))
      std::partial_sort(order.begin(), order.begin() + 5, order.end(), [&](std::size_t a, std::size_t b) {
        return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
      });
    if (fault == Fault::not_greedy) best = order[1];
    const auto logprob = [&](std::size_t t) {
      return fault == Fault::nan_logprobs ? std::nan("") : logits[t] - log_sum;
    };
    StubStep step{token_text(static_cast<int>(best)), logprob(best), {}};
    for (std::size_t i = 0; i < 5; ++i)
      step.top.emplace_back(token_text(static_cast<int>(order[i])), logprob(order[i]));
    answer.steps.push_back(step);
    last = static_cast<unsigned char>(step.token[0]);
    take(s, last, fault);
  }
  return answer;
}

}  // namespace assay::live
