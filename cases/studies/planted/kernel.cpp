#include "cases/studies/planted/kernel.hpp"

#include <bit>

#include "reference/arithmetic/rounding.hpp"
#include "reference/error.hpp"
#include "reference/inputs/random.hpp"

namespace assay::planted {

std::vector<double> Call::values(const std::string& tensor) const {
  return decode_tensor(inputs.set.at(tensor));
}

std::unique_ptr<Kernel> make_kernel(const Call& call) {
  const std::string_view op = call.c.op->name;
  if (op == "attention") return make_attention(call);
  if (op == "matmul") return make_matmul(call);
  if (op == "moe") return make_moe(call);
  if (op == "quantize") return make_quantiser(call);
  if (op == "dequantize") return make_decoder(call);
  return make_rows(call);
}

std::int64_t place(const Call& call, std::uint64_t draw, std::int64_t n) {
  return static_cast<std::int64_t>(Stream(call.c.seed, "planted").below(draw, static_cast<std::uint64_t>(n)));
}

std::vector<char> kept(const Call& call, const Plant& plant, std::int64_t n) {
  std::vector<char> mask(static_cast<std::size_t>(n), 1);
  if (plant.kind == Kind::terms)
    for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(plant.size); ++i)
      mask[static_cast<std::size_t>(place(call, 100 + i, n))] = 0;
  if (plant.kind == Kind::block) {
    const auto width = static_cast<std::int64_t>(plant.size);
    const std::int64_t first = place(call, 100, std::max<std::int64_t>(1, n / width)) * width;
    for (std::int64_t i = first; i < std::min(n, first + width); ++i) mask[static_cast<std::size_t>(i)] = 0;
  }
  return mask;
}

std::string value_of(const std::string& contract, const std::string& key, const std::string& fallback) {
  const std::string text = " " + contract + " ", wanted = " " + key + "=";
  const auto at = text.find(wanted);
  if (at == std::string::npos) return fallback;
  const auto first = at + wanted.size();
  return text.substr(first, text.find(' ', first) - first);
}

double rounded(std::string_view to, double x) {
  if (to == "f32") return round_f32(x);
  if (to == "f16") return round_f16(x);
  if (to == "bf16") return round_bf16(x);
  return round_to(scalar_format(to), x, {.overflow = Overflow::saturate});
}

double cut(double x, int bits) {
  return std::bit_cast<double>(std::bit_cast<std::uint64_t>(x) & ~((std::uint64_t{1} << (53 - bits)) - 1));
}

}  // namespace assay::planted
