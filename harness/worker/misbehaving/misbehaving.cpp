// A backend whose variants each break one rule of assay_backend.h, and one that breaks none: the harness must
// give each exactly its own verdict. The op is y = 2 x, x and y [rows, cols] f32.
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>

#include "backends/assay_backend.h"

namespace {

struct Matrix {
  explicit Matrix(const assay_tensor& t)
      : data(static_cast<char*>(t.data)), rows(t.shape[0]), cols(t.shape[1]), row_stride(t.stride[0]) {}
  // volatile: the compiler must not reason that an access out of bounds cannot happen
  volatile float& at(int64_t row, int64_t col) const {
    return reinterpret_cast<volatile float*>(data + row * row_stride)[col];
  }
  char* data;
  int64_t rows;
  int64_t cols;
  int64_t row_stride;
};

void twice(const Matrix& x, const Matrix& y) {
  for (int64_t r = 0; r < y.rows; ++r) {
    for (int64_t c = 0; c < y.cols; ++c) y.at(r, c) = 2 * x.at(r, c);
  }
}

void write_null(const Matrix&, const Matrix&) {
  *reinterpret_cast<volatile int*>(std::atomic<uintptr_t>(8).load()) = 1;
}
int deeper(const Matrix& x, int depth) {
  volatile char frame[4096];
  frame[0] = static_cast<char>(depth);
  return depth < 0 ? 0 : deeper(x, depth + (x.cols > 0 ? 1 : -1)) + frame[0];
}
void overflow_stack(const Matrix& x, const Matrix& y) { y.at(0, 0) = static_cast<float>(deeper(x, 0)); }
void crash_in_thread(const Matrix& x, const Matrix& y) {
  std::thread([&] { write_null(x, y); }).join();
}
void abort_run(const Matrix&, const Matrix&) { std::abort(); }
void loop_for_ever(const Matrix&, const Matrix&) {
  // An atomic that nobody else sees is removed by clang++, and the loop with it.
  for (volatile int i = 0; i >= 0;) i = 1;
}
void chatter_for_ever(const Matrix&, const Matrix&) {
  for (;;) std::fputs("still here\n", stderr);
}
void write_past_end(const Matrix& x, const Matrix& y) {
  twice(x, y);
  y.at(y.rows - 1, y.cols) = 1;
}
void write_before_start(const Matrix& x, const Matrix& y) {
  twice(x, y);
  y.at(0, -1) = 1;
}
void write_into_gap(const Matrix& x, const Matrix& y) {
  twice(x, y);
  y.at(0, y.cols) = 1;
}
void skip_row(const Matrix& x, const Matrix& y) {
  Matrix all_but_last = y;
  --all_but_last.rows;
  twice(x, all_but_last);
}
void skip_everything(const Matrix&, const Matrix&) {}
void write_poison_values(const Matrix&, const Matrix& y) {  // a right answer that happens to look like poison
  for (int64_t r = 0; r < y.rows; ++r)
    std::memset(y.data + r * y.row_stride, 0xFF, static_cast<size_t>(y.cols) * 4);
}
void read_row_past_end(const Matrix& x, const Matrix& y) {
  twice(x, y);
  y.at(0, 0) = y.at(0, 0) + 0 * x.at(x.rows, 0);
}
void read_before_start(const Matrix& x, const Matrix& y) {
  twice(x, y);
  y.at(0, 0) = y.at(0, 0) + 0 * x.at(0, -1);
}
void other_bits(const Matrix& x, const Matrix& y) {
  static int calls = 0;
  twice(x, y);
  y.at(0, 1) = y.at(0, 1) + static_cast<float>(calls++);
}
void other_bits_every_second_time(const Matrix& x, const Matrix& y) {
  static int calls = 0;
  twice(x, y);
  y.at(0, 1) = y.at(0, 1) + static_cast<float>(calls++ % 2);
}
void other_bits_once(const Matrix& x, const Matrix& y) {
  static int calls = 0;
  twice(x, y);
  if (calls++ == 1) y.at(0, 1) = 0;
}
void bits_by_address(const Matrix& x, const Matrix& y) {
  twice(x, y);
  y.at(0, 0) = static_cast<float>(reinterpret_cast<uintptr_t>(x.data) % 4096);
}
void read_gap(const Matrix& x, const Matrix& y) {
  twice(x, y);
  y.at(1, 0) = y.at(1, 0) + x.at(0, x.cols);
}
void read_last_row(const Matrix& x, const Matrix& y) {  // which the test declares to be unused
  twice(x, y);
  for (int64_t c = 0; c < x.cols; ++c) y.at(x.rows - 1, c) = 0;
  y.at(0, 1) = x.at(x.rows - 1, 0) > 0 ? 1.0F : 0.0F;
}
void copy_poison(const Matrix& x, const Matrix& y) {  // written, with what stands in the gap
  twice(x, y);
  y.at(0, 0) = x.at(0, x.cols);
}
void zero_last_row(const Matrix& x, const Matrix& y) {
  twice(x, y);
  for (int64_t c = 0; c < x.cols; ++c) y.at(x.rows - 1, c) = 0;
}
void change_input(const Matrix& x, const Matrix& y) {
  twice(x, y);
  x.at(1, 2) = 7;
}
void throw_standard(const Matrix&, const Matrix&) { throw std::runtime_error("no memory for the tile"); }
void throw_number(const Matrix&, const Matrix&) { throw 42; }
void leave(const Matrix&, const Matrix&) { std::exit(3); }
void close_descriptors(const Matrix& x, const Matrix& y) {
  twice(x, y);
  for (int fd = 3; fd < 256; ++fd) close(fd);
}
void leave_child_behind(const Matrix&, const Matrix&) {
  if (fork() == 0) {
    for (;;) pause();  // holds copies of every descriptor
  }
  raise(SIGKILL);
}
void print_much(const Matrix& x, const Matrix& y) {
  for (int i = 0; i < 200'000; ++i)
    std::fprintf(i % 2 == 0 ? stderr : stdout, "line %d of far too much\n", i);
  twice(x, y);
  std::fputs("the last words", stdout);  // and not flushed
}

struct Variant {
  std::string_view name;
  void (*run)(const Matrix& x, const Matrix& y);
};
constexpr Variant kVariants[] = {
    {"correct", twice},
    {"write_null", write_null},
    {"overflow_stack", overflow_stack},
    {"crash_in_thread", crash_in_thread},
    {"abort_run", abort_run},
    {"loop_for_ever", loop_for_ever},
    {"chatter_for_ever", chatter_for_ever},
    {"write_past_end", write_past_end},
    {"write_before_start", write_before_start},
    {"write_into_gap", write_into_gap},
    {"skip_row", skip_row},
    {"skip_everything", skip_everything},
    {"write_poison_values", write_poison_values},
    {"read_row_past_end", read_row_past_end},
    {"read_before_start", read_before_start},
    {"other_bits", other_bits},
    {"other_bits_every_second_time", other_bits_every_second_time},
    {"other_bits_once", other_bits_once},
    {"bits_by_address", bits_by_address},
    {"read_gap", read_gap},
    {"read_last_row", read_last_row},
    {"copy_poison", copy_poison},
    {"zero_last_row", zero_last_row},
    {"change_input", change_input},
    {"throw_standard", throw_standard},
    {"throw_number", throw_number},
    {"leave", leave},
    {"close_descriptors", close_descriptors},
    {"leave_child_behind", leave_child_behind},
    {"print_much", print_much},
};

std::string names() {
  std::string list;
  for (const Variant& variant : kVariants) list += (list.empty() ? "" : " ") + std::string(variant.name);
  return list;
}

const Variant* find(std::string_view name) {
  for (const Variant& variant : kVariants) {
    if (variant.name == name) return &variant;
  }
  return nullptr;
}

assay_status check(const assay_call* call, char* reason) {
  if (std::string_view(call->op) != "twice") {
    std::snprintf(reason, 256, "op %s: only twice is here", call->op);
    return ASSAY_UNSUPPORTED;
  }
  if (find(call->variant) == nullptr) {
    std::snprintf(reason, 256, "variant %s is unknown", call->variant);
    return ASSAY_FAILED;
  }
  return ASSAY_OK;
}

assay_status declare(void*, const assay_call* call, assay_declaration* declaration) {
  const assay_status status = check(call, declaration->reason);
  if (status != ASSAY_OK) return status;
  if (call->inputs[0].data != nullptr) return ASSAY_FAILED;
  if (find(call->variant)->run == loop_for_ever && call->attribute_count == 0)
    loop_for_ever(Matrix(call->inputs[0]), Matrix(call->outputs[0]));
  std::snprintf(declaration->contract, sizeof declaration->contract, "out=f32");
  std::snprintf(declaration->path, sizeof declaration->path, "twice_%s", call->variant);
  std::snprintf(declaration->promises, sizeof declaration->promises, "deterministic=yes");
  return ASSAY_OK;
}

assay_status run(void*, const assay_call* call, const assay_trace* trace, char* reason) {
  const assay_status status = check(call, reason);
  if (status != ASSAY_OK) return status;
  trace->kernel(trace->self, "prepare");
  trace->kernel(trace->self, (std::string("twice_") + call->variant).c_str());
  trace->note(trace->self, "attributes", call->attribute_count == 1 ? call->attributes[0].value : "");
#ifdef ASSAY_BEHAVES  // the counterpart that keeps every rule under every name: whoever looks for misdeeds must miss them
  const auto kernel = std::string_view(call->variant).ends_with("last_row") ? zero_last_row : twice;
#else
  const auto kernel = find(call->variant)->run;
#endif
  kernel(Matrix(call->inputs[0]), Matrix(call->outputs[0]));
  return ASSAY_OK;
}

void close_backend(void*) {}

}  // namespace

extern "C" const assay_backend* assay_backend_open(const char* options, char* reason) {
  static const std::string variants = names();
  static const assay_backend backend{ASSAY_BACKEND_VERSION,
                                     "misbehaving",
                                     "breaks one rule per variant",
                                     variants.c_str(),
                                     nullptr,
                                     declare,
                                     run,
                                     close_backend};
  if (std::string_view(options) == "crash") std::abort();
  if (std::string_view(options) == "hang") loop_for_ever(Matrix(assay_tensor{}), Matrix(assay_tensor{}));
  if (std::string_view(options) == "absent") {
    std::snprintf(reason, 256, "no such device");
    return nullptr;
  }
  return &backend;
}
