// One call as the kernels see it: attributes by name, tensors by name, rows by index. A missing or odd thing
// throws Unsupported, which plugin.cpp turns into ASSAY_UNSUPPORTED with its text: nothing is thrown across
// the C boundary.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

#include "backends/assay_backend.h"

namespace assay_cpu {

struct Unsupported : std::runtime_error {
  using std::runtime_error::runtime_error;
};
struct Failed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Call {
 public:
  explicit Call(const assay_call& call) : call_(call) {}

  std::string_view op() const { return call_.op; }
  std::string_view variant() const { return call_.variant ? call_.variant : ""; }
  std::string_view text(std::string_view attribute) const;
  // "@kv" in an attribute's value means the value of attribute kv; it is followed once.
  std::int64_t integer(std::string_view attribute) const;
  double real(std::string_view attribute) const;
  bool yes(std::string_view attribute) const { return text(attribute) == "yes"; }

  const assay_tensor* find_input(std::string_view name) const;
  const assay_tensor* find_output(std::string_view name) const;
  const assay_tensor& input(std::string_view name) const;
  const assay_tensor& output(std::string_view name) const;

 private:
  const assay_call& call_;
};

// Rows of a tensor: everything but the last axis, flattened in row-major order.
std::int64_t row_count(const assay_tensor& tensor);
inline std::int64_t row_length(const assay_tensor& tensor) {
  return tensor.rank > 0 ? tensor.shape[tensor.rank - 1] : 1;
}
std::int64_t element_count(const assay_tensor& tensor);
// Byte offset of row `row` (its axes' strides honoured).
std::int64_t row_offset(const assay_tensor& tensor, std::int64_t row);
// Byte offset of element `index` counted in row-major order; the tensor's elements are whole bytes.
std::int64_t element_offset(const assay_tensor& tensor, std::int64_t index);

inline const std::byte* row_bytes(const assay_tensor& tensor, std::int64_t row) {
  return static_cast<const std::byte*>(tensor.data) + row_offset(tensor, row);
}
inline std::byte* mutable_row(const assay_tensor& tensor, std::int64_t row) {
  return static_cast<std::byte*>(tensor.data) + row_offset(tensor, row);
}
// Element of an f32, int32 or int8 companion or index tensor.
float f32_at(const assay_tensor& tensor, std::int64_t index);
std::int32_t int32_at(const assay_tensor& tensor, std::int64_t index);
std::int8_t int8_at(const assay_tensor& tensor, std::int64_t index);
void put_f32(const assay_tensor& tensor, std::int64_t index, float value);
void put_int32(const assay_tensor& tensor, std::int64_t index, std::int32_t value);

}  // namespace assay_cpu
