#include "reference/ops/attention/limits/bounds_problem.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "reference/error.hpp"
#include "reference/ops/attention/conversions.hpp"
#include "reference/ops/attention/limits/bounds_detail.hpp"

namespace assay {
namespace {

struct Stored {  // one head of K or V: values * scale are the decoded numbers
  std::vector<float> values;
  std::string format;
  double scale = 1;
};

[[noreturn]] void refuse(std::string_view level, const std::string& what) {
  throw InputError(InputErrorKind::bad_value, fmt::format("attention: level={}: {}", level, what));
}

double head_scale(const Encoded& tensor, const Format& format, std::int64_t head) {
  for (const Plane& plane : tensor.planes) {
    if (plane.spec.suffix != ".scale") continue;
    const std::int64_t index = format.axis == ScaleAxis::head ? head : 0;
    float scale = 1;
    std::memcpy(&scale, plane.bytes.data() + static_cast<std::size_t>(index) * sizeof scale, sizeof scale);
    return scale;
  }
  return 1;
}

Stored stored(const Encoded& tensor, std::string_view convert, std::string_view level, std::int64_t head,
              const std::vector<double>& decoded) {
  const Format& format = assay::format(tensor.format);
  Stored r;
  r.format = "f32";
  if (convert != "none") {
    r.format = std::string(convert);
  } else if (format.kind == FormatKind::scalar) {
    r.format = std::string(format.name);
  } else if (format.kind == FormatKind::scaled &&
             (format.axis == ScaleAxis::tensor || format.axis == ScaleAxis::head)) {
    r.format = std::string(format.element);
    r.scale = head_scale(tensor, format, head);
  }
  const ScalarFormat* rounding = convert == "none" ? nullptr : &scalar_format(convert);
  r.values.resize(decoded.size());
  for (std::size_t i = 0; i < decoded.size(); ++i) {
    const double x = rounding == nullptr ? decoded[i] / r.scale : round_to(*rounding, decoded[i]);
    r.values[i] = static_cast<float>(x);
    if (static_cast<double>(r.values[i]) != x && !std::isnan(x)) {
      refuse(level,
             fmt::format("{} decodes to {:.17g}, which no accumulator takes; declare convert=f16 or bf16",
                         tensor.format, x));
    }
  }
  return r;
}

bool finite(std::span<const float> x) {
  for (const float value : x) {
    if (!std::isfinite(value)) return false;
  }
  return true;
}

}  // namespace

AttentionLimits leveled_limits(const AttentionProblem& problem, const Contract& contract,
                               AttentionLimits base) {
  const AttentionGeometry& g = problem.geometry();
  const std::string_view name = contract.text("level"), convert = contract.text("convert"),
                         q_convert = contract.text("q");
  const AttentionLevel level = attention_level(name);
  const AttentionArithmetic how = AttentionArithmetic::from(contract, g.dtype);
  if (g.rotate == RotateKind::qkv) refuse(name, "rotate=qkv is judged by level=detap only");
  if (q_convert == "q8_0") refuse(name, "q=q8_0 is judged by level=detap only");
  const attention_bounds::FormatModel dtype(g.dtype);
  const bool twice = how.out != g.dtype;
  for (std::int64_t b = 0; b < g.batch; ++b) {
    const std::int64_t keys = problem.length(b);
    for (std::int64_t kv_head = 0; kv_head < g.kv_heads && keys > 0; ++kv_head) {
      std::vector<double> k(static_cast<std::size_t>(keys * g.d)), v(static_cast<std::size_t>(keys * g.dv));
      problem.decode_k(b, kv_head, 0, keys, k.data());
      problem.decode_v(b, kv_head, 0, keys, v.data());
      const Stored k_in = stored(problem.k(), convert, name, kv_head, k);
      const Stored v_in = stored(problem.v(), convert, name, kv_head, v);
      if (!finite(k_in.values) || !finite(v_in.values)) continue;
      const AttentionBounds bounds(how,
                                   {keys, g.d, g.dv, k_in.values, v_in.values, k_in.format, v_in.format});
      for (std::int64_t i = 0; i < g.rows; ++i) {
        for (std::int64_t head = kv_head * g.group(); head < (kv_head + 1) * g.group(); ++head) {
          if (g.sinks && !std::isfinite(problem.sink(head))) continue;
          QueryRow row;
          std::vector<float> q, bias;
          row.q_format = q_convert == "none" ? g.dtype : std::string(q_convert);
          double q_scale = 1;
          if (quantises_rows(q_convert)) {
            for (const double x : problem.q(b, i, head)) q.push_back(static_cast<float>(x));
            if (!finite(q)) continue;
            QuantisedRow codes = quantise_row(scalar_format(q_convert), problem.q(b, i, head));
            if (codes.undecided > 0) continue;
            q = std::move(codes.codes), q_scale = codes.scale;
          } else {
            for (const double x : problem.q(b, i, head)) {
              q.push_back(
                  static_cast<float>(q_convert == "none" ? x : round_to(scalar_format(q_convert), x)));
            }
          }
          if (!finite(q)) continue;
          row.q = q;
          row.scale = g.scale * k_in.scale * q_scale, row.v_scale = v_in.scale, row.softcap = g.softcap;
          std::vector<std::uint8_t> visible(static_cast<std::size_t>(keys));
          for (std::int64_t j = 0; j < keys; ++j) visible[j] = problem.visible(b, i, j);
          row.visible = visible;
          if (g.alibi) {
            for (std::int64_t j = 0; j < keys; ++j) {
              const auto distance = std::fabs(static_cast<double>(problem.position(b, i) - j));
              bias.push_back(static_cast<float>(-problem.slope(head) * distance));
            }
            row.bias = bias;
          }
          if (g.sinks) row.sink = static_cast<float>(problem.sink(head));
          const RowBounds r = bounds.row(row, level);
          const auto out = static_cast<std::size_t>(problem.out_index(b, i, head));
          for (std::size_t c = 0; c < r.centre.size(); ++c) {
            const double limit =
                r.limit[c] + (twice ? dtype.half_ulp(std::fabs(r.centre[c]) + r.limit[c]) : 0);
            if (!(limit < base.limit[out + c])) continue;
            base.value[out + c] = r.centre[c], base.limit[out + c] = limit;
          }
        }
      }
    }
  }
  return base;
}

}  // namespace assay
