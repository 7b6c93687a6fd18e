#include "cases/studies/sweep/planting.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "reference/formats/rotation.hpp"
#include "reference/inputs/random.hpp"
#include "reference/ops/attention/problem.hpp"
#include "reference/parallel.hpp"

namespace assay::sweep {
namespace {

using I = std::int64_t;
std::size_t at(I i) { return static_cast<std::size_t>(i); }

// A unit vector of n dimensions, the draws of which begin at `first`.
std::vector<double> unit(const Stream& stream, I first, I n) {
  std::vector<double> x(at(n));
  double squares = 0;
  for (I i = 0; i < n; ++i) {
    x[at(i)] = stream.gaussian(static_cast<std::uint64_t>(first + i));
    squares += x[at(i)] * x[at(i)];
  }
  for (double& e : x) e /= std::sqrt(squares);
  return x;
}

double dot(const double* a, const double* b, I n) {
  double sum = 0;
  for (I i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

// Cosine 1 - delta to x, the rest of it in a random direction.
std::vector<double> near_to(const std::vector<double>& x, double delta, const Stream& stream, I first) {
  std::vector<double> u = unit(stream, first, static_cast<I>(x.size()));
  const double along = dot(u.data(), x.data(), static_cast<I>(x.size()));
  double squares = 0;
  for (std::size_t i = 0; i < u.size(); ++i) {
    u[i] -= along * x[i];
    squares += u[i] * u[i];
  }
  const double cosine = 1 - delta, sine = std::sqrt(1 - cosine * cosine);
  for (std::size_t i = 0; i < u.size(); ++i) u[i] = cosine * x[i] + sine * u[i] / std::sqrt(squares);
  return u;
}

// Where everything lies: needle n at positions[n * near], its near keys behind it in the list.
std::vector<I> choose_positions(const Cell& c, I near) {
  const I keys = c.integer("len"), needles = c.integer("needles");
  const std::string& depth = c.attributes.text("depth");
  std::vector<I> positions(at(needles * near));
  std::vector<char> taken(at(keys), 0);
  for (I n = 0; n < needles; ++n) {
    const I first =
        depth == "spread" ? 0 : std::llround(c.real("depth") * static_cast<double>(keys - needles));
    const I j = depth == "spread" ? (2 * n + 1) * keys / (2 * needles) : first + n;
    positions[at(n * near)] = j;
    taken[at(j)] = 1;
  }
  std::vector<I> left;
  for (I j = 0; j < keys && near > 1; ++j)
    if (taken[at(j)] == 0) left.push_back(j);
  const Stream stream(c.seed, "sweep positions");
  I used = 0;
  for (I n = 0; n < needles; ++n)
    for (I m = 1; m < near; ++m, ++used) {
      const auto rest = static_cast<std::uint64_t>(static_cast<I>(left.size()) - used);
      std::swap(left[at(used)],
                left[at(used + static_cast<I>(stream.below(static_cast<std::uint64_t>(used), rest)))]);
      positions[at(n * near + m)] = left[at(used)];
    }
  return positions;
}

void rotate_row(float* row, I n) {
  for (I first = 0; first < n; first += 32) {
    const std::span<float> group(row + first, 32);
    apply_signs(group, std::span<const std::uint32_t>(&kTq3Signs, 1));
    hadamard(group);
    for (float& x : group) x *= 0.17677669529663687F;  // 1 / sqrt(32)
  }
}

struct Tensors {
  std::vector<float> q, k, v;  // [needles][d], and [keys][d] by position
};

// The keys that no needle uses are noise of the same kind: a random direction in U, a random label.
void plant_qk(const Cell& c, const std::vector<I>& positions, std::vector<Needle>& needles,
              std::vector<int>& labels, Tensors& t) {
  const I d = c.integer("d"), half = d / 2, keys = c.integer("len"), near = c.integer("near");
  const Stream content(c.seed, "sweep content"), mixing(c.seed, "sweep labels");
  const std::vector<double> frame =
      orthonormal(c.seed, "sweep frame", d);  // rows 0..half-1: U, the others: its complement
  const auto embed = [&](const std::vector<double>& x, I row, double length, double* out) {
    for (I i = 0; i < static_cast<I>(x.size()); ++i)
      for (I e = 0; e < d; ++e) out[e] += length * x[at(i)] * frame[at((row + i) * d + e)];
  };
  const double root = std::sqrt(static_cast<double>(d));
  std::vector<int> family(at(keys), -1);
  for (std::size_t n = 0; n < needles.size(); ++n) {
    needles[n].rung = c.real("delta") > 0 ? 0 : 1 + static_cast<int>(n % kRungs);
    for (I m = 0; m < near; ++m) family[at(positions[n * at(near) + at(m)])] = static_cast<int>(n);
  }
  const auto store = [&](I j, const std::vector<double>& x) {
    std::vector<double> row(at(d), 0.0);
    embed(x, 0, root, row.data());
    std::transform(row.begin(), row.end(), t.k.begin() + j * d,
                   [](double e) { return static_cast<float>(e); });
  };
  parallel_units(at(keys), [&](std::size_t j) {
    if (family[j] < 0) store(static_cast<I>(j), unit(content, static_cast<I>(j) * d, half));
  });
  parallel_units(needles.size(), [&](std::size_t n) {
    Needle& needle = needles[n];
    const I own = (keys + static_cast<I>(n) * 16) * d;  // draws of this family, behind those of the keys
    const double delta = needle.rung > 0 ? std::ldexp(1.0, -needle.rung) : c.real("delta");
    const std::vector<double> x = unit(content, own, half);
    std::vector<double> q(at(d), 0.0);
    embed(x, 0, root, q.data());
    embed(unit(content, own + d, half), half, c.real("eta") * root, q.data());
    for (I e = 0; e < d; ++e) t.q[n * at(d) + at(e)] = static_cast<float>(c.real("beta") / root * q[at(e)]);
    // Labels of a family differ: a stride through the codes that is no multiple of their number.
    const auto first = static_cast<int>(mixing.below(n, static_cast<std::uint64_t>(d)));
    for (I m = 0; m < near; ++m) {
      const I j = positions[n * at(near) + at(m)];
      labels[at(j)] = static_cast<int>((first + m * 11) % d);
      store(j, m == 0 ? x : near_to(x, delta, content, own + (m + 1) * d));
    }
  });
}

void plant_pv(const Cell& c, const std::vector<I>& positions, std::vector<Needle>& needles, Tensors& t) {
  const I d = c.integer("d"), keys = c.integer("len");
  const Stream noise(c.seed, "sweep noise"), queries(c.seed, "sweep queries");
  parallel_ranges(at(keys * d), [&](std::size_t first, std::size_t last) {
    for (std::size_t i = first; i < last; ++i) t.k[i] = static_cast<float>(noise.gaussian(i));
  });
  for (std::size_t n = 0; n < needles.size(); ++n) {
    const std::vector<double> direction = unit(queries, static_cast<I>(n) * d, d);
    float* key = &t.k[at(positions[n] * d)];
    // With |q| = spread sqrt(d), the logit of a key is spread times its part along q, and N(0, spread^2) of
    // noise.
    double along = 0;
    for (I e = 0; e < d; ++e) along += static_cast<double>(key[e]) * direction[at(e)];
    const double missing = c.real("score") / c.real("spread") - along;
    for (I e = 0; e < d; ++e) {
      key[e] += static_cast<float>(missing * direction[at(e)]);
      t.q[n * at(d) + at(e)] =
          static_cast<float>(c.real("spread") * std::sqrt(static_cast<double>(d)) * direction[at(e)]);
    }
  }
}

Encoded encode_k(const Cell& c, const TensorSpec& spec, const std::vector<float>& values) {
  EncodePolicy policy;
  policy.seed = c.seed;
  if (c.attributes.text("scales") == "own")
    return encode_tensor(format(spec.format), spec.shape, values, policy);
  // The earlier request: 4,096 keys of the same distribution before it grew.
  const Stream stream(c.seed, "sweep earlier request");
  double largest = 0;
  for (I i = 0; i < 4096 * c.integer("d"); ++i)
    largest = std::max(largest, std::fabs(stream.gaussian(static_cast<std::uint64_t>(i)) +
                                          (i % 4 == 0 ? c.real("outlier") : 0.0)));
  const auto scale = static_cast<float>(largest / format(spec.format).scale_divisor);
  return encode_tensor_with_scales(format(spec.format), spec.shape, values, std::span<const float>(&scale, 1),
                                   policy);
}

// Rows by position -> the tensor, through the page table where there is one. Pages of no sequence hold zeros.
std::vector<float> placed(const AttentionProblem* problem, const TensorSpec& spec, std::vector<float> rows,
                          I d) {
  if (problem == nullptr) return rows;
  std::vector<float> pool(at(element_count(spec.shape)), 0.0F);
  for (I j = 0; j < static_cast<I>(rows.size()) / d; ++j)
    std::copy_n(rows.begin() + j * d, d, pool.begin() + problem->token(0, j) * d);
  return pool;
}

}  // namespace

std::vector<double> orthonormal(std::uint64_t seed, const std::string& name, std::int64_t d) {
  const Stream stream(seed, name);
  std::vector<double> rows(at(d * d));
  for (I i = 0; i < d * d; ++i) rows[at(i)] = stream.gaussian(static_cast<std::uint64_t>(i));
  for (I i = 0; i < d; ++i) {
    double* row = &rows[at(i * d)];
    for (int again = 0; again < 2; ++again)  // twice is enough: the second pass removes what rounding left
      for (I j = 0; j < i; ++j) {
        const double* other = &rows[at(j * d)];
        const double along = dot(row, other, d);
        for (I e = 0; e < d; ++e) row[e] -= along * other[e];
      }
    const double length = std::sqrt(dot(row, row, d));
    for (I e = 0; e < d; ++e) row[e] /= length;
  }
  return rows;
}

Planted plant(const Cell& c) {
  const Case op = c.attention();
  const I d = c.integer("d"), keys = c.integer("len");
  const I near = c.probe == Probe::qk ? c.integer("near") : 1;
  Planted p;
  p.inputs.tensors = op.op->tensors(op.attributes);
  op.op->indices(op.attributes, op.seed, p.inputs.set);
  p.needles.resize(at(c.integer("needles")));
  p.basis = orthonormal(c.seed, "sweep codes", d);
  const std::vector<I> positions = choose_positions(c, near);
  Tensors t{std::vector<float>(p.needles.size() * at(d)), std::vector<float>(at(keys * d)),
            std::vector<float>(at(keys * d))};
  const Stream draw(c.seed, "sweep values"), signs(c.seed, "sweep outliers");
  std::vector<int> labels(at(keys));
  for (I j = 0; j < keys; ++j)
    labels[at(j)] =
        static_cast<int>(draw.below(static_cast<std::uint64_t>(j), static_cast<std::uint64_t>(d)));
  if (c.probe == Probe::qk) {
    plant_qk(c, positions, p.needles, labels, t);
  } else {
    plant_pv(c, positions, p.needles, t);
  }
  const double mean = c.probe == Probe::pv ? c.real("mean") : 0.0, root = std::sqrt(static_cast<double>(d));
  const double outlier = c.real("outlier"), drift = c.real("drift");
  std::vector<double> means(at(d));
  for (I e = 0; e < d; ++e) means[at(e)] = mean * draw.gaussian(static_cast<std::uint64_t>(keys + e));
  parallel_units(at(keys), [&](std::size_t j) {
    for (I e = 0; e < d; ++e)
      t.v[j * at(d) + at(e)] = static_cast<float>(means[at(e)] + root * p.basis[at(labels[j] * d + e)]);
    float* key = &t.k[j * at(d)];
    for (I n = 0; n < 4; ++n)
      key[n * d / 4 + 7] +=
          static_cast<float>((signs.bits(static_cast<std::uint64_t>(n)) & 1) != 0 ? outlier : -outlier);
    for (I e = 0; e < d; ++e) key[e] *= static_cast<float>(drift);
    if (c.attributes.text("rotate") == "qk") rotate_row(key, d);
  });
  for (std::size_t n = 0; n < p.needles.size(); ++n) {
    p.needles[n].position = positions[n * at(near)];
    p.needles[n].label = labels[at(p.needles[n].position)];
    float* q = &t.q[n * at(d)];
    for (I e = 0; e < d; ++e) q[e] /= static_cast<float>(drift);
    if (c.attributes.text("rotate") == "qk") rotate_row(q, d);
  }
  const auto spec = [&](const char* name) -> const TensorSpec& {
    return *std::ranges::find_if(p.inputs.tensors, [&](const TensorSpec& s) { return s.name == name; });
  };
  // q as [row][head][d] is q by needle; K and V go through the page table, which the problem resolves: it is
  // asked of a set whose K and V are still zeros.
  EncodePolicy policy;
  policy.seed = c.seed;
  p.inputs.set["q"] = encode_tensor(format(spec("q").format), spec("q").shape, t.q, policy);
  std::unique_ptr<AttentionProblem> problem;
  if (c.integer("page") > 0) {
    for (const char* name : {"k", "v"})
      p.inputs.set[name] =
          encode_tensor(format(spec(name).format), spec(name).shape,
                        std::vector<float>(at(element_count(spec(name).shape)), 0.0F), policy);
    problem = std::make_unique<AttentionProblem>(op.attributes, p.inputs.set);
  }
  Encoded k = encode_k(c, spec("k"), placed(problem.get(), spec("k"), std::move(t.k), d));
  Encoded v = encode_tensor(format(spec("v").format), spec("v").shape,
                            placed(problem.get(), spec("v"), std::move(t.v), d), policy);
  problem.reset();
  p.inputs.set["k"] = std::move(k);
  p.inputs.set["v"] = std::move(v);
  if (op.op->unused) p.inputs.unused = op.op->unused(op.attributes, p.inputs.set);

  p.value_mean.assign(at(d), 0.0);
  // Under a needle that takes all the weight, the mean of the other values is not in the output.
  if (c.probe == Probe::qk) return p;
  const AttentionProblem stored(op.attributes, p.inputs.set);
  constexpr I kChunk = 4096;
  std::vector<double> rows(at(kChunk * d));
  for (I first = 0; first < keys; first += kChunk) {
    const I count = std::min(kChunk, keys - first);
    stored.decode_v(0, 0, first, count, rows.data());
    for (I j = 0; j < count; ++j)
      for (I e = 0; e < d; ++e) p.value_mean[at(e)] += rows[at(j * d + e)] / static_cast<double>(keys);
  }
  return p;
}

Reading read_fingerprints(const Planted& p, const std::vector<double>& out) {
  const I d = static_cast<I>(p.value_mean.size());
  Reading r;
  for (std::size_t n = 0; n < p.needles.size(); ++n) {
    int best = -1;
    double largest = -std::numeric_limits<double>::infinity();
    for (I l = 0; l < d; ++l) {
      double sum = 0;
      for (I e = 0; e < d; ++e)
        sum += (out[n * at(d) + at(e)] - p.value_mean[at(e)]) * p.basis[at(l * d + e)];
      if (sum > largest) largest = sum, best = static_cast<int>(l);
    }
    r.label.push_back(std::isfinite(largest) ? best : -1);
  }
  return r;
}

Fidelity fidelity(const Planted& p, const std::vector<double>& got, const std::vector<double>& truth) {
  const auto d = p.value_mean.size();
  Fidelity f;
  for (std::size_t n = 0; n < p.needles.size(); ++n) {
    double along = 0, truth_squares = 0, error = 0;
    for (std::size_t i = n * d; i < (n + 1) * d; ++i) {
      along += got[i] * truth[i];
      truth_squares += truth[i] * truth[i];
      error += (got[i] - truth[i]) * (got[i] - truth[i]);
    }
    f.gain += along / truth_squares / static_cast<double>(p.needles.size());
    f.relative_error += std::sqrt(error / truth_squares) / static_cast<double>(p.needles.size());
  }
  return f;
}

}  // namespace assay::sweep
