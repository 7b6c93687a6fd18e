// Arithmetic cards, as text and as JSON.
#pragma once

#include <string>
#include <vector>

#include "cases/studies/identify/identify.hpp"

namespace assay {

struct Card {
  std::string subject;  // the case line without shape, with its backend
  std::string backend;  // what the backend says of itself
  std::string commit, machine;
  std::vector<ShapeCard> shapes;
  std::vector<Border> borders;
  // --invariance: "" not asked, "proven", "refuted", "unknown", and why.
  std::string invariance, invariance_detail;
};

// "acc=f32 lanes=16", or "rows 0..11: ... | rows 12..14: ..."; "not run: ..." where it was not.
std::string schedule_of(const ShapeCard& shape);
std::string card_text(const Card& card);
std::string card_json(const Card& card);

}  // namespace assay
