// What only a device can show: guard zones, changed inputs and errors of launches are found, their correct
// counterparts pass; the toolkit's conversions and ours agree there too. Skipped where there is no GPU.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <string>
#include <vector>

#include "backends/cuda/device_test_kernels.hpp"
#include "backends/gpu/code_numbers.hpp"

namespace assay_gpu {
namespace {

using assay_plugin::Failed;

// A call with an input x and an output y of `count` f32 each, at an odd place of memory.
class SmallCall {
 public:
  static constexpr std::int64_t kCount = 37;
  SmallCall() : x_(kCount + 1, 2.0F), y_(kCount + 1, -7.0F) {
    const auto tensor = [](const char* name, float* data) {
      assay_tensor t{name, "f32", data, 1, {}, {}};
      t.shape[0] = kCount;
      t.stride[0] = 4;
      return t;
    };
    input_ = tensor("x", x_.data() + 1);
    output_ = tensor("y", y_.data() + 1);
    call.op = "test";
    call.variant = "";
    call.inputs = &input_;
    call.input_count = 1;
    call.outputs = &output_;
    call.output_count = 1;
  }
  const float* y() const { return y_.data() + 1; }
  assay_call call{};

 private:
  std::vector<float> x_, y_;
  assay_tensor input_{}, output_{};
};

class CudaDevice : public testing::Test {
 protected:
  void SetUp() override {
    try {
      device_ = open_device();
    } catch (const Failed& reason) {
      GTEST_SKIP() << reason.what();
    }
  }
  // What finish() says after the kernels of `launch`; "" for nothing.
  template <class Launch>
  static std::string complaint(const Launch& launch, SmallCall& small) {
    Memory memory(small.call, true);
    try {
      launch(memory);
      memory.finish();
    } catch (const Failed& reason) {
      return reason.what();
    }
    return "";
  }
  template <class Launch>
  static std::string complaint(const Launch& launch) {
    SmallCall small;
    return complaint(launch, small);
  }
  DeviceInfo device_;
};

TEST_F(CudaDevice, an_output_comes_back_whole_and_unwritten_elements_keep_their_poison) {
  SmallCall small;
  EXPECT_EQ(complaint([](Memory& m) { launch_fill(m.output("y"), 0, SmallCall::kCount - 1); }, small), "");
  for (std::int64_t i = 0; i + 1 < SmallCall::kCount; ++i) ASSERT_EQ(small.y()[i], 1.0F);
  EXPECT_EQ(small.y()[SmallCall::kCount - 1], -7.0F);
  EXPECT_EQ(small.y()[-1], -7.0F);
}

TEST_F(CudaDevice, a_tensor_lies_as_misaligned_as_on_the_host) {
  SmallCall small;
  Memory memory(small.call, true);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.output("y").data) % 256,
            reinterpret_cast<std::uintptr_t>(small.y()) % 256);
}

TEST_F(CudaDevice, a_store_past_the_end_is_found) {
  EXPECT_EQ(complaint([](Memory& m) { launch_fill(m.output("y"), 0, SmallCall::kCount); }), "");
  EXPECT_EQ(complaint([](Memory& m) { launch_fill(m.output("y"), 0, SmallCall::kCount + 1); }),
            "a kernel wrote 0 bytes past the end of y");
  EXPECT_EQ(complaint([](Memory& m) { launch_fill(m.output("y"), SmallCall::kCount + 2, 1); }),
            "a kernel wrote 8 bytes past the end of y");
}

TEST_F(CudaDevice, a_store_before_the_beginning_is_found) {
  EXPECT_EQ(complaint([](Memory& m) { launch_fill(m.output("y"), -1, 1); }),
            "a kernel wrote 4 bytes before y");
}

TEST_F(CudaDevice, a_store_past_a_temporary_is_found) {
  EXPECT_EQ(complaint([](Memory& m) { launch_fill(m.temporary_array<float>(16), 0, 16); }), "");
  EXPECT_EQ(complaint([](Memory& m) { launch_fill(m.temporary_array<float>(16), 0, 17); }),
            "a kernel wrote 0 bytes past the end of a temporary of 64 bytes");
}

TEST_F(CudaDevice, a_store_into_an_input_is_found) {
  EXPECT_EQ(complaint([](Memory& m) { launch_fill(m.input("x"), 3, 1); }), "a kernel wrote into the input x");
}

TEST_F(CudaDevice, a_refused_launch_is_a_failure_with_the_name_of_the_kernel) {
  SmallCall small;
  const assay_plugin::Call call(small.call);
  const assay_plugin::Trace trace(nullptr);
  Memory memory(small.call, true);
  const assay_gpu::Run run{call, memory, trace, device_};
  launch_fill(memory.output("y"), 0, 1);
  EXPECT_NO_THROW(run.launched("fill"));
  launch_too_large();
  try {
    run.launched("too_large");
    ADD_FAILURE() << "a block of 4096 threads was accepted";
  } catch (const Failed& reason) {
    EXPECT_NE(std::string(reason.what()).find("launch of too_large"), std::string::npos) << reason.what();
  }
  EXPECT_NO_THROW(memory.finish()) << "the error of a refused launch does not stay";
}

