// Mixtures of experts in W4A8 whose kernel is right and whose weights or dispatch are not: the call is
// changed in front of it.
#include <cstring>
#include <string>
#include <vector>

#include "backends/museum/museum.hpp"

namespace assay_museum {
namespace {

// The call with other bytes for its tensors, or another attribute.
class Changed {
 public:
  explicit Changed(const Call& call)
      : attributes_(call.raw().attributes, call.raw().attributes + call.raw().attribute_count),
        inputs_(call.raw().inputs, call.raw().inputs + call.raw().input_count),
        call_(call.raw()) {
    call_.attributes = attributes_.data(), call_.inputs = inputs_.data();
  }
  void set(std::string_view name, const char* value) {
    for (assay_attribute& each : attributes_)
      if (each.name == name) each.value = value;
  }
  // Rows of `tensor` packed side by side, each as `change` leaves it.
  template <typename F>
  void rewrite(std::string_view tensor, std::size_t row_bytes_of, F change) {
    for (assay_tensor& each : inputs_) {
      if (each.name != tensor) continue;
      std::int64_t rows = 1;
      for (int axis = 0; axis + 1 < each.rank; ++axis) rows *= each.shape[axis];
      std::vector<std::byte>& to = bytes_.emplace_back(static_cast<std::size_t>(rows) * row_bytes_of);
      for (std::int64_t r = 0; r < rows; ++r) {
        std::byte* row = to.data() + static_cast<std::size_t>(r) * row_bytes_of;
        std::memcpy(row, row_bytes(each, r), row_bytes_of);
        change(row);
      }
      each.data = to.data();
      auto step = static_cast<std::int64_t>(row_bytes_of);
      for (int axis = each.rank - 2; axis >= 0; --axis) each.stride[axis] = step, step *= each.shape[axis];
    }
  }
  void run() const { moe_run(Call(call_), kScalarEngine, Trace(nullptr)); }

 private:
  std::vector<assay_attribute> attributes_;
  std::vector<assay_tensor> inputs_;
  std::vector<std::vector<std::byte>> bytes_;
  assay_call call_;
};

[[gnu::noinline]] void moe_int8_experts(const Changed& call) { call.run(); }
[[gnu::noinline]] void moe_dequantised_f32(Changed& call) {
  call.set("path", "f32");
  call.run();
}

// The eight codes of a word taken in the order 0 2 4 6 1 3 5 7 once more.
std::uint32_t reordered(std::uint32_t codes) {
  static constexpr int kOrder[] = {0, 2, 4, 6, 1, 3, 5, 7};
  std::uint32_t word = 0;
  for (int i = 0; i < 8; ++i) word |= (codes >> 4 * kOrder[i] & 0xFU) << 4 * i;
  return word;
}

}  // namespace

// The weights of a W4A8 layer are described by a list of an fp8 and an int4 entry; the check knows lists
// only.
void moe_by_metadata(const Call& call, const Trace&, bool defect) {
  Changed changed(call);
  const std::string metadata = defect ? "{\"int4\": {}}" : "[{\"fp8\": {}}, {\"int4\": {}}]";
  metadata.front() == '[' ? moe_int8_experts(changed) : moe_dequantised_f32(changed);
}

// int4_g32_packed: the kernel undoes the order of each word; one that reads words linearly sees what this one
// sees of words that were reordered twice.
void moe_of_packed_words(const Call& call, bool defect) {
  Changed changed(call);
  for (const auto& [tensor, length] :
       {std::pair{"w13", call.integer("hidden")}, {"w2", call.integer("inter")}}) {
    if (!defect) break;
    const auto bytes = static_cast<std::size_t>(length / 2);
    changed.rewrite(tensor, bytes, [&](std::byte* row) {
      for (std::size_t at = 0; at < bytes; at += sizeof(std::uint32_t)) {
        std::uint32_t word = 0;
        std::memcpy(&word, row + at, sizeof word);
        word = reordered(word);
        std::memcpy(row + at, &word, sizeof word);
      }
    });
  }
  changed.run();
}

// int4_ch_tensor, w = code * weight_scale * weight_scale_2, of which a loader makes one scale. Dropped: the
// first is never read. Twice: the second was multiplied into the first already.
void moe_of_two_scales(const Call& call, bool first_dropped, bool twice) {
  Changed changed(call);
  const float second = f32_at(call.input("w13.scale_2"), 0);
  const std::int64_t count = call.input("w13.scale").shape[0];
  changed.rewrite("w13.scale", sizeof(float) * static_cast<std::size_t>(count), [&](std::byte* scales) {
    for (std::int64_t i = 0; i < count; ++i) {
      std::byte* at = scales + static_cast<std::size_t>(i) * sizeof(float);
      float scale = 0;
      std::memcpy(&scale, at, sizeof scale);
      scale = first_dropped ? 1.0F : twice ? scale * second : scale;
      std::memcpy(at, &scale, sizeof scale);
    }
  });
  changed.run();
}

}  // namespace assay_museum
