// The scalar steps of an emulated kernel, and what a declared arithmetic may say.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <string>

#include "reference/error.hpp"
#include "reference/ops/attention/emulated/emulated.hpp"

namespace assay {
namespace {

[[noreturn]] void refuse(const std::string& what) {
  throw InputError(InputErrorKind::bad_value, "attention: " + what);
}

void check_unit(const Accumulator& how, std::string_view role, std::string_view a, std::string_view b) {
  if (how.kind == Accumulator::Kind::integer || how.name == "f64") {
    refuse(std::string(role) + "=" + std::string(how.name) + ": f32, f16, bf16 or a matrix unit is allowed");
  }
  if (how.kind != Accumulator::Kind::unit) return;
  for (const std::string_view format : {a, b}) {
    if (!format.empty() && !accepts(*how.unit, format)) {
      refuse(std::string(role) + "=" + std::string(how.name) + " does not take " + std::string(format) +
             ", only " + std::string(how.unit->inputs));
    }
  }
  if (!how.unit->scales.empty() || how.unit->out == "i32") {
    refuse(std::string(role) + "=" + std::string(how.name) +
           ": a unit without block scales and with a floating result "
           "is allowed");
  }
}

std::uint32_t mixed(std::uint32_t x) {  // a fixed scramble of the argument's bits
  x ^= x >> 16;
  x *= 0x7feb352du;
  x ^= x >> 15;
  x *= 0x846ca68bu;
  return x ^ (x >> 16);
}

// Nearest f32 of a positive real number, moved by up to exp_ulp - 1/2 ulps.
float within_ulps(double exact, float argument, double ulps) {
  if (std::isnan(exact)) return std::numeric_limits<float>::quiet_NaN();
  if (!(exact >= 0x1p-126)) return 0;
  const auto nearest = static_cast<float>(exact);
  const auto reach = static_cast<std::int32_t>(std::floor(ulps - 0.5));
  if (reach <= 0) return nearest;
  const auto step =
      static_cast<std::int32_t>(mixed(std::bit_cast<std::uint32_t>(argument)) % (2u * reach + 1)) - reach;
  return std::bit_cast<float>(std::bit_cast<std::int32_t>(nearest) + step);
}

}  // namespace

float emulated_exp(float t, bool base2, double exp_ulp) {
  if (t == 0) return 1;
  return within_ulps(base2 ? std::exp2(static_cast<double>(t)) : std::exp(static_cast<double>(t)), t,
                     exp_ulp);
}
float emulated_log(float l, bool base2) {
  return static_cast<float>(base2 ? std::log2(static_cast<double>(l)) : std::log(static_cast<double>(l)));
}

float emulated_tanh(float t, double tanh_ulp) {
  const double exact = std::tanh(static_cast<double>(t));
  const float moved = std::min(within_ulps(std::fabs(exact), t, tanh_ulp), 1.0F);  // NaN stays
  return std::copysign(moved, t);
}

LogitModel::LogitModel(const AttentionArithmetic& how, const QueryRow& row)
    : scores_(how.scores == "f32" ? nullptr : &scalar_format(how.scores)),
      cap_(static_cast<float>(row.softcap)),
      log2e_(static_cast<float>(1.4426950408889634)),
      tanh_ulp_(how.tanh_ulp),
      base2_(how.base2),
      bias_(row.bias) {
  // With a soft cap or a bias the base-two factor comes after them.
  double scale = row.scale;
  if (row.softcap > 0) scale /= row.softcap;
  if (base2_ && row.softcap == 0 && row.bias.empty()) scale *= 1.4426950408889634;
  scale_ = static_cast<float>(scale);
}
float LogitModel::operator()(float s, std::int64_t key) const {
  float x = s * scale_;
  if (cap_ > 0) x = cap_ * emulated_tanh(x, tanh_ulp_);
  if (!bias_.empty()) x += bias_[static_cast<std::size_t>(key)];
  if (base2_ && (cap_ > 0 || !bias_.empty())) x *= log2e_;
  return scores_ == nullptr ? x : static_cast<float>(round_to(*scores_, x));
}
float LogitModel::of_sink(float sink) const { return base2_ ? sink * log2e_ : sink; }

void AttentionArithmetic::check(std::string_view q_format, std::string_view k_format,
                                std::string_view v_format) const {
  const Accumulator qk_how = accumulator(qk), pv_how = accumulator(pv), sum_how = accumulator(rowsum);
  check_unit(qk_how, "qk", q_format, k_format);
  check_unit(pv_how, "pv", p, v_format);
  if (sum_how.kind != Accumulator::Kind::floating || rowsum == "f64")
    refuse("rowsum=" + rowsum + ": f32, f16 or bf16");
  if (tile < 1 || split < 1 || chunk < 0 || promote < 0) refuse("tile, split, chunk and promote are counts");
  const auto divides = [&](const Accumulator& how, std::int64_t n, const char* key) {
    if (how.kind == Accumulator::Kind::unit && n % how.unit->group != 0) {
      refuse(std::string(key) + "=" + std::to_string(n) + " is no multiple of the " +
             std::to_string(how.unit->group) + " products that " + std::string(how.name) + " fuses");
    }
  };
  divides(qk_how, chunk, "chunk");
  divides(pv_how, tile, "tile");
  divides(pv_how, promote, "promote");
}

AttentionArithmetic AttentionArithmetic::from(const Contract& contract, std::string_view dtype) {
  AttentionArithmetic how;
  const auto text = [&](std::string_view key) { return std::string(contract.text(key)); };
  how.qk = text("qk");
  how.pv = text("pv");
  how.rowsum = text("rowsum");
  how.p = text("p");
  how.scores = text("scores");
  how.out = text("out") == "dtype" ? std::string(dtype) : text("out");
  how.chunk = contract.integer("chunk");
  how.promote = contract.integer("promote");
  how.tile = contract.integer("tile");
  how.split = contract.integer("split");
  how.qk_block = contract.integer("qk_block");
  how.pv_block = contract.integer("pv_block");
  how.exp_ulp = contract.number("exp_ulp");
  how.tanh_ulp = contract.number("tanh_ulp");
  how.div_ulp = contract.number("div_ulp");
  const double shift = contract.number("p_shift");
  if (shift != std::floor(shift) || shift > 100)
    refuse(fmt::format("p_shift={}: a whole number up to 100", shift));
  how.p_shift = static_cast<int>(shift);
  how.denominator_cast = contract.text("denominator") == "cast";
  const std::string order = text("order");
  how.sequential = order != "any";
  how.descending = order == "descending";
  const auto inside = [&](std::string_view key) {
    return order == "sequential" ? Order(Order::sequential) : order_of(contract.text(key));
  };
  how.qk_order = inside("qk_order");
  how.pv_order = inside("pv_order");
  how.rowsum_order = inside("rowsum_order");
  how.fused_argument = text("argument") == "any";
  if (how.promote > how.tile) how.promote = 0;  // a partial sum of more keys than a tile has goes through o
  return how;
}

}  // namespace assay
