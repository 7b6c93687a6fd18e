// A plug-in for the tests of the program: one softmax, and one variant per way of going wrong.
#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "backends/assay_backend.h"

namespace {

bool g_worthless = false;  // opened with that option: a contract that says nothing, for every variant

float* row(const assay_tensor& t, std::int64_t r) {
  return reinterpret_cast<float*>(static_cast<char*>(t.data) + r * t.stride[0]);
}

inline void softmax(const assay_tensor& x, const assay_tensor& y, std::int64_t rows) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* in = row(x, r);
    float* out = row(y, r);
    float largest = in[0], sum = 0;
    for (std::int64_t i = 1; i < x.shape[1]; ++i) largest = std::fmax(largest, in[i]);
    for (std::int64_t i = 0; i < x.shape[1]; ++i) sum += out[i] = std::exp(in[i] - largest);
    for (std::int64_t i = 0; i < x.shape[1]; ++i) out[i] /= sum;
  }
}

// Each a function of its own, so that it can be seen which of them ran.
__attribute__((noinline)) void softmax_fast(const assay_tensor& x, const assay_tensor& y, std::int64_t rows) {
  softmax(x, y, rows);
}
__attribute__((noinline)) void softmax_generic(const assay_tensor& x, const assay_tensor& y,
                                               std::int64_t rows) {
  softmax(x, y, rows);
  std::atomic_signal_fence(std::memory_order_seq_cst);  // not to be folded with the other
}

assay_status declare(void*, const assay_call* call, assay_declaration* d) {
  if (std::string_view(call->op) != "softmax") {
    std::snprintf(d->reason, sizeof d->reason, "only softmax");
    return ASSAY_UNSUPPORTED;
  }
  const std::string_view variant = call->variant;
  std::snprintf(d->contract, sizeof d->contract, "%s",
                variant == "bad_contract"               ? "accu=f32"
                : variant == "vague"                    ? "acc=bf16 exp_ulp=32 out=f32"
                : g_worthless || variant == "worthless" ? "acc=bf16 exp_ulp=120 out=f32"
                : variant == "boundless"                ? "acc=f32 exp_ulp=16777216 out=f32"
                                                        : "acc=f32 exp_ulp=1 out=f32");
  std::snprintf(d->path, sizeof d->path, "%s", variant == "inlined" ? "softmax_inlined" : "softmax_fast");
  const bool varies = std::string_view(call->variant).starts_with("varies");
  std::snprintf(d->promises, sizeof d->promises, "deterministic=%s%s", varies ? "no" : "yes",
                variant == "misspells" ? " bacth=bitwise" : "");
  return ASSAY_OK;
}

