// Which names of a source are floating-point, and what their values can be narrowed to.
#include "cases/studies/mutants/generator/sites.hpp"

namespace assay::mutants {

const std::vector<Narrowing>& narrowings() {
  static const std::vector<Narrowing> kList = {
      {"in bf16's 8 bits", "precision"}, {"in f16's 11 bits", "precision"}, {"cut to 14 bits", "precision"},
      {"in 17 bits", "precision"},       {"in 20 bits", "precision"},       {"with NaN as 0", "special"},
      {"at most 65504", "range"},        {"0 below 2^-24", "range"},        {"in 9 bits", "precision"},
      {"in 12 bits", "precision"},       {"cut to 13 bits", "precision"},   {"in 16 bits", "precision"},
      {"in 19 bits", "precision"}};
  return kList;
}

void FloatNames::collect(const Source& s) {
  for (int i = 0; i < s.count(); ++i) {
    if (!s.is(i, "float") && !s.is(i, "double")) continue;
    bool array = false;
    int j = i + 1;
    if (s.is(j, ",") && s.around(j) >= 0 && s.is(s.around(j), "<"))
      j = s.partner(s.around(j));  // array<float, n>
    for (; s.is(j, ">") || s.is(j, "*") || s.is(j, "&") || s.is(j, "const"); ++j)
      array = array || !s.is(j, "const");
    if (!s.identifier(j)) continue;
    if (s.is(j + 1, "(") && s.context(j) != Brace::code) {
      functions.insert(s.at(j).text);
      continue;
    }
    for (;;) {
      (array || s.is(j + 1, "[") ? arrays : scalars).insert(s.at(j).text);
      int k = j + 1;
      while (k < s.count() && !s.is(k, ",") && !s.is(k, ";") && !s.closes(k))
        k = s.opens(k) ? s.partner(k) + 1 : k + 1;
      if (!s.is(k, ",") || !s.identifier(k + 1) || s.identifier(k + 2)) break;
      j = k + 1;
    }
  }
}

void FloatNames::add(const FloatNames& other) {
  scalars.insert(other.scalars.begin(), other.scalars.end());
  arrays.insert(other.arrays.begin(), other.arrays.end());
  functions.insert(other.functions.begin(), other.functions.end());
}

}  // namespace assay::mutants
