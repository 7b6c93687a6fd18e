// K or V of one layer in the paged cache, and how a policy makes its scales.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "cases/studies/cascade/e4m3.hpp"
#include "cases/studies/cascade/engine.hpp"

namespace assay::scenarios {

class KvStore {
 public:
  KvStore(Policy policy, const ModelShape& shape, int slots, float constant)
      : policy_(policy), heads_(shape.heads), d_(shape.d), constant_(constant) {
    const std::size_t elements = static_cast<std::size_t>(slots) * heads_ * d_;
    switch (policy) {
      case Policy::none:
      case Policy::split:
        format_ = "f32";
        break;
      case Policy::per_token:
      case Policy::per_request:
        format_ = "e4m3fn_tok";
        break;
      case Policy::per_head:
        format_ = "e4m3fn_head";
        break;
      default:
        format_ = "e4m3fn_tensor";
    }
    if (format_ == "f32")
      raw_.resize(elements);
    else
      codes_.resize(elements);
    scale_.assign(format_ == "e4m3fn_tok"    ? static_cast<std::size_t>(slots)
                  : format_ == "e4m3fn_head" ? static_cast<std::size_t>(heads_)
                                             : 1,
                  1.0F);
  }

  // The scale is fixed by `absmax` (one, or per head) for ever.
  void lock(std::vector<float> absmax, Origin origin) {
    absmax_ = std::move(absmax);
    origin_ = origin;
  }
  bool is_locked() const { return !absmax_.empty(); }
  Origin origin() const { return origin_; }
  const std::string& format() const { return format_; }

  // Quantises x [tokens, heads, d] of one request and puts it into `slots`. Returns what was written.
  Written write(Arithmetic& arithmetic, std::span<const float> x, std::span<const int> slots,
                float request_absmax) {
    const int tokens = static_cast<int>(slots.size());
    const std::size_t row = static_cast<std::size_t>(heads_) * d_;
    if (policy_ == Policy::none) {
      for (std::size_t t = 0; t < slots.size(); ++t)
        std::copy_n(x.data() + t * row, row, raw_.data() + static_cast<std::size_t>(slots[t]) * row);
      return {};
    }
    WriteScale s{format_, "calibrated", constant_, absmax_};
    switch (policy_) {
      case Policy::locked:
      case Policy::locked_dummy:
      case Policy::locked_zero:
      case Policy::diverging:
        s.policy = "locked";
        break;
      case Policy::per_token:
        s.policy = "token";
        break;
      case Policy::per_request:
        s = {"e4m3fn_tensor", "locked", constant_, {request_absmax}};
        break;
      case Policy::split:
        s = {"e4m3fn_tensor", "locked", constant_, absmax_};
        break;
      case Policy::fixed:
      case Policy::checkpoint_dropped:
        s.policy = "fixed";
        break;
      default:
        break;
    }
    if (s.policy == "fixed" || s.policy == "token") s.absmax.clear();
    Written w = arithmetic.kv_write(x, tokens, heads_, d_, s);
    for (std::size_t t = 0; t < slots.size(); ++t) {
      const std::size_t to = static_cast<std::size_t>(slots[t]) * row;
      if (policy_ == Policy::split) {  // what clips is kept apart, exactly
        for (std::size_t i = 0; i < row; ++i) {
          const float value = x[t * row + i];
          raw_[to + i] =
              std::fabs(value) > 448 * w.scale[0] ? value : e4m3_decode(w.codes[t * row + i]) * w.scale[0];
        }
        continue;
      }
      std::copy_n(w.codes.data() + t * row, row, codes_.data() + to);
      if (format_ == "e4m3fn_tok")
        scale_[static_cast<std::size_t>(slots[t])] = w.scale[w.scale.size() == 1 ? 0 : t];
    }
    if (policy_ == Policy::split) return {};
    if (format_ != "e4m3fn_tok") scale_ = w.scale;
    return w;
  }

  // The scale that readers use. `host_copy` > 0: another copy of it.
  KvView view(std::span<const float> read_scale) const {
    return {format_, codes_, raw_, read_scale.empty() ? scale_ : read_scale};
  }
  const std::vector<float>& scale() const { return scale_; }

  bool slot_has_nan(int slot) const {
    const std::size_t row = static_cast<std::size_t>(heads_) * d_, at = static_cast<std::size_t>(slot) * row;
    if (format_ == "f32")
      return std::any_of(raw_.begin() + at, raw_.begin() + at + row, [](float v) { return std::isnan(v); });
    int n = 0;
    for (std::size_t i = 0; i < row; ++i) n += (codes_[at + i] & 0x7F) == 0x7F ? 1 : 0;
    return n > 0;
  }
  void fill(int slot, bool nan) {
    const std::size_t row = static_cast<std::size_t>(heads_) * d_, at = static_cast<std::size_t>(slot) * row;
    if (format_ == "f32")
      std::fill_n(raw_.begin() + at, row, nan ? std::nanf("") : 0.0F);
    else
      std::fill_n(codes_.begin() + at, row, std::uint8_t{nan ? std::uint8_t{0x7F} : std::uint8_t{0}});
  }
  // Slot `to` gets what `from` holds.
  void copy(int from, int to) {
    const std::size_t row = static_cast<std::size_t>(heads_) * d_;
    const auto move = [&](auto& data) {
      if (!data.empty()) std::copy_n(data.begin() + from * row, row, data.begin() + to * row);
    };
    move(raw_), move(codes_);
    if (format_ == "e4m3fn_tok")
      scale_[static_cast<std::size_t>(to)] = scale_[static_cast<std::size_t>(from)];
  }
  float value(int slot, int i) const {
    const std::size_t row = static_cast<std::size_t>(heads_) * d_,
                      at = static_cast<std::size_t>(slot) * row + i;
    if (format_ == "f32") return raw_[at];
    return e4m3_decode(codes_[at]) *
           scale_[scale_index(format_, static_cast<std::size_t>(slot), static_cast<std::size_t>(i) / d_)];
  }

 private:
  Policy policy_;
  int heads_, d_;
  float constant_;
  std::string format_;
  std::vector<std::uint8_t> codes_;
  std::vector<float> raw_;
  std::vector<float> scale_;
  std::vector<float> absmax_;
  Origin origin_ = Origin::live;
};

}  // namespace assay::scenarios
