// What C++ plug-ins share: one call read by names, refusals as exceptions, and the turn of exceptions into
// statuses at the C boundary, which none may cross.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>

#include "backends/assay_backend.h"

namespace assay_plugin {

// This call cannot be done here: ASSAY_UNSUPPORTED with the text.
struct Unsupported : std::runtime_error {
  using std::runtime_error::runtime_error;
};
// It should have worked: ASSAY_FAILED with the text.
struct Failed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Attributes and tensors by name. A missing or odd thing throws Unsupported.
class Call {
 public:
  explicit Call(const assay_call& call) : call_(call) {}

  std::string_view op() const { return call_.op; }
  std::string_view variant() const { return call_.variant ? call_.variant : ""; }
  // "@kv" as the value of an attribute means the value of attribute kv; it is followed.
  std::string_view text(std::string_view attribute) const;
  std::int64_t integer(std::string_view attribute) const;
  double real(std::string_view attribute) const;
  bool yes(std::string_view attribute) const { return text(attribute) == "yes"; }
  // Refuses unless the attribute has one of the blank-separated values.
  void only(std::string_view attribute, std::string_view allowed) const;

  const assay_tensor* find_input(std::string_view name) const;
  const assay_tensor* find_output(std::string_view name) const;
  const assay_tensor& input(std::string_view name) const;
  const assay_tensor& output(std::string_view name) const;
  const assay_call& raw() const { return call_; }

 private:
  const assay_call& call_;
};

class Trace {
 public:
  explicit Trace(const assay_trace* trace) : trace_(trace) {}
  void kernel(const std::string& name) const {
    if (trace_ != nullptr && trace_->kernel != nullptr) trace_->kernel(trace_->self, name.c_str());
  }
  void note(const char* key, const std::string& value) const {
    if (trace_ != nullptr && trace_->note != nullptr) trace_->note(trace_->self, key, value.c_str());
  }

 private:
  const assay_trace* trace_;
};

// Copies text into a field, cut where it does not fit, always terminated.
inline void put(char* field, std::size_t size, std::string_view text) {
  const std::size_t n = text.size() < size ? text.size() : size - 1;
  std::memcpy(field, text.data(), n);
  field[n] = '\0';
}
template <std::size_t kSize>
void put(char (&field)[kSize], std::string_view text) {
  put(field, kSize, text);
}
inline constexpr std::size_t kReasonBytes = 256;  // of run()'s and assay_backend_open()'s reason

// Runs f; what it throws becomes a status and the reason.
template <typename F>
assay_status guarded(char* reason, F f) noexcept {
  try {
    f();
    return ASSAY_OK;
  } catch (const Unsupported& e) {
    put(reason, kReasonBytes, e.what());
    return ASSAY_UNSUPPORTED;
  } catch (const std::exception& e) {
    put(reason, kReasonBytes, e.what());
    return ASSAY_FAILED;
  } catch (...) {
    put(reason, kReasonBytes, "an exception that is no std::exception");
    return ASSAY_FAILED;
  }
}

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

}  // namespace assay_plugin
