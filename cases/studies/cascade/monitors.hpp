// What is watched while the engine runs: named observations with layer, token, request and value. They look
// only at what an engine has in its hands (the stages' inputs and outputs, codes and scales, the pages'
// books), never at the policy's name or at what a scenario injected.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace assay::scenarios {

// Where a scale came from.
enum class Origin : std::uint8_t {
  none,
  dummy_pass,
  zero_request,
  first_request,
  checkpoint,
  calibration,
  fixed,
  live
};
inline constexpr std::string_view kOriginNames[] = {
    "no scale",       "a dummy pass", "an all-zero request", "the first request",
    "the checkpoint", "calibration",  "a constant",          "the data itself"};

enum class Watch : std::uint8_t {
  one_time_scale,        // information: the cache is e4m3fn and its scale is made once from live traffic
  scale_locked,          // information: by whom, and the scale
  out_of_range,          // K or V beyond 448 scale
  saturated,             // fraction of codes that clip
  tokens_identical,      // different tokens, the same codes
  resolution_lost,       // the largest code of a request is a small part of 448
  variance_degenerate,   // a row that a norm takes has variance <= eps
  first_nan,             // a stage whose input is finite gives NaN
  projection_nan,        // Q, K, V of a token are NaN
  score_column_nan,      // a key of an attention call is NaN
  softmax_row_poisoned,  // an attention row with a finite query is NaN
  residual_spread,   // tokens of a request with NaN in the residual stream: more after a layer than before
  block_poisoned,    // a page is committed or kept with NaN in it
  poison_inherited,  // a request attends to a NaN that another request wrote
  argmax_all_nan,    // a row of logits without a number
  argmax_tie,
  repeated_token,  // the same token several times on end
  checkpoint_dropped,
  checkpoint_swapped,        // the scale in use is not the checkpoint's
  copies_diverge,            // a cache is read with another scale than it was written with
  committed_before_written,  // a page found by its hash holds less than it should
  nan_appeared,              // NaN in a page that none was written to
  unused_key_read,           // attention turned NaN though query and visible keys are finite
  rotation_mismatch,
  layout_mismatch,  // bytes are read by another convention than they were written
  answer_changed,   // the same prompt, another answer
};
inline constexpr std::string_view kWatchNames[] = {
    "one_time_scale",           "scale_locked",       "out_of_range",         "saturated",
    "tokens_identical",         "resolution_lost",    "variance_degenerate",  "first_nan",
    "projection_nan",           "score_column_nan",   "softmax_row_poisoned", "residual_spread",
    "block_poisoned",           "poison_inherited",   "argmax_all_nan",       "argmax_tie",
    "repeated_token",           "checkpoint_dropped", "checkpoint_swapped",   "copies_diverge",
    "committed_before_written", "nan_appeared",       "unused_key_read",      "rotation_mismatch",
    "layout_mismatch",          "answer_changed"};
constexpr std::string_view to_string(Watch w) { return kWatchNames[static_cast<std::size_t>(w)]; }

struct Observation {
  Watch watch;
  int layer;    // -1: none
  int token;    // position in the request, -1: none
  int request;  // -1: the dummy pass or the engine itself
  double value;
  Origin origin;
  std::string detail;
};

struct Row {
  int request, position, token;
};

// What the picture shows of one token after one layer.
enum class Cell : std::uint8_t { absent, clean, clipped, nan };

class Monitors {
 public:
  explicit Monitors(bool enabled = true) : enabled_(enabled) {}
  bool enabled() const { return enabled_; }

  void engine(bool one_time_scale);
  void locked(int layer, char side, int request, float scale, Origin origin);
  // K ('K') or V of `rows`, before and after quantising; scale_of[i] belongs to row i.
  void write(int layer, char side, std::span<const Row> rows, std::span<const float> x,
             std::span<const std::uint8_t> codes, std::span<const float> scale, bool per_head, Origin origin);
  // The scales that the checkpoint carries.
  void checkpoint(int layer, float k_scale, float v_scale) { checkpoint_[layer] = {k_scale, v_scale}; }
  // The scales that a side of the cache was written with, and those that attention is given.
  void read(int layer, char side, const Row& row, std::span<const float> written,
            std::span<const float> read);
  void prompt_done(int request);
  void norm(int layer, std::string_view stage, std::span<const Row> rows, std::span<const float> x,
            std::span<const float> y, float eps);
  void projection(int layer, std::span<const Row> rows, std::span<const float> in,
                  std::span<const float> qkv);
  void attention(int layer, std::span<const Row> rows, std::span<const float> queries, int keys_nan,
                 int first_nan_key, int keys, std::span<const float> out, int heads);
  void stage(int layer, std::string_view stage, std::span<const Row> rows, std::span<const float> in,
             std::span<const float> out);
  void residual(int layer, std::span<const Row> rows, std::span<const float> before,
                std::span<const float> after);
  void inherited(int layer, int request, int page, int writer);
  void block(int request, int page, int layer);
  void logits(std::span<const Row> rows, std::span<const float> logits, std::span<const std::int32_t> chosen);
  void note(Watch watch, int layer, int token, int request, double value, std::string detail,
            Origin origin = Origin::none);

  const std::vector<Observation>& observations() const { return seen_; }
  // NaN elements of all, by stage.
  struct Fraction {
    std::uint64_t nan = 0, all = 0;
  };
  const std::map<std::string, Fraction, std::less<>>& nan_fraction() const { return fraction_; }
  // cells()[request][layer][position]
  const std::map<int, std::vector<std::vector<Cell>>>& cells() const { return cells_; }

 private:
  void mark(const Row& row, int layer, Cell cell);
  int count(std::string_view stage, std::span<const float> x);
  struct Kept {
    std::uint64_t x;
    int token;
    Row row;
  };
  struct Peak {
    float code = 0;
    float scale = 0;
    Origin origin = Origin::none;
  };
  bool enabled_;
  std::vector<Observation> seen_;
  std::map<std::string, Fraction, std::less<>> fraction_;
  std::map<int, std::vector<std::vector<Cell>>> cells_;
  std::map<std::pair<int, char>, std::unordered_map<std::uint64_t, Kept>> rows_seen_;
  std::map<std::tuple<int, int, char>, Peak> peaks_;
  std::map<int, std::pair<float, float>> checkpoint_;
  std::set<std::pair<int, char>> told_, diverged_;
  std::map<int, std::pair<int, int>> repeats_;  // request -> token, times
};

// What the observations say was wrong first: "scale locked on the first request", ...; "" when nothing is.
std::string first_cause(std::span<const Observation> observations);

}  // namespace assay::scenarios
