#include "backends/emulated/tensors.hpp"

#include <cstring>
#include <map>
#include <vector>

#include "reference/formats/plane.hpp"

namespace assay_emulated {
namespace {

using assay_plugin::Call;

// Bytes of one plane, rows brought together.
void copy_rows(const assay_tensor& from, assay::Plane& to) {
  const std::int64_t rows = assay_plugin::row_count(from);
  if (rows == 0) return;
  const std::size_t each = to.bytes.size() / static_cast<std::size_t>(rows);
  for (std::int64_t r = 0; r < rows; ++r)
    std::memcpy(to.bytes.data() + static_cast<std::size_t>(r) * each, assay_plugin::row_bytes(from, r), each);
}

}  // namespace

assay::Attributes attributes_of(const Call& call, const assay::Op& op) {
  std::map<std::string, std::string> given;
  for (const assay::KeySpec& spec : op.attributes)
    given[std::string(spec.name)] = std::string(call.text(spec.name));
  return assay::Attributes::complete(op.attributes, given);
}

assay::TensorSet inputs_of(const Call& call, const assay::Op& op, const assay::Attributes& attributes) {
  assay::TensorSet set;
  for (const assay::TensorSpec& spec : op.tensors(attributes)) {
    if (spec.role == assay::TensorRole::output) continue;
    assay::Encoded tensor{spec.format, spec.shape, {}};
    for (const assay::PlaneSpec& plane : assay::planes(assay::format(spec.format), spec.shape)) {
      assay::Plane bytes{plane, std::vector<std::byte>(plane.bytes)};
      copy_rows(call.input(spec.name + plane.suffix), bytes);
      tensor.planes.push_back(std::move(bytes));
    }
    set.emplace(spec.name, std::move(tensor));
  }
  return set;
}

void store(const assay_tensor& output, std::span<const double> values, assay::Overflow overflow) {
  const assay::ScalarFormat& format = assay::scalar_format(output.format);
  const assay::EncodePolicy policy{.overflow = overflow};
  const auto columns = static_cast<std::size_t>(assay_plugin::row_length(output));
  const std::size_t bytes = assay::plane_bytes(format, static_cast<std::int64_t>(columns));
  for (std::int64_t r = 0; r < assay_plugin::row_count(output); ++r) {
    const std::span<std::byte> row(assay_plugin::mutable_row(output, r), bytes);
    for (std::size_t c = 0; c < columns; ++c)
      assay::store_code(format, row, static_cast<std::int64_t>(c),
                        assay::encode(format, values[static_cast<std::size_t>(r) * columns + c], policy));
  }
}

void store(const assay_tensor& output, std::span<const float> values) {
  store(output, std::vector<double>(values.begin(), values.end()), assay::Overflow::ieee);
}

}  // namespace assay_emulated
