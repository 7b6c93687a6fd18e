// What the kernels declare and refuse, and what the plug-in says without a device. Nothing here needs a GPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "backends/gpu/formats.hpp"
#include "backends/gpu/kernels.hpp"

namespace assay_gpu {
namespace {

// A call without data: attributes and the planes of its tensors.
class DeclaredCall {
 public:
  DeclaredCall(std::string op, const std::map<std::string, std::string>& attributes)
      : op_(std::move(op)), attributes_(attributes) {}
  DeclaredCall& in(const std::string& name, std::string_view format, const std::vector<std::int64_t>& shape) {
    return add(inputs_, name, format, shape);
  }
  DeclaredCall& out(const std::string& name, std::string_view format,
                    const std::vector<std::int64_t>& shape) {
    return add(outputs_, name, format, shape);
  }
  // The contract, or the reason of a refusal after "refused: ".
  std::string declare(std::string_view variant, int major = 9, int minor = 0) {
    std::vector<assay_attribute> pairs;
    for (const auto& [name, value] : attributes_) pairs.push_back({name.c_str(), value.c_str()});
    const assay_call raw{op_.c_str(),     "",
                         pairs.data(),    static_cast<std::int32_t>(pairs.size()),
                         inputs_.data(),  static_cast<std::int32_t>(inputs_.size()),
                         outputs_.data(), static_cast<std::int32_t>(outputs_.size())};
    const Call call(raw);
    DeviceInfo device;
    device.major = major;
    device.minor = minor;
    for (const std::span<const Kernel> part : {op_kernels(), matrix_kernels()}) {
      for (const Kernel& row : part) {
        if (row.op != op_) continue;
        if (variant.empty() ? row.chosen != nullptr && !row.chosen(call) : row.variant != variant) continue;
        try {
          row.check(call, device);
          path = row.name(call);
          return row.contract(call, device);
        } catch (const Unsupported& reason) {
          return std::string("refused: ") + reason.what();
        }
      }
    }
    return "no such kernel";
  }
  std::string path;

