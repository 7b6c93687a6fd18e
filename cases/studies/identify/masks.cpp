#include "cases/studies/identify/masks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace assay {
namespace {

// Powers of two. In a grid of questions row r has `big` at i, column c has -big at j, and both have `one`
// elsewhere: M is big one, and 2^(big - one) must hide every sum of ones. On the diagonal alone, where both
// operands are of one question, M is big big and hides twice as many bits.
struct Sizes {
  int big, one;
  bool diagonal;
  int hides() const { return (diagonal ? 2 : 1) * (big - one); }
};

// From the widest on: past an f64's 53 bits, past an f32's 24, and what an f16 accumulator can hold.
std::vector<Sizes> sizes_of(const std::string& a, const std::string& b) {
  if (a == "e4m3fn" && b == "e4m3fn") return {{8, -9, true}};
  if (a == "e4m3fnuz" && b == "e4m3fnuz") return {{7, -9, true}};
  if (a.starts_with("e5m2") && b.starts_with("e5m2")) return {{15, -14, true}, {7, -5, true}};
  if (a == "f16" && b == "f16") return {{15, -24, false}, {15, -5, false}};
  const auto is_wide = [](const std::string& format) {
    return format == "f32" || format == "tf32" || format == "bf16";
  };
  if (is_wide(a) && is_wide(b)) return {{100, 0, false}, {40, 0, false}};
  return {};
}

// The sum of as many ones: a kernel that loses some of them would be misread.
bool counts_ones(GemmSubject& subject, const GemmShape& shape, const Sizes& sizes) {
  const float one = std::ldexp(1.0F, sizes.one);
  const std::optional<Answer> answer =
      subject.crafted(shape, std::vector<float>(static_cast<std::size_t>(shape.m * shape.k), one),
                      std::vector<float>(static_cast<std::size_t>(shape.n * shape.k), one), "ones");
  const double expected = std::ldexp(static_cast<double>(shape.k), 2 * sizes.one);
  return answer &&
         std::all_of(answer->got.begin(), answer->got.end(), [&](double x) { return x == expected; });
}

std::optional<MaskAnswers> ask(GemmSubject& subject, const GemmShape& shape, int most_calls,
                               const Sizes& sizes) {
  const std::int64_t n = shape.k;
  MaskAnswers answers;
  answers.n = n;
  const std::int64_t across = sizes.diagonal ? std::min(shape.m, shape.n) : shape.n;
  const std::int64_t column_calls = (n + across - 1) / across;
  // Counts that the store would round are none.
  const std::int64_t exact = subject.stored_as().ends_with("bf16")  ? 256
                             : subject.stored_as().ends_with("f16") ? 2048
                                                                    : 1 << 24;
  if (n > exact || column_calls > most_calls ||
      std::ldexp(1.0, sizes.hides() - 11) < static_cast<double>(n) || !counts_ones(subject, shape, sizes))
    return std::nullopt;
  const std::int64_t row_calls =
      sizes.diagonal ? 1
                     : std::clamp<std::int64_t>(most_calls / column_calls, 1, (n + shape.m - 1) / shape.m);
  const std::int64_t rows = sizes.diagonal ? 1 : std::min(n, row_calls * shape.m);
  for (std::int64_t r = 0; r < rows; ++r) answers.i.push_back(r * (n / rows));  // 0, and the others far apart
  for (std::int64_t c = 0; c < n; ++c) answers.j.push_back(c);
  answers.whole = rows == n;
  answers.met.assign(static_cast<std::size_t>(rows * n), -1);
  const double one = std::ldexp(1.0, 2 * sizes.one);
  const float big = std::ldexp(1.0F, sizes.big);
  for (std::int64_t rc = 0; rc < row_calls; ++rc)
    for (std::int64_t cc = 0; cc < column_calls; ++cc) {
      std::vector<float> a(static_cast<std::size_t>(shape.m * n), std::ldexp(1.0F, sizes.one));
      std::vector<float> b(static_cast<std::size_t>(shape.n * n), std::ldexp(1.0F, sizes.one));
      const auto i_of = [&](std::int64_t r) {
        return sizes.diagonal ? 0 : answers.i[static_cast<std::size_t>(std::min(rc * shape.m + r, rows - 1))];
      };
      const auto j_of = [&](std::int64_t c) { return std::min(cc * across + c, n - 1); };
      for (std::int64_t r = 0; r < shape.m; ++r) a[static_cast<std::size_t>(r * n + i_of(r))] = big;
      for (std::int64_t c = 0; c < shape.n; ++c) b[static_cast<std::size_t>(c * n + j_of(c))] = -big;
      for (std::int64_t d = 0; sizes.diagonal && d < across; ++d) {
        a[static_cast<std::size_t>(d * n + j_of(d))] = big;
        b[static_cast<std::size_t>(d * n)] = big;
      }
      std::optional<Answer> answer = subject.crafted(shape, std::move(a), std::move(b), "masks");
      if (!answer) return std::nullopt;
      for (std::int64_t r = 0; r < shape.m; ++r)
        for (std::int64_t c = 0; c < across; ++c) {
          const std::int64_t row = sizes.diagonal ? 0 : rc * shape.m + r, column = cc * across + c;
          if ((sizes.diagonal && r != c) || row >= rows || column >= n || i_of(r) == column) continue;
          const double left = answer->got[static_cast<std::size_t>(r * shape.n + c)] / one;
          if (!(left >= 0 && left <= static_cast<double>(n - 2)) || left != std::floor(left))
            return std::nullopt;
          answers.met[static_cast<std::size_t>(row * n + column)] = n - static_cast<std::int64_t>(left);
        }
      answers.calls.push_back(std::move(*answer));
    }
  return answers;
}

struct Builder {
  const MaskAnswers& answers;
  bool is_tree = true;

