#include "reference/ops/replayed_moe.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>

#include "reference/formats/scalar.hpp"
#include "reference/ops/moe_hidden.hpp"
#include "reference/ops/replayed_matmul.hpp"
#include "reference/replay/declared.hpp"
#include "reference/replay/exponentials.hpp"
#include "reference/replay/grouped_schedule.hpp"

namespace assay {
namespace {

struct MoeSchedule {
  std::string exp = "libm", silu = "quotient", combine = "experts", code = "division";
  GroupedSchedule up, down;
};

constexpr std::array kKeys = {
    schedule_key("exp", "libm", kRowExps, "of silu"),
    schedule_key("silu", "quotient", "quotient|sigmoid", "g / (1 + e^-g), or g times a reciprocal"),
    schedule_key("combine", "experts", "experts|slots", "the order of a token's experts"),
    schedule_key("code", "division", "division|reciprocal", "of h on path=codes")};
constexpr KeyTable kTable("key of a schedule of moe", kKeys);

MoeSchedule parse_moe_schedule(std::string_view text) {
  std::vector<KeyPair> own;  // without those of its two products
  for (const KeyPair& pair : key_pairs("schedule of moe", text))
    if (!pair.key.starts_with("up.") && !pair.key.starts_with("down.")) own.push_back(pair);
  const std::vector<std::string> values = kTable.complete(own);
  MoeSchedule s{values[0], values[1], values[2], values[3], {}, {}};
  s.up = parse_grouped_schedule(text, "up."), s.down = parse_grouped_schedule(text, "down.");
  return s;
}

MoeSchedule declared(const std::string& text, const Attributes& a, const Contract& contract) {
  MoeSchedule s = parse_moe_schedule(text);
  require_plain_store(contract);
  const MoePaths paths = moe_paths(a);
  const auto is_integer = [&](const char* key) { return format(a.text(key)).element.starts_with("int"); };
  // acc=i32 is of products of integer codes; the other product of such a call is summed in f32.
  const auto of_product = [&](const Contract& own, const std::string& path, const char* weights) {
    const bool integers = path == "codes" && is_integer("a") && is_integer(weights);
    return own.text("acc") == "i32" && !integers ? own.with("acc", "f32") : own;
  };
  for (const auto& [name, sum, n, own] :
       {std::tuple{"up", &s.up, a.integer("hidden"), of_product(contract, paths.up, "w")},
        std::tuple{"down", &s.down, a.integer("inter"),
                   of_product(contract_of_down(contract), paths.down, "w2")}})
    for (const Schedule* each : sum->all())
      if (const std::string against = contradiction(own, *each, n); !against.empty())
        refuse_contract(fmt::format("level=replay: {}: {}", name, against));
  return s;
}

// The rows `which` of an operand, in that order.
ReplayRows rows_of(const ReplayRows& from, const std::vector<std::int64_t>& which) {
  ReplayRows rows{rows_of(from.operand, which), {}, {}, {}, from.scaled};
  for (const std::int64_t r : which) {
    rows.scales.push_back(from.scales[static_cast<std::size_t>(r)]);
    rows.finite.push_back(from.finite[static_cast<std::size_t>(r)]);
  }
  return rows;
}

std::vector<std::int64_t> range(std::int64_t first, std::int64_t count) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(count));
  std::iota(all.begin(), all.end(), first);
  return all;
}

// a b^T with its scales, in f32, of rows that meet one expert's weights; NaN where a row is not finite.
std::vector<float> products(const ReplayRows& a, const ReplayRows& b, const GroupedSchedule& schedule,
                            const char* name) {
  if ((a.scaled || b.scaled) &&
      std::ranges::any_of(schedule.all(), [](const Schedule* each) { return each->scales == "none"; }))
    refuse_contract(
        fmt::format("level=replay: the schedule has {}.scales=none, and the operands have scales; allowed: "
                    "a_b|b_a|product",
                    name));
  const std::vector<double> sums = replay_sums(schedule, a.operand, b.operand);
  const std::size_t n = b.finite.size();
  std::vector<float> made(sums.size());
  for (std::size_t at = 0; at < sums.size(); ++at) {
    const std::string& scales = schedule
                                    .of(static_cast<std::int64_t>(at / n), a.operand.rows,
                                        static_cast<std::int64_t>(at % n), b.operand.rows)
                                    .scales;
    made[at] = a.finite[at / n] && b.finite[at % n]
                   ? static_cast<float>(with_scales(sums[at], a.scales[at / n], b.scales[at % n], scales))
                   : std::nanf("");
  }
  return made;
}

float rounded_to(float x, std::string_view name) {
  return name == "f32" ? x
                       : static_cast<float>(round_to(scalar_format(name), static_cast<double>(x),
                                                     {.overflow = Overflow::ieee}));
}

