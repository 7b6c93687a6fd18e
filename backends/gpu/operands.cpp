#include "backends/gpu/operands.hpp"

#include "backends/gpu/formats.hpp"

namespace assay_gpu {
namespace {

// Codes of at most 8 bits, with no scale or one that is constant along a row.
bool has_row_codes(std::string_view name) {
  const FormatRow* row = find_format(name);
  if (row == nullptr || row->format.block != Block::none || row->bits > 8) return false;
  return row->format.scaling != Scaling::channel && row->format.scaling != Scaling::group32;
}

bool integer_codes(std::string_view name) {
  const Element element = format_row(name).format.element;
  return element == Element::int8 || element == Element::int4;
}

std::string_view resolve(std::string_view path, std::string_view a, std::string_view b) {
  if (path != "auto") return path;
  if (has_row_codes(a) && has_row_codes(b)) return "codes";
  for (const std::string_view format : {a, b}) {
    if (format == "f16" || format == "bf16") return format;
  }
  return "f32";
}

Path path_of(std::string_view name) {
  if (name == "f32") return Path::f32;
  if (name == "f16") return Path::f16;
  if (name == "bf16") return Path::bf16;
  if (name == "codes") return Path::codes;
  if (name == "e4m3fn") return Path::e4m3fn;
  if (name == "q8") return Path::q8;
  throw Unsupported("path=" + std::string(name) +
                    " has no kernel: f32, f16, bf16, codes, e4m3fn and q8 have");
}

}  // namespace

Product::Product(std::string_view a_format, std::string_view b_format, std::string_view wanted)
    : a(a_format), b(b_format), path_name(resolve(wanted, a, b)), path(path_of(path_name)) {}

bool Product::integer() const { return path == Path::codes && integer_codes(a) && integer_codes(b); }

void check_product(const Product& product, std::int64_t k) {
  if (product.path == Path::codes && !(has_row_codes(product.a) && has_row_codes(product.b))) {
    throw Unsupported("path=codes needs codes of at most 8 bits and one scale per row on both sides, not " +
                      std::string(product.a) + " and " + std::string(product.b));
  }
  if (product.path == Path::q8 && k % 32 != 0) throw Unsupported("path=q8 needs k in blocks of 32");
}

void check_codes(const Product& product, Element element, std::string_view name) {
  if (product.path == Path::e4m3fn) return;
  for (const std::string_view format : {product.a, product.b}) {
    if (format_row(format).format.element != element)
      throw Unsupported("this kernel multiplies " + std::string(name) + " codes, not " + std::string(format));
  }
}

void check_gemm(const GemmKernel& kernel, const Product& product, std::int64_t k, const DeviceInfo& device) {
  check_product(product, k);
  if (!kernel.takes(product.path))
    throw Unsupported(std::string(kernel.name) +
                      " does not multiply operands of path=" + std::string(product.path_name));
  if (kernel.integer && !product.integer())
    throw Unsupported(std::string(kernel.name) + " multiplies integer codes, not " + std::string(product.a) +
                      " and " + std::string(product.b));
  if (kernel.check != nullptr) kernel.check(product, device);
}

std::string product_contract(const GemmKernel& kernel, const Product& product, const DeviceInfo& device) {
  std::string contract = kernel.accumulator(device) + " dequant_roundings=1 epilogue_roundings=";
  // Two scales of one side are one number first, which is a rounding.
  const int more = format_row(product.a).format.second + format_row(product.b).format.second;
  if (kernel.integer)
    return contract + std::to_string(3 + more);  // the int32 sum to f32, and the scales of both sides
  if (product.path == Path::codes) return contract + std::to_string(2 + more);
  return contract + (product.path == Path::e4m3fn ? "1" : "0");
}

}  // namespace assay_gpu
