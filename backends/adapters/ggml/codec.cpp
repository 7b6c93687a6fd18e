// quantize and dequantize through ggml's type tables: variant "ref" is the portable function that files are
// written with, "cpu" the one that the CPU backend uses at run time.
#include <ggml-cpu.h>

#include <cstring>

#include "backends/adapters/ggml/ggml.hpp"

namespace assay_ggml {
namespace {

const ggml_type_traits& traits(const assay_tensor& t) { return *ggml_get_type_traits(type_of(t)); }

bool wants_cpu(const Call& call) { return call.variant() == "cpu"; }

}  // namespace

bool is_codec(const Call& call) { return call.op() == "quantize" || call.op() == "dequantize"; }

std::string codec_kernel(const Call& call) {
  call.only("dtype", "f32");
  const assay_tensor& packed = call.op() == "quantize" ? call.output("y") : call.input("x");
  const ggml_type type = type_of(packed);
  const std::string name = ggml_type_name(type);
  const auto named = [](const std::string& symbol, const std::string& otherwise) {
    return symbol.empty() ? otherwise : symbol;
  };
  if (call.op() == "dequantize") {
    if (!traits(packed).to_float) throw Unsupported("ggml has no to_float for " + name);
    return named(decoder_name(type), "to_float_" + name);
  }
  const auto* cpu = ggml_get_type_traits_cpu(type);
  if (wants_cpu(call) ? !cpu || !cpu->from_float : !traits(packed).from_float_ref)
    throw Unsupported("ggml has no from_float for " + name);
  if (wants_cpu(call)) return named(encoder_name(type), "from_float_" + name);
  return named(symbol_of(reinterpret_cast<const void*>(traits(packed).from_float_ref)),
               "from_float_ref_" + name);
}

std::string codec_contract(const Call& call) {
  if (call.op() == "dequantize") return "mid=f32 roundings=1";
  const ggml_type to = type_of(call.output("y"));
  if (!ggml_is_quantized(to)) return "overflow=ieee";  // a float stays Inf, or becomes it
  // Its vector code has a processor's own rounding, halves to even.
  return wants_cpu(call) && (to == GGML_TYPE_Q8_0 || to == GGML_TYPE_Q8_1) ? "ties=any" : "";
}

void run_codec(const Call& call) {
  const bool quantize = call.op() == "quantize";
  const assay_tensor &x = call.input("x"), &y = call.output("y");
  const std::int64_t rows = x.shape[0], cols = x.shape[1];
  std::vector<char> out(ggml_row_size(type_of(y), cols) * static_cast<std::size_t>(rows));
  const std::vector<char> in = dense(x);
  for (std::int64_t r = 0; r < rows; ++r) {
    const char* from = in.data() + static_cast<std::size_t>(r) * ggml_row_size(type_of(x), cols);
    char* to = out.data() + static_cast<std::size_t>(r) * ggml_row_size(type_of(y), cols);
    if (!quantize)
      traits(x).to_float(from, reinterpret_cast<float*>(to), cols);
    else if (wants_cpu(call))
      ggml_get_type_traits_cpu(type_of(y))->from_float(reinterpret_cast<const float*>(from), to, cols);
    else
      traits(y).from_float_ref(reinterpret_cast<const float*>(from), to, cols);
  }
  scatter(out, y);
}

}  // namespace assay_ggml
