// Bytes of a plane of a scalar format: little-endian codes one after another, 4-bit codes two to a byte (low
// nibble first), tf32 as the f32 with the same value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "reference/formats/scalar.hpp"

namespace assay {

// Bytes that `count` elements take.
std::size_t plane_bytes(const ScalarFormat& format, std::int64_t count) noexcept;

// One element. `bytes` is the whole plane.
std::uint32_t load_code(const ScalarFormat& format, std::span<const std::byte> bytes,
                        std::int64_t index) noexcept;
void store_code(const ScalarFormat& format, std::span<std::byte> bytes, std::int64_t index,
                std::uint32_t code) noexcept;

// out[i] = value of element first + i: exact as double, nearest as float. Table or bit pattern, no call per
// element.
void decode_plane(const ScalarFormat& format, std::span<const std::byte> bytes, std::int64_t first,
                  std::span<double> out);
void decode_plane(const ScalarFormat& format, std::span<const std::byte> bytes, std::int64_t first,
                  std::span<float> out);

}  // namespace assay
