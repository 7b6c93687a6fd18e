#include "reference/formats/minima.hpp"

#include <algorithm>

namespace assay {
namespace {

// Bytes of a block that hold codes: zeroed, the block decodes to its minima.
struct CodeBytes {
  std::string_view format;
  std::size_t block, first, end;
};
constexpr CodeBytes kCodes[] = {{"q4_0", 18, 2, 18},    {"q5_0", 22, 2, 22},    {"q4_1", 20, 4, 20},
                                {"q5_1", 24, 4, 24},    {"q2_K", 84, 16, 80},   {"q3_K", 110, 0, 96},
                                {"q4_K", 144, 16, 144}, {"q5_K", 176, 16, 176}, {"q6_K", 210, 0, 192}};

}  // namespace

std::vector<double> minima(const Encoded& weights, std::int64_t index) {
  const auto of = std::ranges::find(kCodes, weights.format, &CodeBytes::format);
  if (of == std::end(kCodes)) return {};
  const std::int64_t length = weights.shape.back();
  const std::size_t row = static_cast<std::size_t>(length) /
                          static_cast<std::size_t>(format(weights.format).block_elements) * of->block;
  Encoded one{weights.format, {1, length}, weights.planes};
  const auto from =
      weights.planes[0].bytes.begin() + static_cast<std::ptrdiff_t>(row * static_cast<std::size_t>(index));
  one.planes[0].spec = planes(format(weights.format), one.shape)[0];
  one.planes[0].bytes.assign(from, from + static_cast<std::ptrdiff_t>(row));
  for (std::size_t at = 0; at < row; at += of->block)
    std::fill(one.planes[0].bytes.begin() + static_cast<std::ptrdiff_t>(at + of->first),
              one.planes[0].bytes.begin() + static_cast<std::ptrdiff_t>(at + of->end), std::byte{0});
  return decode_tensor(one);
}

}  // namespace assay
