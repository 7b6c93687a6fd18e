#include "cases/studies/silicon/fit.hpp"

#include <fmt/format.h>

#include <cmath>

namespace assay::silicon {
namespace {

// Ways in which mma.sync FP8 with an f16 accumulator could be made of HMMA: two halves of 16 products each,
// which of them, in which precision, and where c enters.
struct SplitHypothesis {
  std::string what;
  bool pairs;        // halves: k mod 4 in {0,1} and {2,3}; else k < 16 and k >= 16
  const char* unit;  // of each half: hopper_f16 | hopper_f16_f16out
  bool early_c;      // the chain starts from c; else c is added after it, to nearest f16
};

double split_result(const SplitHypothesis& h, const Operand& a, const Operand& b, double c) {
  const MatrixUnit& unit = matrix_unit(h.unit);
  for (std::size_t block = 0; block < a.values.size(); block += 32) {
    double sum = h.early_c ? c : 0;
    for (const std::size_t half : {0U, 1U}) {
      std::vector<float> x, y;
      for (std::size_t k = 0; k < 32; ++k) {
        if ((h.pairs ? k % 4 / 2 : k / 16) != half) continue;
        x.push_back(a.values[block + k]);
        y.push_back(b.values[block + k]);
      }
      sum = fused_dot(unit, {x, ""}, {y, ""}, sum);
    }
    c = h.early_c ? sum : round_sum(sum, c, kPrecisionF16);
    c = round_to_precision(c, kPrecisionF16);  // an f32 chain that started from c
  }
  return c;
}

std::vector<Neighbour> candidates(const Instruction& how) {
  std::vector<Neighbour> all;
  if (const MatrixUnit* unit = find_matrix_unit(how.unit)) {
    all.push_back({std::string(how.unit), [unit](const Operand& a, const Operand& b, double c) {
                     return fused_dot(*unit, a, b, c);
                   }});
    for (Neighbour& n : neighbours(*unit)) all.push_back(std::move(n));
    for (int least = unit->least_exponent - 8; least <= unit->least_exponent + 8; ++least) {
      MatrixUnit other = *unit;
      other.least_exponent = least;
      all.push_back(
          {fmt::format("least exponent {}", least),
           [other](const Operand& a, const Operand& b, double c) { return fused_dot(other, a, b, c); }});
    }
  }
  if (how.out == "f16" && how.depth == 32 && how.name.starts_with("mma_")) {
    for (const bool pairs : {true, false}) {
      for (const char* unit : {"hopper_f16", "hopper_f16_f16out"}) {
        for (const bool early : {true, false}) {
          const SplitHypothesis h{
              std::string(pairs ? "pairs, " : "halves, ") + unit + (early ? ", c early" : ", c late"), pairs,
              unit, early};
          all.push_back({h.what, [h](const Operand& a, const Operand& b, double c) {
                           return split_result(h, a, b, c);
                         }});
        }
      }
    }
  }
  return all;
}

}  // namespace

std::vector<Fit> fit(const Instruction& how, std::uint64_t seed, std::uint64_t outputs, const Runner& run) {
  const std::vector<Neighbour> models = candidates(how);
  std::vector<Fit> fits;
  for (const Neighbour& model : models) fits.push_back({model.what});
  constexpr int kLargestSteps = 4;
  constexpr std::size_t kStride = 37;  // prime to 64: all rows and columns come up
  std::uint64_t done = 0;
  for (std::uint64_t index = 0; done < outputs; ++index) {
    Batch batch = draw_batch(how, seed, index, kLargestSteps);
    run(batch);
    for (std::size_t i = 0; i < batch.outputs() && done < outputs; i += kStride, ++done) {
      const auto tile = static_cast<int>(i / (kTileSide * kTileSide));
      const Element e = element_of(batch, tile, static_cast<int>(i / kTileSide % kTileSide),
                                   static_cast<int>(i % kTileSide));
      const std::size_t at = i * static_cast<std::size_t>(how.accumulator_bytes());
      const float got = accumulator_number(how, load_accumulator(how, batch.d.data() + at));
      for (std::size_t m = 0; m < models.size(); ++m) {
        const double x =
            models[m].compute({e.a, how.a_format}, {e.b, how.b_format}, static_cast<double>(e.c));
        ++fits[m].outputs;
        fits[m].mismatches += same_number(got, static_cast<float>(x)) ? 0 : 1;
      }
    }
  }
  return fits;
}

}  // namespace assay::silicon
