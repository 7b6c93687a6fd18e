// The hostile plug-in: one variant per misdeed. The op is y = 2 x, x and y [rows, cols] f32. What each
// variant must be found to be stands in rows.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "backends/assay_backend.h"

namespace hostile {

struct Matrix {
  char* data;
  std::int64_t rows, cols, row_stride;
  // volatile: the compiler must not reason that an access out of bounds cannot happen
  volatile float& at(std::int64_t row, std::int64_t col) const {
    return reinterpret_cast<volatile float*>(data + row * row_stride)[col];
  }
};

struct Call {
  const assay_call* message;
  const assay_trace* trace;
  char* reason;  // 256 bytes
  Matrix x, y;
  assay_status status = ASSAY_OK;
  void twice() const {
    for (std::int64_t r = 0; r < y.rows; ++r)
      for (std::int64_t c = 0; c < y.cols; ++c) y.at(r, c) = 2 * x.at(r, c);
  }
  // The misdeed could not be done: `failed`, with the error that the kernel gave.
  void refused(const char* what);
};

struct Variant {
  std::string_view name;
  void (*act)(Call&);
};
std::span<const Variant> crashes();
std::span<const Variant> hangs();
std::span<const Variant> memory();
std::span<const Variant> output();
std::span<const Variant> channel();
std::span<const Variant> processes();
std::span<const Variant> resources();
std::span<const Variant> state();

// What assay_backend_open and declare do, by options and by variant; none of it returns to say that it
// succeeded.
const assay_backend* open_misdeed(std::string_view options, char* reason, const assay_backend& honest);
bool declare_misdeed(std::string_view variant, assay_declaration* declaration, assay_status* status);

// A process is as an innocent kernel may expect it to be; otherwise what an earlier call left behind.
const char* left_behind();
void remember_process();  // called when the plug-in is opened

// Keeps the compiler from knowing a value.
template <typename T>
T opaque(T value) {
  volatile T hidden = value;
  return hidden;
}
[[noreturn]] void spin();

}  // namespace hostile
