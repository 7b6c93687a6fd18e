#include "cases/studies/silicon/emulate.hpp"

#include <fmt/format.h>

#include <bit>
#include <cmath>

#include "reference/arithmetic/fused_gemm.hpp"

namespace assay::silicon {
namespace {

// Values of `count` codes that stand side by side in memory.
void decode_codes(const Instruction& how, std::string_view format, const unsigned char* codes,
                  std::size_t count, float* values) {
  const ScalarFormat& f = scalar_format(format);
  const auto bytes = static_cast<std::size_t>(how.element_bytes());
  if (bytes == 4) {
    for (std::size_t i = 0; i < count; ++i) {
      values[i] = static_cast<float>(decode(f, load_code(how, codes + i * bytes)));
    }
    return;
  }
  const std::span<const float> table = decode_table_f32(f);
  for (std::size_t i = 0; i < count; ++i) values[i] = table[load_code(how, codes + i * bytes)];
}

std::size_t output_index(int tile, int row, int col) {
  return (static_cast<std::size_t>(tile) * kTileSide + static_cast<std::size_t>(row)) * kTileSide +
         static_cast<std::size_t>(col);
}

}  // namespace

Element element_of(const Batch& batch, int tile, int row, int col) {
  const Instruction& how = *batch.how;
  const auto depth = static_cast<std::size_t>(batch.depth());
  Element e{std::vector<float>(depth), std::vector<float>(depth), 0};
  decode_codes(how, how.a_format, batch.row(batch.a, tile, row), depth, e.a.data());
  decode_codes(how, how.b_format, batch.row(batch.b, tile, col), depth, e.b.data());
  const std::size_t at = output_index(tile, row, col) * static_cast<std::size_t>(how.accumulator_bytes());
  e.c = accumulator_number(how, load_accumulator(how, batch.c.data() + at));
  return e;
}

std::vector<float> emulate(const Batch& batch, const MatrixUnit& unit) {
  const Instruction& how = *batch.how;
  const std::int64_t depth = batch.depth();
  const auto operand = static_cast<std::size_t>(kTileSide * depth);
  constexpr std::size_t kOutputs = std::size_t{kTileSide} * kTileSide;
  std::vector<float> a(operand), b(operand), d(batch.outputs());
  const auto bytes = static_cast<std::size_t>(how.accumulator_bytes());
  for (std::size_t i = 0; i < d.size(); ++i) {
    d[i] = accumulator_number(how, load_accumulator(how, batch.c.data() + i * bytes));
  }
  for (int tile = 0; tile < batch.tiles; ++tile) {
    decode_codes(how, how.a_format, batch.row(batch.a, tile, 0), operand, a.data());
    decode_codes(how, how.b_format, batch.row(batch.b, tile, 0), operand, b.data());
    fused_gemm(unit, kTileSide, kTileSide, depth, a.data(), how.a_format, b.data(), how.b_format,
               d.data() + static_cast<std::size_t>(tile) * kOutputs, kTileSide);
  }
  return d;
}

std::uint32_t accumulator_code(const Instruction& how, float x) {
  if (how.out == "f32") return std::bit_cast<std::uint32_t>(x);
  return encode(scalar_format("f16"), static_cast<double>(x), {.overflow = Overflow::ieee});
}

void run_on_model(Batch& batch, const MatrixUnit& unit) {
  const std::vector<float> d = emulate(batch, unit);
  const auto bytes = static_cast<std::size_t>(batch.how->accumulator_bytes());
  for (std::size_t i = 0; i < d.size(); ++i) {
    store_accumulator(*batch.how, accumulator_code(*batch.how, d[i]), batch.d.data() + i * bytes);
  }
}

std::string hex_codes(const Instruction& how, const unsigned char* row, int depth) {
  std::string text;
  const int digits = how.element_bytes() == 4 ? 5 : 2 * how.element_bytes();  // a tf32 has 19 bits
  for (int k = 0; k < depth; ++k) {
    text +=
        fmt::format("{}{:0{}x}", k == 0 ? "" : " ", load_code(how, row + k * how.element_bytes()), digits);
  }
  return text;
}

}  // namespace assay::silicon
