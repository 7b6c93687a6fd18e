// Arithmetic of a small world: the numbers that a kernel may hold after a step, as a set. A set is what every
// choice that a contract leaves open adds to: exact, exhaustive, and small where the format is.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "reference/arithmetic/rounding.hpp"

namespace assay::worlds {

using Set = std::vector<double>;  // in order, each number once (-0 is 0), one NaN at the end

Set set_of(std::vector<double> numbers);
void join(Set& into, const Set& more);

// The type of every intermediate result ("acc"), and whether "subnormal inputs and results may become zero"
// (ftz).
struct Arithmetic {
  Precision precision;
  bool flush = false;
  double largest = 0;            // beyond it a format without infinities says nothing: see `silent`
  bool half_is_nearest = false;  // "0.5: rounded to nearest": of a function that errs by half an ulp at most
  bool silent = false;           // such a format: a world whose members reach beyond `largest` is left out
};
// f16, bf16, f32 or a toy: e2m1, e3m2, e2m3, e4m3fn, e5m2.
Arithmetic arithmetic(std::string_view format, bool flush);

// Every number of the format, the finite ones alone, in order.
std::vector<double> numbers(std::string_view format);

bool is_subnormal(const Arithmetic& a, double x);
double ulp(const Arithmetic& a, double x);  // of the real number x

// What one operation may leave: its result rounded to nearest, or zero where that is subnormal and may become
// zero.
Set results(const Arithmetic& a, double rounded);
Set used(const Arithmetic& a,
         double x);  // an input: itself, or zero where it is subnormal and may become zero
Set rounded(const Arithmetic& a, double exact);
Set added(const Arithmetic& a, double x, double y);
Set multiplied(const Arithmetic& a, double x, double y);
Set fused(const Arithmetic& a, double x, double y, double z);  // x y + z, rounded once

// For every pair, for every number.
Set each(const Set& x, const std::function<Set(double)>& f);
Set each(const Set& x, const Set& y, const std::function<Set(double, double)>& f);
Set added(const Arithmetic& a, const Set& x, const Set& y);
Set multiplied(const Arithmetic& a, const Set& x, const Set& y);

// The least, the middle and the largest of a set that is larger than `most`: results of steps that are
// monotone.
Set thinned(const Set& x, std::size_t most);

// Whether a set holds what a format without infinities cannot say.
bool overflows(const Arithmetic& a, const Set& x);

}  // namespace assay::worlds
