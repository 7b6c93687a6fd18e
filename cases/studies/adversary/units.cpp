#include "cases/studies/adversary/units.hpp"

#include <stdexcept>
#include <vector>

#include "reference/error.hpp"

namespace assay::adversary {

const MatrixUnit& unit_of(std::string_view architecture, std::string_view a_format, std::string_view b_format,
                          std::int64_t pick, std::string_view scales) {
  for (const std::string& prefix : {std::string(architecture) + "_", std::string("hopper_"), std::string()}) {
    std::vector<const MatrixUnit*> fitting;
    for (const MatrixUnit& unit : matrix_units())
      if (unit.name.starts_with(prefix) && unit.scales == scales && unit.combine != Combine::wrap &&
          accepts(unit, a_format) && accepts(unit, b_format))
        fitting.push_back(&unit);
    if (!fitting.empty()) return *fitting[static_cast<std::size_t>(pick) % fitting.size()];
  }
  throw InputError(InputErrorKind::bad_value,
                   "no matrix unit takes " + std::string(a_format) + " by " + std::string(b_format));
}

double unit_dot(const MatrixUnit& unit, std::span<const double> x, std::string_view x_format,
                std::span<const double> y, std::string_view y_format, double c) {
  const std::vector<float> a(x.begin(), x.end()), b(y.begin(), y.end());  // numbers of the formats: exact
  return fused_dot(unit, {a, x_format}, {b, y_format}, c);
}

}  // namespace assay::adversary
