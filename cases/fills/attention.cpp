// Designed inputs for attention. Each aims at the logits: with r a row of signs per (batch, KV head),
//   q = r,  k_j = s_j r + noise   give   q.k_j / sqrt(d) = s_j sqrt(d) + N(0,1),
// so a target logit t_j asks for s_j = t_j / sqrt(d).
//
// An embedded one has the same logits and the same probe in numbers that say nothing of it: channel c of q
// has a drawn magnitude m_c and each element its own noise, k is divided by m_c, no two keys are equal;
// each channel of v has a drawn factor, and one of eight, drawn, is gaussian throughout where v has few
// values.
#include <algorithm>
#include <cmath>

#include "cases/fills/families.hpp"
#include "reference/error.hpp"
#include "reference/inputs/random.hpp"

namespace assay::fill_families {
namespace {

// A view of q, k and v by logical position; paged caches are written through the page table.
class AttentionFill {
 public:
  enum class Channels : std::uint8_t { mixed, all };  // whether some of v are natural where it is embedded

  AttentionFill(const FillRequest& request, Values& values, Channels channels = Channels::mixed)
      : batch(request.attributes.integer("batch")),
        heads(request.attributes.integer("heads")),
        kv_heads(request.attributes.integer("kv_heads")),
        rows(request.attributes.integer("q")),
        keys(request.attributes.integer("len")),
        d(request.attributes.integer("d")),
        dv(request.attributes.integer("dv")),
        page_(request.attributes.integer("page")),
        window_(request.attributes.integer("window")),
        runs_(request.embedded && channels == Channels::mixed ? dv / kRun : 0),
        embedded(request.embedded),
        stream(request.seed, "attention") {
    gaussian(request, values);  // sinks, slopes, and the noise that the families start from
    q_ = std::move(values.at("q")), k_ = std::move(values.at("k")), v_ = std::move(values.at("v"));
    values_ = &values;
    if (page_ > 0) {
      const auto& plane = request.indices.at("page_table").planes.at(0);
      const auto* entries = reinterpret_cast<const std::int32_t*>(plane.bytes.data());
      table_.assign(entries, entries + plane.bytes.size() / sizeof(std::int32_t));
      pages_per_sequence_ = static_cast<std::int64_t>(table_.size()) / batch;
    }
    const double given = request.attributes.real("scale");
    scale = given > 0 ? given : 1.0 / std::sqrt(static_cast<double>(d));
    for (std::int64_t cell = 0; cell < batch * kv_heads; ++cell) draw_channels(cell);
  }
  ~AttentionFill() {
    values_->at("q") = std::move(q_), values_->at("k") = std::move(k_), values_->at("v") = std::move(v_);
  }
  AttentionFill(const AttentionFill&) = delete;
  AttentionFill& operator=(const AttentionFill&) = delete;

  float* q(std::int64_t b, std::int64_t i, std::int64_t h) {
    return &q_[static_cast<std::size_t>(((b * rows + i) * heads + h) * d)];
  }
  float* k(std::int64_t b, std::int64_t j, std::int64_t g) {
    return &k_[static_cast<std::size_t>((token(b, j) * kv_heads + g) * d)];
  }
  float* v(std::int64_t b, std::int64_t j, std::int64_t g) {
    return &v_[static_cast<std::size_t>((token(b, j) * kv_heads + g) * dv)];
  }

  // The signs that q and k share in (batch, KV head).
  double sign(std::int64_t b, std::int64_t g, std::int64_t c) const {
    return stream.bits(static_cast<std::uint64_t>(((b * kv_heads + g) * d + c) | (std::int64_t{1} << 60))) & 1
               ? 1
               : -1;
  }
  // A key that every query row sees, under any mask but a random one.
  std::int64_t visible_key(std::int64_t b, std::int64_t g) const {
    const std::int64_t last = std::max<std::int64_t>(0, keys - rows);
    const std::int64_t choices = window_ > 0 ? std::min(window_, last + 1) : last + 1;
    const auto draw = static_cast<std::uint64_t>((b * kv_heads + g) | (std::int64_t{1} << 61));
    return last - static_cast<std::int64_t>(stream.below(draw, static_cast<std::uint64_t>(choices)));
  }

