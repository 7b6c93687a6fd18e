// Builds calls for the tests of the plug-in and runs them through the C interface, as a worker does.
#pragma once

#include <dlfcn.h>

#include <cstring>
#include <deque>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "backends/assay_backend.h"

namespace assay_cpu_test {

inline const assay_backend& backend() {
  static const assay_backend* opened = [] {
    void* library = dlopen(ASSAY_CPU_PLUGIN, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) throw std::runtime_error(dlerror());
    const auto open = reinterpret_cast<assay_backend_open_fn>(dlsym(library, "assay_backend_open"));
    char reason[256] = "";
    const assay_backend* result = open("", reason);
    if (result == nullptr) throw std::runtime_error(reason);
    return result;
  }();
  return *opened;
}

class TestCall {
 public:
  explicit TestCall(std::string op) : op_(std::move(op)) {}

  TestCall& set(const std::string& name, const std::string& value) {
    attributes_[name] = value;
    return *this;
  }
  // gap: bytes of poison (0xFF, a NaN in every float format) behind every row.
  template <class T>
  TestCall& in(const std::string& name, const std::string& format, const std::vector<std::int64_t>& shape,
               const std::vector<T>& values, std::size_t gap = 0) {
    Buffer& buffer = add(inputs_, name, format, shape, values.size() * sizeof(T), gap);
    buffer.scatter(values.data());
    return *this;
  }
  TestCall& out(const std::string& name, const std::string& format, const std::vector<std::int64_t>& shape,
                std::size_t bytes, std::size_t gap = 0) {
    add(outputs_, name, format, shape, bytes, gap);
    return *this;
  }

  assay_status declare(assay_declaration& declaration, const std::string& variant = "") {
    return with_call(variant,
                     [&](const assay_call& call) { return backend().declare(nullptr, &call, &declaration); });
  }
  assay_status run(const std::string& variant = "") {
    kernels.clear();
    notes.clear();
    assay_trace trace{
        this, [](void* self, const char* name) { static_cast<TestCall*>(self)->kernels.emplace_back(name); },
        [](void* self, const char* key, const char* value) {
          static_cast<TestCall*>(self)->notes[key] = value;
        }};
    char reason_text[256] = "";
    const assay_status status = with_call(
        variant, [&](const assay_call& call) { return backend().run(nullptr, &call, &trace, reason_text); });
    reason = reason_text;
    return status;
  }

  template <class T>
  std::vector<T> result(const std::string& name) const {
    for (const Buffer& buffer : outputs_) {
      if (buffer.name == name) {
        std::vector<T> values(buffer.payload / sizeof(T));
        buffer.gather(values.data());
        return values;
      }
    }
    throw std::runtime_error("no output " + name);
  }
  bool has_output(const std::string& name) const {
    for (const Buffer& buffer : outputs_) {
      if (buffer.name == name) return true;
    }
    return false;
  }
  // Whether every byte between the rows of the outputs still holds its poison.
  bool gaps_intact() const {
    for (const Buffer& buffer : outputs_) {
      for (std::size_t row = 0; row < buffer.rows; ++row) {
        for (std::size_t i = 0; i < buffer.gap; ++i) {
          if (buffer.bytes[row * buffer.pitch + buffer.row_bytes + i] != std::byte{0xFF}) return false;
        }
      }
    }
    return true;
  }

  std::vector<std::string> kernels;
  std::map<std::string, std::string> notes;
  std::string reason;

 private:
  struct Buffer {
    std::string name, format;
    std::vector<std::int64_t> shape;
    std::size_t payload, rows, row_bytes, gap, pitch;
    std::vector<std::byte> bytes;
    void scatter(const void* from) {
      for (std::size_t row = 0; row < rows; ++row) {
        std::memcpy(bytes.data() + row * pitch, static_cast<const std::byte*>(from) + row * row_bytes,
                    row_bytes);
      }
    }
    void gather(void* to) const {
      for (std::size_t row = 0; row < rows; ++row) {
        std::memcpy(static_cast<std::byte*>(to) + row * row_bytes, bytes.data() + row * pitch, row_bytes);
      }
    }
  };

  static Buffer& add(std::deque<Buffer>& list, const std::string& name, const std::string& format,
                     const std::vector<std::int64_t>& shape, std::size_t bytes, std::size_t gap) {
    std::size_t rows = 1;
    for (std::size_t a = 0; a + 1 < shape.size(); ++a) rows *= static_cast<std::size_t>(shape[a]);
    Buffer buffer{name, format, shape, bytes, rows, rows == 0 ? 0 : bytes / rows, gap, 0, {}};
    buffer.pitch = buffer.row_bytes + gap;
    buffer.bytes.assign(rows * buffer.pitch, std::byte{0xFF});
    list.push_back(std::move(buffer));
    return list.back();
  }

  static std::vector<assay_tensor> views(std::deque<Buffer>& buffers) {
    std::vector<assay_tensor> tensors;
    for (Buffer& buffer : buffers) {
      assay_tensor tensor{buffer.name.c_str(),
                          buffer.format.c_str(),
                          buffer.bytes.data(),
                          static_cast<std::int32_t>(buffer.shape.size()),
                          {},
                          {}};
      std::int64_t stride = static_cast<std::int64_t>(buffer.pitch);
      for (std::size_t a = buffer.shape.size(); a-- > 0;) {
        tensor.shape[a] = buffer.shape[a];
        if (a + 1 == buffer.shape.size()) {
          tensor.stride[a] = static_cast<std::int64_t>(buffer.row_bytes) / buffer.shape[a];
        } else {
          tensor.stride[a] = stride;
          stride *= buffer.shape[a];
        }
      }
      tensors.push_back(tensor);
    }
    return tensors;
  }

  template <class Body>
  assay_status with_call(const std::string& variant, const Body& body) {
    std::vector<assay_attribute> attributes;
    for (const auto& [name, value] : attributes_) attributes.push_back({name.c_str(), value.c_str()});
    const std::vector<assay_tensor> inputs = views(inputs_);
    const std::vector<assay_tensor> outputs = views(outputs_);
    const assay_call call{op_.c_str(),       variant.c_str(),
                          attributes.data(), static_cast<std::int32_t>(attributes.size()),
                          inputs.data(),     static_cast<std::int32_t>(inputs.size()),
                          outputs.data(),    static_cast<std::int32_t>(outputs.size())};
    return body(call);
  }

  std::string op_;
  std::map<std::string, std::string> attributes_;
  std::deque<Buffer> inputs_, outputs_;
};

// Every target of this machine: the variants before the first kernel's name.
inline std::vector<std::string> targets() {
  std::vector<std::string> found;
  const std::string words = backend().variants;
  for (std::size_t begin = 0; begin < words.size();) {
    const std::size_t end = std::min(words.find(' ', begin), words.size());
    const std::string word = words.substr(begin, end - begin);
    if (words.find(" " + word + ".") != std::string::npos)
      break;  // KERNEL.TARGET: targets come before kernels
    found.push_back(word);
    begin = end + 1;
  }
  return found;
}

}  // namespace assay_cpu_test
