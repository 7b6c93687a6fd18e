// Looking fills and faults up by name in the lists that a program knows.
#pragma once

#include <string_view>

#include "reference/inputs/lists.hpp"

namespace assay {

// A fill of this name for this op: the op's own before a general one. Throws InputError unknown_name with
// those allowed.
const Fill& find_fill(const InputLists& lists, std::string_view name, std::string_view op);
// nullptr for "none". Throws InputError unknown_name with those that the op can have.
const Fault* find_fault(const InputLists& lists, std::string_view name, std::string_view op);
bool applies(const Fault& fault, std::string_view op);

}  // namespace assay
