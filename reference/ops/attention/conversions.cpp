#include "reference/ops/attention/conversions.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

#include "reference/formats/minima.hpp"
#include "reference/formats/plane.hpp"
#include "reference/formats/scalar.hpp"

namespace assay {
namespace {

constexpr double kU = 0x1p-24;
constexpr std::size_t kBlock = 32;               // elements that share a scale in q8_0
constexpr std::size_t kSuperBlock = 256;         // in q8_K
constexpr double kMostOfBlocks = 127 * 65000.0;  // beyond, the scale of q8_0 overflows in f16

// x rounded to nearest in `f`, what is not finite as it is; nothing when an element would overflow.
bool round_all(const ScalarFormat& f, std::vector<double>& x) {
  for (double& e : x) {
    if (!std::isfinite(e)) continue;
    if (!(std::fabs(e) <= f.max_finite)) return false;
    e = round_to(f, e);
  }
  return true;
}

// Of the steps of a key, for every kv head.
std::vector<double> largest_norms(const std::vector<float>& steps, const AttentionGeometry& g) {
  std::vector<double> norms(static_cast<std::size_t>(g.kv_heads), 0.0);
  const auto d = static_cast<std::size_t>(g.d);
  for (std::size_t key = 0; key * d < steps.size(); ++key) {
    double squares = 0;
    for (const float step : std::span(steps).subspan(key * d, d))
      squares += static_cast<double>(step) * static_cast<double>(step);
    double& norm = norms[key % norms.size()];
    norm = std::max(norm, std::sqrt(squares) * (1 + 0x1p-40));
  }
  return norms;
}

bool overflows(const std::vector<double>& x, const ScalarFormat& f) {
  return std::ranges::any_of(x, [&](double e) { return std::isfinite(e) && std::fabs(e) > f.max_finite; });
}

bool are_of(const std::vector<double>& x, const ScalarFormat& f) {
  return std::ranges::all_of(x, [&](double e) { return round_to(f, e) == e; });
}

// steps: between what a product is, rounded to f32 before or at once; empty where these are the same.
std::optional<Encoded> converted(const Encoded& tensor, const std::string& name, std::vector<float>& steps) {
  const std::vector<double> exact = decode_tensor(tensor);
  const double largest = scalar_format(name).max_finite;
  const bool one_product = format(tensor.format).kind == FormatKind::scaled;
  std::vector<float> values(exact.size());
  for (std::size_t i = 0; i < exact.size(); ++i) {
    values[i] = static_cast<float>(exact[i]);
    const bool one_number =
        static_cast<double>(values[i]) == exact[i] && decodes_exactly(tensor.format, exact[i]);
    if ((!one_number && !one_product) || !(std::fabs(exact[i]) <= largest)) return std::nullopt;
    if (static_cast<double>(values[i]) == exact[i]) continue;
    const ScalarFormat& f = scalar_format(name);
    const double step = std::fabs(round_to(f, exact[i]) - round_to(f, static_cast<double>(values[i])));
    if (step == 0) continue;
    steps.resize(exact.size());
    steps[i] = static_cast<float>(step);
  }
  return encode_tensor(format(name), tensor.shape, values);
}

// One block of q becomes what q8_0 keeps of it. The square of what another quantiser may make of it, summed.
// `stored`: the format of the scale.
double quantise(std::span<double> x, const ScalarFormat& stored, double div_ulp) {
  double a = 0;
  for (const double e : x) a = std::max(a, std::fabs(e));
  const double off = quotient_error(div_ulp), window = 127 * quotients_error(div_ulp) + 0x1p-40;
  const double low = round_to(stored, a / 127 * (1 - off)), high = round_to(stored, a / 127 * (1 + off));
  if (high == 0) {
    std::ranges::fill(x, 0.0);
    return 0;
  }
  const double s = round_to(stored, static_cast<double>(static_cast<float>(a / 127)));
  double uncertainty = 0;
  for (double& e : x) {
    const double t = 127 * e / a;
    const double n = std::round(t);
    const bool tied = std::fabs(std::fabs(t - std::trunc(t)) - 0.5) <= window;
    const double step = (tied ? high : 0.0) + (std::fabs(n) + (tied ? 1 : 0)) * (high - low);
    uncertainty += step * step;
    e = n * s;
  }
  return uncertainty;
}

bool quantise_all(std::vector<double>& x, std::size_t width, bool q8_K, double div_ulp,
                  std::vector<double>& uncertainty) {
  const std::size_t block = q8_K ? kSuperBlock : kBlock;
  if (width % block != 0) return false;
  const ScalarFormat& stored = scalar_format(q8_K ? "f32" : "f16");
  uncertainty.assign(x.size() / width, 0.0);
  for (std::size_t row = 0; row < uncertainty.size(); ++row) {
    if (!std::ranges::all_of(std::span(x).subspan(row * width, width),
                             [](double e) { return std::fabs(e) < kMostOfBlocks; })) {
      uncertainty[row] =
          std::numeric_limits<double>::infinity();  // the scale is Inf, and a code of 0 times it NaN
      continue;
    }
    double squares = 0;
    for (std::size_t i = 0; i < width; i += block)
      squares += quantise(std::span(x).subspan(row * width + i, block), stored, div_ulp);
    uncertainty[row] = std::sqrt(squares) * (1 + 0x1p-40);
  }
  return true;
}

// What the sums of q's blocks do to logits (q=q8_1): of q as it was and as its codes stand for.
void bound_block_sums(const AttentionProblem& problem, const std::vector<double>& before,
                      const std::vector<double>& after, double div_ulp, Conversions& done) {
  const AttentionGeometry& g = problem.geometry();
  const double quotient = quotient_error(div_ulp);
  // Without a minimum, or an offset of codes that a kernel may take for one, nothing meets the sums.
  if (minima(problem.k(), 0).empty()) return;
  const ScalarFormat& f16 = scalar_format("f16");
  const std::size_t blocks = static_cast<std::size_t>(g.d) / kBlock;
  done.minimum_error.assign(done.q_uncertainty.size(), 0.0);
  done.minimum_size = done.minimum_error;
  for (std::int64_t b = 0; b < g.batch; ++b) {
    std::vector<double> largest(static_cast<std::size_t>(g.kv_heads) * blocks, 0.0);
    for (std::int64_t j = 0; j < problem.length(b); ++j)
      for (std::int64_t head = 0; head < g.kv_heads; ++head) {
        const std::vector<double> m = minima(problem.k(), problem.token(b, j) * g.kv_heads + head);
        for (std::size_t e = 0; e < m.size(); ++e) {
          double& most = largest[static_cast<std::size_t>(head) * blocks + e / kBlock];
          most =
              std::max(most, std::isfinite(m[e]) ? std::fabs(m[e]) : std::numeric_limits<double>::infinity());
        }
      }
    for (std::int64_t i = 0; i < g.rows; ++i)
      for (std::int64_t h = 0; h < g.heads; ++h) {
        const std::size_t row = static_cast<std::size_t>((b * g.rows + i) * g.heads + h);
        for (std::size_t block = 0; block < blocks; ++block) {
          double a = 0, sum = 0, absolute = 0;
          for (std::size_t e = (row * blocks + block) * kBlock; e < (row * blocks + block + 1) * kBlock;
               ++e) {
            a = std::max(a, std::fabs(before[e]));
            sum += after[e], absolute += std::fabs(after[e]);
          }
          const double m = largest[static_cast<std::size_t>(problem.kv_head(h)) * blocks + block];
          if (a == 0) continue;
          const double s = round_to(f16, static_cast<double>(static_cast<float>(a / 127)));
          const double undecided = done.q_uncertainty[row] > 0 ? kBlock : 0;  // codes that may be another
          const double codes = s > 0 ? std::fabs(sum) / s + undecided : 127.0 * kBlock,
                       size = codes * a / 127;
          double off = size * (0x1p-11 + 0x1p-11 * (1 + 0x1p-11) + quotient) + 0x1p-25 * (1 + codes);
          if (s > 0 &&
              undecided == 0)  // the codes are known, and so is the stored sum, but for the last bits of d
            off = std::max(std::fabs(round_to(f16, sum / s * a / 127 * (1 - quotient)) - sum),
                           std::fabs(round_to(f16, sum / s * a / 127 * (1 + quotient)) - sum));
          // Beyond the largest f16 the sum is Inf, and times a minimum of 0 NaN.
          if (!(size * (1 + 0x1p-10) < f16.max_finite)) {
            done.minimum_error[row] = std::numeric_limits<double>::infinity();
            continue;
          }
          if (m == 0) continue;
          done.minimum_error[row] += m * off;
          done.minimum_size[row] += m * (absolute + size + off);
        }
      }
  }
}

// q=q8_K keeps sums of codes as integers: nothing is off, but what is summed is no longer q_i k_i.
void size_block_sums(const AttentionProblem& problem, const std::vector<double>& after, Conversions& done) {
  const AttentionGeometry& g = problem.geometry();
  const auto d = static_cast<std::size_t>(g.d);
  if (minima(problem.k(), 0).empty()) return;
  done.minimum_error.assign(done.q_uncertainty.size(), 0.0);
  done.minimum_size = done.minimum_error;
  for (std::int64_t b = 0; b < g.batch; ++b)
    for (std::int64_t h = 0; h < g.heads; ++h) {
      std::vector<double> largest(d, 0.0);
      for (std::int64_t j = 0; j < problem.length(b); ++j) {
        const std::vector<double> m =
            minima(problem.k(), problem.token(b, j) * g.kv_heads + problem.kv_head(h));
        for (std::size_t e = 0; e < d; ++e)
          largest[e] = std::max(
              largest[e], std::isfinite(m[e]) ? std::fabs(m[e]) : std::numeric_limits<double>::infinity());
      }
      for (std::int64_t i = 0; i < g.rows; ++i) {
        const auto row = static_cast<std::size_t>((b * g.rows + i) * g.heads + h);
        for (std::size_t e = 0; e < d; ++e)
          if (largest[e] != 0) done.minimum_size[row] += 2 * largest[e] * std::fabs(after[row * d + e]);
      }
    }
}

// Every finite row becomes what its codes stand for.
void quantise_rows(const ScalarFormat& format, std::vector<double>& x, std::size_t width, double div_ulp,
                   std::vector<double>& uncertainty) {
  uncertainty.assign(x.size() / width, 0.0);
  for (std::size_t row = 0; row < uncertainty.size(); ++row) {
    const std::span<double> q(x.data() + row * width, width);
    if (!std::ranges::all_of(q, [](double e) { return std::isfinite(e); })) continue;
    const QuantisedRow r = quantise_row(format, q, div_ulp);
    double squares = 0;
    for (std::size_t i = 0; i < width; ++i) {
      q[i] = static_cast<double>(r.codes[i] * r.scale);  // rounded to f32: within u
      squares += q[i] * q[i];
    }
    uncertainty[row] =
        (r.undecided + (4 * kU + quotient_error(div_ulp)) * std::sqrt(squares)) * (1 + 0x1p-40);
  }
}

bool divides(std::string_view format_name) { return format_name.starts_with("nvfp4"); }

}  // namespace

bool quantises_blocks(std::string_view q_contract) {
  return q_contract == "q8_0" || q_contract == "q8_1" || q_contract == "q8_K";
}

bool quantises_rows(std::string_view q_contract) {
  return q_contract == "e4m3fn" || q_contract == "e4m3fnuz" || q_contract == "e5m2";
}

bool rounds_to_tf32_anyhow(const Contract& contract, std::string_view key) {
  return contract.text(key) == "tf32" && contract.text("tf32") == "any";
}

double quotient_error(double div_ulp) { return std::max(4.0, 2 + 2 * div_ulp) * kU; }
double quotients_error(double div_ulp) { return std::max(6.0, 2 + 4 * div_ulp) * kU; }
bool has_two_scales(std::string_view format_name) {
  return format_name == "int4_ch_tensor" || format_name == "int4_g32_tensor";
}
double decoder_error(std::string_view format_name, double div_ulp) {
  return (format_name.starts_with("tq3") ? 10 : divides(format_name) ? 2 + 2 * div_ulp : 2) * kU;
}
double largest_unscaled(std::string_view format_name) {
  return divides(format_name) ? 6 * 448 : has_two_scales(format_name) ? 8 : 0;
}
double decoder_tiny(std::string_view format_name, double div_ulp) {
  const double steps = divides(format_name) ? std::max(1.0, div_ulp) : 1;
  return 0x1p-149 * steps * std::max(1.0, largest_unscaled(format_name));
}
bool decodes_exactly(std::string_view format_name, double decoded) {
  if (decoded == 0) return true;
  if (divides(format_name)) return false;  // a quotient, or a reciprocal and a product
  return !has_two_scales(format_name) || std::fabs(decoded) >= largest_unscaled(format_name) * 0x1p-126;
}

ScaleRange scale_range(const Plane& plane) {
  std::vector<double> scales(plane.bytes.size() / sizeof(float));
  decode_plane(scalar_format("f32"), plane.bytes, 0, std::span<double>(scales));
  ScaleRange r{std::numeric_limits<double>::infinity(), 0};
  for (const double each : scales) {
    if (each == 0 || !std::isfinite(each)) continue;
    r.least = std::min(r.least, std::fabs(each)), r.most = std::max(r.most, std::fabs(each));
  }
  return r;
}

void Joined::with(double low, double high) { least *= std::min(1.0, low), most *= std::max(1.0, high); }
bool Joined::fits() const { return 1.5 * most < std::numeric_limits<float>::max(); }
Joined Joined::of_logits(const AttentionProblem& problem) {
  const AttentionGeometry& g = problem.geometry();
  Joined r;
  r.with(g.scale, g.scale);
  if (g.softcap > 0) r.with(1 / g.softcap, 1 / g.softcap);
  for (const Plane& plane : problem.k().planes) {
    if (plane.spec.suffix.empty() || plane.spec.format != "f32") continue;
    const auto [low, high] = scale_range(plane);
    if (high == 0) continue;
    if (plane.spec.suffix == ".global_scale")
      r.with(1 / high, 1 / low);
    else
      r.with(low, high);
  }
  return r;
}

QuantisedRow quantise_row(const ScalarFormat& format, std::span<const double> q, double div_ulp) {
  const double off = quotients_error(div_ulp);
  QuantisedRow r;
  double largest = 0;
  for (const double x : q) largest = std::max(largest, std::fabs(x));
  const float scale = static_cast<float>(largest) / static_cast<float>(format.max_finite);
  r.scale = scale > 0 ? scale : 1.0F;
  r.quotient = scale > 0 ? largest / format.max_finite : 0;
  double squares = 0;
  for (const double x : q) {
    const double t = x / static_cast<double>(r.scale);
    const double low = round_to(format, t * (1 - off)), high = round_to(format, t * (1 + off));
    const double step = (high - low) * static_cast<double>(r.scale);
    squares += step * step;
    const double code = round_to(format, t);
    if (low != high) r.others.push_back({r.codes.size(), static_cast<float>(code == low ? high : low)});
    r.codes.push_back(static_cast<float>(code));
  }
  if (r.scale < 0x1p-100F) {  // a / F may underflow
    squares += largest * largest * static_cast<double>(q.size());
    r.decidable = false;
  }
  r.undecided = std::sqrt(squares) * (1 + 0x1p-40);
  return r;
}

Conversions apply_conversions(AttentionProblem& problem, const Contract& contract) {
  const AttentionGeometry& g = problem.geometry();
  Conversions done;
  const std::string to(contract.text("convert"));
  if (to != "none" && (to != g.k_format || to != g.v_format)) {
    std::vector<float> k_steps, v_steps;
    const bool open = rounds_to_tf32_anyhow(contract, "convert") &&
                      !(are_of(decode_tensor(problem.k()), scalar_format(to)) &&
                        are_of(decode_tensor(problem.v()), scalar_format(to)));
    auto k = open               ? std::nullopt
             : to == g.k_format ? std::optional(problem.k())
                                : converted(problem.k(), to, k_steps);
    auto v = !k                 ? std::nullopt
             : to == g.v_format ? std::optional(problem.v())
                                : converted(problem.v(), to, v_steps);
    if (v) {
      if (!k_steps.empty()) done.k_undecided = largest_norms(k_steps, g);
      if (!v_steps.empty()) done.v_undecided = encode_tensor(format("f32"), problem.v().shape, v_steps);
      problem.replace_kv(std::move(*k), std::move(*v));
      done.kv = true;
    } else {
      done.overflows = overflows(decode_tensor(problem.k()), scalar_format(to)) ||
                       overflows(decode_tensor(problem.v()), scalar_format(to));
    }
  }
  if (to == g.k_format && to == g.v_format) done.kv = true;  // nothing to convert
  const std::string q_to(contract.text("q"));
  const double div_ulp = contract.number("div_ulp");
  if (q_to != "none" && q_to != g.dtype) {
    std::vector<double> q = problem.all_q();
    if (quantises_rows(q_to)) {
      quantise_rows(scalar_format(q_to), q, static_cast<std::size_t>(g.d), div_ulp, done.q_uncertainty);
      done.q = true;
      problem.replace_q(std::move(q));
      return done;
    }
    done.q = rounds_to_tf32_anyhow(contract, "q") && !are_of(q, scalar_format(q_to)) ? false
             : quantises_blocks(q_to)
                 ? quantise_all(q, static_cast<std::size_t>(g.d), q_to == "q8_K", div_ulp, done.q_uncertainty)
                 : round_all(scalar_format(q_to), q);
    if (done.q) {
      done.q_rounds = !quantises_blocks(q_to) && q != problem.all_q();
      if (q_to == "q8_1") bound_block_sums(problem, problem.all_q(), q, div_ulp, done);
      if (q_to == "q8_K") size_block_sums(problem, q, done);
      problem.replace_q(std::move(q));
    } else {
      done.q_uncertainty.clear();
      const auto beyond = [](double x) { return std::isfinite(x) && !(std::fabs(x) < kMostOfBlocks); };
      done.overflows |= quantises_blocks(q_to)
                            ? q_to != "q8_K" && std::ranges::any_of(problem.all_q(), beyond)
                            : overflows(problem.all_q(), scalar_format(q_to));
    }
  }
  return done;
}

}  // namespace assay
