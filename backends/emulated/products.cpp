#include "backends/emulated/products.hpp"

#include "backends/plugin/call.hpp"
#include "reference/arithmetic/fused_gemm.hpp"
#include "reference/formats/block.hpp"
#include "reference/formats/plane.hpp"

namespace assay_emulated {

using assay_plugin::Unsupported;

std::string element_of(std::string_view format) {
  const assay::Format& row = assay::format(format);
  return std::string(row.element.empty() ? format : row.element);
}

void check_operands(const assay::MatrixUnit& unit, std::string_view path, std::string_view a,
                    std::string_view b) {
  for (const std::string_view side : {a, b}) {
    std::string operand = path == "codes" ? element_of(side) : std::string(path);
    if (operand == "int4") operand = "int8";  // sign-extended
    if (!assay::accepts(unit, operand))
      throw Unsupported(std::string(unit.name) + " takes " + std::string(unit.inputs) + ", not " + operand +
                        " (path=" + std::string(path) + ", " + std::string(side) + ")");
  }
}

int epilogue_roundings(const assay::MatrixUnit& unit, std::string_view a, std::string_view b) {
  return (unit.out == "i32" ? 3 : 2) + (a == "int4_ch_tensor") + (b == "int4_ch_tensor");
}

Operand Operand::taken(std::span<const std::int64_t> which) const {
  Operand some;
  some.element = element, some.k = k, some.rows = static_cast<std::int64_t>(which.size());
  for (const std::int64_t r : which) {
    some.values.insert(some.values.end(), values.begin() + r * k, values.begin() + (r + 1) * k);
    some.scales.push_back(scales[static_cast<std::size_t>(r)]);
  }
  return some;
}

Operand operand_of(const assay::Encoded& tensor, const std::string& path, assay::Side side) {
  const assay::Operands operands(tensor, path, side, 1,
                                 {.scale = "divide", .code = "divide", .ties = "even"});
  Operand made;
  made.rows = operands.rows(), made.k = operands.length(), made.element = operands.element();
  for (std::int64_t r = 0; r < made.rows; ++r) {
    const assay::OperandRow row = operands.row(r);
    for (const double x : row.center) made.values.push_back(static_cast<float>(x));
    for (const assay::Undecided& each : row.undecided)
      made.values[static_cast<std::size_t>(r * made.k) + each.index] = static_cast<float>(each.low);
    made.scales.push_back(static_cast<float>(row.scale));
  }
  if (path != "blocks") return made;
  // The unit takes elements and scales apart.
  assay::decode_plane(assay::scalar_format(made.element), tensor.planes[0].bytes, 0,
                      std::span<float>(made.values));
  const assay::Plane& plane =
      assay::plane_of(tensor, operands.block_scales() == "ue4m3" ? ".block_scale" : ".scale");
  made.block_scales.resize(plane.bytes.size());
  assay::decode_plane(assay::scalar_format(plane.spec.format), plane.bytes, 0,
                      std::span<float>(made.block_scales));
  return made;
}

std::vector<float> unit_sums(const assay::MatrixUnit& unit, int promote, const Operand& a, const Operand& b) {
  if (unit.out == "i32") {
    std::vector<std::int8_t> left(a.values.begin(), a.values.end()), right(b.values.begin(), b.values.end());
    std::vector<std::int32_t> sums(static_cast<std::size_t>(a.rows * b.rows));
    assay::int8_gemm(a.rows, b.rows, a.k, left.data(), right.data(), sums.data(), b.rows);
    return {sums.begin(), sums.end()};
  }
  using assay::PackedOperand;
  const PackedOperand left(unit, PackedOperand::Side::a, a.element, a.values.data(), a.rows, a.k, a.k,
                           a.block_scales);
  const PackedOperand right(unit, PackedOperand::Side::b, b.element, b.values.data(), b.rows, b.k, b.k,
                            b.block_scales);
  std::vector<float> sums(static_cast<std::size_t>(a.rows * b.rows));
  assay::fused_gemm(unit, left, right, sums.data(), b.rows, {promote});
  return sums;
}

void apply_scales(std::vector<float>& sums, const Operand& a, const Operand& b) {
  for (std::int64_t i = 0; i < a.rows; ++i)
    for (std::int64_t j = 0; j < b.rows; ++j) {
      float& out = sums[static_cast<std::size_t>(i * b.rows + j)];
      out = out * a.scales[static_cast<std::size_t>(i)] * b.scales[static_cast<std::size_t>(j)];
    }
}

}  // namespace assay_emulated
