#include "reference/arithmetic/gamma.hpp"

#include <limits>

namespace assay {

double gamma_n(double k, double u) {
  const double ku = k * u;
  return ku < 1 ? ku / (1 - ku) : std::numeric_limits<double>::infinity();
}

}  // namespace assay
