// What tests of a device's arithmetic share: the device, and one function of the shader `probe` over an
// array.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "backends/vulkan/device.hpp"

namespace assay_vulkan {

inline Device* device(std::string& why) {
  static std::string reason;
  static const std::unique_ptr<Device> made = [] {
    try {
      return std::make_unique<Device>("");
    } catch (const std::exception& error) {
      reason = error.what();
      return std::unique_ptr<Device>();
    }
  }();
  why = reason;
  return made.get();
}

using Bits = std::vector<std::uint32_t>;

inline Bits probe(Device& on, std::uint32_t which, const Bits& a, const Bits& b) {
  const std::uint64_t bytes = (a.size() * 4 + 7) / 8 * 8;  // parameters lie behind: 8 bytes of alignment
  Dispatch dispatch{"probe", "probe", {which}, 64, {}};
  std::byte* memory = on.reserve(256 + 3 * bytes + sizeof(Params));
  std::memcpy(memory + 256, a.data(), a.size() * 4);
  std::memcpy(memory + 256 + bytes, b.data(), b.size() * 4);
  for (std::uint64_t i = 0; i < 3; ++i) dispatch.params.scratch[i] = on.address() + 256 + i * bytes;
  dispatch.params.integer[0] = static_cast<std::int64_t>(a.size());
  on.run({dispatch}, 256 + 3 * bytes);
  Bits result(a.size());
  std::memcpy(result.data(), memory + 256 + 2 * bytes, result.size() * 4);
  return result;
}

// Every `stride`-th float from first to last, by its bits.
inline Bits floats(float first, float last, std::uint32_t stride) {
  Bits bits;
  const std::uint32_t low = std::min(std::bit_cast<std::uint32_t>(first), std::bit_cast<std::uint32_t>(last));
  const std::uint32_t high =
      std::max(std::bit_cast<std::uint32_t>(first), std::bit_cast<std::uint32_t>(last));
  for (std::uint64_t x = low; x <= high; x += stride) bits.push_back(static_cast<std::uint32_t>(x));
  return bits;
}
// Codes of every kind: a quarter each of any bits, numbers about 1, tiny ones, and special ones.
inline Bits mixed(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  constexpr std::uint32_t kSpecial[] = {0,           0x80000000U, 1,           0x807FFFFFU, 0x00800000U,
                                        0x7F7FFFFFU, 0x7F800000U, 0xFF800000U, 0x7FC00000U, 0x3F800000U};
  Bits bits(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t any = static_cast<std::uint32_t>(random());
    bits[i] = i % 4 == 0   ? any
              : i % 4 == 1 ? (any & 0x807FFFFFU) | (0x3C000000U + (any & 0x07800000U))
              : i % 4 == 2 ? any & 0x81FFFFFFU
                           : kSpecial[any % 10];
  }
  return bits;
}

inline float value(std::uint32_t bits) { return std::bit_cast<float>(bits); }

// Pairs of which the device makes something else; the first is named, and how many have a subnormal number
// among them.
struct Different {
  std::size_t all = 0, subnormal = 0;
  std::string first;
};
inline Different different(Device& on, std::uint32_t which, const std::function<float(float, float)>& exact) {
  const Bits a = mixed(200000, 1);
  const Bits b = mixed(200000, 2);
  Bits shifted(b.size());  // so that every kind meets every kind
  for (std::size_t i = 0; i < b.size(); ++i) shifted[i] = b[(i + i / 4) % b.size()];
  const Bits got = probe(on, which, a, shifted);
  Different d;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const float x = value(a[i]), y = value(shifted[i]), wanted = exact(x, y);
    if (std::isnan(wanted) ? std::isnan(value(got[i])) : got[i] == std::bit_cast<std::uint32_t>(wanted))
      continue;
    if (d.all++ == 0) {
      std::ostringstream text;
      text << std::hexfloat << x << " and " << y << ": " << value(got[i]) << ", wanted " << wanted;
      d.first = text.str();
    }
    d.subnormal += std::fpclassify(x) == FP_SUBNORMAL || std::fpclassify(y) == FP_SUBNORMAL ||
                           std::fpclassify(wanted) == FP_SUBNORMAL
                       ? 1U
                       : 0U;
  }
  return d;
}

}  // namespace assay_vulkan
