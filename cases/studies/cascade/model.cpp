#include "cases/studies/cascade/model.hpp"

#include <cmath>
#include <string>

#include "reference/error.hpp"
#include "reference/inputs/random.hpp"

namespace assay::scenarios {
namespace {

constexpr double kGrid = 4096;  // weights are multiples of 1 / kGrid
float on_grid(double x) { return static_cast<float>(std::nearbyint(x * kGrid) / kGrid); }

// The amplitude of the range channel that is `normal` after a layer norm over `width` channels of which the
// others have mean 0 and variance 1.
double amplitude(double normal, int width) { return normal / std::sqrt(1 - normal * normal / width); }

double range_of(int token, double u) {
  if (token >= kWeakImage) return 3.5 + 0.6 * u;
  if (token >= kMiddleImage) return 5.5 + 0.6 * u;
  if (token >= kFirstImage) return 9.8 + 0.2 * u;
  return 0.38 + 0.04 * u;
}

std::vector<float> embeddings(const ModelShape& s, std::uint64_t seed) {
  const Stream draw(seed, "embedding");
  std::vector<float> all(static_cast<std::size_t>(s.vocabulary) * s.width);
  for (int t = 0; t < s.vocabulary; ++t) {
    float* x = all.data() + static_cast<std::size_t>(t) * s.width;
    const std::uint64_t base = static_cast<std::uint64_t>(t) * 1000;
    if (t == kZeroToken) continue;
    if (t == kStart) {  // +-1, balanced; the range channel holds +1
      for (int i = 0; i < s.width; ++i) x[i] = (i + kRangeChannel) % 2 == 0 ? 1.0F : -1.0F;
      for (int i = s.width - 1; i > 1; i -= 1) {  // shuffle the rest
        if (i == kRangeChannel) continue;
        const int j = static_cast<int>(draw.below(base + static_cast<std::uint64_t>(i), i + 1));
        if (j != kRangeChannel) std::swap(x[i], x[j]);
      }
      continue;
    }
    double mean = 0, square = 0;
    for (int i = 0; i < s.width; ++i) {
      x[i] =
          i == kRangeChannel ? 0.0F : static_cast<float>(draw.gaussian(base + static_cast<std::uint64_t>(i)));
      mean += static_cast<double>(x[i]) / (s.width - 1);
    }
    for (int i = 0; i < s.width; ++i) {
      if (i == kRangeChannel) continue;
      x[i] -= static_cast<float>(mean);
      square += static_cast<double>(x[i]) * x[i] / (s.width - 1);
    }
    for (int i = 0; i < s.width; ++i) x[i] /= static_cast<float>(std::sqrt(square));
    const double u = draw.uniform(base + 500);
    double normal = t == kExclamation ? 0.004 : range_of(t, u);
    if (t >= kFirstText && t < kFirstImage && t % 2 == 0) normal = -normal;
    x[kRangeChannel] = static_cast<float>(amplitude(normal, s.width));
  }
  return all;
}

// A row of Q, K or V: noise of `noise` per weight, and at the range channel what makes the row's product with
// kStart's embedding exactly `target`.
void design_row(float* row, const float* start, const ModelShape& s, const Stream& draw, std::uint64_t base,
                double noise, double target) {
  double product = 0;
  for (int i = 0; i < s.width; ++i) {
    row[i] = i == kRangeChannel ? 0.0F : on_grid(noise * draw.gaussian(base + static_cast<std::uint64_t>(i)));
    product += static_cast<double>(row[i]) * start[i];
  }
  row[kRangeChannel] = static_cast<float>(target - product);
}

std::vector<float> gaussian(std::size_t count, double deviation, const Stream& draw) {
  std::vector<float> w(count);
  for (std::size_t i = 0; i < count; ++i) w[i] = on_grid(deviation * draw.gaussian(i));
  return w;
}

LayerWeights layer(const ModelShape& s, const float* start, std::uint64_t seed, int index) {
  const std::string name = "layer" + std::to_string(index);
  const Stream draw(seed, name + ".qkv");
  LayerWeights w;
  const std::size_t width = static_cast<std::size_t>(s.width);
  w.qkv.resize(static_cast<std::size_t>(3 * s.kv()) * width);
  for (int r = 0; r < 3 * s.kv(); ++r) {
    const std::uint64_t base = static_cast<std::uint64_t>(r) * 1000;
    const int channel = r % s.kv();
    const double u = draw.uniform(base + 900);
    const double sign = draw.bits(base + 901) % 2 == 0 ? 1.0 : -1.0;
    float* row = w.qkv.data() + static_cast<std::size_t>(r) * width;
    if (r < s.kv())  // Q: small, so that attention stays spread over the keys
      design_row(row, start, s, draw, base, 0.005, on_grid(0.02 * sign * u));
    else if (r < 2 * s.kv())  // K: absmax 5
      design_row(row, start, s, draw, base, 0.01, channel == 0 ? 5.0 : on_grid(sign * (3.0 + 1.9 * u)));
    else  // V: absmax 2.5, one sign, so that every channel clips at the same end
      design_row(row, start, s, draw, base, 0.005, channel == 0 ? 2.5 : on_grid(1.4 + 1.0 * u));
  }
  w.out = gaussian(width * static_cast<std::size_t>(s.kv()), 0.02, Stream(seed, name + ".out"));
  w.up = gaussian(static_cast<std::size_t>(s.hidden) * width, 0.05, Stream(seed, name + ".up"));
  w.down = gaussian(width * static_cast<std::size_t>(s.hidden), 0.02, Stream(seed, name + ".down"));
  // Nothing writes the range channel, so that it keeps its meaning through the layers.
  for (int j = 0; j < s.kv(); ++j) w.out[static_cast<std::size_t>(kRangeChannel) * s.kv() + j] = 0;
  for (int j = 0; j < s.hidden; ++j) w.down[static_cast<std::size_t>(kRangeChannel) * s.hidden + j] = 0;
  for (int j = 0; j < s.hidden; ++j) w.up[static_cast<std::size_t>(j) * s.width + kRangeChannel] = 0;
  return w;
}

}  // namespace

int successor(int token) {
  const int texts = kFirstImage - kFirstText;
  const int t = token >= kFirstText && token < kFirstImage ? token - kFirstText : token % texts;
  return kFirstText + (t + 11) % texts;  // 11 and 37 have no common divisor: one cycle
}

std::string text_of(int token) {
  static const std::vector<int> table = [] {
    std::vector<int> printing, others;
    for (int byte = 0; byte < 256; ++byte) {
      const bool prints = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte != 0xAD);
      if (prints)
        printing.push_back(byte);
      else
        others.push_back(0x100 + static_cast<int>(others.size()));
    }
    printing.insert(printing.end(), others.begin(), others.end());
    return printing;
  }();
  if (token < 0 || token >= 256)
    throw InputError(InputErrorKind::bad_value,
                     "token " + std::to_string(token) + " is no single byte: 0..255");
  const int c = table[static_cast<std::size_t>(token)];
  if (c < 0x80) return {static_cast<char>(c)};
  return {static_cast<char>(0xC0 | c >> 6), static_cast<char>(0x80 | (c & 0x3F))};
}

Model make_model(std::uint64_t seed, int layers, ModelShape shape) {
  Model m;
  m.shape = shape;
  m.shape.layers = layers;
  m.embedding = embeddings(m.shape, seed);
  m.unembedding.assign(m.embedding.size(), 0);
  for (int t = 0; t < m.shape.vocabulary; ++t) {
    if (t == kZeroToken) continue;
    for (int i = 0; i < m.shape.width; ++i)
      if (i != kRangeChannel)
        m.unembedding[static_cast<std::size_t>(successor(t)) * m.shape.width + i] +=
            m.embedding[static_cast<std::size_t>(t) * m.shape.width + i];
  }
  for (int l = 0; l < layers; ++l)
    m.layers.push_back(layer(m.shape, m.embedding.data() + kStart * m.shape.width, seed, l));
  return m;
}

}  // namespace assay::scenarios
