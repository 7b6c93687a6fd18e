// Quantisers and decoders. A quantiser has no sum of terms: what it can lose is the largest of what shares a
// scale, which is then clipped at the next; "bits" are those of the quotient.
#include <algorithm>
#include <cmath>

#include "cases/studies/planted/kernel.hpp"

namespace assay::planted {
namespace {

class Quantiser : public Kernel {
 public:
  explicit Quantiser(const Call& call)
      : call_(call), to_(format(call.text("to"))), shape_(call.inputs.set.at("x").shape) {
    const std::vector<double> x = call.values("x");
    x_.assign(x.begin(), x.end());
    cols_ = shape_.back();
    row_ = place(call, 0, shape_.front());
    group_ = to_.block_elements > 2           ? to_.block_elements
             : to_.axis == ScaleAxis::group32 ? 32
             : to_.axis == ScaleAxis::none    ? 1
                                              : cols_;
    first_ = row_ * cols_ + place(call, 1, std::max<std::int64_t>(1, cols_ / group_)) * group_;
    honest_ = stored(x_);
  }

 private:
  void spoil(const Plant& plant, std::vector<double>& y) override {
    if (plant.kind == Kind::scale) {
      for (std::int64_t i = first_; i < first_ + group_; ++i) y[at(i)] *= 1 + plant.size;
      return;
    }
    std::vector<float> x = x_;
    const auto begin = x.begin() + first_, end = begin + group_;
    const auto larger = [](float a, float b) { return std::fabs(a) < std::fabs(b); };
    switch (plant.kind) {
      case Kind::terms:
      case Kind::block: {
        const std::int64_t lost = std::llround(plant.size);
        if (lost >= group_) {  // nothing of it is seen
          std::fill(begin, end, 0.0F);
          break;
        }
        // The run of `lost` elements that has the largest.
        const std::int64_t top = (std::max_element(begin, end, larger) - begin) / lost * lost;
        float rest = 0;
        for (std::int64_t i = 0; i < group_; ++i)
          if (i < top || i >= top + lost) rest = std::max(rest, std::fabs(begin[i]));
        for (std::int64_t i = top; i < std::min(group_, top + lost); ++i)
          begin[i] = std::clamp(begin[i], -rest, rest);
        break;
      }
      case Kind::bits: {
        const auto top = std::max_element(begin, end, larger);
        for (auto i = begin; i != end; ++i)
          if (i != top || group_ == 1)
            *i = static_cast<float>(cut(static_cast<double>(*i), static_cast<int>(plant.size)));
        break;
      }
      default:
        break;
    }
    y = stored(x);
  }
  std::vector<double> stored(const std::vector<float>& x) const {
    return decode_output(encode_tensor(to_, shape_, x, {.overflow = Overflow::saturate}));
  }

  const Call& call_;
  const Format& to_;
  Shape shape_;
  std::vector<float> x_;
  std::int64_t cols_ = 0, row_ = 0, group_ = 0, first_ = 0;
};

class Decoder : public Kernel {
 public:
  explicit Decoder(const Call& call)
      : call_(call), cols_(call.size("cols")), first_(place(call, 0, call.size("rows")) * cols_) {
    x_ = call.values("x");
    honest_ = x_;
    for (double& each : honest_) each = rounded(call.text("dtype"), rounded("f32", each));
  }

 private:
  void spoil(const Plant& plant, std::vector<double>& y) override {
    const std::vector<char> keep = kept(call_, plant, cols_);
    for (std::int64_t c = 0; c < cols_; ++c) {
      double z = keep[at(c)] != 0 ? x_[at(first_ + c)] : 0;
      if (plant.kind == Kind::scale) z *= 1 + plant.size;
      if (plant.kind == Kind::bits) z = cut(z, static_cast<int>(plant.size));
      y[at(first_ + c)] = rounded(call_.text("dtype"), rounded("f32", z));
    }
  }

  const Call& call_;
  std::int64_t cols_, first_;
  std::vector<double> x_;
};

}  // namespace

std::unique_ptr<Kernel> make_quantiser(const Call& call) { return std::make_unique<Quantiser>(call); }
std::unique_ptr<Kernel> make_decoder(const Call& call) { return std::make_unique<Decoder>(call); }

}  // namespace assay::planted
