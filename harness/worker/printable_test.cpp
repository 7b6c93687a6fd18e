#include "harness/worker/printable.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "harness/worker/protocol.hpp"

namespace assay {
namespace {

TEST(Printable, keeps_text_and_shows_what_moves_a_cursor) {
  const std::pair<std::string, std::string> rows[] = {
      {"rows=4 'x' \"y\" \\", "rows=4 'x' \"y\" \\"},
      {"größe µ 漢字 𝄞", "größe µ 漢字 𝄞"},
      {"\x1b[32mall green\x1b[0m", "\\x1b[32mall green\\x1b[0m"},
      {"a\nb\tc\rd\x7f", "a\\nb\\tc\\x0dd\\x7f"},
      {std::string("nul\0nul", 7), "nul\\x00nul"},
      {"\xc2\x9b"
       "2J",
       "\\x9b2J"},  // C1: the 8-bit form of ESC [
      {"\xe2\x80\xae"
       "neerg",
       "\\u202eneerg"},  // text from right to left
      {"\xe2\x80\xa8", "\\u2028"},
      {"\xff\xfe", "\\xff\\xfe"},
      {"\xc0\x80", "\\xc0\\x80"},                    // NUL in two bytes
      {"\xed\xa0\x80", "\\xed\\xa0\\x80"},           // a surrogate
      {"\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"},  // beyond U+10FFFF
      {"\xe2\x82", "\\xe2\\x82"},                    // cut short
      {"\xef\xbf\xbe", "\\ufffe"},                   // no character of XML
      {"", ""}};
  for (const auto& [text, shown] : rows) EXPECT_EQ(printable(text), shown);
}

TEST(Printable, is_its_own_fixed_point) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  EXPECT_EQ(printable(printable(all)), printable(all));
}

TEST(Printable, a_block_marks_each_of_its_lines) {
  EXPECT_EQ(quoted_block("loss\n\nall green\n"), "  | loss\n  | \n  | all green");
}

TEST(Printable, every_text_of_a_reply_is) {
  const auto failed = parse_reply(R"({"type":"failed","id":1,"reason":"\u001b[2Jall green\n"})");
  EXPECT_EQ(std::get<reply::Failed>(failed.message).reason, "\\x1b[2Jall green\\n");
  const auto done = parse_reply(
      R"({"type":"done","id":1,"kernels":["k\u0007"],"notes":[["a\u001b","b\u001b"]],"wall_ns":1})");
  const Trace& trace = std::get<reply::Done>(done.message).trace;
  EXPECT_EQ(trace.kernels, std::vector<std::string>{"k\\x07"});
  EXPECT_EQ(trace.notes, (TextPairs{{"a\\x1b", "b\\x1b"}}));
}

TEST(Printable, a_reply_may_not_be_nested_deep) {
  EXPECT_THROW(parse_reply(R"({"type":"failed","id":1,"reason":"x","more":)" + std::string(100'000, '[') +
                           std::string(100'000, ']') + "}"),
               ProtocolError);
}

}  // namespace
}  // namespace assay
