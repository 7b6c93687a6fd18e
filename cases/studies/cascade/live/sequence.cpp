#include "cases/studies/cascade/live/sequence.hpp"

#include <fmt/format.h>

#include <array>

namespace assay::live {
namespace {

// Long enough for several blocks of a paged cache (16 to 64 tokens each). {} is the word that an edit
// exchanges.
constexpr std::array<const char*, kPrompts> kTexts = {
    "The harbour town wakes early. Fishing boats return before sunrise with {}, and the market on the quay "
    "opens when "
    "the bell of the old church rings five. Traders weigh the catch, children carry baskets, and the first "
    "ferry leaves "
    "for the islands at seven. In winter the storms keep everyone ashore for days, and people mend their "
    "nets.",
    "A small library has three rooms. The first holds maps, the second holds {}, and the third is kept for "
    "readers who "
    "want silence. The librarian writes every loan into a green book, and on Fridays she walks along the "
    "shelves to see "
    "what is missing. Most books come back within a month; a few have been away for many years.",
    "To bake this bread, mix flour, water, salt and {} in a large bowl. Let the dough rest for an hour, fold "
    "it twice, "
    "and leave it in a cool place over night. In the morning the oven must be very hot. Bake until the crust "
    "is dark and "
    "the loaf sounds hollow when you knock on its underside, then wait before you cut it."};
constexpr std::array<std::array<const char*, kEdits + 1>, kPrompts> kWords = {
    {{"herring", "diamonds", "nothing"}, {"novels", "weapons", "insects"}, {"yeast", "gravel", "honey"}}};
constexpr std::array<const char*, kPrompts> kQuestions = {
    "Question: what happens next in the town? Answer:", "Question: what is found in the rooms? Answer:",
    "Question: what does the baker do first? Answer:"};

// Rare scripts, mathematical alphabets, private-use and combining characters, emoji sequences, box drawing:
// text that a tokenizer splits into byte tokens and seldom-trained pieces. Equal in bytes, so that the three
// differ in content only.
constexpr std::array<const char*, kPrompts> kUnusual = {
    "\xF0\x9D\x95\xAC\xF0\x93\x80\x80\xF0\x90\x8E\xA0\xF0\x9F\xA7\xBF\xF0\x92\x80\xB1\xF0\x9D\x9B\x80\xF0\x90"
    "\xA4\x80"
    "\xF0\x9F\x9C\x81",
    "\xF0\x9F\x82\xA1\xF0\x9D\x84\x9E\xF0\x90\x92\x80\xF0\x93\x85\x93\xF0\x9F\xAB\xA0\xF0\x90\xA9\xA0\xF0\x92"
    "\x88\x99"
    "\xF0\x9D\x94\x84",
    "\xF0\x90\x8C\xB0\xF0\x9F\x80\x84\xF0\x92\x86\xA0\xF0\x9D\x93\x90\xF0\x90\xA1\x81\xF0\x93\x86\xA3\xF0\x9F"
    "\x9B\xB8"
    "\xF0\x90\x8D\x88"};
constexpr const char* kLargeQuestion = "\nQuestion: what do these signs say? Answer:";

std::string unusual(int n) {
  std::string s;
  for (int i = 0; i < 6; ++i) s += kUnusual[static_cast<std::size_t>((n + i) % kPrompts)];
  return s;
}

}  // namespace

Prompt small_prompt(const std::string& nonce, int n, int edit) {
  const auto i = static_cast<std::size_t>(n);
  return {fmt::format("Note {}. {} {}", nonce,
                      fmt::format(fmt::runtime(kTexts[i]), kWords[i][static_cast<std::size_t>(edit)]),
                      kQuestions[i]),
          {}};
}

Prompt large_prompt(const LiveOptions& options, const std::string& nonce, int n) {
  if (options.large_ids.empty()) return {fmt::format("Note {}. {}{}", nonce, unusual(n), kLargeQuestion), {}};
  Prompt p;  // the given ids, begun at another place for each prompt
  const auto size = options.large_ids.size();
  for (std::size_t i = 0; i < size; ++i)
    p.ids.push_back(options.large_ids[(i + static_cast<std::size_t>(n)) % size]);
  return p;
}

Prompt joint_prompt(const std::string& nonce, int n) {
  const auto i = static_cast<std::size_t>(n);
  return {fmt::format("Note {}. {} {}{}", nonce, fmt::format(fmt::runtime(kTexts[i]), kWords[i][0]),
                      unusual(n), kLargeQuestion),
          {}};
}

Prompt behind_prompt(const LiveOptions& options, const std::string& nonce, int n) {
  Prompt p = large_prompt(options, nonce, n);
  if (p.ids.empty())
    p.text += " Nobody knows.\n" + std::string(kQuestions[0]);
  else
    p.ids.push_back(options.large_ids.front());
  return p;
}

int sequence_length(const LiveOptions& options, bool fresh) {
  const int first = options.order == "small_first" ? 0 : 1;
  // before: cold, 3 warm, 3 fresh, edits; trigger: cold, warm, fresh, joint; after: 3 warm, 3 fresh, behind
  // warm and fresh
  return first + kPrompts * (fresh ? 7 + kEdits + 4 + 8 : 4 + kEdits + 3 + 4);
}

std::vector<Exchange> run_sequence(Client& client, const LiveOptions& options, const std::string& nonce,
                                   const std::function<void(const Exchange&)>& seen) {
  std::vector<Exchange> all;
  int silent = 0;
  bool over = false;
  const auto send = [&](const char* phase, const std::string& name, const Prompt& prompt, Mode mode) {
    if (over || (mode == Mode::fresh && !client.server().fresh)) return;
    Exchange e{static_cast<int>(all.size()) + 1, phase, name, mode, prompt, {}};
    e.reply = client.complete(prompt, mode == Mode::fresh);
    const FailureKind f = e.reply.failure;
    silent = f == FailureKind::timeout || f == FailureKind::unreachable ? silent + 1 : 0;
    over = f == FailureKind::budget || f == FailureKind::unauthorized || silent == 2;
    if (f == FailureKind::budget) return;
    if (mode == Mode::fresh && !client.server().fresh) return;  // refused just now: that was no fresh answer
    seen(e);
    all.push_back(std::move(e));
  };
  const auto small = [&](int n) { return fmt::format("small{}", n + 1); };
  const auto each = [](auto&& f) {
    for (int n = 0; n < kPrompts; ++n) f(n);
  };

  if (options.order == "large_first") send("first", "large1", large_prompt(options, nonce, 0), Mode::cold);
  if (options.order == "dummy_first") send("first", "dummy", {"a", {}}, Mode::cold);
  each([&](int n) { send("before", small(n), small_prompt(nonce, n), Mode::cold); });
  each([&](int n) {
    for (int i = 0; i < 3; ++i) send("before", small(n), small_prompt(nonce, n), Mode::warm);
    for (int i = 0; i < 3; ++i) send("before", small(n), small_prompt(nonce, n), Mode::fresh);
  });
  each([&](int n) {
    for (int e = 1; e <= kEdits; ++e)
      send("before", fmt::format("{}_edit{}", small(n), e), small_prompt(nonce, n, e),
           client.server().fresh ? Mode::fresh : Mode::cold);
  });
  each([&](int n) {
    const auto name = fmt::format("large{}", n + 1);
    const Prompt p = large_prompt(options, nonce, n);
    send("trigger", name, p, n == 0 && options.order == "large_first" ? Mode::warm : Mode::cold);
    send("trigger", name, p, Mode::warm);
    send("trigger", name, p, Mode::fresh);
  });
  each([&](int n) { send("trigger", fmt::format("joint{}", n + 1), joint_prompt(nonce, n), Mode::cold); });
  each([&](int n) {
    for (int i = 0; i < 3; ++i) send("after", small(n), small_prompt(nonce, n), Mode::warm);
    for (int i = 0; i < 3; ++i) send("after", small(n), small_prompt(nonce, n), Mode::fresh);
  });
  each([&](int n) {
    const auto name = fmt::format("behind{}", n + 1);
    send("after", name, behind_prompt(options, nonce, n), Mode::warm);
    send("after", name, behind_prompt(options, nonce, n), Mode::fresh);
  });
  return all;
}

}  // namespace assay::live
