#include "reference/arithmetic/matrix_unit.hpp"

#include <array>
#include <string>

#include "reference/near_names.hpp"

namespace assay {
namespace {

using enum Combine;
using enum Standing;
using enum Rounding;

// Sources.
//   fasi     Fasi, Higham, Mikaitis, Pranesh, "Numerical behavior of NVIDIA tensor cores", PeerJ CS 7:e330
//            (2021)
//   li       Li et al., "FTTN", arXiv:2403.00232
//   mma-sim  Xie et al., "MMA-Sim", arXiv:2511.10909, and its published code
//   khattak  Khattak and Mikaitis, "Accurate models of NVIDIA tensor cores", arXiv:2512.07004
constexpr std::string_view kVectors = "published vectors (fasi, li, khattak) and mma-sim";
constexpr std::string_view kMmaSim = "mma-sim, published code";
// Its first release formed these sums in f32, pairwise; the later one, which was read, is what the rows are.
constexpr std::string_view kExact =
    "mma-sim, published code as of 2026 (E_FDPA); the release of 2025 differs";
// mma-sim has the arithmetic of blackwell_fp8 for this path; 3,207 of those 5,000 e4m3 vectors into f32 would
// fit that.
constexpr std::string_view kSplit =
    "20,000 of 20,000 vectors of a B200 that khattak published, both formats, both outputs";
constexpr std::string_view kNone =
    "no public bit model: exact sum of g products and c, one f32 rounding to nearest";
constexpr std::string_view kNoneRdna =
    "no public bit model: exact sum of g products and c, one f32 rounding to nearest; gfx1151 (RDNA3.5) is "
    "reported not to";
// ROCm/rocm-systems issue 12056, gfx1151: addends of the sign that c has not are complemented, which takes
// one unit of the common last place off each, so that -1 + 32 + 24 gives 55 + 2^-18: two units of 2^(5 - 24).
// Bits that are off by less than a unit for each term are what the bound of `truncate` covers; the bits
// themselves this row does not claim.
constexpr std::string_view kComplement =
    "ROCm/rocm-systems issue 12056: complemented addends, modelled as truncated";

// Every Hopper row: 10^9 outputs each of mma.sync f16, bf16, tf32 and wgmma e4m3, e5m2, 2.5 * 10^8 of each
// other instruction, bit for bit on an H200 (driver 580.159.04), and the vectors that tell each row from its
// neighbours.
constexpr std::string_view kH200 =
    "an H200: reports/results/h200/silicon.md, reference/golden/arithmetic/hopper_silicon.csv";
constexpr int kHopperF32 = -133;  // a term of 2^-158 counts beside nothing larger, one of 2^-159 is cut
constexpr int kHopperF16 = -21;   // likewise 2^-46 and 2^-47

constexpr auto kUnits = std::to_array<MatrixUnit>({
    // clang-format off
    // name                   combine         F   g   inputs                        out      rounding      scales, per  standing  source, least exponent
    {"v100_f16",              truncate,       23, 4,  "f16",                        "f32",   toward_zero,  "",      0, vectors,    kVectors},
    {"v100_f16_f16out",       truncate,       23, 4,  "f16",                        "f16",   nearest_even, "",      0, vectors,    kVectors},
    {"turing_f16",            truncate,       24, 8,  "f16",                        "f32",   toward_zero,  "",      0, published,  kMmaSim},
    {"turing_f16_f16out",     truncate,       24, 8,  "f16",                        "f16",   nearest_even, "",      0, published,  kMmaSim},
    {"a100_f16",              truncate,       24, 8,  "f16",                        "f32",   toward_zero,  "",      0, vectors,    kVectors},
    {"a100_f16_f16out",       truncate,       24, 8,  "f16",                        "f16",   nearest_even, "",      0, vectors,    kVectors},
    {"a100_bf16",             truncate,       24, 8,  "bf16",                       "f32",   toward_zero,  "",      0, vectors,    kVectors},
    {"a100_tf32",             truncate,       24, 4,  "tf32",                       "f32",   toward_zero,  "",      0, vectors,    kVectors},
    {"ada_f16",               truncate,       24, 8,  "f16",                        "f32",   toward_zero,  "",      0, published,  kMmaSim},
    {"ada_bf16",              truncate,       24, 8,  "bf16",                       "f32",   toward_zero,  "",      0, published,  kMmaSim},
    {"ada_fp8",               truncate,       13, 16, "e4m3fn e5m2",                "e8m13", toward_zero,  "",      0, vectors,    kVectors},
    {"ada_fp8_f16out",        truncate,       13, 16, "e4m3fn e5m2",                "f16",   nearest_even, "",      0, published,  kMmaSim},
    {"hopper_f16",            truncate,       25, 16, "f16",                        "f32",   toward_zero,  "",      0, silicon,    kH200, kHopperF32},
    {"hopper_f16_f16out",     truncate,       25, 16, "f16",                        "f16",   nearest_even, "",      0, silicon,    kH200, kHopperF16},
    {"hopper_bf16",           truncate,       25, 16, "bf16",                       "f32",   toward_zero,  "",      0, silicon,    kH200, kHopperF32},
    {"hopper_tf32",           truncate,       25, 8,  "tf32",                       "f32",   toward_zero,  "",      0, silicon,    kH200, kHopperF32},
    // wgmma. c is an f32 and is cut along with the products, also where all of those are zero.
    {"hopper_fp8",            truncate,       13, 32, "e4m3fn e5m2",                "e8m13", toward_zero,  "",      0, silicon,    kH200},
    {"hopper_fp8_f16out",     truncate,       13, 32, "e4m3fn e5m2",                "f16",   nearest_even, "",      0, silicon,    kH200, kHopperF16},
    // mma.sync m16n8k32: not an FP8 unit at all, and told from wgmma by its last bits.
    {"hopper_fp8_mma_sync",   unpack_split,   25, 32, "e4m3fn e5m2",                "f32",   nearest_even, "",      0, silicon,    kH200, kHopperF32},
    {"hopper_fp8_mma_sync_f16out", unpack_split, 25, 32, "e4m3fn e5m2",           "f16",   nearest_even, "",      0, silicon,    kH200, kHopperF16},
    {"blackwell_f16",         truncate,       25, 16, "f16",                        "f32",   toward_zero,  "",      0, vectors,    kVectors},
    {"blackwell_f16_f16out",  truncate,       25, 16, "f16",                        "f16",   nearest_even, "",      0, published,  kMmaSim},
    {"blackwell_bf16",        truncate,       25, 16, "bf16",                       "f32",   toward_zero,  "",      0, vectors,    kVectors},
    {"blackwell_tf32",        truncate,       25, 8,  "tf32",                       "f32",   toward_zero,  "",      0, published,  kMmaSim},
    {"blackwell_fp8",         truncate,       25, 32, "e4m3fn e5m2 e3m2 e2m3 e2m1", "f32",   toward_zero,  "",      0, published,  kMmaSim},
    {"blackwell_fp8_f16out",  truncate,       25, 32, "e4m3fn e5m2 e3m2 e2m3 e2m1", "f16",   nearest_even, "",      0, published,  kMmaSim},
    // mma.sync m16n8k32, as on Hopper: no FP8 unit. tcgen05.mma is blackwell_fp8.
    {"blackwell_fp8_mma_sync",unpack_split,   25, 32, "e4m3fn e5m2",                "f32",   nearest_even, "",      0, vectors,    kSplit, kHopperF32},
    {"blackwell_fp8_mma_sync_f16out",unpack_split,   25, 32, "e4m3fn e5m2",                "f16",   nearest_even, "",      0, vectors,    kSplit, kHopperF16},
    {"blackwell_mxfp8",       truncate_scaled,25, 32, "e4m3fn e5m2 e3m2 e2m3 e2m1", "f32",   toward_zero,  "e8m0",  32, published, kMmaSim},
    {"blackwell_mxfp4",       group_scaled,   35, 64, "e2m1",                       "f32",   toward_zero,  "e8m0",  32, published, kMmaSim},
    {"blackwell_nvfp4",       group_scaled,   35, 64, "e2m1",                       "f32",   toward_zero,  "ue4m3", 16, published, kMmaSim},
    {"cdna1_f16",             exact,          0,  4,  "f16",                        "f32",   nearest_even, "",      0, published,  kExact},
    {"cdna1_bf16",            exact,          0,  2,  "bf16",                       "f32",   nearest_even, "",      0, published,  kExact},
    {"cdna2_f16",             pairwise_flush, 0,  4,  "f16",                        "f32",   nearest_even, "",      0, published,  kMmaSim},
    {"cdna2_bf16",            pairwise_flush, 0,  4,  "bf16",                       "f32",   nearest_even, "",      0, published,  "mma-sim, published code: the _1k instructions"},
    {"cdna2_bf16_pair",       pairwise_flush, 0,  2,  "bf16",                       "f32",   nearest_even, "",      0, published,  "mma-sim, published code: without _1k"},
    {"cdna3_f16",             floor,          24, 8,  "f16",                        "f32",   nearest_even, "",      0, published,  kMmaSim},
    {"cdna3_bf16",            floor,          24, 8,  "bf16",                       "f32",   nearest_even, "",      0, published,  kMmaSim},
    {"cdna3_tf32",            floor,          24, 4,  "tf32",                       "f32",   nearest_even, "",      0, published,  kMmaSim},
    {"cdna3_fp8",             floor_halves,   24, 16, "e4m3fnuz e5m2fnuz",          "f32",   nearest_even, "",      0, published,  kMmaSim},
    {"cdna4_f16",             exact,          0,  16, "f16",                        "f32",   nearest_even, "",      0, assumed,    kNone},
    {"cdna4_bf16",            exact,          0,  16, "bf16",                       "f32",   nearest_even, "",      0, assumed,    kNone},
    {"cdna4_fp8",             exact,          0,  16, "e4m3fn e5m2",                "f32",   nearest_even, "",      0, assumed,    kNone},
    {"rdna35_f16",            truncate,       24, 2,  "f16",                        "f32",   toward_zero,  "",      0, assumed,    kComplement},
    {"rdna4_f16",             exact,          0,  16, "f16",                        "f32",   nearest_even, "",      0, assumed,    kNoneRdna},
    {"rdna4_bf16",            exact,          0,  16, "bf16",                       "f32",   nearest_even, "",      0, assumed,    kNoneRdna},
    {"rdna4_fp8",             exact,          0,  16, "e4m3fn e5m2",                "f32",   nearest_even, "",      0, assumed,    kNoneRdna},
    {"int8_dot",              wrap,           0,  4,  "int8",                       "i32",   toward_zero,  "",      0, published,  "integer arithmetic: dp4a, IMMA, int8 MFMA (PTX and CDNA3 ISA manuals)"},
    // clang-format on
});

}  // namespace

std::span<const MatrixUnit> matrix_units() { return kUnits; }

const MatrixUnit* find_matrix_unit(std::string_view name) {
  for (const MatrixUnit& unit : kUnits) {
    if (unit.name == name) return &unit;
  }
  return nullptr;
}

const MatrixUnit& matrix_unit(std::string_view name) {
  if (const MatrixUnit* unit = find_matrix_unit(name)) return *unit;
  throw unknown_name("matrix unit", name, names_of(kUnits));
}

Precision out_precision(const MatrixUnit& unit) {
  if (unit.out == "f16") return kPrecisionF16;
  if (unit.out == "e8m13") return kPrecisionE8m13;
  if (unit.out == "i32") return {32, 0, 30};
  return kPrecisionF32;
}

Precision accumulator_precision(const MatrixUnit& unit) {
  return unit.out == "e8m13" ? kPrecisionF32 : out_precision(unit);
}

bool accepts(const MatrixUnit& unit, std::string_view input_format) {
  std::string_view rest = unit.inputs;
  while (!rest.empty()) {
    const std::string_view word = rest.substr(0, rest.find(' '));
    if (word == input_format) return true;
    rest.remove_prefix(word.size() < rest.size() ? word.size() + 1 : rest.size());
  }
  return false;
}

}  // namespace assay
