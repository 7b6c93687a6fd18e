// 64 bits over a text or bytes (FNV-1a: Fowler, Noll, Vo, draft-eastlake-fnv). It finds what was changed by
// accident or by somebody who does not know of it; it is no signature.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace assay {

class Fingerprint {
 public:
  // base: another set of fingerprints for each.
  explicit Fingerprint(std::uint64_t base = 0) : value_(0xcbf29ce484222325U + base) {}
  Fingerprint& add(std::string_view text) {
    for (const char byte : text) value_ = (value_ ^ static_cast<unsigned char>(byte)) * 0x100000001b3U;
    return *this;
  }
  Fingerprint& add(const void* data, std::size_t bytes) {
    return add({static_cast<const char*>(data), bytes});
  }
  std::uint64_t value() const { return value_; }
  // As 16 hexadecimal digits.
  std::string hex() const {
    std::string text(16, '0');
    for (std::size_t i = 0; i < text.size(); ++i) text[i] = "0123456789abcdef"[(value_ >> (60 - 4 * i)) & 15];
    return text;
  }

 private:
  std::uint64_t value_;
};

}  // namespace assay
