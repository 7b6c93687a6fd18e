// The probes of attention as one object: attention.cpp says what is asked at a plain shape,
// attention_features.cpp what the case has besides.
#pragma once

#include "cases/attribution/attention_questions.hpp"
#include "cases/attribution/conclusion.hpp"

namespace assay::attribution {

class Attention {
 public:
  Attention(Bench& bench, Attribution& a) : bench_(bench), a_(a), questions_(bench), g_(questions_.g) {}

  void run();

 private:
  bool plain();

  bool bad(const std::vector<Change>& changes, Logits logits, Rows rows);
  bool right(const std::vector<Change>& changes, Logits logits, Rows rows);

  // Whether the V of a key that has all the weight comes out wrong, in a kernel that takes no plain V.
  bool wrong_alone();
  bool wrong_at_last();
  static bool counts_more(const Answer& equal);
  static bool left_out_below_a_format(const Answer& a);
  static bool within_a_cast(const Answer& a);
  void lost_from_values(const Answer& equal);
  // A kernel that is wrong in another way with K and V in formats of their own: its codec is what differs.
  bool codec_differs(const Weights& w);

  void equal_weights(const Answer& equal);
  static bool some_columns_right(const Answer& a);
  // Whether a weight is more than half too large.
  static bool counted_twice(const Answer& a);
  // Whether a split's weights are off by factors that are alike for neighbours, as few of them as it has
  // parts.
  bool off_by_part(const Answer& a) const;
  // Whether each weight is right, lost or twice what it should be.
  static bool some_twice_for_others(const Answer& a);
  // Whether all that is wrong are small weights that became 0.
  static bool only_small(const Answer& a);

  void first_tile(const Answer& first);

  // What the case has besides, one at a time. The first that is wrong is it.
  bool features();

  bool masked();
  void masked_weights(const Answer& equal);
  // Whether, in a row that is wrong, no key that should has a weight, and as many others have one.
  static bool all_elsewhere(const Answer& a);

  bool extremes();

  // Crash, overrun, unwritten, leak: an index, unless it needs a mask or lengths.
  void early();

  void support(const std::string& text) { a_.support.push_back(text); }
  void name(const std::string& stage, const std::string& why) { a_.stage = stage, a_.support.push_back(why); }

  Bench& bench_;
  Attribution& a_;
  AttentionQuestions questions_;
  const AttentionGeometry& g_;
};

}  // namespace assay::attribution