  // q_i = strength * r  (+ a little of its own noise)
  // k_j = target(b, g, j) / (strength * d * scale) * r + noise * N(0,1)
  template <typename Target>
  void aim(Target target, double strength = 1.0, double noise = 1.0) {
    std::vector<float> signs(static_cast<std::size_t>(d));
    for (std::int64_t b = 0; b < batch; ++b)
      for (std::int64_t g = 0; g < kv_heads; ++g) {
        for (std::int64_t c = 0; c < d; ++c)
          signs[static_cast<std::size_t>(c)] = static_cast<float>(sign(b, g, c));
        const auto high = static_cast<float>(strength);
        for (std::int64_t i = 0; i < rows; ++i)
          for (std::int64_t h = g * heads / kv_heads; h < (g + 1) * heads / kv_heads; ++h) {
            float* row = q(b, i, h);
            for (std::int64_t c = 0; c < d; ++c)
              row[c] = query(b, g, c, high * signs[static_cast<std::size_t>(c)], row[c]);
          }
        for (std::int64_t j = 0; j < keys; ++j) {
          float* row = k(b, j, g);
          const auto s = static_cast<float>(target(b, g, j) / (strength * static_cast<double>(d) * scale));
          const auto n = static_cast<float>(embedded && noise == 0 ? kUnequal : noise);
          for (std::int64_t c = 0; c < d; ++c)
            row[c] = key(b, g, c, s * signs[static_cast<std::size_t>(c)]) + n * row[c];
        }
      }
  }
  // What an element of q, and of k without its noise, is once it is embedded; x is a gaussian.
  float query(std::int64_t b, std::int64_t g, std::int64_t c, float probe, float x) const {
    return embedded ? probe * magnitudes_[at(b, g, d, c)] * (1 + 0x1p-7F * x) : probe;
  }
  float key(std::int64_t b, std::int64_t g, std::int64_t c, float probe) const {
    return embedded ? probe / magnitudes_[at(b, g, d, c)] : probe;
  }
  // Of the channels of v that carry the probe, all but the natural ones, the n-th modulo their number.
  std::int64_t probed() const { return dv - runs_; }
  std::int64_t channel(std::int64_t b, std::int64_t g, std::int64_t n) const {
    return embedded ? probes_[at(b, g, probed(), n % probed())] : n % dv;
  }
  // v_j[c] = value(b, g, j, c, the gaussian that stands there)
  template <typename Value>
  void value(Value f) {
    for (std::int64_t b = 0; b < batch; ++b)
      for (std::int64_t j = 0; j < keys; ++j)
        for (std::int64_t g = 0; g < kv_heads; ++g) {
          float* row = v(b, j, g);
          float largest = 0;
          for (std::int64_t c = 0; c < dv; ++c) {
            const float factor = embedded ? factors_[at(b, g, dv, c)] : 1;
            if (factor == 0) continue;  // a natural channel
            auto probe = static_cast<float>(f(b, g, j, c, row[c]));
            largest = std::max(largest, std::fabs(probe));
            if (embedded && probe == 0) probe = kFaint * row[c];
            row[c] = factor * probe;
          }
          for (std::int64_t c = 0; c < dv && embedded; ++c)  // as large as the probe of its key
            if (factors_[at(b, g, dv, c)] == 0 && largest > 0) row[c] *= largest / 2;
        }
  }
  double log_keys() const { return std::log(static_cast<double>(std::max<std::int64_t>(2, keys))); }

  std::int64_t batch, heads, kv_heads, rows, keys, d, dv;

 private:
  static constexpr std::int64_t kRun = 8;  // channels of v of which one is natural
  std::int64_t page_, window_, runs_;

 public:
  bool embedded;
  Stream stream;
  double scale = 1;

 private:
  static constexpr double kUnequal = 0.125;  // noise of keys that would be equal
  static constexpr float kFaint = 0x1p-12F;  // of a v that would be 0, against the probe's 1

  std::size_t at(std::int64_t b, std::int64_t g, std::int64_t width, std::int64_t c) const {
    return static_cast<std::size_t>((b * kv_heads + g) * width + c);
  }
  // No draw of a kind is one of another: gaussian() takes two numbers from twice its index on.
  // Of a (batch, KV head): magnitudes like those of a gaussian, their squares 1 in the mean, so that noise in
  // k moves a logit as much as beside signs; factors of +-(1/2 .. 1), 0 for a natural channel.
  void draw_channels(std::int64_t cell) {
    if (!embedded) return;
    const auto draw = [&](std::int64_t kind, std::int64_t c) {
      return static_cast<std::uint64_t>((kind << 57) | (cell << 24) | c);
    };
    double squares = 0;
    for (std::int64_t c = 0; c < d; ++c) {
      const double m = std::clamp(std::fabs(stream.gaussian(draw(1, c))), 0.25, 2.5);
      magnitudes_.push_back(static_cast<float>(m)), squares += m * m;
    }
    for (std::size_t c = magnitudes_.size() - static_cast<std::size_t>(d); c < magnitudes_.size(); ++c)
      magnitudes_[c] *= static_cast<float>(std::sqrt(static_cast<double>(d) / squares));
    for (std::int64_t c = 0; c < dv; ++c) {
      const std::int64_t run = c / kRun;
      const bool natural =
          run < runs_ && static_cast<std::int64_t>(stream.below(draw(4, run), kRun)) == c % kRun;
      const double factor = 0.5 + 0.5 * stream.uniform(draw(5, c));
      factors_.push_back(natural ? 0 : static_cast<float>(stream.bits(draw(6, c)) & 1 ? factor : -factor));
      if (!natural) probes_.push_back(c);
    }
  }

