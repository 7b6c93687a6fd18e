// Cases of one op: a card each, or a verdict by a declared schedule, and what holds over calls of one kernel.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "cases/studies/identify/attention_regions.hpp"
#include "cases/studies/identify/attention_subject.hpp"
#include "cases/studies/identify/moe_subject.hpp"
#include "cases/studies/identify/row_regions.hpp"
#include "cases/studies/identify/row_subject.hpp"
#include "reference/ops/op.hpp"
#include "reports/file.hpp"

namespace assay {

struct Options {
  std::vector<std::string> words, backends;
  std::string json, schedule, record, answers;
  std::int64_t outputs = 10'000;
  int masks = 8, threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  double seconds = 20;
  bool invariance = false;
};

// A schedule that was found is the first hypothesis for the next case.
template <typename T>
inline void remember(std::vector<T>& known, const std::optional<T>& schedule) {
  if (schedule && std::ranges::find(known, *schedule) == known.end()) known.push_back(*schedule);
}

// The cards as they come: on the terminal at once, and in the file of --json, which is whole after each of
// them.
class CardList {
 public:
  explicit CardList(std::string path) : path_(std::move(path)) {
    if (path_.empty()) return;
    const ReportFile refused_now(path_);  // rather than after the first card
    grows_ = !std::filesystem::exists(path_) || std::filesystem::is_regular_file(path_);
  }
  void add(const std::string& text, const std::string& as_json) {
    fmt::print("{}", text);
    std::fflush(stdout);
    json_ += (json_.empty() ? "" : ",\n") + as_json;
    if (grows_) write_report(path_, "[\n" + json_ + "]\n");
  }
  // Of a pipe, or where there was no card.
  void finish() const {
    if (!path_.empty() && (!grows_ || json_.empty())) write_report(path_, "[\n" + json_ + "]\n");
  }

 private:
  std::string path_, json_;
  bool grows_ = false;
};

// Cases of which each is a card, or is judged by a declared schedule.
struct CardCases {
  CardCases(const Options& given, const Kernels& those, CardList& list)
      : options(given), kernels(those), cards(list) {}
  const Options& options;
  Kernels kernels;
  CardList& cards;
  bool finding = false, nothing = true;

 protected:
  void judged(const Case& c, const std::string& text, bool ok) {
    fmt::print("{}  {}", c.line(), text);
    std::fflush(stdout);
    finding |= !ok, nothing = false;
  }
  void show(const std::string& text, const std::string& as_json, bool refused) {
    cards.add(text + "\n", as_json);
    nothing &= refused;
  }
  // Whether one schedule holds over calls of a kernel that differ in what `over` names; an entry of the list
  // as a card is.
  void decided(const std::string& key, const std::string& over, const std::string& verdict,
               const std::string& detail, const std::string& text) {
    const nlohmann::ordered_json entry = {
        {"subject", key}, {"invariance", {{"over", over}, {"result", verdict}, {"detail", detail}}}};
    cards.add(key + "\n" + text, entry.dump(1));
    finding |= verdict == "refuted";
  }
};

// Cases of ops on rows: cards one by one, and the counts of rows of one kernel side by side.
struct RowCases : CardCases {
  using CardCases::CardCases;

