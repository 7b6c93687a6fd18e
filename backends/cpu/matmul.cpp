// y[m,n] = a[m,k] b[n,k]^T. Two kernels: f32 products of decoded rows, and int8 x int8 -> int32 with both
// scales applied in the epilogue, for formats whose scales are constant along k (int8 and int4 codes with a
// scale per row or tensor).
#include <vector>

#include "backends/cpu/integer_rows.hpp"
#include "backends/cpu/ops.hpp"

namespace assay_cpu {
namespace {

void store(const Call& call, const Engine& engine, const std::vector<float>& result) {
  const assay_tensor& y = call.output("y");
  const std::int64_t n = row_length(y);
  for (std::int64_t i = 0; i < row_count(y); ++i) {
    write_row(engine, call.text("dtype"), result.data() + i * n, n, mutable_row(y, i));
  }
}

}  // namespace

void matmul_check(const Call& call) {
  check_dtype(call.text("dtype"));
  check_readable(call, "a", call.text("a"));
  check_readable(call, "b", call.text("b"));
  call.output("y");
}

void matmul_int8_check(const Call& call) {
  matmul_check(call);
  if (!is_integer_rows(call.text("a")) || !is_integer_rows(call.text("b"))) {
    throw Unsupported("the int8 kernel needs integer codes with one scale per row in a and b, not " +
                      std::string(call.text("a")) + " and " + std::string(call.text("b")));
  }
}

bool matmul_int8_chosen(const Call& call) {
  return is_integer_rows(call.text("a")) && is_integer_rows(call.text("b"));
}
bool matmul_f32_chosen(const Call& call) { return !matmul_int8_chosen(call); }

std::string matmul_f32_name(const Call& call) {
  return "matmul_f32_" + std::string(call.text("a")) + "_" + std::string(call.text("b"));
}
std::string matmul_int8_name(const Call& call) {
  return "matmul_int8_" + std::string(call.text("a")) + "_" + std::string(call.text("b"));
}

std::string matmul_f32_contract(const Call&, const Engine&) { return "acc=f32"; }
std::string matmul_int8_contract(const Call&, const Engine&) { return "acc=i32"; }

void matmul_f32_run(const Call& call, const Engine& engine, const Trace& trace) {
  trace.kernel(matmul_f32_name(call));
  const RowReader a(call, "a", call.text("a"));
  const RowReader b(call, "b", call.text("b"));
  const std::size_t m = static_cast<std::size_t>(a.rows());
  const std::size_t n = static_cast<std::size_t>(b.rows());
  const std::size_t k = static_cast<std::size_t>(a.length());
  std::vector<float> left(m * k);
  for (std::size_t i = 0; i < m; ++i) a.read(engine, static_cast<std::int64_t>(i), left.data() + i * k);
  std::vector<float> right(k);
  std::vector<float> column(m);
  std::vector<float> result(m * n);
  for (std::size_t j = 0; j < n; ++j) {  // each row of b is decoded once
    b.read(engine, static_cast<std::int64_t>(j), right.data());
    engine.dot_rows(right.data(), left.data(), k, m, k, column.data());
    for (std::size_t i = 0; i < m; ++i) result[i * n + j] = column[i];
  }
  store(call, engine, result);
}

void matmul_int8_run(const Call& call, const Engine& engine, const Trace& trace) {
  trace.kernel(matmul_int8_name(call));
  const RowReader a(call, "a", call.text("a"));
  const RowReader b(call, "b", call.text("b"));
  const std::size_t m = static_cast<std::size_t>(a.rows());
  const std::size_t n = static_cast<std::size_t>(b.rows());
  const std::size_t k = static_cast<std::size_t>(a.length());
  std::vector<std::int8_t> left(m * k);
  std::vector<float> left_scale(m);
  for (std::size_t i = 0; i < m; ++i) {
    read_integers(a.planes(), call.text("a"), static_cast<std::int64_t>(i), left.data() + i * k);
    left_scale[i] = integer_scale(a.planes(), call.text("a"), static_cast<std::int64_t>(i));
  }
  std::vector<std::int8_t> right(k);
  std::vector<float> result(m * n);
  for (std::size_t j = 0; j < n; ++j) {
    read_integers(b.planes(), call.text("b"), static_cast<std::int64_t>(j), right.data());
    const float right_scale = integer_scale(b.planes(), call.text("b"), static_cast<std::int64_t>(j));
    for (std::size_t i = 0; i < m; ++i) {
      const std::int32_t dot = engine.dot_int8(left.data() + i * k, right.data(), k);
      result[i * n + j] = static_cast<float>(dot) * left_scale[i] * right_scale;
    }
  }
  store(call, engine, result);
}

}  // namespace assay_cpu
