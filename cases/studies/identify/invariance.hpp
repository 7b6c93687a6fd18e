// Whether one schedule holds over a card's shapes.
#pragma once

#include "cases/studies/identify/card.hpp"
#include "cases/studies/identify/subject.hpp"

namespace assay {

// The schedules of all shapes are one: the same text stands for the same additions at every m, since no key
// depends on it. Refuted is what outputs show: where the one shape's schedule gives every drawn output of the
// other, nothing is concluded.
void decide_invariance(Card& card, GemmSubject& subject);

}  // namespace assay