  void take(const Case& c) {
    const std::int64_t rows = c.attributes.integer("rows"), cols = c.attributes.integer("cols");
    std::map<std::string, std::string> others = c.attributes.all();
    others["rows"] = "*";
    std::string key = fmt::format("{} {} {}", c.op->name, c.backend, c.variant);
    for (const auto& [name, value] : others) key += fmt::format(" {}={}", name, value);
    Kernel& kernel = kernels_[key];
    if (kernel.subject == nullptr) kernel.subject = row_subject(c, kernels), kernel.cols = cols;
    if (!options.schedule.empty()) {
      const RowSchedule declared = parse_row_schedule(c.op->name, options.schedule);
      const std::int64_t outputs = c.op->name == "logsumexp" ? rows : rows * cols;
      const auto seeds = std::clamp<std::int64_t>((options.outputs + outputs - 1) / outputs, 2, 1000);
      const RowVerdict verdict = judge_rows(*kernel.subject, rows, cols, declared, static_cast<int>(seeds));
      return judged(c, describe(verdict, declared), verdict.ok());
    }
    std::vector<RowSchedule>& known = found_[std::string(c.op->name)];
    RowCard card = identify_rows(*kernel.subject, rows, cols, known, {.outputs = options.outputs});
    card.subject = c.line();
    remember(known, card.schedule);
    show(card_text(card), card_json(card), !card.refused.empty());
    kernel.regions.push_back({rows, std::move(card)});
  }

  void finish() {
    if (!options.invariance) return;
    for (auto& [key, kernel] : kernels_) {
      std::ranges::sort(kernel.regions, {}, &RowRegion::rows);
      const RowInvariance invariance = row_invariance(*kernel.subject, kernel.cols, kernel.regions);
      decided(key, "rows", invariance.verdict, invariance.detail, invariance_text(invariance));
    }
  }

 private:
  struct Kernel {
    std::unique_ptr<RowSubject> subject;
    std::int64_t cols = 0;
    std::vector<RowRegion> regions;
  };
  std::map<std::string, Kernel> kernels_;
  std::map<std::string, std::vector<RowSchedule>> found_;
};

// Cases of attention: cards one by one, and calls of one kernel that differ in batch, rows of q or keys side
// by side.
struct AttentionCases : CardCases {
  using CardCases::CardCases;

  void take(const Case& c) {
    const AttentionAsk ask = attention_subject(c, kernels);
    if (!options.schedule.empty()) {
      const AttentionSchedule declared = parse_attention_schedule(options.schedule);
      const AttentionVerdict verdict = judge_attention(ask, declared, options.outputs);
      return judged(c, describe(verdict, declared), verdict.ok());
    }
    AttentionCard card = identify_attention(ask, found_, {.outputs = options.outputs});
    card.subject = c.line();
    remember(found_, card.schedule);
    show(card_text(card), card_json(card), !card.refused.empty());
    std::string key = fmt::format("{} {} {} {}", c.op->name, c.fill, c.backend, c.variant);
    for (const auto& [name, value] : c.attributes.all())
      if (name != "batch" && name != "q" && name != "len") key += fmt::format(" {}={}", name, value);
    kernels_[key].push_back({c.attributes.integer("len"), ask, std::move(card)});
  }

  void finish() {
    if (!options.invariance) return;
    for (const auto& [key, regions] : kernels_) {
      const AttentionInvariance invariance = attention_invariance(regions, options.outputs);
      decided(key, "calls", invariance.verdict, invariance.detail,
              fmt::format("  invariance over calls: {}: {}\n", invariance.verdict, invariance.detail));
    }
  }

 private:
  std::map<std::string, std::vector<AttentionRegion>> kernels_;
  std::vector<AttentionSchedule> found_;
};

// Cases of moe: a card each.
struct MoeCases : CardCases {
  using CardCases::CardCases;

  void take(const Case& c) {
    if (!options.schedule.empty() || options.invariance)
      throw InputError(InputErrorKind::bad_value,
                       "identify: --schedule and --invariance of moe; allowed: its card (a kernel that "
                       "declares a schedule is judged by "
                       "it in every run)");
    const std::unique_ptr<MoeSubject> subject = moe_subject(c, kernels);
    MoeCard card = identify_moe(
        *subject, found_, {.outputs = options.outputs, .masks = options.masks, .seconds = options.seconds});
    card.subject = c.line();
    remember(found_, card.schedule);
    finding |= !card.fallback.empty();
    show(card_text(card), card_json(card), !card.refused.empty());
  }

 private:
  std::vector<MoeArithmetic> found_;
};

}  // namespace assay
