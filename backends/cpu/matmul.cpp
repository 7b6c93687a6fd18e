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

std::string matmul_contract(const Call& call, const Engine& engine) {
  const Product product(call);
  return product_contract(engine, product.path, product.a, product.b) +
         (product.path == "e4m3fn" ? " scale=divide code=divide"
          : product.path == "q8"   ? " scale=divide code=reciprocal ties=even"
                                   : "");
}

std::string matmul_replay_contract(const Call& call, const Engine& engine) {
  const Product product(call);
  return matmul_contract(call, engine) + " level=replay schedule=" +
         product_schedule(engine, product.path, integer_product(product.path, product.a, product.b),
                          call.integer("k"));
}

void matmul_run(const Call& call, const Engine& engine, const Trace& trace) {
  trace.kernel(__func__);
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
