// y[m,n] = a[m,k] b[n,k]^T. The path (operands.hpp) says what is multiplied; sums are f32, or int32 for
// integer codes. Rows of b are decoded once each, against all rows of a.
#include <vector>

#include "backends/cpu/operands.hpp"
#include "backends/cpu/ops.hpp"

namespace assay_cpu {
namespace {

struct Product {
  explicit Product(const Call& call)
      : a(call.text("a")), b(call.text("b")), path(resolve_path(call.text("path"), a, b)) {}
  std::string a, b, path;
};

}  // namespace

void matmul_check(const Call& call) {
  const Product product(call);
  check_dtype(call.text("dtype"));
  check_readable(call, "a", product.a);
  check_readable(call, "b", product.b);
  check_path(product.path, product.a, product.b);
  if (product.path == "q8" && call.integer("k") % 32 != 0)
    throw Unsupported("path=q8 needs k in blocks of 32");
  call.output("y");
}

std::string matmul_name(const Call& call) {
  const Product product(call);
  return "matmul_" + product.path + "_" + product.a + "_" + product.b;
}

std::string matmul_contract(const Call& call, const Engine& engine) {
  const Product product(call);
  return product_contract(engine, product.path, product.a, product.b) +
         (product.path == "e4m3fn" ? " scale=divide code=divide" : "");
}

// The order of the additions, whole. Weights of one row meet rows of a in fours, a vector of sums for each, and the rows that are left
// one by one, each with four vectors of sums: such a call has two schedules where it has rows of both kinds and these differ.
std::string matmul_replay_contract(const Call& call, const Engine& engine) {
  const Product product(call);
  if (integer_product(product.path, product.a, product.b) || product.path == "q8")
    throw Unsupported("a schedule is of sums of floating-point products: no integer codes, no path=q8");
  const std::int64_t m = call.integer("m"), k = call.integer("k");
  const auto lanes = static_cast<std::int64_t>(engine.dot_lanes);
  std::string sum = "acc:f32/lanes:" + std::to_string(lanes);
  if (engine.fma) sum += "/fma:yes";
  if (&engine != &kScalarEngine && m % 4 != 0 && k > lanes) {
    if (m > 4)
      throw Unsupported("rows in fours and rows that are left have two schedules: m < 4, or a multiple of 4");
    // The four vectors are added in pairs, then the lanes by halves; whole vectors that are left go to the first, the rest to the second.
    sum = "acc:f32/lanes:" + std::to_string(4 * lanes) + (engine.fma ? "/fma:yes" : "") +
          "/tail:vector:" + std::to_string(lanes) + "/fold:" + std::to_string(lanes) + "." +
          std::to_string(2 * lanes);
    for (std::int64_t half = lanes / 2; half > 0; half /= 2) sum += "." + std::to_string(half);
  }
  const bool scaled = product.path == "codes" || product.path == "e4m3fn";
  return matmul_contract(call, engine) + " level=replay schedule=" + sum + (scaled ? "/scales:a_b" : "");
}

void matmul_run(const Call& call, const Engine& engine, const Trace& trace) {
  trace.kernel(matmul_name(call));
  const Product product(call);
  const bool integer = integer_product(product.path, product.a, product.b);
  const RowReader a(call, "a", product.a);
  const RowReader b(call, "b", product.b);
  const Activations left = take_activations(engine, a, product.a, product.path, integer);
  WeightRows right(engine, b, product.b, product.path, integer);
  const std::size_t n = static_cast<std::size_t>(b.rows());
  std::vector<float> column(left.rows);
  std::vector<float> result(left.rows * n);
  for (std::size_t j = 0; j < n; ++j) {
    right.dot(static_cast<std::int64_t>(j), left, column.data());
    for (std::size_t i = 0; i < left.rows; ++i) result[i * n + j] = column[i];
  }
  const assay_tensor& y = call.output("y");
  for (std::size_t i = 0; i < left.rows; ++i) {
    write_row(engine, call.text("dtype"), result.data() + i * n, b.rows(),
              mutable_row(y, static_cast<std::int64_t>(i)));
  }
}

}  // namespace assay_cpu