 private:
  DeclaredCall& add(std::vector<assay_tensor>& list, const std::string& name, std::string_view format,
                    const std::vector<std::int64_t>& shape) {
    const FormatRow* row = find_format(format);
    const auto push = [&](const std::string& full, std::string_view plane) {
      names_.push_back(full);
      names_.emplace_back(plane);
      assay_tensor t{names_[names_.size() - 2].c_str(),
                     names_.back().c_str(),
                     nullptr,
                     static_cast<std::int32_t>(shape.size()),
                     {},
                     {}};
      std::copy(shape.begin(), shape.end(), t.shape);
      list.push_back(t);
    };
    push(name, format);
    if (row != nullptr && row->has_scale) push(name + ".scale", "f32");
    if (row != nullptr && row->has_second_scale) push(name + ".scale_2", "f32");
    if (row != nullptr && row->has_block_scale) push(name + ".block_scale", "e4m3fn");
    if (row != nullptr && row->has_global_scale) push(name + ".global_scale", "f32");
    return *this;
  }
  std::string op_;
  std::map<std::string, std::string> attributes_;
  std::deque<std::string> names_;
  std::vector<assay_tensor> inputs_, outputs_;
};

DeclaredCall product(const std::string& a, const std::string& b, const std::string& path = "auto",
                     std::int64_t k = 128) {
  DeclaredCall call("matmul", {{"m", "4"},
                               {"n", "8"},
                               {"k", std::to_string(k)},
                               {"a", a},
                               {"b", b},
                               {"dtype", "f32"},
                               {"path", path}});
  call.in("a", a, {4, k}).in("b", b, {8, k}).out("y", "f32", {4, 8});
  return call;
}

TEST(CudaKernels, a_product_declares_what_sums_it_and_how_its_scales_come) {
  EXPECT_EQ(product("bf16", "bf16").declare("f32"),
            "acc=f32 order=sequential dequant_roundings=1 epilogue_roundings=0");
  EXPECT_EQ(product("bf16", "nvfp4", "e4m3fn").declare("f32"),
            "acc=f32 order=sequential dequant_roundings=1 epilogue_roundings=1 scale=divide code=divide");
  EXPECT_EQ(product("e4m3fn_tok", "e4m3fn_tok").declare("mma_e4m3"),
            "acc=hopper_fp8_mma_sync order=sequential dequant_roundings=1 epilogue_roundings=2");
  EXPECT_EQ(product("e4m3fn_tok", "e4m3fn_tok").declare("wgmma_e4m3"),
            "acc=hopper_fp8 order=sequential promote=0 dequant_roundings=1 epilogue_roundings=2");
  EXPECT_EQ(product("e4m3fn_tok", "e4m3fn_tok").declare("wgmma_e4m3_p4"),
            "acc=hopper_fp8 order=sequential promote=4 dequant_roundings=1 epilogue_roundings=2");
  EXPECT_EQ(product("int8_tok", "int4_ch").declare("mma_s8"),
            "acc=i32 dequant_roundings=1 epilogue_roundings=3");
  EXPECT_EQ(product("int8_tok", "int4_ch_tensor").declare("mma_s8"),
            "acc=i32 dequant_roundings=1 epilogue_roundings=4");
  EXPECT_EQ(product("bf16", "int4_g32").declare("mma_bf16"),
            "acc=hopper_bf16 order=sequential dequant_roundings=1 epilogue_roundings=0");
}

TEST(CudaKernels, a_schedule_is_declared_whole) {
  EXPECT_EQ(product("f32", "f32").declare("f32_replay"),
            "acc=f32 order=sequential dequant_roundings=1 epilogue_roundings=0 level=replay "
            "schedule=acc:f32/fma:yes");
  EXPECT_EQ(product("e4m3fn_tok", "e4m3fn_tok").declare("wgmma_e4m3_p4_replay"),
            "acc=hopper_fp8 order=sequential promote=4 dequant_roundings=1 epilogue_roundings=2 level=replay "
            "schedule=acc:hopper_fp8/chunk:128/scales:a_b");
  EXPECT_EQ(product("int8_tok", "int4_ch").declare("dp4a_replay"),
            "acc=i32 dequant_roundings=1 epilogue_roundings=3 level=replay schedule=acc:i32/scales:a_b");
  EXPECT_EQ(product("bf16", "bf16").declare("mma_bf16_replay", 8, 0),
            "refused: this kernel is for compute capability 9.0, not 8.0");
}

TEST(CudaKernels, the_matrix_unit_is_the_devices_own) {
  EXPECT_EQ(product("f16", "f16").declare("mma_f16", 8, 0),
            "acc=a100_f16 block=8 split=1 dequant_roundings=1 epilogue_roundings=0");
  EXPECT_EQ(product("f16", "f16").declare("mma_f16", 8, 9),
            "acc=ada_f16 block=8 split=1 dequant_roundings=1 epilogue_roundings=0");
  EXPECT_EQ(product("f16", "f16").declare("mma_f16", 8, 6),
            "refused: how the matrix units of compute capability 8.6 sum is not described");
  EXPECT_EQ(product("e4m3fn_tok", "e4m3fn_tok").declare("wgmma_e4m3", 10, 0),
            "refused: this kernel is for compute capability 9.0, not 10.0");
}

TEST(CudaKernels, left_to_itself_the_backend_takes_integers_for_integer_codes_and_f32_else) {
  DeclaredCall integers = product("int8_tok", "int8_tok");
  EXPECT_EQ(integers.declare(""), "acc=i32 dequant_roundings=1 epilogue_roundings=3");
  EXPECT_EQ(integers.path, "gemm_dot4_s8");
  DeclaredCall floats = product("e4m3fn_tok", "e4m3fn_tok");
  EXPECT_EQ(floats.declare(""), "acc=f32 order=sequential dequant_roundings=1 epilogue_roundings=2");
  EXPECT_EQ(floats.path, "gemm_fma_f32");
}

TEST(CudaKernels, a_kernel_refuses_operands_that_are_not_its_own) {
  EXPECT_EQ(product("e5m2_tok", "e4m3fn_tok").declare("mma_e4m3"),
            "refused: this kernel multiplies e4m3fn codes, not e5m2_tok");
  EXPECT_EQ(product("bf16", "bf16").declare("mma_f16"),
            "refused: gemm_mma_f16 does not multiply operands of path=bf16");
  EXPECT_EQ(product("e4m3fn_tok", "e4m3fn_tok").declare("dp4a"),
            "refused: gemm_dot4_s8 multiplies integer codes, not e4m3fn_tok and e4m3fn_tok");
  EXPECT_EQ(product("bf16", "int4_g32", "codes").declare("f32"),
            "refused: path=codes needs codes of at most 8 bits and one scale per row on both sides, not bf16 "
            "and int4_g32");
  EXPECT_EQ(product("f32", "f32", "q8", 48).declare("f32"), "refused: path=q8 needs k in blocks of 32");
  EXPECT_EQ(product("f32", "q4_0", "auto", 48).declare("f32"),
            "refused: rows of 48 elements are not whole blocks of q4_0 (32)");
  EXPECT_EQ(product("f32", "q9_9").declare("f32"),
            "refused: format q9_9 has no row in this backend's list of formats");
}

TEST(CudaKernels, a_missing_plane_is_named) {
  DeclaredCall call("dequantize", {{"rows", "2"}, {"cols", "32"}, {"from", "e4m3fn_tok"}, {"dtype", "f32"}});
  call.in("x", "e4m3fn", {2, 32}).out("y", "f32", {2, 32});
  EXPECT_EQ(call.declare("bits"), "refused: tensor 'x.scale' of format e4m3fn_tok is missing");
}

TEST(CudaKernels, a_quantiser_declares_overflow_as_the_format_has_it) {
  for (const auto& [to, overflow] :
       std::map<std::string, std::string>{{"e4m3fn_tok", "saturate"}, {"f16", "ieee"}}) {
    DeclaredCall call("quantize", {{"rows", "2"}, {"cols", "32"}, {"to", to}, {"dtype", "f32"}});
    call.in("x", "f32", {2, 32}).out("y", to, {2, 32});
    for (const char* variant : {"bits", "toolkit"})
      EXPECT_EQ(call.declare(variant),
                "scale=divide code=divide nan=propagate int_range=full overflow=" + overflow);
  }
  DeclaredCall call("quantize", {{"rows", "2"}, {"cols", "32"}, {"to", "q4_0"}, {"dtype", "f32"}});
  call.in("x", "f32", {2, 32}).out("y", "q4_0", {2, 32});
  EXPECT_EQ(call.declare("toolkit"), "refused: the toolkit has no conversion for q4_0");
}

TEST(CudaKernels, a_transform_too_long_for_a_warp_goes_to_a_block) {
  const auto wht = [](const std::string& points) {
    DeclaredCall call("wht", {{"rows", "2"},
                              {"cols", "1024"},
                              {"points", points},
                              {"signs", "none"},
                              {"inverse", "no"},
                              {"dtype", "f32"}});
    call.in("x", "f32", {2, 1024}).out("y", "f32", {2, 1024});
    return call;
  };
  DeclaredCall fits = wht("256"), does_not = wht("512");
  fits.declare("");
  does_not.declare("");
  EXPECT_EQ(fits.path, "wht_warp");
  EXPECT_EQ(does_not.path, "wht_block");
  EXPECT_EQ(does_not.declare("warp"), "refused: the warp kernel takes at most 256 points");
}

TEST(CudaKernels, every_row_can_be_named_and_each_op_has_one_that_runs_unasked) {
  std::set<std::string> named;
  std::map<std::string, int> unasked;
  for (const std::span<const Kernel> part : {op_kernels(), matrix_kernels()}) {
    for (const Kernel& row : part) {
      EXPECT_TRUE(named.insert(std::string(row.op) + ":" + std::string(row.variant)).second)
          << row.op << ":" << row.variant;
      unasked[std::string(row.op)] += row.chosen == nullptr ? 1 : 0;
    }
  }
  EXPECT_EQ(unasked.size(), 12U);
  for (const auto& [op, rows] : unasked) EXPECT_EQ(rows, 1) << op;
}

TEST(CudaKernels, bytes_of_a_plane_are_those_of_its_format) {
  EXPECT_EQ(plane_bytes("f32", 3), 12);
  EXPECT_EQ(plane_bytes("e2m1", 6), 3);
  EXPECT_EQ(plane_bytes("q4_0", 64), 36);
  EXPECT_EQ(plane_bytes("tq3_0_c2", 32), 14);
  EXPECT_EQ(plane_bytes("int32", 5), 20);
  EXPECT_THROW(plane_bytes("q9_9", 32), Unsupported);
}

TEST(CudaKernels, without_a_driver_opening_the_device_gives_a_reason) {
  try {
    const DeviceInfo device = open_device();
    GTEST_SKIP() << "this machine has a GPU: " << device.name;
  } catch (const Failed& reason) {
    EXPECT_EQ(std::string(reason.what()).substr(0, 7), "no GPU:") << reason.what();
  }
}

}  // namespace
}  // namespace assay_gpu
