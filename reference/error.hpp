// Every refusal of the reference: a named kind, and a message that says what was got, where, and what is
// allowed.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace assay {

enum class InputErrorKind {
  unknown_name,    // a format, op, unit, attribute or contract key that no list has
  bad_value,       // an attribute or contract value outside its domain
  shape_mismatch,  // tensors that do not fit each other or their bytes
  ragged_block,    // a block that does not divide its row
  bad_contract,    // keys that do not go together, or a contract that does not fit the op or the case
  bad_scale,       // a scale that is negative, NaN or infinite, or a zero that would be a divisor
};

constexpr std::string_view to_string(InputErrorKind kind) {
  switch (kind) {
    case InputErrorKind::unknown_name:
      return "unknown_name";
    case InputErrorKind::bad_value:
      return "bad_value";
    case InputErrorKind::shape_mismatch:
      return "shape_mismatch";
    case InputErrorKind::ragged_block:
      return "ragged_block";
    case InputErrorKind::bad_contract:
      return "bad_contract";
    case InputErrorKind::bad_scale:
      return "bad_scale";
  }
  return "?";
}

class InputError : public std::runtime_error {
 public:
  InputError(InputErrorKind kind, const std::string& message)
      : std::runtime_error(std::string(to_string(kind)) + ": " + message), kind_(kind) {}
  InputErrorKind kind() const noexcept { return kind_; }

 private:
  InputErrorKind kind_;
};

}  // namespace assay