  std::int64_t token(std::int64_t b, std::int64_t j) const {
    if (page_ == 0) return b * keys + j;
    return table_[static_cast<std::size_t>(b * pages_per_sequence_ + j / page_)] * page_ + j % page_;
  }

  std::vector<float> q_, k_, v_;
  std::vector<float> magnitudes_, factors_;  // by (batch, KV head) and channel, where embedded
  std::vector<std::int64_t> probes_;         // of v, ascending
  Values* values_ = nullptr;
  std::vector<std::int32_t> table_;
  std::int64_t pages_per_sequence_ = 0;
};

using I = std::int64_t;

}  // namespace

void needle(const FillRequest& r, Values& values) {
  AttentionFill f(r, values);
  f.aim([&](I b, I g, I j) { return j == f.visible_key(b, g) ? f.log_keys() : 0.0; }, 1.0, 0.5);
  f.value([&](I b, I g, I j, I, float) { return j == f.visible_key(b, g) ? 1.0 : 0.0; });
}

// The drawn key weighs most and has no V; all others weigh 2^-10.3 to 2^-10.8 of it: weights in 8 bits that
// were not scaled up in front of their cast are 0 below 2^-10.
void crowd(const FillRequest& r, Values& values) {
  AttentionFill f(r, values);
  f.aim([&](I b, I g, I j) { return j == f.visible_key(b, g) ? 7.3 : 0.0; }, 1.0, 0.015625);
  f.value([&](I b, I g, I j, I, float x) {
    return j == f.visible_key(b, g) ? 0.0 : 0.75 + 0.25 * std::clamp(static_cast<double>(x) / 4, -1.0, 1.0);
  });
}

void equal_onehot(const FillRequest& r, Values& values) {
  AttentionFill f(r, values);
  f.aim([](I, I, I) { return 1.0; }, 1.0, 0.0);
  f.value([&](I b, I g, I j, I c, float) { return f.channel(b, g, j) == c ? 1.0 : 0.0; });
}

void window_onehot(const FillRequest& r, Values& values) {
  AttentionFill f(r, values);
  f.aim([](I, I, I) { return 0.0; }, 1.0, 0.25);
  f.value([&](I b, I g, I j, I, float) {
    const I first = f.visible_key(b, g) / 32 * 32;
    return j >= first && j < first + 32 ? 1.0 : 0.0;
  });
}

void onehot_attention(const FillRequest& r, Values& values) {
  AttentionFill f(r, values);
  f.aim([&](I b, I g, I j) { return j == f.visible_key(b, g) ? 45.0 : 0.0; });
}

void attention_ramp(const FillRequest& r, Values& values) {
  AttentionFill f(r, values);
  f.aim([&](I, I, I j) { return 24.0 * static_cast<double>(j) / static_cast<double>(f.keys); }, 1.0, 0.25);
  f.value([](I, I, I, I, float x) { return 0.5 + x; });
}

void steps(const FillRequest& r, Values& values) {
  AttentionFill f(r, values);
  f.aim([](I, I, I j) { return 0.25 * static_cast<double>(j / 32); }, 1.0, 0.03125);
  f.value([](I, I, I, I, float x) { return 0.5 + x; });
}

void descent(const FillRequest& r, Values& values) {
  AttentionFill f(r, values);
  f.aim([&](I, I, I j) { return 24.0 * static_cast<double>(f.keys - j) / static_cast<double>(f.keys); }, 1.0,
        0.25);
  f.value([](I, I, I, I, float x) { return 0.5 + x; });
}

void low_logits(const FillRequest& r, Values& values) {
  AttentionFill f(r, values);
  f.aim([](I, I, I) { return -300.0; }, 2.0, 0.5);
  f.value([](I, I, I, I, float x) { return 1.0 + 0.25 * x; });
}

void future(const FillRequest& r, Values& values) {
  AttentionFill f(r, values);
  // Row i sees keys up to keys - rows + i: the logits of the last `rows` keys rise, so each row's strongest
  // visible key is its last one and the next key, which it must not see, is stronger still.
  f.aim(
      [&](I, I, I j) {
        const I beyond = j - (f.keys - f.rows);
        return beyond < 0 ? 0.0 : f.log_keys() + 2.0 * static_cast<double>(beyond);
      },
      1.0, 0.25);
  f.value([&](I, I, I j, I c, float) {
    return j >= f.keys - f.rows ? 1.0 + static_cast<double>((j + c) % 4) : 0.0;
  });
}

void equal_constant(const FillRequest& r, Values& values) {
  AttentionFill f(r, values);
  f.aim([](I, I, I) { return 1.0; }, 1.0, 0.0);
  f.value([](I, I g, I, I c, float) { return 0.75 + 0.125 * static_cast<double>((c + g) % 5); });
}

void cancel_qk(const FillRequest& r, Values& values) {
  AttentionFill f(r, values);
  for (I b = 0; b < f.batch; ++b) {
    for (I i = 0; i < f.rows; ++i)
      for (I h = 0; h < f.heads; ++h)
        for (I c = 0; c < f.d; ++c)
          f.q(b, i, h)[c] = f.query(b, h * f.kv_heads / f.heads, c, 8.0F, f.q(b, i, h)[c]);
    for (I j = 0; j < f.keys; ++j)
      for (I g = 0; g < f.kv_heads; ++g) {
        float* row = f.k(b, j, g);
        for (I c = 0; c < f.d; ++c) row[c] = f.key(b, g, c, c % 2 == 0 ? 12.0F : -12.0F) + 0.0625F * row[c];
      }
  }
  f.value([](I, I, I, I, float x) { return 0.5 + x; });
}

void huge_logits(const FillRequest& r, Values& values) {
  AttentionFill f(r, values);
  f.aim(
      [&](I b, I g, I j) {
        const auto cell = static_cast<std::uint64_t>((b * f.kv_heads + g) * f.keys + j);
        return (f.stream.bits(cell) & 1 ? 1.0 : -1.0) * (9000.0 + 1000.0 * f.stream.uniform(~cell));
      },
      16.0, 0.5);
}

void near_ties(const FillRequest& r, Values& values) {
  AttentionFill f(r, values);
  // Two neighbouring keys share their noise and stand far above the rest; V is 1 at one and 1/4 at the other,
  // so the output moves between them with the difference of their logits.
  f.aim([&](I b, I g, I j) { return j / 2 == f.visible_key(b, g) / 2 ? 2.0 * f.log_keys() : 0.0; }, 1.0,
        0.25);
  for (I b = 0; b < f.batch; ++b)
    for (I g = 0; g < f.kv_heads; ++g) {
      const I first = f.visible_key(b, g) / 2 * 2;
      if (first + 1 >= f.keys) continue;
      std::copy_n(f.k(b, first, g), f.d, f.k(b, first + 1, g));
      f.k(b, first + 1, g)[0] *= 1.0625F;
    }
  f.value([](I, I, I j, I c, float) { return (j + c) % 2 == 0 ? 1.0 : 0.25; });
}

void deep_logits(const FillRequest& r, Values& values) {
  AttentionFill f(r, values);
  f.aim(
      [&](I b, I g, I j) {
        const auto cell = static_cast<std::uint64_t>((b * f.kv_heads + g) * f.keys + j);
        return j == f.visible_key(b, g) ? 0.0 : -500.0 * f.stream.uniform(cell);
      },
      4.0, 0.125);
  f.value([](I, I, I, I, float x) { return 1.0 + 0.5 * x; });
}

void abyss(const FillRequest& r, Values& values) {
  AttentionFill f(r, values);
  f.aim([&](I, I, I j) { return j < f.keys / 2 ? -40000.0 : -39000.0; }, 16.0, 0.0);
  f.value([](I, I, I, I, float x) { return 1.0 + 0.25 * x; });
}

// No key has more than a few times the weight of another, and every V is 1/2 .. 1 but the needle's, which is
// 0: the sum is large against each of its terms, and a truncating accumulator of t bits loses up to 2^-t of
// it at each step, always to the same side. Weights so near to each other survive a conversion to 8 bits.
void distractors(const FillRequest& r, Values& values) {
  AttentionFill f(r, values);
  f.aim([&](I b, I g, I j) { return j == f.visible_key(b, g) ? 2.0 : 0.0; }, 1.0, 0.25);
  f.value([&](I b, I g, I j, I, float x) {
    return j == f.visible_key(b, g) ? 0.0 : 0.75 + 0.25 * std::clamp(static_cast<double>(x) / 4, -1.0, 1.0);
  });
}

void value_mean(const FillRequest& r, Values& values) {
  AttentionFill f(r, values);
  f.value([](I, I, I, I, float x) { return 0.5 + x; });
}

// Channels 1, d/4 + 1, d/2 + 1 and 3d/4 + 1; of a row narrower than 5 some fall together.
void outlier_channels(const FillRequest& r, Values& values) {
  AttentionFill f(r, values);
  for (I b = 0; b < f.batch; ++b) {
    for (I i = 0; i < f.rows; ++i)
      for (I h = 0; h < f.heads; ++h)
        for (I n = 0; n < 4; ++n) f.q(b, i, h)[((n * f.d) / 4 + 1) % f.d] *= 0.25F;
    for (I j = 0; j < f.keys; ++j)
      for (I g = 0; g < f.kv_heads; ++g)
        for (I n = 0; n < 4; ++n) f.k(b, j, g)[((n * f.d) / 4 + 1) % f.d] *= 8.0F;
  }
}

void subnormal_values(const FillRequest& r, Values& values) {
  AttentionFill f(r, values);
  f.value([](I, I, I, I, float x) { return std::ldexp(1.0 + static_cast<double>(x), -20); });
}

void extreme_values(const FillRequest& r, Values& values) {
  AttentionFill f(r, values);
  f.value([](I, I, I j, I c, float) { return (c % 8 == 7 && j % 2 == 0 ? -1.0 : 1.0) * 60000.0; });
}

// One channel to each key, dv keys in a row all of them, from a drawn one on: no channel has more keys than
// it must, and its sum is not much larger than the part of one key. Logits are alike, not equal, and the rest
// of V is small and of both signs.
void roll_call_of_keys(const FillRequest& r, Values& values) {
  AttentionFill f(r, values, AttentionFill::Channels::all);
  f.aim([](I, I, I) { return 0.5; }, 1.0, 0.03125);
  f.value([&](I b, I g, I j, I c, float x) {
    const I run = (b * f.kv_heads + g) * f.keys + j / f.dv;
    const auto from =
        f.stream.below(static_cast<std::uint64_t>(run | (I{1} << 62)), static_cast<std::uint64_t>(f.dv));
    return (j + static_cast<I>(from)) % f.dv == c ? 1.0 : 0x1p-12 * static_cast<double>(x);
  });
}

// Of roll_call: dv keys in a row call every channel once, so that of n keys at most m = ceil(n / dv) call
// one. Logits differ by noise of 1/32: a key weighs more than 3/4 of another (nine standard deviations), and
// a channel has N / W <= 1/4 of the row sum where there are four channels and four keys for each. t lost keys
// of a channel, of weight w, change it by at least (t w / N) (1 - N / W) >= t / m * 3/4 * 3/4 of itself; 3/8
// leaves a third of that for the noise of V and for the formats. A sink only adds to W.
std::optional<std::int64_t> keys_called(const Attributes& a, double loosest) {
  constexpr double kShare = 3.0 / 8;  // Derivation: above
  const std::int64_t keys = a.integer("len"), given = a.integer("dv");
  const std::int64_t channels = given > 0 ? given : a.integer("d");
  const bool all_keys =
      (a.text("mask") == "none" || a.text("mask") == "causal") && a.text("lengths") == "full";
  if (!all_keys || a.text("alibi") != "no" || a.real("scale") != 0 || channels < 4 ||
      keys - a.integer("q") < 4 * channels)
    return std::nullopt;
  const auto m = static_cast<double>((keys + channels - 1) / channels);
  const double t = std::floor(loosest * m / kShare) + 1;
  return t <= m ? std::optional(static_cast<std::int64_t>(t)) : std::nullopt;
}

// Alike logits; the first key has most of V, a little above a power of two of all others together.
void front_key(const FillRequest& r, Values& values) {
  AttentionFill f(r, values, AttentionFill::Channels::all);
  f.aim([](I, I, I) { return 0.5; }, 1.0, 0.0);
  f.value([&](I, I, I j, I, float x) {
    const double small = 16.0 / static_cast<double>(f.keys);
    return j == 0 ? 120.0 : small * (1.0 + 0.5 * std::clamp(static_cast<double>(x) / 4, -1.0, 1.0));
  });
}

}  // namespace assay::fill_families
