#include "backends/plugin/call.hpp"

#include <charconv>
#include <cstdlib>
#include <cstring>

namespace assay_plugin {

std::string_view Call::text(std::string_view attribute) const {
  std::string_view wanted = attribute;
  for (int hops = 0; hops < 4; ++hops) {
    bool found = false;
    for (std::int32_t i = 0; i < call_.attribute_count; ++i) {
      if (wanted != call_.attributes[i].name) continue;
      std::string_view value = call_.attributes[i].value;
      if (value.empty() || value[0] != '@') return value;
      wanted = value.substr(1);
      found = true;
      break;
    }
    if (!found) break;
  }
  throw Unsupported("op " + std::string(call_.op) + " came without attribute '" + std::string(wanted) + "'");
}

std::int64_t Call::integer(std::string_view attribute) const {
  const std::string_view value = text(attribute);
  std::int64_t parsed = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), parsed);
  if (error != std::errc() || end != value.data() + value.size()) {
    throw Unsupported("attribute " + std::string(attribute) + "=" + std::string(value) +
                      " is not an integer");
  }
  return parsed;
}

double Call::real(std::string_view attribute) const {
  const std::string value(text(attribute));
  char* end = nullptr;
  const double parsed = std::strtod(value.c_str(), &end);
  if (value.empty() || *end != '\0') {
    throw Unsupported("attribute " + std::string(attribute) + "=" + value + " is not a number");
  }
  return parsed;
}

namespace {

const assay_tensor* find(const assay_tensor* tensors, std::int32_t count, std::string_view name) {
  for (std::int32_t i = 0; i < count; ++i) {
    if (name == tensors[i].name) return &tensors[i];
  }
  return nullptr;
}

template <class T>
T load(const assay_tensor& tensor, std::int64_t index) {
  T value;
  std::memcpy(&value, static_cast<const std::byte*>(tensor.data) + element_offset(tensor, index),
              sizeof value);
  return value;
}

template <class T>
void store(const assay_tensor& tensor, std::int64_t index, T value) {
  std::memcpy(static_cast<std::byte*>(tensor.data) + element_offset(tensor, index), &value, sizeof value);
}

}  // namespace

void Call::only(std::string_view attribute, std::string_view allowed) const {
  const std::string value(text(attribute));
  const std::string padded = " " + std::string(allowed) + " ";
  if (padded.find(" " + value + " ") == std::string::npos)
    throw Unsupported(std::string(attribute) + "=" + value + ": only " + std::string(allowed));
}

const assay_tensor* Call::find_input(std::string_view name) const {
  return find(call_.inputs, call_.input_count, name);
}
const assay_tensor* Call::find_output(std::string_view name) const {
  return find(call_.outputs, call_.output_count, name);
}
const assay_tensor& Call::input(std::string_view name) const {
  if (const assay_tensor* tensor = find_input(name)) return *tensor;
  throw Unsupported("input tensor '" + std::string(name) + "' is missing");
}
const assay_tensor& Call::output(std::string_view name) const {
  if (const assay_tensor* tensor = find_output(name)) return *tensor;
  throw Unsupported("output tensor '" + std::string(name) + "' is missing");
}

std::int64_t row_count(const assay_tensor& tensor) {
  std::int64_t count = 1;
  for (std::int32_t a = 0; a + 1 < tensor.rank; ++a) count *= tensor.shape[a];
  return count;
}

std::int64_t element_count(const assay_tensor& tensor) { return row_count(tensor) * row_length(tensor); }

std::int64_t row_offset(const assay_tensor& tensor, std::int64_t row) {
  std::int64_t offset = 0;
  for (std::int32_t a = tensor.rank - 2; a > 0; --a) {
    offset += row % tensor.shape[a] * tensor.stride[a];
    row /= tensor.shape[a];
  }
  return tensor.rank > 1 ? offset + row * tensor.stride[0] : offset;
}

std::int64_t element_offset(const assay_tensor& tensor, std::int64_t index) {
  if (tensor.rank <= 0) return 0;
  const std::int64_t length = row_length(tensor);
  const std::int64_t inner = tensor.stride[tensor.rank - 1];
  if (tensor.rank == 1) return index * inner;
  return row_offset(tensor, index / length) + index % length * inner;
}

float f32_at(const assay_tensor& tensor, std::int64_t index) { return load<float>(tensor, index); }
std::int32_t int32_at(const assay_tensor& tensor, std::int64_t index) {
  return load<std::int32_t>(tensor, index);
}
std::int8_t int8_at(const assay_tensor& tensor, std::int64_t index) {
  return load<std::int8_t>(tensor, index);
}
void put_f32(const assay_tensor& tensor, std::int64_t index, float value) { store(tensor, index, value); }
void put_int32(const assay_tensor& tensor, std::int64_t index, std::int32_t value) {
  store(tensor, index, value);
}

}  // namespace assay_plugin
