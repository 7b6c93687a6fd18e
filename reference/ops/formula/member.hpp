// A kernel of a contract: the numbers of walk.hpp as machines have them. Plain: every sum in sequence,
// nothing fused that need not be, every function rounded to nearest. Drawn: whatever the contract leaves open
// is drawn, from what its words say and without a look at the bounds: orders and trees of sums, fused or
// rounded products, functions off by whole ulps, quotients by a reciprocal, flushed subnormals, what is read
// stored or computed.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reference/arithmetic/contract.hpp"
#include "reference/arithmetic/order.hpp"
#include "reference/arithmetic/rounding.hpp"
#include "reference/formats/scalar.hpp"
#include "reference/ops/formula/text.hpp"
#include "reference/ops/op.hpp"

namespace assay::formula {

class Member {
 public:
  struct Num {
    double value = 0;     // of the accumulator
    double a = 0, b = 0;  // where it is a product: of these
    bool product = false;
  };
  // seed 0: plain.
  Member(std::span<const KeySpec> keys, const Contract& contract, std::uint64_t seed);

  void begin(const std::string& equation);
  Num number(double v) { return {v}; }
  Num constant(double v);
  Num integer(std::int64_t v) { return {rounded(static_cast<double>(v))}; }
  Num outside();
  Num settle(const Num& x) { return {x.value}; }
  Num add(const Num& a, const Num& b);
  Num sub(const Num& a, const Num& b);
  Num mul(const Num& a, const Num& b);
  Num div(const Num& a, const Num& b);
  bool any_product() const { return any_product_; }
  Num product(std::vector<Num> factors);  // in any order
  Num negated(const Num& a) { return {-a.value, -a.a, a.b, a.product}; }
  Num function(const std::string& name, const Num& x);
  Num sum(const std::vector<Num>& terms);
  Num cast(const std::string& word, const Num& x);
  Num store(const std::string& format, const Num& x, bool output);
  bool reads_stored(const std::string& name);
  static bool less(const Num& a, const Num& b) { return a.value < b.value; }
  static bool ordered(const Num& a, const Num& b) { return a.value == a.value && b.value == b.value; }

 private:
  std::string key(const std::string& what, std::string_view otherwise) const;
  bool coin(std::uint64_t one_in = 2);  // false of a plain one
  std::uint64_t draw(std::uint64_t n);
  double rounded(double exact);  // to the accumulator
  double operand(double x);
  double flushed(double x);
  double added(double x, const Num& term);  // x + term in one rounding, or in two
  double near(long double exact, double ulp);
  bool saturates(const ScalarFormat& f) const;

  std::map<std::string, std::string, std::less<>> contract_;
  std::uint64_t state_;
  bool plain_;
  std::string equation_;
  const ScalarFormat* acc_ = nullptr;
  Precision precision_{};
  Order order_;
  std::string fma_ = "no";
  bool flush_ = false, any_product_ = false;
  int lean_ = 0;  // of functions: 0 drawn, 1 all up, 2 all down, 3 nearest
  std::map<std::string, bool> reads_;
};

// All outputs of a text that the member reads aloud, by name.
std::map<std::string, std::vector<double>> outputs_of(const Text& text, const Attributes& attributes,
                                                      const TensorSet& inputs, Member& member);

}  // namespace assay::formula
