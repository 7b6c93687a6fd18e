#include "cases/studies/identify/columns.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <numeric>
#include <stdexcept>
#include <utility>

namespace assay {
namespace {

constexpr std::size_t kMostKinds = 4;  // of columns; a kernel with more has no order
constexpr std::int64_t kMany = 16;     // columns of one kind that are enough for a call
// Rows of one answer about few columns: as many as so many numbers of b allow, for each is another call.
constexpr std::int64_t kTurnedNumbers = 1 << 23, kLeastTurned = 8, kMostTurned = 32;
constexpr int kTurnedDraws = 8;

std::vector<std::int64_t> counted(std::int64_t count) {
  std::vector<std::int64_t> list(static_cast<std::size_t>(count));
  std::iota(list.begin(), list.end(), std::int64_t{0});
  return list;
}

// A kernel's columns of one kind, as a kernel.
class OfColumns : public GemmSubject {
 public:
  OfColumns(GemmSubject& whole, const GemmShape& shape, std::vector<std::int64_t> columns)
      : whole_(whole), shape_(shape), columns_(std::move(columns)) {}
  std::string a_element() const override { return whole_.a_element(); }
  std::string b_element() const override { return whole_.b_element(); }
  std::string stored_as() const override { return whole_.stored_as(); }
  int residues(const GemmShape&) const override { return whole_.residues(shape_); }
  virtual GemmShape shape() const { return {shape_.m, std::ssize(columns_), shape_.k}; }
  // The pieces, rows and columns of the whole kernel's outputs.
  virtual void place(RowPiece& piece) const { piece.columns = columns_; }

  std::optional<Answer> drawn(const GemmShape&, std::uint64_t seed) override {
    return own([&] { return whole_.drawn(shape_, seed); });
  }
  std::optional<Answer> crafted(const GemmShape&, std::vector<float> a, std::vector<float> b,
                                const std::string& what) override {
    return own([&] { return whole_.crafted(shape_, std::move(a), spread_out(b), what); });
  }

 protected:
  // `rows` at the places of these columns, zeros elsewhere.
  std::vector<float> spread_out(const std::vector<float>& rows) const {
    std::vector<float> b(static_cast<std::size_t>(shape_.n * shape_.k));
    for (std::size_t c = 0; c < columns_.size(); ++c)
      std::copy_n(rows.begin() + static_cast<std::ptrdiff_t>(c) * shape_.k, shape_.k,
                  b.begin() + columns_[c] * shape_.k);
    return b;
  }
  // These columns of what a call of the whole kernel answers.
  template <typename Call>
  std::optional<Answer> own(const Call& call) {
    const int before = whole_.calls;
    const std::optional<Answer> answer = call();
    calls += whole_.calls - before;
    declared_contract = whole_.declared_contract, declared_path = whole_.declared_path;
    kernels = whole_.kernels;
    if (!answer) return std::nullopt;
    return excerpt(*answer, counted(answer->a.rows), columns_);
  }

  GemmSubject& whole_;
  GemmShape shape_;
  std::vector<std::int64_t> columns_;
};

// A few columns, of which a call shows little: many calls of the same columns and ever other rows are one
// answer, whose rows are these columns, for products commute.
class TurnedColumns : public OfColumns {
 public:
  TurnedColumns(GemmSubject& whole, const GemmShape& shape, std::vector<std::int64_t> columns)
      : OfColumns(whole, shape, std::move(columns)),
        rows_(std::clamp(kTurnedNumbers / (shape.n * shape.k), kLeastTurned, kMostTurned)) {}
  std::string a_element() const override { return whole_.b_element(); }
  std::string b_element() const override { return whole_.a_element(); }
  GemmShape shape() const override { return {std::ssize(columns_), rows_, shape_.k}; }
  void place(RowPiece& piece) const override {
    std::vector<std::int64_t> columns;
    for (const std::int64_t row : piece.rows) columns.push_back(columns_[static_cast<std::size_t>(row)]);
    piece.columns = std::move(columns), piece.rows = counted(shape_.m);
  }

  // Further rows are those of both operands, each turned by as many terms as rows are there already.
  std::optional<Answer> drawn(const GemmShape&, std::uint64_t seed) override {
    const int before = whole_.calls;
    const std::optional<Answer> first = whole_.drawn(shape_, seed);
    calls += whole_.calls - before;
    if (!first || a_element() != b_element() || !first->a_scale.empty() || !first->b_scale.empty())
      return std::nullopt;
    std::vector<float> all = first->a.values, rows;
    all.insert(all.end(), first->b.values.begin(), first->b.values.end());
    for (std::int64_t r = 0; r < rows_; ++r)
      for (std::int64_t t = 0; t < shape_.k; ++t)
        rows.push_back(
            all[static_cast<std::size_t>(r % (shape_.m + shape_.n) * shape_.k + (t + r) % shape_.k)]);
    std::optional<Answer> answer = turned(rows, first->b.values, first->line);
    if (answer) answer->line = first->line;
    return answer;
  }
  std::optional<Answer> crafted(const GemmShape&, std::vector<float> a, std::vector<float> b,
                                const std::string& what) override {
    return turned(b, spread_out(a), what);
  }

