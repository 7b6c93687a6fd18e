// What the kernels on rows declare to be judged bit by bit (level=replay): the order of their sums, their
// exponential, their quotients.
#include "backends/cpu/ops.hpp"

namespace assay_cpu {
namespace {

bool is_simd(const Engine& engine) { return &engine != &kScalarEngine; }

std::string exponential(const Engine& engine) {
  return std::string("exp:") + (!is_simd(engine) ? "libm" : engine.fma ? "taylor7" : "taylor7_mul");
}

// One vector of sums beside the exponentials; what is left behind whole vectors goes on over the lanes.
std::string exponentials_sum(const Engine& engine) {
  return "/sum.acc:f32/sum.lanes:" + std::to_string(engine.exp_lanes);
}

// Two vectors of sums; a whole vector that is left goes to the first, the rest to the second.
std::string lanes(const Engine& engine, const std::string& prefix) {
  std::string text = "/" + prefix + "acc:f32/" + prefix + "lanes:" + std::to_string(engine.sum_lanes);
  if (is_simd(engine)) text += "/" + prefix + "tail:vector:" + std::to_string(engine.sum_lanes / 2);
  return text;
}
std::string squares(const Engine& engine) {
  return lanes(engine, "squares.") + (is_simd(engine) && engine.fma ? "/squares.fma:yes" : "");
}

std::string judged_by(const std::string& contract, const std::string& schedule) {
  return contract + " level=replay schedule=" + schedule;
}

std::string layernorm_schedule(const Engine& engine, const std::string& variance) {
  return "variance:" + variance + "/mean:division/root:inverse/product:x_inv_gamma/shift:add" +
         lanes(engine, "sum.") + squares(engine);
}

}  // namespace

std::string softmax_replay_contract(const Call& call, const Engine& engine) {
  std::string steps = exponential(engine);
  if (call.real("temperature") != 1) steps += "/temperature:division";
  if (call.real("softcap") > 0) steps += "/cap:libm";
  if (call.text("mask") != "none") steps += "/hidden:closed";
  if (call.yes("sinks")) steps += "/sink:libm";
  return judged_by(softmax_contract(call, engine), steps + "/quotient:reciprocal" + exponentials_sum(engine));
}
std::string logsumexp_replay_contract(const Call& call, const Engine& engine) {
  return judged_by(logsumexp_contract(call, engine),
                   exponential(engine) + "/log:libm" + exponentials_sum(engine));
}
std::string rmsnorm_replay_contract(const Call& call, const Engine& engine) {
  return judged_by(rmsnorm_contract(call, engine),
                   "mean:division/root:inverse/product:x_inv_gamma" + squares(engine));
}
std::string layernorm_two_pass_replay_contract(const Call& call, const Engine& engine) {
  return judged_by(layernorm_two_pass_contract(call, engine), layernorm_schedule(engine, "two_pass"));
}
std::string layernorm_one_pass_replay_contract(const Call& call, const Engine& engine) {
  return judged_by(layernorm_one_pass_contract(call, engine), layernorm_schedule(engine, "one_pass"));
}
std::string wht_replay_contract(const Call& call, const Engine& engine) {
  return judged_by(wht_contract(call, engine), "stages:ascending/scale:last");
}

}  // namespace assay_cpu
