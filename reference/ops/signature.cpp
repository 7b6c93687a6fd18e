#include "reference/ops/signature.hpp"

#include <algorithm>
#include <charconv>

#include "reference/word_list.hpp"

namespace assay {
namespace {

std::int64_t factor(std::string_view text, const Attributes& a) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size() ? value : a.integer(text);
}

std::int64_t extent(std::string_view axis, const Attributes& a) {
  const auto at = axis.find_first_of("*/");
  if (at == std::string_view::npos) return factor(axis, a);
  const std::int64_t left = factor(axis.substr(0, at), a), right = factor(axis.substr(at + 1), a);
  return axis[at] == '*' ? left * right : (left + right - 1) / right;
}

bool holds(std::string_view condition, const Attributes& a) {
  if (condition.empty()) return true;
  const auto equals = condition.find('=');
  std::string_view words = condition.substr(equals + 1);
  const bool excludes = words.starts_with('!');
  if (excludes) words.remove_prefix(1);
  return has_word(words, a.text(condition.substr(0, equals))) != excludes;
}

}  // namespace

std::vector<SignatureLine> signature_lines(std::string_view signature) {
  std::vector<SignatureLine> lines;
  for (std::string_view line : listed_words(signature, '\n')) {
    const bool output = line.starts_with("-> ");
    if (output) line.remove_prefix(3);
    const auto open = line.find('['), close = line.find(']'), condition = line.find(" if ");
    const bool always = condition == std::string_view::npos;
    lines.push_back({line.substr(0, open), line.substr(open + 1, close - open - 1),
                     line.substr(close + 2, always ? condition : condition - close - 2),
                     always ? std::string_view() : line.substr(condition + 4), output});
  }
  return lines;
}

std::vector<TensorSpec> signature_tensors(std::string_view signature, const Attributes& a) {
  std::vector<TensorSpec> tensors;
  for (const SignatureLine& line : signature_lines(signature)) {
    if (!holds(line.condition, a)) continue;
    const auto attribute = a.all().find(std::string(line.format));
    const bool named = attribute == a.all().end();
    const TensorRole role = line.output                               ? TensorRole::output
                            : named && line.format.starts_with("int") ? TensorRole::index
                                                                      : TensorRole::data;
    TensorSpec t{std::string(line.name), role, named ? std::string(line.format) : attribute->second, {}};
    for (const std::string_view axis : listed_words(line.axes, ',')) t.shape.push_back(extent(axis, a));
    (void)planes(format(t.format), t.shape);  // refuses a block that does not divide the last extent
    tensors.push_back(std::move(t));
  }
  return tensors;
}

}  // namespace assay
