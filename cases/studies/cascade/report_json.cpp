// The chain report for machines: schema "assay-cascade" version 1, one member per field of
// cases/studies/cascade/report.hpp; and the same as a page.
#include <cmath>
#include <nlohmann/json.hpp>

#include "cases/studies/cascade/report.hpp"
#include "reports/page_text.hpp"

namespace assay {
namespace {
using Json = nlohmann::ordered_json;
Json number(double x) { return std::isnan(x) ? Json("nan") : std::isinf(x) ? Json("inf") : Json(x); }

Json json_of(const CascadeReport& r) {
  Json j = {{"schema", "assay-cascade"},
            {"version", 1},
            {"backend", r.backend},
            {"arithmetic", r.arithmetic},
            {"policy", r.policy},
            {"variance", r.variance},
            {"norm", r.norm},
            {"traffic", r.traffic},
            {"seed", r.seed}};
  j["fired"] = r.fired();
  j["in_order"] = r.in_order;
  j["first_cause"] = r.first_cause;
  j["note"] = r.note;
  j["variance_of_equal_elements"] = nlohmann::json::array();
  for (const auto& v : r.variances)
    j["variance_of_equal_elements"].push_back({{"width", v.width}, {"variance", v.variance}});
  j["links"] = Json::array();
  for (const auto& l : r.links) {
    Json row = {{"number", l.number}, {"name", l.name}, {"fired", l.fired}};
    if (l.fired)
      row.update({{"order", l.order},
                  {"request", l.request},
                  {"layer", l.layer},
                  {"token", l.token},
                  {"value", number(l.value)},
                  {"evidence", l.evidence}});
    j["links"].push_back(std::move(row));
  }
  j["remedies"] = Json::array();
  for (const auto& m : r.remedies)
    j["remedies"].push_back(
        {{"name", m.name}, {"links", m.links}, {"stopped_at", m.stopped_at}, {"answers", m.answers}});
  j["divergences"] = Json::array();
  for (const auto& d : r.divergences)
    j["divergences"].push_back({{"against", d.against},
                                {"stage", d.stage},
                                {"request", d.request},
                                {"layer", d.layer},
                                {"token", d.token},
                                {"what", d.what}});
  j["answers"] = Json::array();
  for (const auto& [name, tokens] : r.answers)
    j["answers"].push_back({{"request", name}, {"tokens", tokens}});
  j["pictures"] = Json::array();
  for (const auto& p : r.pictures) j["pictures"].push_back({{"request", p.request}, {"layers", p.layers}});
  j["nan_fraction"] = Json::object();
  for (const auto& [stage, fraction] : r.nan_fraction) j["nan_fraction"][stage] = fraction;
  j["observations"] = Json::array();
  for (const auto& o : r.observations)
    j["observations"].push_back({{"watch", o.watch},
                                 {"request", o.request},
                                 {"layer", o.layer},
                                 {"token", o.token},
                                 {"value", number(o.value)},
                                 {"detail", o.detail}});
  j["engine"] = {
      {"seconds", r.seconds},          {"monitor_seconds", r.monitor_seconds}, {"steps", r.steps},
      {"prefix_pages", r.prefix_hits}, {"reused_pages", r.reused_pages},       {"evictions", r.evictions}};
  return j;
}

}  // namespace

std::string cascade_json(const CascadeReport& r) { return json_of(r).dump(2) + "\n"; }

std::string cascade_html(const CascadeReport& r) {
  auto page = json_of(r);
  page["machine"] = machine();
  return drawn_page(kCascadeScript, page);
}

}  // namespace assay