 private:
  std::optional<Answer> turned(const std::vector<float>& rows, const std::vector<float>& b,
                               const std::string& what) {
    Answer all;
    for (std::int64_t r = 0; r < rows_; r += shape_.m) {
      std::vector<float> a(static_cast<std::size_t>(shape_.m * shape_.k));
      const std::int64_t count = std::min(shape_.m, rows_ - r);
      std::copy_n(rows.begin() + r * shape_.k, count * shape_.k, a.begin());
      const std::optional<Answer> answer = own([&] { return whole_.crafted(shape_, std::move(a), b, what); });
      if (!answer || !answer->a_scale.empty() || !answer->b_scale.empty()) return std::nullopt;
      if (r == 0) {
        all = *answer;
        std::swap(all.a, all.b);
        all.b.rows = rows_, all.b.values = rows;
        all.got.assign(columns_.size() * static_cast<std::size_t>(rows_), 0);
      }
      for (std::int64_t i = 0; i < count; ++i)
        for (std::size_t c = 0; c < columns_.size(); ++c)
          all.got[c * static_cast<std::size_t>(rows_) + static_cast<std::size_t>(r + i)] =
              answer->got[static_cast<std::size_t>(i) * columns_.size() + c];
    }
    return all;
  }

  std::int64_t rows_;
};

// What is left is mostly summed much as the others are: these are tried before all hypotheses.
std::vector<Schedule> kin_of(const Schedule& s) {
  std::vector<Schedule> list;
  if (s.unit() != nullptr) return list;
  for (const std::int64_t lanes : {s.lanes, 2 * s.lanes, s.lanes / 2})
    for (const std::int64_t head : {std::int64_t{0}, std::int64_t{1}})
      for (const bool apart : {false, true})
        for (const Tail tail : {Tail::lanes, Tail::after, Tail::apart, Tail::refold, Tail::folded}) {
          Schedule kin = s;
          kin.lanes = lanes, kin.fold = "halving", kin.head = head, kin.head_apart = apart;
          kin.tail = tail, kin.tail_width = tail == Tail::folded ? lanes / 2 : 0;
          const bool is_one = lanes > 0 && (!apart || head > 0) && (tail != Tail::folded || lanes > 2);
          if (is_one) list.push_back(std::move(kin));
        }
  return list;
}

std::vector<std::vector<std::int64_t>> kinds_of(GemmSubject& subject, const GemmShape& shape) {
  try {
    return columns_alike(subject, shape);
  } catch (const std::runtime_error&) {  // what the kernel says of its first drawn call is shown
    return {};
  }
}

}  // namespace

std::string places_text(const std::vector<std::int64_t>& places) {
  std::string text;
  for (std::size_t i = 0; i < places.size();) {
    std::size_t end = i + 1;
    while (end < places.size() && places[end] == places[end - 1] + 1) ++end;
    text += end - i == 1 ? fmt::format("{}{}", text.empty() ? "" : ",", places[i])
                         : fmt::format("{}{}..{}", text.empty() ? "" : ",", places[i], places[end - 1]);
    i = end;
  }
  return text;
}

std::optional<GroupedSchedule> schedule_of_rows(const ShapeCard& card) {
  constexpr std::int64_t kLeast = 4;
  if (!card.identified() || card.pieces.size() > 3 ||
      std::ranges::any_of(card.pieces, [&](const RowPiece& p) { return std::ssize(p.rows) < card.shape.m; }))
    return std::nullopt;
  GroupedSchedule s{*card.pieces[0].schedule, *card.pieces[0].schedule};
  if (card.pieces.size() == 1) return s;
  const std::int64_t whole = std::ssize(card.pieces[0].columns), left = card.shape.n - whole;
  s.columns = std::max(kLeast, left + 1);
  while (s.columns < whole && whole % s.columns != 0) ++s.columns;
  if (whole % s.columns != 0) return std::nullopt;
  s.left = *card.pieces[1].schedule;
  if (card.pieces.size() == 3) s.second = *card.pieces[2].schedule;
  for (const RowPiece& p : card.pieces)
    for (const std::int64_t j : p.columns)
      if (s.of(0, card.shape.m, j, card.shape.n) != *p.schedule) return std::nullopt;
  return s;
}

ShapeCard identify_columns(GemmSubject& subject, const GemmShape& shape, const std::vector<Schedule>& known,
                           const IdentifyOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  const int before = subject.calls;
  std::vector<std::vector<std::int64_t>> kinds;
  if (options.most_mask_calls > 0 && shape.n > 1) kinds = kinds_of(subject, shape);
  const int told = subject.calls - before;
  ShapeCard card;
  if (kinds.size() < 2 || kinds.size() > kMostKinds) {
    card = identify_shape(subject, shape, known, options);
    card.calls += told;
    return card;
  }
  std::vector<Schedule> first = known;
  for (const std::vector<std::int64_t>& columns : kinds) {
    const bool many = std::ssize(columns) >= kMany;
    const auto of = many ? std::make_unique<OfColumns>(subject, shape, columns)
                         : std::make_unique<TurnedColumns>(subject, shape, columns);
    IdentifyOptions own = options;
    if (!many) own.most_draws = kTurnedDraws;
    ShapeCard part = identify_shape(*of, of->shape(), first, own);
    for (RowPiece& piece : part.pieces) of->place(piece);
    for (Evidence& e : part.evidence) e.columns = places_text(columns);
    if (&columns == kinds.data()) {
      card = std::move(part);
      for (const RowPiece& piece : card.pieces)
        if (piece.schedule) std::ranges::move(kin_of(*piece.schedule), std::back_inserter(first));
      continue;
    }
    if (card.refused.empty()) card.refused = part.refused;
    if (card.tiny.empty()) card.tiny = part.tiny;
    card.sharp &= part.sharp;
    card.pieces.insert(card.pieces.end(), part.pieces.begin(), part.pieces.end());
    card.evidence.insert(card.evidence.end(), part.evidence.begin(), part.evidence.end());
  }
  card.shape = shape, card.calls = subject.calls - before;
  card.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return card;
}

}  // namespace assay
