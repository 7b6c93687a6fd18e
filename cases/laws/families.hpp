// The relations that the list in laws.cpp names.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "harness/laws.hpp"

namespace assay::law_families {

// The same case with other attributes: key and value.
Case changed(const Case& c, const std::vector<std::pair<std::string, std::string>>& attributes);

// calls.cpp: any op.
std::vector<std::int64_t> batch_points(const LawCall&);
Relation batch(const LawCall&, std::int64_t point, const InputLists&);
std::vector<std::int64_t> order_points(const LawCall&);
Relation order(const LawCall&, std::int64_t point, const InputLists&);
std::vector<std::int64_t> padding_points(const LawCall&);
Relation padding(const LawCall&, std::int64_t point, const InputLists&);
std::vector<std::int64_t> replay_points(const LawCall&);
Relation replay(const LawCall&, std::int64_t point, const InputLists&);
std::vector<std::int64_t> calls_points(const LawCall&);
Relation calls(const LawCall&, std::int64_t point, const InputLists&);
std::vector<std::int64_t> paths_points(const LawCall&);
Relation paths(const LawCall&, std::int64_t point, const InputLists&);

// attention.cpp
std::vector<std::int64_t> chunk_points(const LawCall&);
Relation chunk(const LawCall&, std::int64_t point, const InputLists&);
std::vector<std::int64_t> heads_points(const LawCall&);
Relation heads(const LawCall&, std::int64_t point, const InputLists&);
std::vector<std::int64_t> pages_points(const LawCall&);
Relation pages(const LawCall&, std::int64_t point, const InputLists&);

}  // namespace assay::law_families