TEST_F(CudaDevice, the_toolkit_and_the_bits_agree_on_every_code) {
  SmallCall small;
  Memory memory(small.call, true);
  for (const Element element : kToolkitElements) {
    const BothCodes both = decode_on_device(memory, element, 1U << element_bits(element));
    for (std::size_t code = 0; code < both.bits.size(); ++code) {
      const float host = decode_element(element, static_cast<std::uint32_t>(code));
      ASSERT_TRUE(both.bits[code] == both.toolkit[code] ||
                  (is_nan(float_of(both.bits[code])) && is_nan(float_of(both.toolkit[code]))))
          << static_cast<int>(element) << " code " << code;
      ASSERT_TRUE(both.bits[code] == bits_of(host) || is_nan(host)) << "the host differs from the device";
    }
  }
}

TEST_F(CudaDevice, the_toolkit_and_the_bits_agree_on_numbers_around_every_boundary) {
  SmallCall small;
  Memory memory(small.call, true);
  for (const Element element : kToolkitElements) {
    const std::vector<float> numbers = numbers_around(element);
    const BothCodes both = encode_on_device(memory, element, numbers);
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      ASSERT_TRUE(same_code(element, both.bits[i], both.toolkit[i]))
          << static_cast<int>(element) << " of " << numbers[i] << ": " << both.bits[i] << " and "
          << both.toolkit[i];
      ASSERT_EQ(both.bits[i], encode_element(element, numbers[i])) << "the host differs from the device";
    }
  }
}

// An output of two rows that are 8 GiB apart; the host has pages only where something was stored.
class FarCall {
 public:
  static constexpr std::int64_t kApart = std::int64_t{1} << 33;
  static constexpr std::int64_t kCount = 16;
  FarCall()
      : memory_(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
                     0)) {
    output_ = {"y", "f32", memory_, 2, {2, kCount}, {kApart, 4}};
    call.op = "test";
    call.variant = "";
    call.outputs = &output_;
    call.output_count = 1;
  }
  ~FarCall() { munmap(memory_, kBytes); }
  FarCall(const FarCall&) = delete;
  FarCall& operator=(const FarCall&) = delete;
  bool mapped() const { return memory_ != MAP_FAILED; }
  float at(std::int64_t row, std::int64_t column) const {
    return *reinterpret_cast<const float*>(static_cast<const char*>(memory_) + row * kApart + 4 * column);
  }
  assay_call call{};

 private:
  static constexpr std::size_t kBytes = static_cast<std::size_t>(kApart) + 4096;
  void* memory_;
  assay_tensor output_{};
};

TEST_F(CudaDevice, rows_farther_apart_than_32_bits_keep_their_distance_and_their_gaps_are_watched) {
  FarCall far;
  if (!far.mapped()) GTEST_SKIP() << "the host has no addresses for a span of 8 GiB";
  {
    Memory memory(far.call, true);
    for (const std::int64_t row : {0, 1})
      launch_fill(memory.output("y"), row * FarCall::kApart / 4, FarCall::kCount);
    EXPECT_NO_THROW(memory.finish());
    EXPECT_EQ(far.at(0, FarCall::kCount - 1), 1.0F);
    EXPECT_EQ(far.at(1, 0), 1.0F);
    EXPECT_EQ(far.at(1, FarCall::kCount - 1), 1.0F);
  }
  Memory memory(far.call, true);
  launch_fill(memory.output("y"), FarCall::kApart / 4 + FarCall::kCount, 1);
  try {
    memory.finish();
    ADD_FAILURE() << "a store behind the second row was not found";
  } catch (const Failed& reason) {
    EXPECT_EQ(std::string(reason.what()), "a kernel wrote between the rows of y");
  }
}

// Last: it takes the context with it.
TEST_F(CudaDevice, calls_after_a_lost_device_run_again_or_say_why_not) {
  const std::string lost = complaint([](Memory&) { launch_wild_store(); });
  EXPECT_NE(lost.find("a kernel failed"), std::string::npos) << lost;
  SmallCall small;
  try {
    EXPECT_EQ(complaint([](Memory& m) { launch_fill(m.output("y"), 0, 3); }, small), "");
    EXPECT_EQ(small.y()[2], 1.0F);
  } catch (const Failed& reason) {
    EXPECT_NE(std::string(reason.what()).find("the device was lost before this call"), std::string::npos);
  }
}

}  // namespace
}  // namespace assay_gpu
