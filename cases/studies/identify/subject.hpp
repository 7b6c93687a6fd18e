// What `assay identify` asks a kernel, and what it hears: products of one shape, on drawn and on crafted
// inputs.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "reference/replay/replay.hpp"

namespace assay {

// One call: the operands that were multiplied, scales per row of either side (empty: none), and what was
// stored.
struct Answer {
  std::string line;  // the case line that repeats it; of crafted inputs what was asked
  ReplayOperand a, b;
  std::vector<float> a_scale, b_scale;
  std::vector<double> got;  // [m,n]
  double unit = 1;          // a power of two: the first rounding is of multiples of it
};

struct GemmShape {
  std::int64_t m = 1, n = 1, k = 1;
  bool operator==(const GemmShape&) const = default;
};

class GemmSubject {
 public:
  virtual ~GemmSubject() = default;
  // Scalar formats of the operands and of the store: "f32", "f16", "bf16", an 8-bit one, or one rounding
  // after another, "f16>bf16".
  virtual std::string a_element() const = 0;
  virtual std::string b_element() const = 0;
  virtual std::string stored_as() const = 0;
  // How the operands became numbers of those formats, as a pair of a contract ("tf32=toward_zero"), or in
  // words where it is none; "" where nothing was rounded. Known behind the first call.
  virtual std::string operands_rounded() const { return ""; }
  // Drawn inputs. nullopt where the kernel does not take the shape; throws std::runtime_error where it fails.
  virtual std::optional<Answer> drawn(const GemmShape& shape, std::uint64_t seed) = 0;
  // Crafted ones: numbers of the elements' formats, scales 1. nullopt where the format cannot hold them as
  // they are.
  virtual std::optional<Answer> crafted(const GemmShape& shape, std::vector<float> a, std::vector<float> b,
                                        const std::string& what) = 0;
  // Calls of products that cancel: more where one shows little.
  virtual int residues(const GemmShape&) const { return 1; }
  int calls = 0;
  // Of the last call: what the kernel declares, and the kernels that were seen.
  std::string declared_contract, declared_path;
  std::vector<std::string> kernels;
};

}  // namespace assay
