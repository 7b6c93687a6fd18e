// Lines of the protocol: what is printed is read back, and what is no message is refused.
#include "harness/worker/protocol.hpp"

#include <gtest/gtest.h>

#include "harness/worker/channel.hpp"
#include "harness/worker/test_call.hpp"

namespace assay {
namespace {

CallMessage some_call() {
  return {"attention",
          "split",
          {{"heads", "32"}, {"word", "a \"quoted\"\nline"}},
          {{"q", "f16", {1, 2, 3}, {12, 6, 2}, 4096}, {"k.scale", "f32", {1}, {4}, -1}},
          {{"out", "bf16", {7}, {2}, 8192}}};
}

TEST(Protocol, every_request_is_a_fixed_point_of_print_and_parse) {
  const Request requests[] = {
      request::Hello{},
      request::Open{"/a b/plugin.so", "device=1"},
      request::Declare{some_call()},
      request::Run{some_call(), 1 << 20, {{4096, 8192, true}, {65536, 4096, false}}, 0x5A},
      request::Ping{},
      request::Bye{}};
  constexpr std::int64_t kId = (std::int64_t{1} << 53) - 1;
  for (const Request& message : requests) {
    const std::string line = to_line(kId, message);
    EXPECT_EQ(line.find('\n'), line.size() - 1) << line;
    const NumberedRequest read = parse_request(line);
    EXPECT_EQ(read.id, kId);
    EXPECT_EQ(read.message.index(), message.index());
    EXPECT_EQ(to_line(read.id, read.message), line);
  }
  const auto run = std::get<request::Run>(parse_request(to_line(1, requests[3])).message);
  EXPECT_EQ(run.stack, 0x5A);
  EXPECT_EQ(run.slots, (std::vector<SlotMessage>{{4096, 8192, true}, {65536, 4096, false}}));
  EXPECT_EQ(run.call.attributes[1].second, "a \"quoted\"\nline");
  EXPECT_EQ(run.call.inputs[1].offset, -1);
}

TEST(Protocol, every_reply_is_a_fixed_point_of_print_and_parse) {
  const Reply replies[] = {
      reply::Hello{std::string(kProtocolName), kProtocolVersion, true},
      reply::Opened{"cpu", "one line", {"scalar", "AVX3"}},
      reply::Refused{"no device"},
      reply::Refused{"no such option", true},
      reply::Declared{"qk=f32", "decode_e4m3fn", "deterministic=yes"},
      reply::Declared{"qk=f32", "", "", 64},
      reply::Unsupported{"d=96"},
      reply::Failed{"no memory"},
      reply::Failed{"illegal address", "crash"},
      reply::Done{{{"a", "b", "a"}, {{"target", "AVX3"}, {"target", "SSE4"}}, 12345, {}}},
      reply::HostLimit{"cannot map the shared memory"},
      reply::Pong{},
      reply::Crash{11, 0xFFFFFFFFFFFFFFF8U, -1, "write"}};
  for (const Reply& message : replies) {
    const std::string line = to_line(17, message);
    const NumberedReply read = parse_reply(line);
    EXPECT_EQ(read.id, 17);
    EXPECT_EQ(read.message.index(), message.index());
    EXPECT_EQ(to_line(17, read.message), line);
  }
  EXPECT_EQ(std::get<reply::Crash>(parse_reply(to_line(1, std::end(replies)[-1])).message).address,
            0xFFFFFFFFFFFFFFF8U);
}

TEST(Protocol, an_alignment_is_a_power_of_two) {
  const auto alignment = [](const std::string& text) {
    const std::string claims = R"("contract":"","path":"","promises":"")";
    return std::get<reply::Declared>(
               parse_reply(R"({"id":1,"type":"declared",)" + claims + text + "}\n").message)
        .alignment;
  };
  EXPECT_EQ(alignment(""), 1U);
  EXPECT_EQ(alignment(R"(,"alignment":64)"), 64U);
  for (const char* wrong : {"0", "-64", "48", "2097152", "1.5", "\"64\""})
    EXPECT_THROW(alignment(std::string(R"(,"alignment":)") + wrong), ProtocolError) << wrong;
}

TEST(Protocol, what_a_witness_saw_is_part_of_the_trace) {
  const Witness seen{
      "cupti", {{"void f<float>(int)", {8, 2, 1}, {128, 1, 1}, 1500, 7}}, 4096, 2048, "2 records lost"};
  const std::string line = to_line(1, Reply{reply::Done{{{"f"}, {}, 1, seen}}});
  const Reply read = parse_reply(line).message;
  EXPECT_EQ(to_line(1, read), line);
  const Witness& witness = *std::get<reply::Done>(read).trace.witness;
  EXPECT_EQ(witness.kernels.at(0).name, "void f<float>(int)");
  EXPECT_EQ(witness.kernels.at(0).grid, (std::array<std::int64_t, 3>{8, 2, 1}));
  EXPECT_EQ(witness.peak_bytes, 2048);
  EXPECT_EQ(witness.error, "2 records lost");
  EXPECT_EQ(parse_witness(R"({"by":"x","kernels":[{"name":"f"}]})").kernels.at(0).ns, 0);
  EXPECT_THROW(parse_witness(R"({"by":"x"})"), ProtocolError);
  EXPECT_THROW(parse_witness("nothing"), ProtocolError);
  const Reply unwatched =
      parse_reply(R"({"type":"done","id":1,"kernels":[],"notes":[],"wall_ns":1})").message;
  EXPECT_FALSE(std::get<reply::Done>(unwatched).trace.witness.has_value());
}

TEST(Protocol, what_is_no_message_is_refused) {
  for (const char* line :
       {"", "{", "[]", "17", R"({"id":1,"kind":"hello"})", R"({"id":1,"type":"dance"})",
        R"({"id":1,"type":"open"})", R"({"id":1,"type":"open","plugin":1,"options":""})",
        R"({"id":1,"type":"declare","call":{}})", R"({"type":"ping"})", R"({"type":"pong"})",
        R"({"id":"1","type":"ping"})", R"({"id":"1","type":"pong"})"}) {
    EXPECT_THROW(parse_request(line), ProtocolError) << line;
    EXPECT_THROW(parse_reply(line), ProtocolError) << line;
  }
  EXPECT_THROW(parse_reply(R"({"id":1,"type":"done","kernels":"softmax","notes":[],"wall_ns":1})"),
               ProtocolError);
  // What the library would have made an integer, a list or a pair of.
  for (const char* number :
       {"1.5", "1e300", "-1e300", "true", "null", "\"1\"", "[1]", "18446744073709551615"}) {
    const std::string text = number;
    EXPECT_THROW(parse_reply(R"({"id":)" + text + R"(,"type":"pong"})"), ProtocolError) << text;
    EXPECT_THROW(parse_reply(R"({"id":1,"type":"done","kernels":[],"notes":[],"wall_ns":)" + text + "}"),
                 ProtocolError)
        << text;
  }
  for (const char* signal : {"2147483648", "4294967307", "11.5"})
    EXPECT_THROW(parse_reply(R"({"id":1,"type":"crash","address":0,"offset":-1,"access":"read","signal":)" +
                             std::string(signal) + "}"),
                 ProtocolError)
        << signal;
  for (const char* notes : {"{}", "null", R"([["a"]])", R"([["a","b","c"]])", R"({"a":"b"})"})
    EXPECT_THROW(
        parse_reply(R"({"id":1,"type":"done","kernels":[],"wall_ns":1,"notes":)" + std::string(notes) + "}"),
        ProtocolError)
        << notes;
  CallMessage crooked = some_call();
  crooked.inputs[0].stride.pop_back();
  EXPECT_THROW(parse_request(to_line(1, Request{request::Declare{crooked}})), ProtocolError);
}

TEST(Protocol, bytes_that_are_not_text_do_not_break_a_line) {
  const std::string line = to_line(1, Reply{reply::Failed{"bad \xFF\xFE name"}});
  EXPECT_NE(std::get<reply::Failed>(parse_reply(line).message).reason.find("name"), std::string::npos);
}

TEST(Protocol, lines_are_taken_from_whatever_pieces_arrive) {
  LineBuffer buffer;
  buffer.append("first\nsec");
  EXPECT_EQ(buffer.take(), "first");
  EXPECT_EQ(buffer.take(), std::nullopt);
  EXPECT_EQ(buffer.bytes(), 3U);
  buffer.append("ond\n\nthird");
  EXPECT_EQ(buffer.take(), "second");
  EXPECT_EQ(buffer.take(), "");
  EXPECT_EQ(buffer.take(), std::nullopt);
  EXPECT_EQ(buffer.take(), std::nullopt);
  buffer.append("\n");
  EXPECT_EQ(buffer.take(), "third");
  EXPECT_EQ(buffer.bytes(), 0U);
}

// To search all of it again with each piece would be to look at 10^13 bytes.
TEST(Protocol, a_long_line_in_small_pieces_is_searched_once) {
  LineBuffer buffer;
  const std::string piece(64, 'x');
  constexpr std::size_t kPieces = std::size_t{1} << 20;
  for (std::size_t i = 0; i < kPieces; ++i) {
    buffer.append(piece);
    ASSERT_EQ(buffer.take(), std::nullopt);
  }
  buffer.append("\n");
  EXPECT_EQ(buffer.take().value_or("").size(), kPieces * piece.size());
}

class ExampleWorker : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::string_view(ASSAY_PYTHON).empty()) GTEST_SKIP() << "no Python interpreter was found";
  }
  static WorkerOptions options() {
    WorkerOptions out;
    out.command = {ASSAY_PYTHON, ASSAY_EXAMPLE_WORKER};
    return out;
  }
};

TEST_F(ExampleWorker, in_python_is_judged_like_a_plug_in) {
  Worker worker(options());
  for (const std::int64_t row_gap : {0, 24}) {
    TwiceCall call("", 5, 7, row_gap);
    const DeclareResult declared = worker.declare(call.request().call);
    EXPECT_EQ(declared.declaration.path, "struct.pack") << declared.reason;
    const RunResult result = worker.run(call.request());
    ASSERT_EQ(result.status, RunStatus::done) << result.reason << result.output_tail;
    EXPECT_EQ(TwiceCall::floats(result.outputs[0])[34], 2 * call.values()[34]);
    EXPECT_EQ(result.trace.kernels, std::vector<std::string>{"struct.pack"});
  }
  TwiceCall large("", 300, 700);  // the memory grows
  EXPECT_EQ(worker.run(large.request()).status, RunStatus::done);
  TwiceCall other("");
  other.request().call.op = "thrice";
  EXPECT_EQ(worker.run(other.request()).status, RunStatus::unsupported);
  EXPECT_EQ(worker.starts(), 1);
}

}  // namespace
}  // namespace assay
