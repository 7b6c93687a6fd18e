// A language model small enough to be judged by eye: bytes in, printable bytes out, real probabilities.
//
//   token t -> embedding e_t in R^8, uniform in [-5, 5]; bytes from 0x80 up are the large range, [25, 50]
//   v      = dequantise(quantise_e4m3fn(e_t / scale))      the "KV cache": one scale per token, or one that
//                                                          is locked
//   n      = (v - mean) / sqrt(var + 1e-12)                LayerNorm, two-pass
//   state += sign(position) * n                            what attention would gather
//   logits = gain * W state / sqrt(length) + B[last]       softmax gives the probabilities, argmax the token
//
// Weights are hashes of the seed. A prefix cache keeps the state after every 16 tokens; taking it up gives
// the same bits.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace assay::live {

enum class Fault {
  none,
  rounding,    // no fault: answers over the cache are rounded a little differently, as real ones are
  habit,       // no fault: a model that runs into loops by itself, as small ones do
  scale_lock,  // one scale for ever, absmax of the first request / 200: larger values clip
  cascade,     // scale_lock, LayerNorm without eps (0/0 on clipped tokens), and NaN left in recycled pages
  poisoned_prefix,  // a cached block is committed before its state is written: zeros
  state_leak,       // every request after a large-range one starts from its remains
  nan_logprobs,     // right tokens, probabilities that are no number
  repetition,       // all logits equal: argmax gives token 0, which is "!"
  nondeterminism,   // logits depend on how many requests came before
  not_greedy,       // takes the second most probable token
  empty,            // no token, finish reason length
  slow,             // one byte each 50 ms
  hang,             // no answer
  malformed,        // half of the JSON
  http_500,
  disconnect,  // closes in the middle of the body
};
inline constexpr std::array<std::pair<Fault, std::string_view>, 17> kFaults = {
    {{Fault::none, "none"},
     {Fault::rounding, "rounding"},
     {Fault::habit, "habit"},
     {Fault::scale_lock, "scale_lock"},
     {Fault::cascade, "cascade"},
     {Fault::poisoned_prefix, "poisoned_prefix"},
     {Fault::state_leak, "state_leak"},
     {Fault::nan_logprobs, "nan_logprobs"},
     {Fault::repetition, "repetition"},
     {Fault::nondeterminism, "nondeterminism"},
     {Fault::not_greedy, "not_greedy"},
     {Fault::empty, "empty"},
     {Fault::slow, "slow"},
     {Fault::hang, "hang"},
     {Fault::malformed, "malformed"},
     {Fault::http_500, "http_500"},
     {Fault::disconnect, "disconnect"}}};

struct StubStep {
  std::string token;
  double logprob;
  std::vector<std::pair<std::string, double>> top;  // five
};

struct StubAnswer {
  std::vector<StubStep> steps;
  long cached_tokens = 0;
};

class StubModel {
 public:
  static constexpr int kOutputs = 95;  // '!' (token 0) to '~', then the space
  explicit StubModel(std::uint64_t seed) : seed_(seed) {}
  // `salt`: prefixes are shared only between requests of the same salt. `use_cache` false: neither read nor
  // written.
  StubAnswer complete(const std::vector<int>& bytes, int tokens, bool use_cache, const std::string& salt,
                      Fault fault);

 private:
  static constexpr int kWidth = 8, kBlock = 16;
  using Vector = std::array<double, kWidth>;
  struct State {
    Vector sum{};
    int length = 0;
  };
  std::uint64_t seed_;
  double locked_scale_ = 0;
  Vector leak_{}, stale_{};
  std::uint64_t requests_ = 0;
  std::map<std::string, State> cache_;
  double uniform(std::uint64_t a, std::uint64_t b, std::uint64_t c) const;  // [-1, 1)
  Vector embed(int byte) const;
  void take(State& s, int byte, Fault fault) const;
};

}  // namespace assay::live
