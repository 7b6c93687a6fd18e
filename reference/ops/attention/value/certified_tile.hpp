// What the parts of the certified path share: tiles of K and V, rows that are processed together, their
// running sums. Internal to this directory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <vector>

#include "reference/ops/attention/value/certified.hpp"

namespace assay::attention_detail {

inline constexpr int kBlock = 64;                    // keys of a tile: summed before TwoSum
inline constexpr int kMaxRows = 32;                  // rows that share the decoding of a tile
inline constexpr std::int64_t kRangeKeys = 1 << 15;  // keys of a part; parts are merged in ascending order
inline constexpr int kMaxSlices = 3;
inline constexpr double kFarBelow = -1e4;  // exp gives 0

// 64-byte aligned array of numbers that keeps its memory.
template <class T>
class Buffer {
 public:
  Buffer() = default;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  Buffer(Buffer&& other) noexcept : data_(other.data_), size_(other.size_) {
    other.data_ = nullptr, other.size_ = 0;
  }
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~Buffer() { release(); }
  void ensure(std::size_t n) {  // contents are lost when it grows
    if (n <= size_) return;
    release();
    data_ = static_cast<T*>(::operator new(n * sizeof(T), std::align_val_t{64}));
    size_ = n;
  }
  void zero(std::size_t n) {
    ensure(n);
    std::memset(static_cast<void*>(data_), 0, n * sizeof(T));
  }
  T* get() { return data_; }
  const T* get() const { return data_; }
  T& operator[](std::size_t i) { return data_[i]; }
  const T& operator[](std::size_t i) const { return data_[i]; }

 private:
  void release() {
    if (data_ != nullptr) ::operator delete(static_cast<void*>(data_), std::align_val_t{64});
    data_ = nullptr;
    size_ = 0;
  }
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

// How the elements of K or V are read. `other` goes through decode_range.
enum class Codes : std::uint8_t { e4m3fn, e4m3fnuz, e5m2, int8, f16, bf16, f32, other };

struct Source {
  Codes codes = Codes::other;
  const std::byte* bytes = nullptr;
  std::int64_t element_bytes = 0;
  double factor = 1;        // power of two: value = decoded number * factor * scale
  double decode_error = 0;  // relative
  double code_max = 0;  // |decoded number| <= code_max, multiple of 2^code_lsb; 0 when it must be looked at
  int code_lsb = 0;
  // f32; index of a key's scale: tensor 0, head, token, token * heads + head.
  const std::byte* scales = nullptr;
  ScaleAxis axis = ScaleAxis::none;
};

struct Tile {
  std::int64_t first = 0;
  int keys = 0;
  std::size_t k_ld = 0, v_ld = 0, vf_ld = 0;  // leading dimensions, elements
  Buffer<double> k;  // [64][k_ld] codes as numbers; columns past d, rows past keys are 0
  Buffer<double> factor_high, factor_low;  // [64] scale * factor * key's scale
  double k_max = 0;                        // |k| <= k_max, code units
  int k_lsb = 0;                           // multiples of 2^k_lsb, when k_lsb_known
  bool k_lsb_known = false;
  double k_norm = 0;           // >= |k_j|_2, true units
  Buffer<double> v;            // [64][v_ld]
  Buffer<float> v_abs, v_dev;  // [64][vf_ld] |v|, |v - centre|
  Buffer<float> v_sum;         // [vf_ld] sum over the tile's keys of |v|
  double v_max = 0;
  bool k_finite = true, v_finite = true;
  struct Special {
    int key;
    std::int64_t column;
    double value;
  };
  std::vector<Special> k_special, v_special;  // what was replaced by 0
};

// One row of a part: what it sees, and its sums so far.
struct RowState {
  std::int64_t row = 0, head = 0;
  KeyRange range;
  const std::int8_t* mask = nullptr;
  double slope = 0, position = 0;
  double m = 0;  // M; meaningful once `started`
  bool started = false;
  bool poisoned = false;  // NaN
  bool unclaimed = false;
  double largest = 0;  // logit
  double k_norm = 0;
  double delta_pair = 0;  // 1 when a block needed the pair mode
  std::int64_t keys = 0;
};

// kSawWeightless: NaN or an infinity at a key of logit -Inf.
enum : std::uint8_t { kSawNan = 1, kSawPlus = 2, kSawMinus = 4, kSawWeightless = 8 };

// Rows of one (sequence, kv head) over one key range.
struct Part {
  int rows = 0;
  std::size_t v_ld = 0, vf_ld = 0;
  std::vector<RowState> state;
  Buffer<double> l_high, l_low;                // [rows][8]
  Buffer<double> acc_high, acc_low;            // [rows][v_ld]
  Buffer<float> absolute, deviation, key_sum;  // [rows][vf_ld]
  Buffer<double> centre;                       // [v_ld]
  bool has_centre = false;
  double v_max = 0;
  std::vector<std::uint8_t> specials;  // [rows][dv], empty when none
};

// q of the rows, and its slices.
struct Queries {
  std::size_t ld = 0;
  int slices = 0;                    // 0: none were made
  Buffer<double> q;                  // [rows][ld]
  Buffer<double> slice[kMaxSlices];  // [rows][ld]
  std::vector<int> row_slices;
  // >= log2(sum|q|) - exponent of the lowest set bit of any q: with keys that are multiples of 2^b and at
  // most 2^e, the sum is exact when this + e - b <= 53. slice_bits: the largest of a row's slices.
  std::vector<double> bits, slice_bits;
  std::vector<double> norm;  // >= |q|_2
};

struct Scratch {
  Tile tile;
  Queries queries;
  Buffer<double> s[kMaxSlices];  // [rows][64]
  Buffer<double> x_high, x_low;  // [64]
  Buffer<double> weight;         // [rows][64]
  Buffer<float> weight_f;        // [rows][64]
  Buffer<double> row_decode;
};

// Where the codes and scales of K or V lie. Throws InputError bad_scale.
Source make_source(const Encoded& tensor);
// The rows of `part`, cut so that their dots with K are exact.
void load_queries(const AttentionProblem& problem, const Source& k, std::int64_t b, Part& part, Queries& out);
// Processes keys [first, last) of (b, kv_head) for the rows of `part`.
void process(const AttentionProblem& problem, const Source& k, const Source& v, std::int64_t b,
             std::int64_t kv_head, KeyRange keys, const CertifiedOptions& options, Scratch& scratch,
             Part& part);

}  // namespace assay::attention_detail
