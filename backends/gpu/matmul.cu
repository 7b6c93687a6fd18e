// y[m,n] = a[m,k] b[n,k]^T, and the mixture of experts, gate and up fused: for token t and its s-th expert e
// with weight c
//   [g, u] = w13[e] x[t],  h = silu(g) * u,  y[t] = sum_s c * w2[e] h,   silu(g) = g / (1 + exp(-g))
// Both products of moe take the same path. Operands are prepared (operands.hpp), products are GemmKernel's;
// tokens are grouped by expert on the host, and the results of a token's experts are added in the order of
// its list.
#include "backends/gpu/formats.hpp"
#include "backends/gpu/gpu_runtime.hpp"
#include "backends/gpu/operands.hpp"
#include "backends/gpu/rows.cuh"

namespace assay_gpu {
namespace {

unsigned blocks_of(std::int64_t threads) {
  return static_cast<unsigned>((threads + kRowThreads - 1) / kRowThreads);
}

__global__ void store_product(const float* values, const GPU_GRID_CONSTANT RowTensor y, std::int64_t m,
                              std::int64_t n) {
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= m * n) return;
  store_value(y.dtype, y.view.data + row_offset(y.view, at / n), at % n, values[at]);
}

// gate_up[rows][2 inter] -> h[rows][inter].
__global__ void moe_silu(const float* gate_up, float* h, std::int64_t rows, std::int64_t inter) {
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= rows * inter) return;
  const float* row = gate_up + at / inter * 2 * inter;
  const float g = row[at % inter];
  h[at] = g / (1.0F + expf(-g)) * row[inter + at % inter];
}

// results[where[r]] = values[r], rows of `hidden`.
__global__ void moe_scatter(const float* values, const int* where, float* results, std::int64_t rows,
                            std::int64_t hidden) {
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at < rows * hidden) results[where[at / hidden] * hidden + at % hidden] = values[at];
}

__global__ void moe_combine(const float* results, const GPU_GRID_CONSTANT View weights,
                            const GPU_GRID_CONSTANT RowTensor y, std::int64_t tokens, int topk,
                            std::int64_t hidden) {
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= tokens * hidden) return;
  const std::int64_t token = at / hidden;
  float sum = 0;
  for (std::int64_t i = token * topk; i < (token + 1) * topk; ++i)
    sum += load_f32(weights, i) * results[i * hidden + at % hidden];
  store_value(y.dtype, y.view.data + row_offset(y.view, token), at % hidden, sum);
}

Product product_of_matmul(const Call& call) { return {call.text("a"), call.text("b"), call.text("path")}; }
Product product_of_moe(const Call& call) { return {call.text("a"), call.text("w"), call.text("path")}; }

// For each expert the entries of topk_ids that name it.
std::vector<std::vector<int>> entries_of_experts(const Call& call) {
  std::vector<std::vector<int>> experts(static_cast<std::size_t>(call.integer("experts")));
  for (std::int64_t i = 0; i < call.integer("tokens") * call.integer("topk"); ++i) {
    const std::int32_t expert = assay_plugin::int32_at(call.input("topk_ids"), i);
    if (expert < 0 || static_cast<std::size_t>(expert) >= experts.size())
      throw Failed("topk_ids names expert " + std::to_string(expert));
    experts[static_cast<std::size_t>(expert)].push_back(static_cast<int>(i));
  }
  return experts;
}

}  // namespace

void matmul_check(const GemmKernel& kernel, const Call& call, const DeviceInfo& device) {
  const Product product = product_of_matmul(call);
  check_dtype(call.text("dtype"));
  check_readable(call, "a", product.a);
  check_readable(call, "b", product.b);
  check_writable(call, "y", call.text("dtype"));
  check_gemm(kernel, product, call.integer("k"), device);
}

std::string matmul_contract(const GemmKernel& kernel, const Call& call, const DeviceInfo& device) {
  const Product product = product_of_matmul(call);
  return product_contract(kernel, product, device) +
         (product.path == Path::e4m3fn ? " scale=divide code=divide"
          : product.path == Path::q8   ? " scale=divide code=reciprocal ties=even"
                                       : "");
}

namespace {

// "acc:f32/scales:a_b", each key behind `prefix`.
std::string product_schedule(const GemmKernel& kernel, Path path, const DeviceInfo& device,
                             std::string_view prefix = "") {
  std::string text = std::string(prefix) + kernel.schedule(device);
  if (path == Path::codes || path == Path::e4m3fn) text += "/scales:a_b";
  for (std::size_t at = text.find('/'); at != std::string::npos; at = text.find('/', at + 1))
    text.insert(at + 1, prefix);
  return text;
}

}  // namespace

void matmul_replay_check(const GemmKernel& kernel, const Call& call, const DeviceInfo& device) {
  matmul_check(kernel, call, device);
  kernel.schedule(device);  // throws for a device whose unit is not described
}
std::string matmul_replay_contract(const GemmKernel& kernel, const Call& call, const DeviceInfo& device) {
  const Path path = product_of_matmul(call).path;
  return matmul_contract(kernel, call, device) +
         " level=replay schedule=" + product_schedule(kernel, path, device);
}

