// Who holds what of a matrix instruction of AMD GPUs, all of one shape: D[16,16] = A[16,kDepth] B[kDepth,16]
// + C, held by one wave. A lane holds kPerLane neighbouring codes of one row of A, one column of B, and
// kResults numbers of one column of D:
//   row of A, column of B and of D     lane % 16
//   first k                            first_k(lane)
//   row of D of result i               row_of(lane, i)
// Source: the RDNA3, RDNA4 and CDNA3 ISA manuals. layouts_test.cpp holds each against the tables of AMD's
// matrix instruction calculator. Only what A and B share of the order of k can matter, and both take the
// same: gfx12's 16-bit WMMA calls the codes of a lane k = 0..3, 8..11 or 4..7, 12..15, not a run of 8.
#pragma once

#include <cstdint>

#if defined(__CUDACC__) || defined(__HIP__)
#define ASSAY_LAYOUT __host__ __device__ constexpr
#else
#define ASSAY_LAYOUT constexpr
#endif

namespace assay_gpu {

// 8 codes of 8 bits, wave 32, 16 deep: gfx12's WMMA.
struct LayoutWmma8 {
  using Code = std::uint8_t;
  static constexpr int kWave = 32, kDepth = 16, kPerLane = 8, kResults = 8;
  static ASSAY_LAYOUT int first_k(int lane) { return lane / 16 * 8; }
  static ASSAY_LAYOUT int row_of(int lane, int i) { return lane / 16 * 8 + i; }
};
// 16 numbers of 16 bits, wave 32, 16 deep: gfx11's WMMA. Both halves of the wave hold the same operands.
struct LayoutWmma16 {
  using Code = std::uint16_t;
  static constexpr int kWave = 32, kDepth = 16, kPerLane = 16, kResults = 8;
  static ASSAY_LAYOUT int first_k(int) { return 0; }
  static ASSAY_LAYOUT int row_of(int lane, int i) { return 2 * i + lane / 16; }
};
// 8 numbers of 16 bits, wave 32, 16 deep: gfx12's WMMA, as that of its 8 bits.
struct LayoutWmma16Half : LayoutWmma8 {
  using Code = std::uint16_t;
};
// 8 codes of 8 bits, wave 64, 32 deep: CDNA3's MFMA.
struct LayoutMfma8 {
  using Code = std::uint8_t;
  static constexpr int kWave = 64, kDepth = 32, kPerLane = 8, kResults = 4;
  static ASSAY_LAYOUT int first_k(int lane) { return lane / 16 * 8; }
  static ASSAY_LAYOUT int row_of(int lane, int i) { return lane / 16 * 4 + i; }
};
// 4 numbers of 16 bits, wave 64, 16 deep: MFMA of CDNA2 and CDNA3.
struct LayoutMfma16 {
  using Code = std::uint16_t;
  static constexpr int kWave = 64, kDepth = 16, kPerLane = 4, kResults = 4;
  static ASSAY_LAYOUT int first_k(int lane) { return lane / 16 * 4; }
  static ASSAY_LAYOUT int row_of(int lane, int i) { return lane / 16 * 4 + i; }
};
// 4 codes of 8 bits, wave 64, 16 deep: CDNA2's int8 MFMA.
struct LayoutMfma8Short {
  using Code = std::uint8_t;
  static constexpr int kWave = 64, kDepth = 16, kPerLane = 4, kResults = 4;
  static ASSAY_LAYOUT int first_k(int lane) { return lane / 16 * 4; }
  static ASSAY_LAYOUT int row_of(int lane, int i) { return lane / 16 * 4 + i; }
};

}  // namespace assay_gpu
