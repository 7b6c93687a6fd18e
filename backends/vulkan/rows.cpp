// softmax, logsumexp, layernorm, rmsnorm, wht, argmax: one workgroup to a row, reductions over its subgroup.
#include <bit>
#include <cmath>

#include "backends/vulkan/kernels.hpp"

namespace assay_vulkan {
namespace {

// passes: over the columns, a lane at a time.
void check_rows(const Call& call, const Device& device, std::int64_t passes = 3) {
  Session::check_loops(
      device,
      Session::passes(call.integer("rows")) * passes * (call.integer("cols") / device.subgroup() + 1) + 64);
  check_dtype(call.text("dtype"));
  check_readable(call, "x", call.text("dtype"));
  call.output("y");
}

// A lane's own additions, and subgroupAdd, whose order is the driver's. more: additions that follow it.
std::string row_order(const Call& call, const Device& device, std::int64_t more = 0) {
  const std::int64_t lanes = device.subgroup(), own = (call.integer("cols") + lanes - 1) / lanes - 1;
  return "order=depth:" + std::to_string(std::max<std::int64_t>(own + lanes - 1 + more, 1));
}

struct RowOp {
  RowOp(Session& given, const char* kernel, const Trace& watcher)
      : session(given), name(kernel), trace(watcher) {
    params.operand[0] = session.operand("x", format(session.call().text("dtype")));
    params.tensor[0] = session.tensor("y");
    constants.push_back(dtype_of(session.call()));
  }
  void run(const char* shader) {
    session.add(name, shader, constants, Session::groups(params.operand[0].payload.rows), params);
    session.run(trace);
  }
  Session& session;
  const char* name;
  const Trace& trace;
  Params params;
  std::vector<std::uint32_t> constants;
};

}  // namespace

void softmax_check(const Call& call, const Device& device) {
  check_rows(call, device);
  if (call.text("mask") == "random") call.input("mask");
  if (call.yes("sinks")) call.input("sinks");
}
std::string softmax_name(const Call&, const Device&) { return "softmax"; }
std::string softmax_contract(const Call& call, const Device& device) {
  return "acc=f32 " + row_order(call, device, call.yes("sinks") ? 1 : 0) + " exp=e exp_ulp=1 div_ulp=1" +
         std::string(call.real("softcap") > 0 ? " tanh_ulp=1" : "") + ftz(device);
}
void softmax_run(Session& session, const Trace& trace) {
  const Call& call = session.call();
  RowOp op(session, "softmax", trace);
  op.params.real[0] = static_cast<float>(call.real("temperature"));
  op.params.real[1] = static_cast<float>(call.real("softcap"));
  const bool random = call.text("mask") == "random";
  if (random) op.params.tensor[1] = session.tensor("mask");
  if (call.yes("sinks")) op.params.tensor[2] = session.tensor("sinks");
  op.constants.insert(op.constants.end(), {random                          ? 2U
                                           : call.text("mask") == "causal" ? 1U
                                                                           : 0U,
                                           call.yes("sinks") ? 1U : 0U, op.params.real[0] != 1 ? 1U : 0U,
                                           op.params.real[1] > 0 ? 1U : 0U});
  op.run("softmax");
}

void logsumexp_check(const Call& call, const Device& device) { check_rows(call, device); }
std::string logsumexp_name(const Call&, const Device&) { return "logsumexp"; }
std::string logsumexp_contract(const Call& call, const Device& device) {
  return "acc=f32 " + row_order(call, device) + " exp=e exp_ulp=1 log_ulp=1" + ftz(device);
}
void logsumexp_run(Session& session, const Trace& trace) {
  RowOp(session, "logsumexp", trace).run("logsumexp");
}

namespace {

void layernorm_check(const Call& call, const Device& device, std::int64_t passes) {
  check_rows(call, device, passes);
  check_readable(call, "gamma", "f32");
  check_readable(call, "beta", "f32");
}
std::string layernorm_contract(const std::string& variance, const Call& call, const Device& device) {
  return "variance=" + variance + " acc=f32 " +
         (variance == "welford" ? "order=sequential" : row_order(call, device)) + " rsqrt_ulp=1 div_ulp=1" +
         ftz(device);
}
void layernorm_run(Session& session, const Trace& trace, const char* name, std::uint32_t kind) {
  RowOp op(session, name, trace);
  op.params.tensor[1] = session.tensor("gamma");
  op.params.tensor[2] = session.tensor("beta");
  op.params.real[0] = static_cast<float>(session.call().real("eps"));
  op.constants.push_back(kind);
  op.run("layernorm");
}

}  // namespace

// lanes: of how many a lane reads the columns; welford's update is sequential, every lane reads them all.
#define ASSAY_VARIANCE(kind, number, declared, lanes)                                            \
  void layernorm_##kind##_check(const Call& call, const Device& device) {                        \
    layernorm_check(call, device, lanes + 2);                                                    \
  }                                                                                              \
  std::string layernorm_##kind##_name(const Call&, const Device&) { return "layernorm_" #kind; } \
  std::string layernorm_##kind##_contract(const Call& call, const Device& device) {              \
    return layernorm_contract(#declared, call, device);                                          \
  }                                                                                              \
  void layernorm_##kind##_run(Session& session, const Trace& trace) {                            \
    layernorm_run(session, trace, "layernorm_" #kind, number);                                   \
  }
