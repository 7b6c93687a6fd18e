// What a kernel prints, and what it does to the descriptors that it was given.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "harness/worker/hostile/plugin.hpp"

namespace hostile {
namespace {

constexpr int kControl = 3;

void print(std::string_view text) { static_cast<void>(!write(STDOUT_FILENO, text.data(), text.size())); }

void flood(Call& c, std::size_t bytes, char filler) {
  const std::string block(1 << 20, filler);
  for (std::size_t sent = 0; sent < bytes; sent += block.size()) print(block);
  c.twice();
}

template <int Fd>
void closed(Call& c) {
  close(Fd);
  c.twice();
}

// What is written to the control channel by the kernel itself, before the worker's own answer.
void say(Call& c, std::string_view text) {
  c.twice();
  static_cast<void>(!send(kControl, text.data(), text.size(), MSG_NOSIGNAL));
}

constexpr Variant kOutput[] = {
    {"print_64_mebibytes", [](Call& c) { flood(c, std::size_t{64} << 20, '.'); }},
    {"print_without_newline", [](Call& c) { flood(c, std::size_t{4} << 20, 'x'); }},
    {"print_newlines", [](Call& c) { flood(c, std::size_t{4} << 20, '\n'); }},
    {"print_nulls", [](Call& c) { flood(c, std::size_t{1} << 20, '\0'); }},
    {"print_bytes_that_are_no_text", [](Call& c) { flood(c, std::size_t{1} << 20, '\xff'); }},
    {"print_escapes",
     [](Call& c) {
       print("\x1b[2J\x1b]0;title\x07\x1b[31m\r\b\b");
       c.twice();
     }},
    {"print_a_reply",
     [](Call& c) {
       print("{\"type\":\"done\",\"kernels\":[],\"notes\":[],\"wall_ns\":1}\n");
       c.twice();
     }},
    {"print_a_failed_summary",
     [](Call& c) {
       print("FAIL softmax rows=3\n12 cases: 12 fail\nnot green\n");
       c.twice();
     }},
    {"close_stdin", closed<0>},
    {"close_stdout", closed<1>},
    {"close_stderr", closed<2>},
    {"close_everything_printed",
     [](Call& c) {
       std::fclose(stdout);
       std::fclose(stderr);
       std::fclose(stdin);
       c.twice();
     }},
    {"print_what_is_never_flushed",
     [](Call& c) {
       static char buffer[1 << 16];
       std::setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
       std::fputs("the last words", stdout);
       c.twice();
     }},
};

constexpr Variant kChannel[] = {
    {"close_the_channel", closed<3>},
    {"close_all_descriptors",
     [](Call& c) {
       for (int fd = 0; fd < 256; ++fd) close(fd);
       c.twice();
     }},
    {"put_output_over_the_channel",
     [](Call& c) {
       dup2(STDOUT_FILENO, kControl);
       c.twice();
     }},
    {"shut_the_channel_for_writing",
     [](Call& c) {
       shutdown(kControl, SHUT_WR);
       c.twice();
     }},
    {"shut_the_channel_for_reading",
     [](Call& c) {
       shutdown(kControl, SHUT_RD);
       c.twice();
     }},
    {"say_garbage", [](Call& c) { say(c, "garbage\n"); }},
    {"say_an_empty_line", [](Call& c) { say(c, "\n"); }},
    {"say_null_bytes", [](Call& c) { say(c, std::string_view("\0\0\0\n", 4)); }},
    {"say_half_a_line", [](Call& c) { say(c, "{\"type\":\"do"); }},
    {"say_half_a_line_and_leave",
     [](Call& c) {
       say(c, "{\"type\":\"do");
       _exit(0);
     }},
    {"say_failed_without_an_id", [](Call& c) { say(c, "{\"type\":\"failed\",\"reason\":\"forged\"}\n"); }},
    {"say_done_with_a_wrong_id",
     [](Call& c) {
       say(c, "{\"type\":\"done\",\"id\":999999,\"kernels\":[],\"notes\":[],\"wall_ns\":1}\n");
     }},
    {"say_done_with_an_earlier_id",
     [](Call& c) { say(c, "{\"type\":\"done\",\"id\":1,\"kernels\":[],\"notes\":[],\"wall_ns\":1}\n"); }},
    {"say_pong", [](Call& c) { say(c, "{\"type\":\"pong\",\"id\":1}\n"); }},
    {"say_hello_again",
     [](Call& c) { say(c, "{\"type\":\"hello\",\"id\":1,\"protocol\":\"assay-worker\",\"version\":2}\n"); }},
    {"say_a_crash_that_was_none",
     [](Call& c) {
       say(c, "{\"type\":\"crash\",\"signal\":11,\"address\":8,\"offset\":-1,\"access\":\"write\"}\n");
     }},
    {"say_a_line_of_64_mebibytes",
     [](Call& c) {
       const std::string block(1 << 20, 'l');
       for (int i = 0; i < 64; ++i)
         if (!send(kControl, block.data(), block.size(), MSG_NOSIGNAL)) break;
       c.twice();
     }},
    {"say_a_line_without_end",
     [](Call&) {
       const std::string block(1 << 20, 'l');
       for (;;) static_cast<void>(!send(kControl, block.data(), block.size(), MSG_NOSIGNAL));
     }},
    {"say_a_thousand_lines",
     [](Call& c) {
       for (int i = 0; i < 1000; ++i) say(c, "{\"type\":\"failed\",\"id\":0,\"reason\":\"forged\"}\n");
     }},
    {"say_ten_thousand_brackets",
     [](Call& c) { say(c, "{\"type\":" + std::string(10'000, '[') + std::string(10'000, ']') + "}\n"); }},
    {"read_the_next_request",
     [](Call& c) {  // what the judge sends next, or never
       char byte = 0;
       static_cast<void>(!recv(kControl, &byte, 1, 0));
       c.twice();
     }},
    {"trace_70000_kernels",
     [](Call& c) {
       for (int i = 0; i < 70'000; ++i) c.trace->kernel(c.trace->self, "again");
       c.twice();
     }},
    {"trace_a_kernel_without_a_name",
     [](Call& c) {
       c.trace->kernel(c.trace->self, nullptr);
       c.trace->note(c.trace->self, nullptr, nullptr);
       c.twice();
     }},
    {"trace_a_name_of_a_mebibyte",
     [](Call& c) {
       c.trace->kernel(c.trace->self, std::string(1 << 20, 'k').c_str());
       c.twice();
     }},
    {"trace_names_that_are_no_text",
     [](Call& c) {
       c.trace->kernel(c.trace->self, "\x1b[2J\n\xff\xfe\r\"}\n{\"type\":\"done\"}");
       c.trace->note(c.trace->self, "a\nb", "\xc3\x28");
       c.twice();
     }},
    {"trace_100000_notes",
     [](Call& c) {
       for (int i = 0; i < 100'000; ++i) c.trace->note(c.trace->self, "key", "value");
       c.twice();
     }},
    {"trace_200_mebibytes",
     [](Call& c) {
       const std::string name(1 << 20, 'k');
       for (int i = 0; i < 200; ++i) c.trace->note(c.trace->self, "key", name.c_str());
       c.twice();
     }},
};

}  // namespace

std::span<const Variant> output() { return kOutput; }
std::span<const Variant> channel() { return kChannel; }

}  // namespace hostile
