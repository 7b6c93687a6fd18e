// What the manual says of an op's tensors is what the op makes: each signature against tensors(), for every word that an
// attribute can be.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <charconv>
#include <sstream>

#include "reference/ops/op.hpp"

namespace assay {
namespace {

using Given = std::map<std::string, std::string>;

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

Given words_of(std::string_view example) {
  Given given;
  for (const auto& word : split(std::string(example), ' ')) {
    const auto equals = word.find('=');
    given[word.substr(0, equals)] = word.substr(equals + 1);
  }
  return given;
}

// An attribute or a number; -1 for the one size that only the op knows: how many pages a cache has.
std::int64_t factor(const std::string& text, const Attributes& a) {
  if (text == "pages") return -1;
  if (a.all().contains(text)) return a.integer(text);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  EXPECT_TRUE(error == std::errc{} && end == text.data() + text.size()) << text;
  return value;
}

std::int64_t extent(const std::string& axis, const Attributes& a) {
  const auto at = axis.find_first_of("*/");
  if (at == std::string::npos) return factor(axis, a);
  const std::int64_t left = factor(axis.substr(0, at), a), right = factor(axis.substr(at + 1), a);
  return axis[at] == '*' ? left * right : (left + right - 1) / right;
}

// "page=!0", "policy=locked|calibrated"
bool holds(const std::string& condition, const Attributes& a) {
  const auto equals = condition.find('=');
  std::string values = condition.substr(equals + 1);
  const bool excludes = values.starts_with('!');
  const auto list = split(values.substr(excludes ? 1 : 0), '|');
  return (std::ranges::find(list, a.text(condition.substr(0, equals))) != list.end()) != excludes;
}

// "" when the signature describes what tensors() makes of these attributes.
std::string mismatch(const Op& o, std::string_view signature, const Given& given) {
  const Attributes a = Attributes::complete(o.attributes, given);
  const std::vector<TensorSpec> made = o.tensors(a);
  std::size_t next = 0;
  for (std::string line : split(std::string(signature), '\n')) {
    const bool output = line.starts_with("-> ");
    if (output) line.erase(0, 3);
    const auto condition = line.find(" if ");
    if (condition != std::string::npos && !holds(line.substr(condition + 4), a)) continue;
    const auto open = line.find('['), close = line.find(']');
    const auto format_end = std::min(condition, line.size());
    std::string format = line.substr(close + 2, format_end - close - 2);
    if (a.all().contains(format)) format = a.text(format);
    if (next == made.size()) return fmt::format("'{}' is not made", line);
    const TensorSpec& t = made[next++];
    const auto axes = split(line.substr(open + 1, close - open - 1), ',');
    bool same = line.substr(0, open) == t.name && format == t.format && axes.size() == t.shape.size() &&
                output == (t.role == TensorRole::output);
    for (std::size_t i = 0; same && i < axes.size(); ++i) {
      const std::int64_t size = extent(axes[i], a);
      same = size == -1 || size == t.shape[i];
    }
    if (!same) return fmt::format("'{}' against {} {} {}", line, t.name, to_string(t.shape), t.format);
  }
  return next == made.size() ? "" : fmt::format("{} is not described", made[next].name);
}

// The example, and the example with each word, format flag or page size that an attribute can have and the op takes.
std::vector<Given> settings(const Op& o) {
  std::vector<Given> list{words_of(o.example)};
  for (const auto& a : o.attributes) {
    std::vector<std::string> values;
    if (a.kind == AttributeKind::word) values = split(std::string(a.allowed), '|');
    if (a.name == "page") values = {"0", "1", "16"};
    for (const auto& value : values) {
      Given given = list.front();
      given[std::string(a.name)] = value;
      if (value == "window") given["window"] = "3";
      try {
        (void)o.tensors(Attributes::complete(o.attributes, given));
        list.push_back(std::move(given));
      } catch (const InputError&) {
        continue;  // a word that the example's other attributes rule out
      }
    }
  }
  return list;
}

TEST(Manual, the_signature_of_every_op_describes_its_tensors) {
  std::size_t checked = 0;
  for (const Op& o : ops())
    for (const Given& given : settings(o)) {
      EXPECT_EQ(mismatch(o, o.signature, given), "") << o.name;
      ++checked;
    }
  EXPECT_GT(checked, 40U);
}

TEST(Manual, a_signature_that_is_wrong_in_one_word_is_noticed) {
  const Op& softmax = op("softmax");
  const auto first_mismatch = [&](const std::string& from, const std::string& to) {
    std::string signature(softmax.signature);
    const auto at = signature.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    signature.replace(at, from.size(), to);
    for (const Given& given : settings(softmax))
      if (std::string found = mismatch(softmax, signature, given); !found.empty()) return found;
    return std::string();
  };
  EXPECT_EQ(first_mismatch("x[rows,cols]", "x[rows,cols]"), "");
  EXPECT_NE(first_mismatch("x[rows,cols]", "x[cols,rows]"), "");
  EXPECT_NE(first_mismatch("mask=random", "mask=causal"), "");
  EXPECT_NE(first_mismatch("sinks[rows] f32 if sinks=yes\n", ""), "");
  EXPECT_NE(first_mismatch("int8", "int32"), "");
  EXPECT_NE(first_mismatch("-> y", "y"), "");
}

}  // namespace
}  // namespace assay