  std::int64_t met(std::int64_t i, std::int64_t j) const {
    return answers.met[static_cast<std::size_t>(i * answers.n + j)];
  }
  // The subtree of these terms, ascending: its first term meets the others at ever higher nodes.
  std::string build(const std::vector<std::int64_t>& terms) {
    if (terms.size() == 1) return std::to_string(terms[0]);
    std::map<std::int64_t, std::vector<std::int64_t>> by_size;
    for (std::size_t t = 1; t < terms.size(); ++t) by_size[met(terms[0], terms[t])].push_back(terms[t]);
    std::string text = std::to_string(terms[0]);
    std::int64_t under = 1, chain = terms[0], chained = 0;
    for (const auto& [size, group] : by_size) {
      if (under + static_cast<std::int64_t>(group.size()) != size) is_tree = false;
      if (!is_tree) return "";
      under = size;
      // A term after a term, as often as it goes on: written as a run.
      if (group.size() == 1 && group[0] == chain + 1) {
        ++chain, ++chained;
        continue;
      }
      text = closed(text, chain, chained);
      chained = 0;
      chain = -2;
      text = fmt::format("({} {})", text, group_text(group, size));
    }
    return closed(text, chain, chained);
  }
  static std::string closed(const std::string& text, std::int64_t last, std::int64_t chained) {
    if (chained == 0) return text;
    return chained == 1 ? fmt::format("({} {})", text, last) : fmt::format("({} then..{})", text, last);
  }
  // What joins at one node: one subtree, or several where the node is a fused block.
  std::string group_text(const std::vector<std::int64_t>& group, std::int64_t size) {
    const std::int64_t inner = group.size() > 1 ? met(group[0], group[1]) : 0;
    bool fused = group.size() > 1;
    for (std::size_t a = 1; a < group.size(); ++a) fused &= met(group[0], group[a]) == size;
    if (!fused || inner != size) return build(group);
    return group.back() - group.front() + 1 == static_cast<std::int64_t>(group.size())
               ? fmt::format("{{{}..{}}}", group.front(), group.back())
               : fmt::format("{{{}}}", fmt::join(group, ","));
  }
};

}  // namespace

std::optional<MaskAnswers> ask_masks(GemmSubject& subject, const GemmShape& shape, int most_calls) {
  for (const Sizes& sizes : sizes_of(subject.a_element(), subject.b_element()))
    if (std::optional<MaskAnswers> answers = ask(subject, shape, most_calls, sizes)) return answers;
  return std::nullopt;
}

std::string tree_text(const MaskAnswers& answers) {
  if (!answers.whole) return "";
  std::vector<std::int64_t> all(answers.j);
  Builder builder{answers};
  const std::string text = builder.build(all);
  return builder.is_tree ? text : "";
}

std::string first_row_text(const MaskAnswers& answers) {
  std::string text;
  for (std::int64_t j = 1; j < answers.n && text.size() < 120;) {
    const std::int64_t size = answers.met[static_cast<std::size_t>(j)];
    std::int64_t end = j + 1, step = 0;
    if (end < answers.n) step = answers.met[static_cast<std::size_t>(end)] - size;
    while (end < answers.n && answers.met[static_cast<std::size_t>(end)] == size + step * (end - j)) ++end;
    if (end - j < 3) end = j + 1;
    text += end - j == 1 ? fmt::format("{}{}: {}", text.empty() ? "" : ", ", j, size)
                         : fmt::format("{}{}..{}: {}{}", text.empty() ? "" : ", ", j, end - 1, size,
                                       step == 0 ? "" : fmt::format("..{}", size + step * (end - 1 - j)));
    j = end;
    if (text.size() >= 120 && j < answers.n) text += ", ...";
  }
  return text;
}

}  // namespace assay
