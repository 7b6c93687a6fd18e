// The rows of attention whose kernels are the same source on every vendor's devices.
#include <array>

#include "backends/gpu/attention.hpp"

namespace assay_gpu {
namespace {

void check(const Call& call, const DeviceInfo&) { attention_check(call); }

// Few rows against many keys: one block per kv head would leave the device idle.
bool split_chosen(const Call& call) { return call.integer("q") <= 2 && call.integer("len") >= 2048; }

std::string_view convert_f16_name(const Call&) { return "attention_convert_f16"; }

constexpr auto kRows = std::to_array<Kernel>({
    {"attention", "split", split_chosen, check, attention_split_name, attention_split_contract,
     attention_split_run},
    {"attention", "decode", nullptr, check, attention_decode_name, attention_decode_contract,
     attention_decode_run},
    {"attention", "deferred", never, attention_deferred_check, attention_decode_name,
     attention_deferred_contract, attention_deferred_run, true},
    {"attention", "convert_f16", never, check, convert_f16_name, attention_convert_f16_contract,
     attention_convert_f16_run},
});

}  // namespace

std::string_view attention_decode_name(const Call&) { return "attention_decode"; }
std::string_view attention_split_name(const Call&) { return "attention_split"; }

std::span<const Kernel> attention_vector_kernels() { return kRows; }

}  // namespace assay_gpu
