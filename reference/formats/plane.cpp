#include "reference/formats/plane.hpp"

#include <bit>
#include <cstring>

namespace assay {
namespace {

constexpr int kTf32Shift = 13;  // 32 - 19 bits

template <typename Word>
Word load_word(const std::byte* at) {
  Word word;
  std::memcpy(&word, at, sizeof word);
  return word;
}
static_assert(std::endian::native == std::endian::little, "planes are little-endian");

// f16 -> f32 without a table (512 KB would evict the cache being streamed). Scaling by 2^112 rebiases normal
// numbers and subnormals alike, exactly; Inf and NaN then get their exponent back.
float f16_value(std::uint16_t code) {
  const std::uint32_t sign = (code & 0x8000U) << 16;
  const std::uint32_t magnitude = (code & 0x7FFFU) << 13;
  const float scaled = std::bit_cast<float>(magnitude) * 0x1p112F;
  const std::uint32_t special = magnitude >= 0x0F800000U ? 0x7F800000U : 0U;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(scaled) | special | sign);
}

template <typename Real>
void decode_as(const ScalarFormat& format, const std::byte* bytes, std::int64_t first, std::span<Real> out) {
  const auto count = static_cast<std::int64_t>(out.size());
  const auto table = [&] {
    if constexpr (sizeof(Real) == sizeof(float))
      return decode_table_f32(format).data();
    else
      return decode_table(format).data();
  };
  if (format.storage_bytes == 0) {
    const Real* values = table();
    for (std::int64_t i = 0; i < count; ++i) {
      const auto pair = static_cast<unsigned>(bytes[(first + i) / 2]);
      out[i] = values[((first + i) % 2 == 0 ? pair : pair >> 4) & 0xFU];
    }
  } else if (format.storage_bytes == 1) {
    const Real* values = table();
    const unsigned mask = (1U << format.bits) - 1U;
    for (std::int64_t i = 0; i < count; ++i) out[i] = values[static_cast<unsigned>(bytes[first + i]) & mask];
  } else if (format.storage_bytes == 2) {
    const std::byte* at = bytes + 2 * first;
    if (format.exponent_bits == 8) {
      for (std::int64_t i = 0; i < count; ++i) {
        out[i] = std::bit_cast<float>(std::uint32_t{load_word<std::uint16_t>(at + 2 * i)} << 16);
      }
    } else {
      for (std::int64_t i = 0; i < count; ++i) out[i] = f16_value(load_word<std::uint16_t>(at + 2 * i));
    }
  } else {
    const std::byte* at = bytes + 4 * first;
    if (format.kind == ScalarKind::integer) {
      for (std::int64_t i = 0; i < count; ++i)
        out[i] = static_cast<Real>(load_word<std::int32_t>(at + 4 * i));
    } else {
      const std::uint32_t mask = format.bits == 32 ? 0xFFFFFFFFU : 0xFFFFFFFFU << kTf32Shift;
      for (std::int64_t i = 0; i < count; ++i) {
        out[i] = std::bit_cast<float>(load_word<std::uint32_t>(at + 4 * i) & mask);
      }
    }
  }
}

}  // namespace

std::size_t plane_bytes(const ScalarFormat& format, std::int64_t count) noexcept {
  const auto n = static_cast<std::size_t>(count);
  return format.storage_bytes == 0 ? (n + 1) / 2 : n * static_cast<std::size_t>(format.storage_bytes);
}

std::uint32_t load_code(const ScalarFormat& format, std::span<const std::byte> bytes,
                        std::int64_t index) noexcept {
  switch (format.storage_bytes) {
    case 0:
      return (static_cast<unsigned>(bytes[index / 2]) >> (index % 2 == 0 ? 0 : 4)) & 0xFU;
    case 1:
      return static_cast<std::uint32_t>(bytes[index]);
    case 2:
      return load_word<std::uint16_t>(bytes.data() + 2 * index);
    default:
      break;
  }
  const auto word = load_word<std::uint32_t>(bytes.data() + 4 * index);
  return format.bits == 32 ? word : word >> kTf32Shift;
}

void store_code(const ScalarFormat& format, std::span<std::byte> bytes, std::int64_t index,
                std::uint32_t code) noexcept {
  if (format.storage_bytes == 0) {
    const unsigned shift = index % 2 == 0 ? 0 : 4;
    const unsigned other = static_cast<unsigned>(bytes[index / 2]) & (0xF0U >> shift);
    bytes[index / 2] = static_cast<std::byte>(other | ((code & 0xFU) << shift));
    return;
  }
  const std::uint32_t word = format.bits == 19 ? code << kTf32Shift : code;
  const auto width = static_cast<std::size_t>(format.storage_bytes);
  std::memcpy(bytes.data() + static_cast<std::size_t>(index) * width, &word,
              width);  // little-endian: low bytes first
}

void decode_plane(const ScalarFormat& format, std::span<const std::byte> bytes, std::int64_t first,
                  std::span<double> out) {
  decode_as(format, bytes.data(), first, out);
}
void decode_plane(const ScalarFormat& format, std::span<const std::byte> bytes, std::int64_t first,
                  std::span<float> out) {
  decode_as(format, bytes.data(), first, out);
}

}  // namespace assay
