// What a variant of this backend says: a matrix unit, how often its sums are promoted to f32, which
// derivation judges it, and on purpose wrong ones, which keep a false declaration so that it can be seen that
// they are caught.
//
//   UNIT[_promoteN][.LEVEL][.FALSEHOOD]
//
//   UNIT         a row of the reference's matrix units ("hopper_fp8")
//   _promoteN    every N blocks of the unit's g products, the sum goes to an f32 register (two-level
//                accumulation)
//   LEVEL        detap | detord | ca | emu (attention only; default emu: bit for bit but for exp)
//                replay: the schedule is declared whole, and every bit is judged by it
//   FALSEHOOD    one of
//     as_promoteN                 computes what UNIT[_promoteM] says and declares promotion every N blocks
//     as_KEY:VALUE                declares (under replay) a schedule in which KEY is VALUE
//                                 ("as_order:descending")
//     mixup                       (matmul) reads codes of e4m3fn as e4m3fnuz, or the other way round, on its
//                                 unit
//     mixup_k, mixup_v, mixup_kv  (attention) the same for one of the caches, or both
#pragma once

#include <string>
#include <string_view>

#include "reference/arithmetic/matrix_unit.hpp"

namespace assay_emulated {

struct Variant {
  std::string name;  // UNIT[_promoteN]
  const assay::MatrixUnit* unit = nullptr;
  int promote = 0;           // blocks between promotions; 0: never
  int declared_promote = 0;  // what the contract says
  std::string level = "emu";
  std::string declared_key;  // "order:descending", of the schedule; "": what it computes
  bool replay() const { return level == "replay"; }
  // "key:value/key:value" with the falsehood.
  std::string schedule(std::string truth) const;
  bool mixup_k = false, mixup_v = false, mixup = false;
};

// Throws Unsupported with what is wrong.
Variant parse_variant(std::string_view word);
// The variants that say the truth, for attention and for matmul, as the backend lists them.
std::string variant_list();
// What an engine left to itself would take for operands of this element format.
std::string default_variant(std::string_view element);

// The unit that a machine would use for codes of this element format were they the other kind of FP8.
const assay::MatrixUnit& counterpart(const assay::MatrixUnit& unit);
// "e4m3fn_head" -> "e4m3fnuz_head" and back. Throws Unsupported for a format that has no other kind.
std::string other_kind(const std::string& format);

}  // namespace assay_emulated
