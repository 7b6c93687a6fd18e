#include "backends/gpu/device.hpp"

#include <algorithm>
#include <cstring>

#include "backends/gpu/formats.hpp"
#include "backends/gpu/gpu_runtime.hpp"
#include "backends/gpu/sparse_memory.cuh"

namespace assay_gpu {
namespace {

using assay_plugin::Failed;
using assay_plugin::Unsupported;

constexpr std::size_t kGuardBytes = 16 << 10;
constexpr std::size_t kAlignment = 256;
constexpr std::size_t kCompareBytes = 4 << 20;

// What broke the device's context, for the calls after it.
std::string& lost() {
  static std::string reason;
  return reason;
}

void require(gpuError_t status, const std::string& what) {
  if (status == gpuSuccess) return;
  std::string reason = what + ": " + gpuGetErrorName(status) + ": " + gpuGetErrorString(status);
  gpuGetLastError();  // a refused launch leaves its error behind
  // An error that stays has taken the context with it.
  if (gpuDeviceSynchronize() != gpuSuccess) lost() = reason;
  throw Failed(reason);
}

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

// Bytes from the first element to the end of the last.
std::size_t span_bytes(const assay_tensor& tensor) {
  std::int64_t end = plane_bytes(tensor.format, assay_plugin::row_length(tensor));
  for (std::int32_t a = 0; a + 1 < tensor.rank; ++a) end += (tensor.shape[a] - 1) * tensor.stride[a];
  return static_cast<std::size_t>(end);
}

std::size_t row_bytes_of(const assay_tensor& tensor) {
  return static_cast<std::size_t>(plane_bytes(tensor.format, assay_plugin::row_length(tensor)));
}

// Gaps that make up most of a large span.
bool rows_are_far(const assay_tensor& tensor) {
  const std::size_t rows = static_cast<std::size_t>(assay_plugin::row_count(tensor));
  return span_bytes(tensor) > (std::size_t{1} << 20) + 4 * rows * row_bytes_of(tensor);
}

View view_of(const assay_tensor& tensor, unsigned char* data) {
  View view;
  view.data = data;
  view.rank = tensor.rank;
  for (std::int32_t a = 0; a < tensor.rank; ++a) {
    view.shape[a] = tensor.shape[a];
    view.stride[a] = tensor.stride[a];
  }
  return view;
}

}  // namespace

DeviceInfo open_device() {
  int count = 0;
  const gpuError_t status = gpuGetDeviceCount(&count);
  int driver = 0;
  if (gpuDriverGetVersion(&driver) == gpuSuccess && driver == 0)
    throw Failed("no GPU: no driver is installed here");
  if (status != gpuSuccess) throw Failed(std::string("no GPU: ") + gpuGetErrorString(status));
  if (count == 0) throw Failed("no GPU: the driver lists none");
  gpuDeviceProp properties{};
  require(gpuSetDevice(0), "the first GPU cannot be used");
  require(gpuGetDeviceProperties(&properties, 0), "the first GPU cannot be asked for its properties");
  int runtime = 0;
  require(gpuDriverGetVersion(&driver), "driver version");
  require(gpuRuntimeGetVersion(&runtime), "runtime version");
  DeviceInfo info;
  info.name = properties.name;
  info.version = "driver " + version_text(driver) + ", runtime " + version_text(runtime);
  info.major = properties.major;
  info.minor = properties.minor;
  info.multiprocessors = properties.multiProcessorCount;
#if ASSAY_GPU_HIP
  info.shared_bytes = properties.sharedMemPerBlock;
#else
  info.shared_bytes = properties.sharedMemPerBlockOptin;
#endif
  return info;
}

Memory::Memory(bool guards) : guards_(guards) {
  static int runs = 0;
  poison_ = runs++ % 2 == 0 ? 0xFF : 0x5A;  // NaN in every float format; finite in all of them
}

Memory::Memory(const assay_call& call, bool guards) : Memory(guards) {
  if (!lost().empty()) {
    const std::string reason = "the device was lost before this call: " + lost();
    if (gpuDeviceReset() != gpuSuccess || gpuDeviceSynchronize() != gpuSuccess) throw Failed(reason);
    lost().clear();
  }
  const auto take = [&](const assay_tensor* tensors, std::int32_t count, bool is_output) {
    for (std::int32_t i = 0; i < count; ++i) {
      const assay_tensor& tensor = tensors[i];
      const std::size_t bytes = span_bytes(tensor);
      const std::size_t phase = reinterpret_cast<std::uintptr_t>(tensor.data) % kAlignment;
      upload_elements(rows_are_far(tensor) ? add_sparse(tensor, is_output, bytes, phase)
                                           : add(tensor.name, &tensor, is_output, bytes, phase));
    }
  };
  take(call.inputs, call.input_count, false);
  take(call.outputs, call.output_count, true);
}

Memory::~Memory() {
  for (const Buffer& buffer : buffers_) {
    if (buffer.sparse == nullptr) gpuFree(buffer.allocation);
  }
  gpuGetLastError();
}

Memory::Buffer& Memory::add(std::string name, const assay_tensor* tensor, bool is_output, std::size_t bytes,
                            std::size_t phase) {
  const std::size_t guard = guards_ ? kGuardBytes : 0;
  Buffer buffer{std::move(name), tensor, is_output, nullptr, guard + phase, bytes, guard, nullptr};
  const std::size_t total = buffer.before + buffer.bytes + buffer.after;
  void* allocation = nullptr;
  require(gpuMalloc(&allocation, total), std::to_string(total) + " bytes for " + buffer.name);
  buffer.allocation = static_cast<unsigned char*>(allocation);
  buffers_.push_back(std::move(buffer));
  Buffer& added = buffers_.back();
  // Without guards nothing is set: initcheck can then tell what no kernel has written.
  if (guards_) require(gpuMemset(allocation, poison_, total), "poison of " + added.name);
  return added;
}

Memory::Buffer& Memory::add_sparse(const assay_tensor& tensor, bool is_output, std::size_t bytes,
                                   std::size_t phase) {
  std::vector<ByteRange> used;
  for (std::int64_t row = 0; row < assay_plugin::row_count(tensor); ++row) {
    used.push_back(
        {phase + static_cast<std::size_t>(assay_plugin::row_offset(tensor, row)), row_bytes_of(tensor)});
  }
  std::sort(used.begin(), used.end(),
            [](const ByteRange& a, const ByteRange& b) { return a.first < b.first; });
  Buffer buffer{tensor.name, &tensor, is_output, nullptr, phase, bytes, 0, nullptr};
  buffer.sparse = std::make_shared<SparseSpan>(phase + bytes, used);
  buffer.allocation = buffer.sparse->data();
  for (const ByteRange& granule : buffer.sparse->mapped()) {
    require(gpuMemset(buffer.allocation + granule.first, poison_, granule.count), "poison of " + buffer.name);
  }
  buffers_.push_back(std::move(buffer));
  return buffers_.back();
}

template <class F>
void Memory::for_pieces(const Buffer& buffer, const F& f) {
  unsigned char* host = static_cast<unsigned char*>(buffer.tensor->data);
  unsigned char* device = buffer.allocation + buffer.before;
  if (buffer.sparse == nullptr) return f(host, device, buffer.bytes);
  for (std::int64_t row = 0; row < assay_plugin::row_count(*buffer.tensor); ++row) {
    const std::int64_t offset = assay_plugin::row_offset(*buffer.tensor, row);
    f(host + offset, device + offset, row_bytes_of(*buffer.tensor));
  }
}

void Memory::upload_elements(const Buffer& buffer) const {
  for_pieces(buffer, [&](const unsigned char* host, unsigned char* device, std::size_t bytes) {
    require(gpuMemcpy(device, host, bytes, gpuMemcpyHostToDevice), "upload of " + buffer.name);
  });
}

void* Memory::temporary(std::size_t bytes) {
  temporary_bytes_ += bytes;
  const Buffer& buffer = add("a temporary of " + std::to_string(bytes) + " bytes", nullptr, false, bytes, 0);
  return buffer.allocation + buffer.before;
}

void* Memory::upload_bytes(const void* values, std::size_t bytes) {
  void* at = temporary(bytes);
  require(gpuMemcpy(at, values, bytes, gpuMemcpyHostToDevice), "upload of a temporary");
  return at;
}

const Memory::Buffer* Memory::find(std::string_view name, bool is_output) const {
  for (const Buffer& buffer : buffers_) {
    if (buffer.tensor != nullptr && buffer.is_output == is_output && buffer.name == name) return &buffer;
  }
  return nullptr;
}

View Memory::optional_input(std::string_view name) const {
  const Buffer* buffer = find(name, false);
  return buffer == nullptr ? View() : view_of(*buffer->tensor, buffer->allocation + buffer->before);
}

View Memory::input(std::string_view name) const {
  if (find(name, false) == nullptr) throw Unsupported("input tensor '" + std::string(name) + "' is missing");
  return optional_input(name);
}

View Memory::output(std::string_view name) const {
  const Buffer* buffer = find(name, true);
  if (buffer == nullptr) throw Unsupported("output tensor '" + std::string(name) + "' is missing");
  return view_of(*buffer->tensor, buffer->allocation + buffer->before);
}

Planes Memory::planes(std::string_view name, std::string_view format, bool is_output) const {
  const FormatRow& row = format_row(format);
  const auto plane = [&](bool wanted, const char* suffix) {
    const std::string full = std::string(name) + suffix;
    return !wanted ? View() : is_output ? output(full) : input(full);
  };
  Planes planes;
  planes.format = row.format;
  planes.payload = plane(true, "");
  planes.scale = plane(row.has_scale, ".scale");
  planes.scale_2 = plane(row.has_second_scale, ".scale_2");
  planes.block_scale = plane(row.has_block_scale, ".block_scale");
  planes.global_scale = plane(row.has_global_scale, ".global_scale");
  const View& payload = planes.payload;
  planes.rows = 1;
  for (std::int32_t a = 0; a + 1 < payload.rank; ++a) planes.rows *= payload.shape[a];
  planes.length = payload.rank > 0 ? payload.shape[payload.rank - 1] * row.word_elements : 1;
  planes.middle = payload.rank >= 3 ? payload.shape[payload.rank - 2] : 1;
  return planes;
}

Planes Memory::input_planes(std::string_view name, std::string_view format) const {
  return planes(name, format, false);
}
Planes Memory::output_planes(std::string_view name, std::string_view format) const {
  return planes(name, format, true);
}

void Memory::check(const Buffer& buffer) const {
  std::vector<unsigned char> zone(std::max(buffer.before, buffer.after));
  const auto touched = [&](const unsigned char* from, std::size_t bytes, bool before) {
    if (bytes == 0) return;
    require(gpuMemcpy(zone.data(), from, bytes, gpuMemcpyDeviceToHost), "guard zone of " + buffer.name);
    for (std::size_t i = 0; i < bytes; ++i) {
      if (zone[i] == poison_) continue;
      const std::size_t distance = before ? bytes - i : i;
      throw Failed("a kernel wrote " + std::to_string(distance) +
                   (before ? " bytes before " : " bytes past the end of ") + buffer.name);
    }
  };
  if (!guards_) return;
  touched(buffer.allocation, buffer.before, true);
  touched(buffer.allocation + buffer.before + buffer.bytes, buffer.after, false);
}

// Everything in the granules but the rows still holds its poison.
void Memory::check_sparse(const Buffer& buffer) const {
  const std::vector<ByteRange>& granules = buffer.sparse->mapped();
  std::vector<std::vector<unsigned char>> copies;
  for (const ByteRange& granule : granules) {
    copies.emplace_back(granule.count);
    require(gpuMemcpy(copies.back().data(), buffer.allocation + granule.first, granule.count,
                      gpuMemcpyDeviceToHost),
            "gaps of " + buffer.name);
  }
  for_pieces(buffer, [&](const unsigned char*, const unsigned char* device, std::size_t bytes) {
    const std::size_t first = static_cast<std::size_t>(device - buffer.allocation);
    for (std::size_t g = 0; g < granules.size(); ++g) {
      const std::size_t begin = std::max(first, granules[g].first);
      const std::size_t end = std::min(first + bytes, granules[g].first + granules[g].count);
      for (std::size_t at = begin; at < end; ++at)
        copies[g][at - granules[g].first] = static_cast<unsigned char>(poison_);
    }
  });
  for (const std::vector<unsigned char>& copy : copies) {
    if (std::any_of(copy.begin(), copy.end(), [&](unsigned char byte) { return byte != poison_; }))
      throw Failed("a kernel wrote between the rows of " + buffer.name);
  }
}

void Memory::finish() {
  require(gpuDeviceSynchronize(), "a kernel failed");
  for (const Buffer& buffer : buffers_) {
    if (buffer.sparse != nullptr) {
      check_sparse(buffer);
    } else {
      check(buffer);
    }
  }
  std::vector<unsigned char> copy(kCompareBytes);
  for (const Buffer& buffer : buffers_) {
    if (buffer.tensor == nullptr) continue;
    for_pieces(buffer, [&](unsigned char* host, const unsigned char* device, std::size_t bytes) {
      if (buffer.is_output) {
        require(gpuMemcpy(host, device, bytes, gpuMemcpyDeviceToHost), "download of " + buffer.name);
        return;
      }
      for (std::size_t at = 0; at < bytes; at += kCompareBytes) {  // in pieces that stay in the cache
        const std::size_t n = std::min(kCompareBytes, bytes - at);
        require(gpuMemcpy(copy.data(), device + at, n, gpuMemcpyDeviceToHost), "download of " + buffer.name);
        if (std::memcmp(copy.data(), host + at, n) != 0)
          throw Failed("a kernel wrote into the input " + buffer.name);
      }
    });
  }
}

void Run::launched(const char* device_function) const {
  require(gpuGetLastError(), std::string("launch of ") + device_function);
  trace.kernel(device_function);
}

}  // namespace assay_gpu
