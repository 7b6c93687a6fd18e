// Which defects of the museum are like a finding: of the same op and stage.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace assay::attribution {

struct Exhibit {
  std::string_view name, op, stages, story;  // stages: separated by commas
};
std::span<const Exhibit> exhibits();
// Those of this stage, those of the op first; at most `most`.
std::vector<const Exhibit*> nearest_exhibits(std::string_view op, std::string_view stage, std::size_t most);

}  // namespace assay::attribution