void matmul_run(const GemmKernel& kernel, Run& run) {
  const Product product = product_of_matmul(run.call);
  const Planes a = run.memory.input_planes("a", product.a);
  const Planes b = run.memory.input_planes("b", product.b);
  const Prepared left =
      prepare(run, kernel, product, Side::activations, a, nullptr, static_cast<int>(a.rows));
  const Prepared right = prepare(run, kernel, product, Side::weights, b, nullptr, static_cast<int>(b.rows));
  const float* out = multiply(run, kernel, left, right, 0, right.rows);
  store_product<<<blocks_of(a.rows * b.rows), kRowThreads>>>(
      out, {run.memory.output("y"), format_row(run.call.text("dtype")).format.element}, a.rows, b.rows);
  run.launched("store_product");
}

void moe_check(const GemmKernel& kernel, const Call& call, const DeviceInfo& device) {
  const Product product = product_of_moe(call);
  if (call.text("w2") != call.text("w")) throw Unsupported("moe takes one format for w13 and w2");
  check_dtype(call.text("dtype"));
  check_readable(call, "x", product.a);
  check_readable(call, "w13", product.b);
  check_readable(call, "w2", product.b);
  check_writable(call, "y", call.text("dtype"));
  call.input("topk_ids");
  call.input("topk_weights");
  if (product.path == Path::e4m3fn || product.path == Path::q8)
    throw Unsupported("no moe kernel takes path=" + std::string(product.path_name));
  if (product.path == Path::codes && format_row(product.a).format.divisor == 0)
    throw Unsupported("path=codes of moe quantises its hidden row to the activations' format, and " +
                      std::string(product.a) + " has no scale");
  check_gemm(kernel, product, call.integer("hidden"), device);
}

std::string moe_contract(const GemmKernel& kernel, const Call& call, const DeviceInfo& device) {
  // silu: exp, an addition and a quotient.
  return product_contract(kernel, product_of_moe(call), device) + " gate_up=f32 silu_ulp=" + kSiluUlp +
         " expert_out=f32";
}

void moe_replay_check(const GemmKernel& kernel, const Call& call, const DeviceInfo& device) {
  moe_check(kernel, call, device);
  kernel.schedule(device);
  if (*kExpWord == '\0') throw Unsupported("no schedule has a word for this compiler's expf");
}
// The experts' results are added in the order of topk_ids.
std::string moe_replay_contract(const GemmKernel& kernel, const Call& call, const DeviceInfo& device) {
  const Path path = product_of_moe(call).path;
  return moe_contract(kernel, call, device) + " level=replay schedule=exp:" + kExpWord + "/combine:slots/" +
         product_schedule(kernel, path, device, "up.") + "/" +
         product_schedule(kernel, path, device, "down.");
}

void moe_run(const GemmKernel& kernel, Run& run) {
  const Product product = product_of_moe(run.call);
  const std::vector<std::vector<int>> experts = entries_of_experts(run.call);
  const std::int64_t tokens = run.call.integer("tokens");
  const int topk = static_cast<int>(run.call.integer("topk"));
  const int hidden = static_cast<int>(run.call.integer("hidden"));
  const int inter = static_cast<int>(run.call.integer("inter"));
  const Planes x = run.memory.input_planes("x", product.a);
  const Planes w13 = run.memory.input_planes("w13", product.b);
  const Planes w2 = run.memory.input_planes("w2", product.b);
  const Prepared up = prepare(run, kernel, product, Side::weights, w13, nullptr, static_cast<int>(w13.rows));
  const Prepared down = prepare(run, kernel, product, Side::weights, w2, nullptr, static_cast<int>(w2.rows));
  float* results = run.memory.temporary_array<float>(tokens * topk * hidden);
  for (std::size_t e = 0; e < experts.size(); ++e) {
    const int rows = static_cast<int>(experts[e].size());
    if (rows == 0) continue;
    std::vector<int> token_rows;
    for (const int entry : experts[e]) token_rows.push_back(entry / topk);
    const int expert = static_cast<int>(e);
    const Prepared taken =
        prepare(run, kernel, product, Side::activations, x, run.memory.upload(token_rows), rows);
    const float* gate_up = multiply(run, kernel, taken, up, expert * 2 * inter, 2 * inter);
    float* h = run.memory.temporary_array<float>(static_cast<std::int64_t>(rows) * inter);
    moe_silu<<<blocks_of(static_cast<std::int64_t>(rows) * inter), kRowThreads>>>(gate_up, h, rows, inter);
    run.launched("moe_silu");
    const Prepared hidden_rows = prepare_hidden(run, kernel, product, h, rows, inter);
    const float* out = multiply(run, kernel, hidden_rows, down, expert * hidden, hidden);
    moe_scatter<<<blocks_of(static_cast<std::int64_t>(rows) * hidden), kRowThreads>>>(
        out, run.memory.upload(experts[e]), results, rows, hidden);
    run.launched("moe_scatter");
  }
  moe_combine<<<blocks_of(tokens * hidden), kRowThreads>>>(
      results, run.memory.input("topk_weights"),
      {run.memory.output("y"), format_row(run.call.text("dtype")).format.element}, tokens, topk, hidden);
  run.launched("moe_combine");
}

}  // namespace assay_gpu
