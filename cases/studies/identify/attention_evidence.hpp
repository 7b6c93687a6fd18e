// Calls of a fused attention kernel that hypotheses are held against.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cases/studies/identify/attention_regions.hpp"

namespace assay {

class AttentionEvidence {
 public:
  // keys: beyond so many the weights are 0, which add nothing; 0: they may all have one.
  void add(AttentionAnswer answer, std::int64_t keys = 0);
  bool empty() const { return heads_.empty(); }
  // Of each schedule the outputs of the first head that differs, or an estimate of their count; 0: every bit
  // of all. few: of few rows alone, where others will refute what these do not.
  std::vector<std::int64_t> unequal(std::span<const AttentionSchedule> list, bool few = false);

 private:
  // A head, and what refutes most at little cost: few columns of its last row, then few of its last rows.
  class Head {
   public:
    explicit Head(AttentionHead asked);
    std::int64_t unequal(const AttentionSchedule& s, bool few) const;

   private:
    AttentionHead whole_, part_;
    ReplayedHead of_whole_, of_part_;
  };
  std::vector<std::unique_ptr<Head>> heads_;  // the one that refuted last in front
};

}  // namespace assay
