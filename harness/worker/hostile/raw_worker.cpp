// A worker that speaks the protocol by itself and breaks it: in hello or open by its argument, in run and
// ping by the call's variant. Variant `innocent` keeps it. The op is y = 2 x, x and y [rows, cols] f32.
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <string_view>

#include "harness/worker/channel.hpp"
#include "harness/worker/protocol.hpp"

namespace assay {
namespace {

std::string repeat(std::string_view text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

void twice(const request::Run& run) {
  void* mapped = mmap(nullptr, static_cast<std::size_t>(run.memory_bytes), PROT_READ | PROT_WRITE, MAP_SHARED,
                      kMemoryDescriptor, 0);
  if (mapped == MAP_FAILED) std::_Exit(70);
  const TensorMessage &x = run.call.inputs[0], &y = run.call.outputs[0];
  auto* memory = static_cast<char*>(mapped);
  for (std::int64_t r = 0; r < y.shape[0]; ++r)
    for (std::int64_t c = 0; c < y.shape[1]; ++c) {
      float value = 0;
      std::memcpy(&value, memory + x.offset + r * x.stride[0] + 4 * c, 4);
      value *= 2;
      std::memcpy(memory + y.offset + r * y.stride[0] + 4 * c, &value, 4);
    }
  munmap(mapped, static_cast<std::size_t>(run.memory_bytes));
}

void say(std::string_view text) { send_all(kControlDescriptor, text); }
[[noreturn]] void sleep_for_ever() {
  for (;;) pause();
}
[[noreturn]] void leave(int status) { std::_Exit(status); }

// What replaces `done` of a run, with @ for its id; what is said once more than that stands behind a second
// line.
const std::map<std::string_view, std::string>& answers() {
  static const std::map<std::string_view, std::string> table = {
      {"id_missing", R"({"type":"done","kernels":[],"notes":[],"wall_ns":1})"},
      {"id_of_nobody", R"({"type":"done","id":77777777,"kernels":[],"notes":[],"wall_ns":1})"},
      {"id_0", R"({"type":"done","id":0,"kernels":[],"notes":[],"wall_ns":1})"},
      {"id_negative", R"({"type":"done","id":-1,"kernels":[],"notes":[],"wall_ns":1})"},
      {"id_is_text", R"({"type":"done","id":"@","kernels":[],"notes":[],"wall_ns":1})"},
      {"id_of_2_to_the_63",
       R"({"type":"done","id":9223372036854775808,"kernels":[],"notes":[],"wall_ns":1})"},
      {"id_is_a_fraction", R"({"type":"done","id":@.5,"kernels":[],"notes":[],"wall_ns":1})"},
      {"id_is_null", R"({"type":"done","id":null,"kernels":[],"notes":[],"wall_ns":1})"},
      {"type_missing", R"({"id":@,"kernels":[],"notes":[],"wall_ns":1})"},
      {"type_unknown", R"({"type":"finished","id":@,"kernels":[],"notes":[],"wall_ns":1})"},
      {"type_is_a_number", R"({"type":7,"id":@})"},
      {"type_in_capitals", R"({"type":"DONE","id":@,"kernels":[],"notes":[],"wall_ns":1})"},
      {"not_json", "garbage"},
      {"an_array", R"([{"type":"done","id":@}])"},
      {"a_number", "@"},
      {"a_text", "\"done\""},
      {"null", "null"},
      {"an_empty_object", "{}"},
      {"an_empty_line", ""},
      {"spaces", "      "},
      {"single_quotes", "{'type':'done','id':@,'kernels':[],'notes':[],'wall_ns':1}"},
      {"a_comma_too_many", R"({"type":"done","id":@,"kernels":[],"notes":[],"wall_ns":1,})"},
      {"two_objects_in_a_line",
       R"({"type":"done","id":@,"kernels":[],"notes":[],"wall_ns":1}{"type":"pong","id":@})"},
      {"garbage_behind_the_object", R"({"type":"done","id":@,"kernels":[],"notes":[],"wall_ns":1} and more)"},
      {"null_byte", std::string("{\"type\":\"done\",\0\"id\":@}", 24)},
      {"unfinished_text", R"({"type":"done","id":@,"kernels":["k)"},
      {"bytes_that_are_no_text",
       "{\"type\":\"done\",\"id\":@,\"kernels\":[\"\xff\xfe\"],\"notes\":[],\"wall_ns\":1}"},
      {"surrogates_alone", R"({"type":"done","id":@,"kernels":["\ud800"],"notes":[],"wall_ns":1})"},
      {"brackets_100000_deep", repeat("[", 100'000)},
      {"objects_100000_deep", repeat("{\"a\":", 100'000)},
      {"kernels_100000_deep",
       R"({"type":"done","id":@,"kernels":)" + repeat("[", 100'000) + repeat("]", 100'000) + "}"},
      {"wall_is_not_a_number", R"({"type":"done","id":@,"kernels":[],"notes":[],"wall_ns":NaN})"},
      {"wall_is_text", R"({"type":"done","id":@,"kernels":[],"notes":[],"wall_ns":"1"})"},
      {"wall_is_missing", R"({"type":"done","id":@,"kernels":[],"notes":[]})"},
      {"wall_is_negative", R"({"type":"done","id":@,"kernels":[],"notes":[],"wall_ns":-5})"},
      {"wall_of_2_to_the_63",
       R"({"type":"done","id":@,"kernels":[],"notes":[],"wall_ns":9223372036854775808})"},
      {"wall_of_1e300", R"({"type":"done","id":@,"kernels":[],"notes":[],"wall_ns":1e300})"},
      {"wall_is_a_fraction", R"({"type":"done","id":@,"kernels":[],"notes":[],"wall_ns":1.5})"},
      {"kernels_missing", R"({"type":"done","id":@,"notes":[],"wall_ns":1})"},
      {"kernels_is_text", R"({"type":"done","id":@,"kernels":"k","notes":[],"wall_ns":1})"},
      {"kernels_are_numbers", R"({"type":"done","id":@,"kernels":[1,2],"notes":[],"wall_ns":1})"},
      {"notes_are_text", R"({"type":"done","id":@,"kernels":[],"notes":["a"],"wall_ns":1})"},
      {"notes_of_three", R"({"type":"done","id":@,"kernels":[],"notes":[["a","b","c"]],"wall_ns":1})"},
      {"notes_of_numbers", R"({"type":"done","id":@,"kernels":[],"notes":[["a",1]],"wall_ns":1})"},
      {"witness_is_text", R"({"type":"done","id":@,"kernels":[],"notes":[],"wall_ns":1,"witness":"me"})"},
      {"witness_grid_of_two",
       R"({"type":"done","id":@,"kernels":[],"notes":[],"wall_ns":1,"witness":{"by":"x","kernels":[{"name":"k","grid":[1,2]}]}})"},
      {"opened_again", R"({"type":"opened","id":@,"name":"n","description":"d","variants":[]})"},
      {"hello_again", R"({"type":"hello","id":@,"protocol":"assay-worker","version":2})"},
      {"declared_for_run", R"({"type":"declared","id":@,"contract":"out=f32","path":"","promises":""})"},
      {"refused_for_run", R"({"type":"refused","id":@,"reason":"too late"})"},
      {"pong_for_run", R"({"type":"pong","id":@})"},
      {"crash_and_lives_on",
       R"({"type":"crash","id":@,"signal":11,"address":8,"offset":-1,"access":"write"})"},
      {"crash_of_signal_0", R"({"type":"crash","id":@,"signal":0,"address":0,"offset":-1,"access":"none"})"},
      {"crash_of_signal_4000",
       R"({"type":"crash","id":@,"signal":4000,"address":0,"offset":-1,"access":"unknown"})"},
      {"crash_far_outside",
       R"({"type":"crash","id":@,"signal":11,"address":1,"offset":9223372036854775807,"access":"write"})"},
      {"crash_of_negative_offset",
       R"({"type":"crash","id":@,"signal":11,"address":1,"offset":-9000000,"access":"read"})"},
      {"failed_without_reason", R"({"type":"failed","id":@})"},
      {"failed_for_a_mebibyte", R"({"type":"failed","id":@,"reason":")" + std::string(1 << 20, 'r') + "\"}"},
      {"failed_with_escapes", R"({"type":"failed","id":@,"reason":"one\ntwo\u001b[2J\u0000"})"},
      {"unsupported_with_escapes", R"({"type":"unsupported","id":@,"reason":"\u001b[2Jnothing"})"},
      {"done_twice",
       "{\"type\":\"done\",\"id\":@,\"kernels\":[],\"notes\":[],\"wall_ns\":1}\n"
       "{\"type\":\"done\",\"id\":@,\"kernels\":[],\"notes\":[],\"wall_ns\":1}"},
      {"done_and_failed",
       "{\"type\":\"done\",\"id\":@,\"kernels\":[],\"notes\":[],\"wall_ns\":1}\n"
       "{\"type\":\"failed\",\"id\":@,\"reason\":\"after all\"}"},
      {"done_and_garbage", "{\"type\":\"done\",\"id\":@,\"kernels\":[],\"notes\":[],\"wall_ns\":1}\ngarbage"},
      {"correct_with_carriage_return",
       "{\"type\":\"done\",\"id\":@,\"kernels\":[],\"notes\":[],\"wall_ns\":1}\r"},
      {"correct_with_unknown_members",
       R"({"type":"done","id":@,"kernels":[],"notes":[],"wall_ns":1,"colour":"blue","deep":{"a":[1]}})"},
      {"correct_with_members_in_another_order",
       R"({"wall_ns":1,"notes":[],"kernels":[],"id":@,"type":"done"})"},
      {"correct_with_65000_kernels",
       R"({"type":"done","id":@,"notes":[],"wall_ns":1,"kernels":["k")" + repeat(",\"k\"", 64'999) + "]}"},
      {"correct_with_a_name_of_a_mebibyte",
       R"({"type":"done","id":@,"notes":[],"wall_ns":1,"kernels":[")" + std::string(1 << 20, 'k') + "\"]}"},
  };
  return table;
}

// Misdeeds that are more than one other line.
bool misdeed(std::string_view variant, const std::string& done) {
  if (variant == "half_a_line_and_leave") {
    say(done.substr(0, done.size() / 2));
    leave(0);
  }
  if (variant == "half_a_line_and_sleep") {
    say(done.substr(0, done.size() / 2));
    sleep_for_ever();
  }
  if (variant == "a_line_without_newline_and_leave") {
    say(done.substr(0, done.size() - 1));
    leave(0);
  }
  if (variant == "say_nothing") sleep_for_ever();
  if (variant == "leave_silently") leave(0);
  if (variant == "done_and_leave") {
    say(done);
    leave(0);
  }
  if (variant == "done_and_killed") {
    say(done);
    raise(SIGKILL);
  }
  if (variant == "done_and_close") {
    say(done);
    shutdown(kControlDescriptor, SHUT_RDWR);
    sleep_for_ever();
  }
  if (variant == "done_and_sleep") {  // no pong
    say(done);
    sleep_for_ever();
  }
  if (variant == "a_byte_a_millisecond_for_ever") {
    for (;;) {
      say("{");
      usleep(1000);
    }
  }
  if (variant == "a_line_for_ever") {
    const std::string block(1 << 20, ' ');
    for (;;) say(block);
  }
  if (variant == "empty_lines_for_ever")
    for (;;) say("\n\n\n\n");
  if (variant == "correct_byte_by_byte") {
    for (const char byte : done) say({&byte, 1});
    return true;
  }
  return false;
}

// What a variant does with the ping behind its answer.
bool ping_misdeed(std::string_view variant, std::int64_t id, const std::string& pong) {
  if (variant == "pong_missing") return true;
  if (variant == "pong_twice") say(pong);
  if (variant == "pong_of_another_id") {
    say(to_line(id + 5, Reply{reply::Pong{}}));
    return true;
  }
  if (variant == "pong_is_failed") {
    say(to_line(id, Reply{reply::Failed{"no pong"}}));
    return true;
  }
  if (variant == "pong_behind_a_late_done") say(to_line(id - 1, Reply{reply::Done{}}));
  if (variant == "pong_and_leave") {
    say(pong);
    leave(0);
  }
  return false;
}

// Misdeeds in hello and open.
bool greeting_misdeed(std::string_view how, std::int64_t id) {
  const auto instead = [&](std::string line) {
    for (auto at = line.find('@'); at != std::string::npos; at = line.find('@'))
      line.replace(at, 1, std::to_string(id));
    say(line + "\n");
    return true;
  };
  if (how == "hello_silence" || how == "open_silence") sleep_for_ever();
  if (how == "hello_leave" || how == "open_leave") leave(0);
  if (how == "hello_garbage" || how == "open_garbage") return instead("garbage");
  if (how == "hello_version_1")
    return instead(R"({"type":"hello","id":@,"protocol":"assay-worker","version":1})");
  if (how == "hello_version_of_2_to_the_40")
    return instead(R"({"type":"hello","id":@,"protocol":"assay-worker","version":1099511627778})");
  if (how == "hello_another_protocol")
    return instead(R"({"type":"hello","id":@,"protocol":"lsp","version":2})");
  if (how == "hello_guards_are_text")
    return instead(R"({"type":"hello","id":@,"protocol":"assay-worker","version":2,"guards":"yes"})");
  if (how == "hello_wrong_id")
    return instead(R"({"type":"hello","id":12,"protocol":"assay-worker","version":2})");
  if (how == "hello_is_opened")
    return instead(R"({"type":"opened","id":@,"name":"n","description":"d","variants":[]})");
  if (how == "open_is_done") return instead(R"({"type":"done","id":@,"kernels":[],"notes":[],"wall_ns":1})");
  if (how == "open_without_name")
    return instead(R"({"type":"opened","id":@,"description":"d","variants":[]})");
  if (how == "open_variants_are_text")
    return instead(R"({"type":"opened","id":@,"name":"n","description":"d","variants":"v"})");
  if (how == "open_is_failed") return instead(R"({"type":"failed","id":@,"reason":"no"})");
  return false;
}

int serve(std::string_view how) {
  LineBuffer buffer;
  std::string variant = "innocent";
  for (;;) {
    const auto line = buffer.take();
    if (!line) {
      if (receive_some(kControlDescriptor, buffer, 0) == Received::end) return 0;
      continue;
    }
    const auto [id, request] = parse_request(*line);
    Reply reply = reply::Pong{};
    if (std::holds_alternative<request::Bye>(request)) return 0;
    if (std::holds_alternative<request::Hello>(request)) {
      if (how.starts_with("hello_") && greeting_misdeed(how, id)) continue;
      reply = reply::Hello{};
    } else if (std::holds_alternative<request::Open>(request)) {
      if (how.starts_with("open_") && greeting_misdeed(how, id)) continue;
      reply = reply::Opened{"raw", "breaks the protocol", {}};
    } else if (std::holds_alternative<request::Declare>(request)) {
      reply = reply::Declared{"out=f32", "", ""};
    } else if (const auto* run = std::get_if<request::Run>(&request)) {
      variant = run->call.variant;
      twice(*run);
      const auto other = answers().find(variant);
      if (other != answers().end()) {
        std::string text = other->second;
        for (auto at = text.find('@'); at != std::string::npos; at = text.find('@'))
          text.replace(at, 1, std::to_string(id));
        say(text + "\n");
        continue;
      }
      reply = reply::Done{};
      if (misdeed(variant, to_line(id, reply))) continue;
    } else if (ping_misdeed(variant, id, to_line(id, reply))) {
      continue;
    }
    say(to_line(id, reply));
  }
}

}  // namespace
}  // namespace assay

int main(int argc, char** argv) { return assay::serve(argc > 1 ? argv[1] : ""); }
