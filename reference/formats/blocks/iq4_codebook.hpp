// The 16 entries that codes of iq4_nl and iq4_xs stand for.
#pragma once

#include <array>

namespace assay::blocks {

inline constexpr std::array<float, 16> kIq4Codebook = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                       1,    13,   25,  38,  53,  69,  89,  113};

}  // namespace assay::blocks