// h as the rows of the second product; a row that has no codes, or no finite ones, is not finite.
ReplayRows hidden_rows(std::vector<float> h, std::int64_t inter, std::string_view path,
                       std::string_view element, double largest, const MoeSchedule& s) {
  const auto width = static_cast<std::size_t>(inter);
  const std::size_t count = h.size() / width;
  ReplayRows rows{{static_cast<std::int64_t>(count), inter, std::string(element), {}, {}},
                  std::vector<float>(count, 1.0F),
                  std::vector<bool>(count, true),
                  {},
                  path == "codes"};
  for (std::size_t r = 0; r < count; ++r) {
    const std::span<float> row(h.data() + r * width, width);
    float absmax = 0;
    for (float& each : row) {
      if (path != "codes") each = rounded_to(each, path);
      absmax = std::max(absmax, std::fabs(each));
      if (!std::isfinite(each)) rows.finite[r] = false;
    }
    if (path == "codes" && absmax != 0) {
      const float scale = absmax / static_cast<float>(largest), inverse = 1.0F / scale;
      rows.scales[r] = scale;
      if (!std::isnormal(scale) || !std::isnormal(inverse)) rows.finite[r] = false;
      for (float& each : row) {
        const float quotient = s.code == "division" ? each / scale : each * inverse;
        if (rows.finite[r])
          each = static_cast<float>(
              round_to(scalar_format(element), std::clamp(static_cast<double>(quotient), -largest, largest)));
      }
    }
    if (!rows.finite[r]) std::ranges::fill(row, 0.0F), rows.scales[r] = 1;
  }
  rows.operand.values = std::move(h);
  return rows;
}

}  // namespace

std::span<const KeySpec> moe_schedule_keys() { return kKeys; }

struct MoeReplay::Data {
  const Attributes& a;
  const TensorSet& inputs;
  const MoePaths paths = moe_paths(a);
  const std::int64_t tokens = a.integer("tokens"), hidden = a.integer("hidden"), inter = a.integer("inter"),
                     experts = a.integer("experts"), topk = a.integer("topk");
  const std::vector<double> ids = decode_tensor(inputs.at("topk_ids")),
                            weights = decode_tensor(inputs.at("topk_weights"));
  // Slots of topk_ids, by the expert that they name: the rows that meet its weights.
  std::vector<std::vector<std::int64_t>> served =
      std::vector<std::vector<std::int64_t>>(static_cast<std::size_t>(experts));
  struct Expert {
    ReplayRows x, w13, w2;
  };
  std::vector<Expert> each;
  double roundings = -1;  // with which they were made
  std::string element;    // of h
  std::map<std::string, std::vector<std::vector<float>>>
      first;  // products of x and w13, by the text of their schedule

  Data(const Attributes& attributes, const TensorSet& set) : a(attributes), inputs(set) {
    for (std::int64_t i = 0; i < tokens * topk; ++i)
      served[static_cast<std::size_t>(ids[static_cast<std::size_t>(i)])].push_back(i);
  }

  void prepare(double by) {
    if (by == roundings) return;
    const Operands x_rows(inputs.at("x"), paths.up, Side::activations, by);
    const ReplayRows x = replay_rows_of(x_rows, "x"),
                     w13 = replay_rows_of({inputs.at("w13"), paths.up, Side::weights, by}, "w13"),
                     w2 = replay_rows_of({inputs.at("w2"), paths.down, Side::weights, by}, "w2");
    element = hidden_element(paths, x_rows.element(), format(a.text("a")));
    each.clear(), first.clear();
    for (std::int64_t e = 0; e < experts; ++e) {
      std::vector<std::int64_t> rows(served[static_cast<std::size_t>(e)]);
      for (std::int64_t& row : rows) row /= topk;
      each.push_back({rows_of(x, rows), rows_of(w13, range(e * 2 * inter, 2 * inter)),
                      rows_of(w2, range(e * hidden, hidden))});
    }
    roundings = by;
  }
  // The last one is kept, which many schedules share.
  const std::vector<std::vector<float>>& first_products(const GroupedSchedule& up) {
    const std::string text = print_schedule(up);
    if (const auto found = first.find(text); found != first.end()) return found->second;
    std::vector<std::vector<float>> made;
    for (const Expert& expert : each) made.push_back(products(expert.x, expert.w13, up, "up"));
    first.clear();
    return first.emplace(text, std::move(made)).first->second;
  }
  std::vector<float> hiddens(const MoeSchedule& s, const Contract& contract) {
    const RowExp exp = row_exp(s.exp);
    std::vector<float> h(static_cast<std::size_t>(tokens * topk * inter));
    const std::vector<std::vector<float>>& made = first_products(s.up);
    for (std::size_t e = 0; e < served.size(); ++e)
      for (std::size_t p = 0; p < served[e].size(); ++p) {
        const float* row = made[e].data() + static_cast<std::int64_t>(p) * 2 * inter;
        for (std::int64_t r = 0; r < inter; ++r) {
          const float g = rounded_to(row[r], contract.text("gate_up")),
                      v = rounded_to(row[inter + r], contract.text("gate_up"));
          const float below = 1.0F + exp(-g);
          const float gated = s.silu == "quotient" ? g / below : g * (1.0F / below);
          const auto slot = static_cast<std::size_t>(served[e][p]);
          float product = gated * v;
          if (contract.text("weight") == "before") product *= static_cast<float>(weights[slot]);
          h[slot * static_cast<std::size_t>(inter) + static_cast<std::size_t>(r)] =
              rounded_to(product, contract.text("h"));
        }
      }
    return h;
  }
};

