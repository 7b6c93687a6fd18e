// Which schedule a kernel on rows has (softmax, logsumexp, rmsnorm, layernorm, wht), from the bits of its
// outputs.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cases/studies/identify/call_card.hpp"
#include "reference/replay/row_replay.hpp"

namespace assay {

struct RowAnswer {
  std::string line;  // the case line that repeats it; of crafted inputs what was asked
  RowInputs in;
  std::vector<double> got;
};

class RowSubject {
 public:
  virtual ~RowSubject() = default;
  virtual std::string op() const = 0;
  // Drawn inputs. nullopt where the kernel does not take the shape; throws std::runtime_error where it fails.
  virtual std::optional<RowAnswer> drawn(std::int64_t rows, std::int64_t cols, std::uint64_t seed) = 0;
  // The drawn ones of seed 1 with these x: numbers of the store's format. nullopt where the format does not
  // hold them. gamma: of a norm, in place of the drawn ones; empty: those.
  virtual std::optional<RowAnswer> crafted(std::int64_t rows, std::int64_t cols, std::vector<float> x,
                                           const std::string& what, const std::vector<float>& gamma = {}) = 0;
  int calls = 0;
  // Of the last call.
  std::string declared_contract, declared_path;
  std::vector<std::string> kernels;
};

using RowCard = CallCard<RowSchedule>;

struct RowSearchOptions {
  std::int64_t outputs = 10'000;  // to compare at least, under two seeds at least
  int most_draws = 40;
};

// `known`: schedules found elsewhere, tried first.
RowCard identify_rows(RowSubject& subject, std::int64_t rows, std::int64_t cols,
                      const std::vector<RowSchedule>& known, const RowSearchOptions& options = {});

// The schedules that differ from `s` in one field.
struct TamperedRows {
  std::string field;
  RowSchedule schedule;
};
std::vector<TamperedRows> tampered(const RowSchedule& s, std::int64_t cols);
// Schedules that are known, then those one step away from one of them, then those two away.
std::vector<RowSchedule> beside(const std::vector<RowSchedule>& known, std::int64_t cols);

// Every choice of the op's words, but for steps that the call does not have.
std::vector<RowSchedule> all_words(const std::string& op, const RowInputs& in);
// The words that decide what a sum's terms are.
std::string words_of_terms(const RowSchedule& s);
// Sums of n terms that a kernel on rows may have: lanes, then those that are added in f64.
std::vector<Schedule> sum_schedules(std::int64_t n, bool products);
// Running moments that a kernel may have of n terms, the plainest first; of 16-bit numbers in pairs of passes
// too.
std::vector<MomentsSchedule> moments_schedules(std::int64_t n, bool narrow);

// Rows of small integers and their negatives: their mean is 0 in every order of additions, so that the
// squares stand alone.
std::vector<float> balanced_rows(std::int64_t rows, std::int64_t cols, const std::string& format,
                                 std::uint64_t seed);
// Rows of one 0 and numbers so small in exp that every sum of them is 1: softmax then stores its exponentials
// as they are.
std::vector<float> bare_exponentials(std::int64_t rows, std::int64_t cols, const std::string& format);

}  // namespace assay
