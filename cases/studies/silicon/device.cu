#include <cuda_runtime.h>

#include <stdexcept>

#include "cases/studies/silicon/fragments.cuh"
#include "cases/studies/silicon/function_table.cuh"

namespace assay::silicon {
namespace {

void check(cudaError_t error, const char* what) {
  if (error != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(error));
}

// Device memory that grows and is freed at the end.
class Buffer {
 public:
  Buffer() = default;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { cudaFree(data_); }
  char* reserve(std::size_t bytes) {
    if (bytes > bytes_) {
      check(cudaFree(data_), "cudaFree");
      data_ = nullptr;
      bytes_ = 0;
      check(cudaMalloc(&data_, bytes), "cudaMalloc");
      bytes_ = bytes;
    }
    return static_cast<char*>(data_);
  }

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace

struct Device::State {
  cudaStream_t stream = nullptr;
  Buffer a, b, c, d;
  ~State() {
    if (stream != nullptr) cudaStreamDestroy(stream);
  }
};

std::string Device::why_not() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess) return std::string("no GPU: ") + cudaGetErrorString(error);
  if (count == 0) return "no GPU: the driver lists none";
  cudaDeviceProp p;
  if (cudaGetDeviceProperties(&p, 0) != cudaSuccess) return "no GPU: its properties cannot be read";
  if (p.major != 9 || p.minor != 0) {
    return "the GPU has compute capability " + std::to_string(p.major) + "." + std::to_string(p.minor) +
           "; the Hopper models are compared on 9.0";
  }
  return "";
}

std::string Device::description() {
  cudaDeviceProp p;
  check(cudaGetDeviceProperties(&p, 0), "cudaGetDeviceProperties");
  int driver = 0;
  int runtime = 0;
  check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  check(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
  const auto version = [](int v) { return std::to_string(v / 1000) + "." + std::to_string(v % 1000 / 10); };
  return std::string(p.name) + ", compute capability " + std::to_string(p.major) + "." +
         std::to_string(p.minor) + ", CUDA driver " + version(driver) + ", runtime " + version(runtime);
}

std::string Device::architecture() {
  cudaDeviceProp p;
  check(cudaGetDeviceProperties(&p, 0), "cudaGetDeviceProperties");
  return std::to_string(p.major) + "." + std::to_string(p.minor);
}

Device::Device() : state_(std::make_unique<State>()) {
  // Threads that wait for the GPU leave their core to the emulation. An error of this call would come back
  // below.
  static_cast<void>(cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync));
  check(cudaStreamCreateWithFlags(&state_->stream, cudaStreamNonBlocking), "cudaStreamCreate");
}
Device::~Device() = default;

void Device::run(const Tiles& t) {
  const std::size_t in =
      static_cast<std::size_t>(t.tiles) * kTileSide * kStepBytes * static_cast<std::size_t>(t.steps);
  const std::size_t out = static_cast<std::size_t>(t.tiles) * kTileSide * kTileSide *
                          static_cast<std::size_t>(t.accumulator_bytes);
  State& s = *state_;
  const TileArguments arguments{reinterpret_cast<std::uint32_t*>(s.a.reserve(in)),
                                reinterpret_cast<std::uint32_t*>(s.b.reserve(in)),
                                s.c.reserve(out),
                                s.d.reserve(out),
                                t.tiles,
                                t.steps};
  const auto up = [&](const void* device, const void* host, std::size_t bytes) {
    check(cudaMemcpyAsync(const_cast<void*>(device), host, bytes, cudaMemcpyHostToDevice, s.stream),
          "upload");
  };
  up(arguments.a, t.a, in);
  up(arguments.b, t.b, in);
  up(arguments.c, t.c, out);
  check(cudaMemsetAsync(arguments.d, 0xa5, out, s.stream), "poison");
  if (!launch_mma(t.opcode, arguments, s.stream) && !launch_wgmma(t.opcode, arguments, s.stream)) {
    throw std::runtime_error("no kernel for opcode " + std::to_string(static_cast<int>(t.opcode)));
  }
  check(cudaGetLastError(), "launch");
  check(cudaMemcpyAsync(t.d, arguments.d, out, cudaMemcpyDeviceToHost, s.stream), "download");
  check(cudaStreamSynchronize(s.stream), "tiles");
}

std::vector<UlpRow> Device::ulp_table(Function function) {
  static_assert(sizeof(TableSlot) == 40);
  constexpr std::size_t kRows = 512;
  State& s = *state_;
  auto* slots = reinterpret_cast<TableSlot*>(s.d.reserve(kRows * sizeof(TableSlot)));
  check(cudaMemsetAsync(slots, 0, kRows * sizeof(TableSlot), s.stream), "clear");
  launch_table(function, slots, s.stream);
  check(cudaGetLastError(), "launch");
  std::vector<TableSlot> host(kRows);
  check(cudaMemcpyAsync(host.data(), slots, kRows * sizeof(TableSlot), cudaMemcpyDeviceToHost, s.stream),
        "download");
  check(cudaStreamSynchronize(s.stream), "table");
  std::vector<UlpRow> rows(kRows);
  for (std::size_t i = 0; i < kRows; ++i) rows[i] = unpack(host[i]);
  return rows;
}

std::vector<std::uint32_t> Device::evaluate(Function function, const std::vector<std::uint32_t>& inputs) {
  const std::size_t bytes = inputs.size() * sizeof(std::uint32_t);
  State& s = *state_;
  auto* x = reinterpret_cast<std::uint32_t*>(s.a.reserve(bytes));
  auto* y = reinterpret_cast<std::uint32_t*>(s.b.reserve(bytes));
  check(cudaMemcpyAsync(x, inputs.data(), bytes, cudaMemcpyHostToDevice, s.stream), "upload");
  launch_evaluate(function, x, y, static_cast<int>(inputs.size()), s.stream);
  check(cudaGetLastError(), "launch");
  std::vector<std::uint32_t> results(inputs.size());
  check(cudaMemcpyAsync(results.data(), y, bytes, cudaMemcpyDeviceToHost, s.stream), "download");
  check(cudaStreamSynchronize(s.stream), "evaluate");
  return results;
}

}  // namespace assay::silicon
