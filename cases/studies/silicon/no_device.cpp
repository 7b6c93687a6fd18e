// In place of device.cu where no CUDA compiler was found: the program's host side stays whole.
#include <stdexcept>

#include "cases/studies/silicon/device.hpp"

namespace assay::silicon {

struct Device::State {};

std::string Device::why_not() {
  return "built without a CUDA compiler: install the CUDA toolkit and configure again";
}
std::string Device::description() { return why_not(); }
std::string Device::architecture() { return "none"; }
Device::Device() { throw std::runtime_error(why_not()); }
Device::~Device() = default;
void Device::run(const Tiles&) { throw std::runtime_error(why_not()); }
std::vector<UlpRow> Device::ulp_table(Function) { throw std::runtime_error(why_not()); }
std::vector<std::uint32_t> Device::evaluate(Function, const std::vector<std::uint32_t>&) {
  throw std::runtime_error(why_not());
}

}  // namespace assay::silicon
