// The container of a case's data: 8 bytes of length, a header in JSON, the tensors one behind the other.
// https://huggingface.co/docs/safetensors
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace assay {

// A tensor as the header names it; its bytes belong to whoever holds the file.
struct StoredTensor {
  std::string type;                 // "F32", "BF16", "F8_E4M3", "U8", ...
  std::vector<std::int64_t> shape;  // as Shape of reference/formats
  std::string_view bytes;
};

struct Safetensors {
  std::map<std::string, std::string> metadata;
  std::map<std::string, StoredTensor> tensors;
};

// Strict: each name once, and no byte that belongs to no tensor or to two. Throws InputError that begins with
// `where`.
Safetensors parse_safetensors(std::string_view bytes, const std::string& where);

// The tensors in the order given.
std::string print_safetensors(const std::vector<std::pair<std::string, std::string>>& metadata,
                              const std::vector<std::pair<std::string, StoredTensor>>& tensors);

}  // namespace assay
