#include "reference/formats/factors.hpp"

#include <algorithm>
#include <vector>

#include "reference/formats/block.hpp"
#include "reference/formats/plane.hpp"
#include "reference/formats/scaled.hpp"

namespace assay {

void factors(const Encoded& tensor, std::int64_t first, std::span<Factors> out) {
  const Format& f = check_range(tensor, first, static_cast<std::int64_t>(out.size()));
  std::ranges::fill(out, Factors{});
  if (f.kind == FormatKind::block && f.block->factors != nullptr) return f.block->factors(tensor, first, out);
  std::vector<double> numbers(out.size());
  if (f.kind == FormatKind::scaled)
    decode_plane(scalar_format(f.element), tensor.planes[0].bytes, first, std::span<double>(numbers));
  else
    decode_range(tensor, first, std::span<double>(numbers));
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i].code = numbers[i];
    if (f.kind == FormatKind::scaled)
      out[i].scale = stored_scale(tensor, f, first + static_cast<std::int64_t>(i));
  }
}

}  // namespace assay
