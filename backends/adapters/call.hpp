// What the C++ adapters share: reading an assay_call, and refusing with a reason.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>

#include "backends/assay_backend.h"

namespace assay_adapter {

// The library cannot do this call: becomes ASSAY_UNSUPPORTED with the text.
struct Unsupported : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Call {
 public:
  explicit Call(const assay_call& call) : call_(call) {}

  std::string_view op() const { return call_.op; }
  std::string_view variant() const { return call_.variant ? call_.variant : ""; }

  std::string_view text(std::string_view name) const {
    for (int32_t i = 0; i < call_.attribute_count; ++i)
      if (name == call_.attributes[i].name) return call_.attributes[i].value;
    throw Unsupported("the call lacks the attribute '" + std::string(name) + "'");
  }
  std::int64_t integer(std::string_view name) const {
    return std::strtoll(std::string(text(name)).c_str(), nullptr, 10);
  }
  double real(std::string_view name) const { return std::strtod(std::string(text(name)).c_str(), nullptr); }
  // Refuses unless attribute `name` has one of the blank-separated values.
  void only(std::string_view name, std::string_view allowed) const {
    const std::string padded = " " + std::string(allowed) + " ";
    if (padded.find(" " + std::string(text(name)) + " ") == std::string::npos)
      throw Unsupported(std::string(name) + "=" + std::string(text(name)) + ": only " + std::string(allowed));
  }

  const assay_tensor* find(std::string_view name) const {
    for (int32_t i = 0; i < call_.input_count; ++i)
      if (name == call_.inputs[i].name) return &call_.inputs[i];
    for (int32_t i = 0; i < call_.output_count; ++i)
      if (name == call_.outputs[i].name) return &call_.outputs[i];
    return nullptr;
  }
  const assay_tensor& tensor(std::string_view name) const {
    if (const assay_tensor* t = find(name)) return *t;
    throw Unsupported("the call lacks the tensor '" + std::string(name) + "'");
  }

 private:
  const assay_call& call_;
};

// Copies text into a field of `size` bytes, always terminated.
inline void put(char* field, std::size_t size, std::string_view text) {
  const std::size_t n = text.size() < size ? text.size() : size - 1;
  std::memcpy(field, text.data(), n);
  field[n] = '\0';
}

// Runs f; an exception becomes a status and a reason, since none may cross the C boundary.
template <typename F>
assay_status guarded(char* reason, std::size_t size, F f) noexcept {
  try {
    f();
    return ASSAY_OK;
  } catch (const Unsupported& e) {
    put(reason, size, e.what());
    return ASSAY_UNSUPPORTED;
  } catch (const std::exception& e) {
    put(reason, size, e.what());
    return ASSAY_FAILED;
  } catch (...) {
    put(reason, size, "an exception that is no std::exception");
    return ASSAY_FAILED;
  }
}

}  // namespace assay_adapter