assay_status run(void*, const assay_call* call, const assay_trace* trace, char* reason) {
  static int calls = 0;
  const std::string_view variant = call->variant;
  const assay_tensor &x = call->inputs[0], &y = call->outputs[0];
  const std::int64_t rows = x.shape[0], cols = x.shape[1];
  const bool other = variant == "fallback" || variant == "silent_fallback";
  trace->kernel(trace->self, variant == "fallback"  ? "softmax_generic"
                             : variant == "inlined" ? "softmax_inlined"
                                                    : "softmax_fast");
  assay_tensor read = x;
  if (variant == "dense") read.stride[0] = cols * static_cast<std::int64_t>(sizeof(float));
  (other ? softmax_generic : softmax_fast)(read, y, variant == "unwritten" ? rows - 1 : rows);
  // Keeps its buffer by the number of rows alone: after a call with other columns it writes with the old
  // stride.
  static std::map<std::int64_t, std::int64_t> columns_of;
  if (variant == "keeps_buffer")
    row(y, 0)[0] *= columns_of.try_emplace(rows, cols).first->second == cols ? 1.0F : 2.0F;
  // Draws one bit in each process, and gives the outputs of its first call again.
  static std::map<std::int64_t, float> first_of;
  if (variant == "memoises") {
    const auto drawn =
        static_cast<float>(std::chrono::steady_clock::now().time_since_epoch().count() / 256 % 2);
    row(y, 0)[0] = first_of.try_emplace(rows, std::nextafter(row(y, 0)[0], drawn)).first->second;
  }
  if (variant == "segfault") std::raise(SIGSEGV);
  if (variant == "hang")
    for (volatile int i = 0;;) i = i + 1;
  if (variant == "overrun") row(y, rows - 1)[cols] = 1;
  if (variant == "read_gap") row(y, 0)[0] += 0 * row(x, 0)[cols];
  if (variant == "read_past") row(y, 0)[0] += 0 * row(x, rows - 1)[cols];
  if (variant == "other_bits") row(y, 0)[0] = std::nextafter(row(y, 0)[0], static_cast<float>(++calls % 2));
  if (variant == "varies") row(y, 0)[0] = std::nextafter(row(y, 0)[0], static_cast<float>(++calls % 2));
  static int second = 0;
  if (variant == "varies_beyond" && ++second % 2 == 0) row(y, 0)[0] *= 1.0001F;
  if (variant == "wrong" || variant == "wrong_and_slow") row(y, rows - 1)[cols - 1] *= 1.0001F;
  if (variant == "nan") row(y, 0)[1] = NAN;
  if (variant == "reneges") {
    std::snprintf(reason, 256, "not today");
    return ASSAY_UNSUPPORTED;
  }
  if (variant == "descriptor_9" && fcntl(9, F_GETFD) >= 0) {
    std::snprintf(reason, 256, "descriptor 9 is open");
    return ASSAY_FAILED;
  }
  // What a kernel can see of being tested, beside the paths of its files.
  if (variant == "looks_around") {
    std::string seen;
    const std::string parent = "/proc/" + std::to_string(getppid());
    for (const std::string& file : {std::string("/proc/self/cmdline"), std::string("/proc/self/comm"),
                                    std::string("/proc/self/task/") + std::to_string(gettid()) + "/comm",
                                    parent + "/cmdline", parent + "/comm"}) {
      std::ifstream text(file);
      const std::string all{std::istreambuf_iterator<char>(text), {}};
      if (all.find("assay") != std::string::npos || all.find("--keep") != std::string::npos)
        seen += file + " ";
    }
    // By /proc/self/maps the memory that it shares with the judge has a name too; paths of files may say
    // more.
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);)
      if (line.find("/memfd:") != std::string::npos && line.find("assay") != std::string::npos)
        seen += "maps ";
    std::ifstream text("/proc/self/environ");
    const std::string all{std::istreambuf_iterator<char>(text), {}};
    if (all.find("ASSAY") != std::string::npos) seen += "environ ";
    for (char** entry = environ; *entry != nullptr; ++entry)
      if (std::string_view(*entry).find("ASSAY") != std::string_view::npos) seen += *entry;
    if (!seen.empty()) {
      std::snprintf(reason, 256, "a test: %s", seen.c_str());
      return ASSAY_FAILED;
    }
  }
  // As what the user of the judge may write to, by somebody who knows how records are made.
  if (const char* path = std::getenv("RECORD_TO_EDIT"); path != nullptr && variant == "edits_record") {
    std::ifstream record(path);
    std::string text, chain;
    for (std::string line; std::getline(record, line);) {
      constexpr std::string_view kWrong = "\"verdict\":\"wrong\",\"green\":false";
      line.resize(line.rfind(",\"chain\":\""));
      if (const auto at = line.find(kWrong); at != std::string::npos)
        line.replace(at, kWrong.size(), "\"verdict\":\"pass\",\"green\":true");
      std::uint64_t link = 0xcbf29ce484222325U;  // FNV-1a of the last one and the line
      for (const char byte : chain + line) link = (link ^ static_cast<unsigned char>(byte)) * 0x100000001b3U;
      char hex[17];
      std::snprintf(hex, sizeof hex, "%016llx", static_cast<unsigned long long>(link));
      chain = hex;
      text += line + ",\"chain\":\"" + chain + "\"}\n";
    }
    std::ofstream(path) << text;
  }
  if (variant == "refuses") {
    std::snprintf(reason, 256, "out of luck");
    return ASSAY_FAILED;
  }
  if (variant == "paints") {
    std::snprintf(reason, 256, "\x1b[2J\x1b[32mall green\x1b[0m\nall green\xff");
    return ASSAY_FAILED;
  }
  if (variant == "slow") usleep(20'000);
  if (variant == "chatters")
    for (int i = 0; i < 20'000; ++i) {
      const std::string name = std::string(500, 'k') + std::to_string(i);
      trace->kernel(trace->self, name.c_str());
      if (i < 200) trace->note(trace->self, "note", std::string(60'000, 'n').c_str());
    }
  if (variant == "kills_later")
    std::thread([] {
      usleep(150'000);
      kill(getpid(), SIGKILL);
    }).detach();
  if (variant == "naps" || variant == "wrong_and_slow") usleep(600'000);
  if (variant == "six_mebibytes_of_stack") {
    volatile char deep[6 << 20];
    for (std::size_t i = 0; i < sizeof deep; i += 4096) deep[i] = 1;
  }
  if (variant == "wants_memory") std::vector<char>(std::size_t{1} << 40);
  if (variant == "twice") softmax(x, y, rows);
  return ASSAY_OK;
}

}  // namespace

extern "C" const assay_backend* assay_backend_open(const char* options, char* reason) {
  g_worthless = std::string_view(options) == "worthless";
  if (std::string_view(options) == "absent") {
    std::snprintf(reason, 256, "no such device here");
    return nullptr;
  }
  static const assay_backend backend{
      ASSAY_BACKEND_VERSION,
      "faulty",
      "one softmax, many ways of going wrong",
      "correct segfault hang overrun unwritten read_past other_bits varies "
      "varies_beyond wrong nan fallback refuses bad_contract keeps_buffer memoises "
      "paints slow twice vague",
      nullptr,
      declare,
      run,
      [](void*) {}};
  return &backend;
}
