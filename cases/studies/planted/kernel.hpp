// Plain kernels of every op, with or without a defect. They know the formula and no limit. A sum is formed in
// f64 and rounded to f32 once, which is one of the numbers that "any order" allows; a defect sits in one head
// (attention), token (moe), row or group.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cases/studies/planted/defect.hpp"
#include "harness/case.hpp"
#include "harness/inputs.hpp"

namespace assay::planted {

// A case, the contract that its kernel keeps, its inputs, and the seed of the places where defects go.
struct Call {
  Case c;
  std::string contract;
  Inputs inputs;

  std::vector<double> values(const std::string& tensor) const;  // decoded
  std::int64_t size(std::string_view attribute) const { return c.attributes.integer(attribute); }
  const std::string& text(std::string_view attribute) const { return c.attributes.text(attribute); }
};

inline std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

class Kernel {
 public:
  virtual ~Kernel() = default;
  std::vector<double> run(const Plant& plant) {
    std::vector<double> y = honest_;
    if (plant.kind != Kind::none) spoil(plant, y);
    return y;
  }

 protected:
  virtual void spoil(const Plant& plant, std::vector<double>& y) = 0;  // y as it is without the defect
  std::vector<double> honest_;                                         // made when the kernel is
};
// Throws InputError for an op, or a path of one, without a kernel.
std::unique_ptr<Kernel> make_kernel(const Call& call);

std::unique_ptr<Kernel> make_attention(const Call& call);
std::unique_ptr<Kernel> make_matmul(const Call& call);
std::unique_ptr<Kernel> make_moe(const Call& call);
std::unique_ptr<Kernel> make_rows(const Call& call);
std::unique_ptr<Kernel> make_quantiser(const Call& call);
std::unique_ptr<Kernel> make_decoder(const Call& call);

// Where the defect of a call goes: draw 0, 1, ... below n.
std::int64_t place(const Call& call, std::uint64_t draw, std::int64_t n);
// The terms of a sum of n that a plant drops, as a mask: 0 where dropped.
std::vector<char> kept(const Call& call, const Plant& plant, std::int64_t n);

std::string value_of(const std::string& contract, const std::string& key, const std::string& fallback);
double rounded(std::string_view format, double x);  // f32, f16, bf16, or a scalar format: to nearest even
double cut(double x, int bits);                     // toward zero, to so many significant bits
// A sum: exact and rounded once, or in `bits` bits. term(i) is 0 where dropped.
template <typename Term>
double sum(std::int64_t n, const Plant& plant, Term term) {
  double s = 0;
  for (std::int64_t i = 0; i < n; ++i)
    s = plant.kind == Kind::bits ? cut(s + term(i), static_cast<int>(plant.size)) : s + term(i);
  return s;
}

}  // namespace assay::planted
