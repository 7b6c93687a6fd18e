// What each op's file gives to the list in kernels.cpp: OP_check, OP_contract, OP_run, and helpers that ops
// share.
#pragma once

#include <cstdint>
#include <string>

#include "backends/cpu/call.hpp"
#include "backends/cpu/engine.hpp"
#include "backends/cpu/kernels.hpp"

namespace assay_cpu {

#define ASSAY_OP(op)                                                 \
  void op##_check(const Call& call);                                 \
  std::string op##_contract(const Call& call, const Engine& engine); \
  void op##_run(const Call& call, const Engine& engine, const Trace& trace)
ASSAY_OP(softmax);
ASSAY_OP(wht);
ASSAY_OP(logsumexp);
ASSAY_OP(rmsnorm);
ASSAY_OP(argmax);
ASSAY_OP(quantize);
ASSAY_OP(dequantize);
ASSAY_OP(requantize);
ASSAY_OP(kv_write);
ASSAY_OP(matmul);
ASSAY_OP(moe);
#undef ASSAY_OP
std::string matmul_replay_contract(const Call& call, const Engine& engine);
std::string moe_replay_contract(const Call& call, const Engine& engine);

// Kernels on rows under level=replay: row_schedules.cpp.
#define ASSAY_REPLAYED(kernel) std::string kernel##_replay_contract(const Call& call, const Engine& engine)
ASSAY_REPLAYED(softmax);
ASSAY_REPLAYED(logsumexp);
ASSAY_REPLAYED(rmsnorm);
ASSAY_REPLAYED(layernorm_two_pass);
ASSAY_REPLAYED(layernorm_one_pass);
ASSAY_REPLAYED(wht);
#undef ASSAY_REPLAYED

// An op with several kernels: OP_check serves all, OP_KIND_{chosen,name,contract,run} each.
void layernorm_check(const Call& call);
#define ASSAY_VARIANCE(kind)                                                       \
  std::string layernorm_##kind##_contract(const Call& call, const Engine& engine); \
  void layernorm_##kind##_run(const Call& call, const Engine& engine, const Trace& trace)
ASSAY_VARIANCE(two_pass);
ASSAY_VARIANCE(one_pass);
ASSAY_VARIANCE(one_pass_unclamped);
ASSAY_VARIANCE(welford);
#undef ASSAY_VARIANCE

#define ASSAY_ATTENTION(kind)                                                      \
  bool attention_##kind##_chosen(const Call& call);                                \
  std::string attention_##kind##_contract(const Call& call, const Engine& engine); \
  void attention_##kind##_run(const Call& call, const Engine& engine, const Trace& trace)
ASSAY_ATTENTION(decode);
ASSAY_ATTENTION(prefill);
ASSAY_ATTENTION(split);
ASSAY_ATTENTION(prefill_p_f16);
ASSAY_ATTENTION(decode_q8);
void attention_decode_q8_check(const Call& call);
ASSAY_ATTENTION(deferred);
void attention_deferred_check(const Call& call);
ASSAY_ATTENTION(convert_f16);
#undef ASSAY_ATTENTION
void attention_tiles_check(const Call& call);
std::string attention_decode_replay_contract(const Call& call, const Engine& engine);
std::string attention_prefill_replay_contract(const Call& call, const Engine& engine);
std::string attention_prefill_p_f16_replay_contract(const Call& call, const Engine& engine);
std::string attention_split_replay_contract(const Call& call, const Engine& engine);
std::string attention_convert_f16_replay_contract(const Call& call, const Engine& engine);
std::string attention_decode_q8_replay_contract(const Call& call, const Engine& engine);
std::string attention_deferred_replay_contract(const Call& call, const Engine& engine);

// From this many keys on a decode call is split over the keys.
inline constexpr std::int64_t kSplitFromKeys = 2048;

// The contract of every kernel that stores in format `to`.
std::string quantiser_contract(std::string_view to);

// In place over x[0 .. length), in groups of `points`; signs packed 32 to a word, nullptr for none.
void wht_row(float* x, std::int64_t length, std::int64_t points, const std::uint32_t* signs, bool inverse);
// The signs of the 32-point transform of tq3_0.
inline constexpr std::uint32_t kTq3Signs[1] = {0xB1A6D4B2U};

}  // namespace assay_cpu