ASSAY_VARIANCE(two_pass, 0, two_pass, 1)
ASSAY_VARIANCE(one_pass, 1, one_pass, 1)
ASSAY_VARIANCE(one_pass_unclamped, 2, one_pass, 1)
ASSAY_VARIANCE(welford, 3, welford, device.subgroup())
#undef ASSAY_VARIANCE

void rmsnorm_check(const Call& call, const Device& device) {
  check_rows(call, device);
  check_readable(call, "gamma", "f32");
}
std::string rmsnorm_name(const Call&, const Device&) { return "rmsnorm"; }
std::string rmsnorm_contract(const Call& call, const Device& device) {
  return "acc=f32 " + row_order(call, device) + " rsqrt_ulp=1 div_ulp=0.5" + ftz(device);
}
void rmsnorm_run(Session& session, const Trace& trace) {
  RowOp op(session, "rmsnorm", trace);
  op.params.tensor[1] = session.tensor("gamma");
  op.params.real[0] = static_cast<float>(session.call().real("eps"));
  op.run("rmsnorm");
}

void wht_check(const Call& call, const Device& device) {
  const std::int64_t points = call.integer("points");
  if (points < 1 || !std::has_single_bit(static_cast<std::uint64_t>(points)) ||
      call.integer("cols") % points != 0) {
    throw Unsupported("points must be a power of two that divides cols");
  }
  check_rows(call, device, std::countr_zero(static_cast<std::uint64_t>(points)) + 3);
  if (call.text("signs") != "none") call.input("signs");
}
std::string wht_name(const Call&, const Device&) { return "wht"; }
std::string wht_contract(const Call&, const Device& device) {
  return "acc=f32 order=tree scale=once" + ftz(device);
}
void wht_run(Session& session, const Trace& trace) {
  const Call& call = session.call();
  RowOp op(session, "wht", trace);
  const bool signs = call.text("signs") != "none";
  if (signs) op.params.tensor[1] = session.tensor("signs");
  const std::int64_t points = call.integer("points");
  op.params.integer[0] = points;
  op.params.integer[1] = std::countr_zero(static_cast<std::uint64_t>(points));
  op.params.real[0] = static_cast<float>(1.0 / std::sqrt(static_cast<double>(points)));
  op.constants.insert(op.constants.end(), {signs ? 1U : 0U, call.yes("inverse") ? 1U : 0U});
  const DeviceTensor& x = op.params.operand[0].payload;
  const std::uint32_t groups = std::min<std::uint32_t>(Session::groups(x.rows), 64);
  op.params.scratch[0] = session.scratch(std::int64_t{4} * x.width * groups);
  session.add("wht", "wht", op.constants, groups, op.params);
  session.run(trace);
}

void argmax_check(const Call& call, const Device& device) { check_rows(call, device); }
std::string argmax_name(const Call&, const Device&) { return "argmax"; }
std::string argmax_contract(const Call&, const Device&) { return ""; }
void argmax_run(Session& session, const Trace& trace) {
  RowOp op(session, "argmax", trace);
  op.constants.push_back(session.call().yes("checked") ? 1 : 0);
  op.run("argmax");
}

}  // namespace assay_vulkan
