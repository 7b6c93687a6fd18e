#include "cases/fills/draws.hpp"

// A clone for each width of vector, chosen when the program is loaded. Sanitizers start after that choice,
// and clang words it otherwise: there the plain form does.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define ASSAY_CLONES [[gnu::target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")]]
#else
#define ASSAY_CLONES
#endif

namespace assay {
namespace {

// std::popcount in shifts and adds, which every vector unit has (Hacker's Delight, section 5-1).
constexpr std::int64_t ones(std::uint64_t x) {
  x -= (x >> 1) & 0x5555555555555555u;
  x = (x & 0x3333333333333333u) + ((x >> 2) & 0x3333333333333333u);
  x = (x + (x >> 4)) & 0x0F0F0F0F0F0F0F0Fu;
  x += x >> 8, x += x >> 16, x += x >> 32;
  return static_cast<std::int64_t>(x & 0x7F);
}

}  // namespace

// Stream::gaussian with its products and sums in the same order. Contraction could change nothing: the only
// product that a sum follows is by a power of two.
ASSAY_CLONES void draw_gaussian(const Stream& stream, std::uint64_t first, std::span<float> out) {
  const Stream s = stream;
  float* to = out.data();
  const std::uint64_t n = out.size();
  for (std::uint64_t i = 0; i < n; ++i) {
    const double smooth =
        static_cast<double>(static_cast<std::int64_t>(s.bits(2 * (first + i) + 1) >> 11)) * 0x1p-53 - 0.5;
    to[i] = static_cast<float>((static_cast<double>(ones(s.bits(2 * (first + i))) - 32) + smooth) *
                               0.24935149047701483);
  }
}

}  // namespace assay
