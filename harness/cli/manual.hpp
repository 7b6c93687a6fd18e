// The manual's page of an op, a format or a matrix unit, made of its row alone.
#pragma once

#include <string>

#include "reference/arithmetic/matrix_unit.hpp"
#include "reference/ops/op.hpp"

namespace assay {

// Formula, tensors, attributes, contract and an example that runs; as plain text, or as a section of
// Markdown.
std::string manual_page(const Op& op, bool markdown);
// Planes, bytes, order of codes, quantiser.
std::string manual_page(const Format& format, bool markdown);
// How it forms a block, and blocks a sum.
std::string manual_page(const MatrixUnit& unit, bool markdown);
// The keys of every kind of schedule.
std::string schedule_page(bool markdown);

}  // namespace assay