MoeReplay::MoeReplay(const Attributes& attributes, const TensorSet& inputs)
    : data_(std::make_unique<Data>(attributes, inputs)) {}
MoeReplay::~MoeReplay() = default;

void MoeReplay::operator()(Truth& truth, const Contract& contract) {
  under_schedule(contract, [&](const std::string& text) {
    Data& d = *data_;
    const MoeSchedule s = declared(text, d.a, contract);
    d.prepare(contract.number("dequant_roundings"));
    const std::int64_t hidden = d.hidden, topk = d.topk;
    const ReplayRows hiddens = hidden_rows(d.hiddens(s, contract), d.inter, d.paths.down, d.element,
                                           hidden_divisor(format(d.a.text("a"))), s);
    std::vector<float> outs(static_cast<std::size_t>(d.tokens * topk * hidden));
    for (std::size_t e = 0; e < d.served.size(); ++e) {
      const std::vector<std::int64_t>& slots = d.served[e];
      const std::vector<float> made = products(rows_of(hiddens, slots), d.each[e].w2, s.down, "down");
      for (std::size_t p = 0; p < slots.size(); ++p)
        std::copy_n(made.begin() + static_cast<std::int64_t>(p) * hidden, hidden,
                    outs.begin() + slots[p] * hidden);
    }
    const bool weight_first = contract.text("weight") == "before";
    const Store store = store_of(contract, d.a.text("dtype"));
    for (std::int64_t t = 0; t < d.tokens; ++t) {
      std::vector<std::int64_t> order(static_cast<std::size_t>(topk));
      std::iota(order.begin(), order.end(), t * topk);
      const auto expert = [&](std::int64_t i) { return d.ids[static_cast<std::size_t>(i)]; };
      if (s.combine == "experts") std::ranges::stable_sort(order, {}, expert);
      for (std::int64_t c = 0; c < hidden; ++c) {
        float y = 0;
        for (const std::int64_t i : order) {
          const float out =
              rounded_to(outs[static_cast<std::size_t>(i * hidden + c)], contract.text("expert_out"));
          const float term =
              weight_first ? out : static_cast<float>(d.weights[static_cast<std::size_t>(i)]) * out;
          y += term;
        }
        if (std::isfinite(y))
          set_truth_within(truth, static_cast<std::size_t>(t * hidden + c), {static_cast<double>(y), 0},
                           store);
      }
    }
    truth.limit_origin = fmt::format("reference/ops/moe: the bits of schedule={}", contract.text("schedule"));
  });
}

std::vector<ReplayStage> moe_stages(const Attributes& attributes, const TensorSet& inputs,
                                    const Contract& contract) {
  if (!is_judged_by_replay(contract)) return {};
  return under_schedule(contract, [&](const std::string& text) -> std::vector<ReplayStage> {
    const MoeSchedule s = parse_moe_schedule(text);
    const std::int64_t hidden = attributes.integer("hidden"), inter = attributes.integer("inter"),
                       topk = attributes.integer("topk");
    // Zeros behind the first `kept` columns of a tensor's rows.
    const auto cut = [](TensorSet set, const char* tensor, std::int64_t columns, std::int64_t kept) {
      std::optional<Encoded> made = with_zeros(
          set.at(tensor), [=](std::size_t at) { return static_cast<std::int64_t>(at) % columns < kept; });
      if (made) set.insert_or_assign(tensor, std::move(*made));
      return set;
    };
    const auto all = [](std::size_t) { return true; };
    const auto slots = [=, &inputs](std::int64_t t) { return cut(inputs, "topk_weights", topk, t + 1); };
    std::vector<ReplayStage> stages{{topk - 1, slots, [](std::int64_t t) {
                                       return fmt::format(
                                           "the output of the expert in slot {} is made or added", t);
                                     }}};
    if (!with_zeros(inputs.at("w2"), all)) return stages;
    const auto columns = [=](std::int64_t t) { return cut(slots(0), "w2", inter, t + 1); };
    stages.push_back({inter - 1, columns, [=](std::int64_t t) {
                        return "of w2 h " + name_of_step(s.down.grouped, inter, t, t + 1) +
                               ", or its h is made";
                      }});
    if (!with_zeros(inputs.at("x"), all)) return stages;
    stages.push_back({hidden, [=](std::int64_t t) { return cut(columns(0), "x", hidden, t); },
                      [=](std::int64_t t) {
                        return "of w13 x " + name_of_step(s.up.grouped, hidden, t - 1, t) +
                               ", or silu, its product, the codes or the weight are made of that sum";
                      }});
    return stages;
  });
}

}  // namespace assay
