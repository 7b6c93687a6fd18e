// Ops over rows with a fault whose place is known: softmax and rmsnorm in f32, and a quantiser in groups of
// 32. Of a sum over columns one is lost, all from one on, a lane of a vector, a group; of an output a column
// or a row is wrong; of a group a scale or a position.
#include <algorithm>
#include <cmath>
#include <vector>

#include "cases/studies/attribution/misplaced.hpp"

namespace misplaced {
namespace {

constexpr std::int64_t kLanes = 8;

float* row_of(const assay_tensor& t, std::int64_t row) {
  return reinterpret_cast<float*>(static_cast<char*>(t.data) + (t.rank > 1 ? row * t.stride[0] : 0));
}

// How often the column enters the sum of its row.
double times(const Fault& f, std::int64_t row, std::int64_t column) {
  const bool lost = (f.is("lost_column") && column == f.n) || (f.is("columns_from") && column >= f.n) ||
                    (f.is("lane") && column % kLanes == f.n) || (f.is("group") && column / kTile == f.n) ||
                    (f.is("lost_in_row") && row == f.n && column == f.m);
  return lost ? 0 : f.is("column_twice") && column == f.n ? 2 : 1;
}

// Which column is read in place of this one.
std::int64_t read_at(const Fault& f, std::int64_t column, std::int64_t columns) {
  return f.is("read_of_next") && column == f.n ? (column + 1) % columns : column;
}

double written(const Fault& f, std::int64_t row, std::int64_t column, double y) {
  if (f.is("row_zero") && row == f.n) return 0;
  return f.is("y_column") && column == f.n ? 1.5 * y : f.is("factor_of_row") ? 1.5 * y : y;
}

void softmax(const assay_call* call, const Fault& f) {
  const assay_tensor &x = *input(call, "x"), &y = call->outputs[0];
  for (std::int64_t r = 0; r < x.shape[0]; ++r) {
    const float* from = row_of(x, r);
    double top = -INFINITY, sum = 0;
    for (std::int64_t i = 0; i < x.shape[1]; ++i) top = std::max(top, static_cast<double>(from[i]));
    for (std::int64_t i = 0; i < x.shape[1]; ++i)
      if (const double t = times(f, r, i); t != 0)
        sum += t * std::exp(static_cast<double>(from[read_at(f, i, x.shape[1])]) - top);
    for (std::int64_t i = 0; i < x.shape[1]; ++i) {
      const double w = std::exp(static_cast<double>(from[read_at(f, i, x.shape[1])]) - top);
      row_of(y, r)[i] = static_cast<float>(written(f, r, i, w / sum));
    }
  }
}

void rmsnorm(const assay_call* call, const Fault& f) {
  const assay_tensor &x = *input(call, "x"), &gamma = *input(call, "gamma"), &y = call->outputs[0];
  const double eps = std::atof(std::string(attribute(call, "eps")).c_str());
  for (std::int64_t r = 0; r < x.shape[0]; ++r) {
    const float* from = row_of(x, r);
    double sum = 0;
    for (std::int64_t i = 0; i < x.shape[1]; ++i) {
      const double each = from[read_at(f, i, x.shape[1])];
      sum += times(f, r, i) * each * each;
    }
    const double factor = 1 / std::sqrt(sum / static_cast<double>(x.shape[1]) + eps);
    for (std::int64_t i = 0; i < x.shape[1]; ++i) {
      const std::int64_t g = f.is("gamma_of_next") && i == f.n ? (i + 1) % x.shape[1] : i;
      const double each = from[read_at(f, i, x.shape[1])];
      row_of(y, r)[i] = static_cast<float>(written(f, r, i, each * factor * row_of(gamma, 0)[g]));
    }
  }
}

// int4 in groups of 32, each with a scale in f32: two codes to a byte, the earlier one low.
void quantize(const assay_call* call, const Fault& f) {
  const assay_tensor &x = *input(call, "x"), &y = call->outputs[0];
  const assay_tensor& scales = *find(call->outputs, call->output_count, "y.scale");
  for (std::int64_t r = 0; r < x.shape[0]; ++r)
    for (std::int64_t first = 0; first < x.shape[1]; first += kTile) {
      const float* from = row_of(x, r) + first;
      const std::int64_t group = first / kTile;
      float most = 0;
      for (std::int64_t i = 0; i < kTile; ++i)
        if (!(f.is("max_without") && i == f.n) && !(f.is("max_without_tail") && i >= f.n))
          most = std::max(most, std::fabs(from[i]));
      float scale = most == 0 ? 1 : most / 7;
      if (f.is("scale_of_group") && group == f.n) scale *= 2;
      row_of(scales, r)[group] = scale;
      auto* to = reinterpret_cast<std::uint8_t*>(row_of(y, r)) + first / 2;
      for (std::int64_t i = 0; i < kTile; ++i) {
        const bool zero = (f.is("code_at") && i == f.n) || (f.is("code_of") && first + i == f.n) ||
                          (f.is("row_zero") && r == f.n) || (f.is("code_lane") && i % kLanes == f.n);
        const float code = std::clamp(std::nearbyint(from[i] / scale), -7.0F, 7.0F);
        const unsigned bits = zero ? 0U : static_cast<unsigned>(static_cast<int>(code)) & 0xFU;
        to[i / 2] = static_cast<std::uint8_t>(i % 2 == 0 ? bits : to[i / 2] | bits << 4U);
      }
    }
}

void dequantize(const assay_call* call, const Fault& f) {
  const assay_tensor &x = *input(call, "x"), &scales = *input(call, "x.scale"), &y = call->outputs[0];
  for (std::int64_t r = 0; r < y.shape[0]; ++r)
    for (std::int64_t i = 0; i < y.shape[1]; ++i) {
      const std::int64_t at = i % kTile, groups = y.shape[1] / kTile;
      std::int64_t group = i / kTile;
      if (f.is("scale_of_next") && group == f.n) group = group == 0 ? groups - 1 : group - 1;
      const unsigned byte = reinterpret_cast<const std::uint8_t*>(row_of(x, r))[i / 2];
      int code = static_cast<int>((byte >> static_cast<unsigned>(i % 2 * 4) & 0xFU) ^ 8U) - 8;
      if ((f.is("code_at") && at == f.n) || (f.is("code_of") && i == f.n) || (f.is("row_zero") && r == f.n) ||
          (f.is("code_lane") && at % kLanes == f.n))
        code = 0;
      row_of(y, r)[i] = static_cast<float>(code) * row_of(scales, r)[group];
    }
}

}  // namespace

bool is_of_rows(const assay_call* call) {
  const std::string_view op = call->op;
  return op == "softmax" || op == "rmsnorm" || op == "quantize" || op == "dequantize";
}

const char* contract_of_rows(const assay_call* call) {
  const std::string_view op = call->op;
  if (attribute(call, "dtype") != "f32") return nullptr;
  if (op == "softmax")
    return attribute(call, "mask") == "none" && attribute(call, "sinks") == "no" &&
                   attribute(call, "softcap") == "0" && attribute(call, "temperature") == "1"
               ? "acc=f32 exp=e"
               : nullptr;
  if (op == "rmsnorm") return "acc=f32";
  if (op == "quantize")
    return attribute(call, "to") == "int4_g32"
               ? "scale=divide code=divide round=nearest_even nan=propagate absmax=finite int_range=symmetric"
               : nullptr;
  return attribute(call, "from") == "int4_g32" ? "mid=f32 roundings=1" : nullptr;
}

void run_rows(const assay_call* call, const Fault& fault) {
  const std::string_view op = call->op;
  if (op == "softmax") softmax(call, fault);
  if (op == "rmsnorm") rmsnorm(call, fault);
  if (op == "quantize") quantize(call, fault);
  if (op == "dequantize") dequantize(call, fault);
}

}  // namespace misplaced
