// For tests: the CSV files of reference/golden/formats (ASSAY_GOLDEN_FORMATS is that directory).
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace assay {

using GoldenRow = std::vector<std::string>;

// All rows below the header. Throws when the file is missing or empty: no vectors is not a pass.
inline std::vector<GoldenRow> golden_rows(const std::string& file) {
  std::ifstream in(std::string(ASSAY_GOLDEN_FORMATS) + "/" + file);
  std::vector<GoldenRow> rows;
  std::string line;
  std::getline(in, line);
  while (std::getline(in, line)) {
    GoldenRow row;
    std::size_t start = 0;
    for (std::size_t comma = line.find(','); comma != std::string::npos; comma = line.find(',', start)) {
      row.push_back(line.substr(start, comma - start));
      start = comma + 1;
    }
    row.push_back(line.substr(start));
    rows.push_back(row);
  }
  if (rows.empty()) throw std::runtime_error(file + " has no vectors");
  return rows;
}

inline std::uint32_t from_hex(const std::string& text) {
  return static_cast<std::uint32_t>(std::stoul(text, nullptr, 16));
}

inline std::vector<float> f32_from_hex(const std::string& text) {
  std::vector<float> values;
  for (std::size_t i = 0; i + 8 <= text.size(); i += 8)
    values.push_back(std::bit_cast<float>(from_hex(text.substr(i, 8))));
  return values;
}

inline std::vector<std::byte> bytes_from_hex(const std::string& text) {
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i + 2 <= text.size(); i += 2)
    bytes.push_back(static_cast<std::byte>(from_hex(text.substr(i, 2))));
  return bytes;
}

template <typename Bytes>
std::string to_hex(const Bytes& bytes) {
  std::string text;
  for (const std::byte b : bytes) {
    text += "0123456789abcdef"[static_cast<unsigned>(b) >> 4];
    text += "0123456789abcdef"[static_cast<unsigned>(b) & 15U];
  }
  return text;
}

}  // namespace assay
