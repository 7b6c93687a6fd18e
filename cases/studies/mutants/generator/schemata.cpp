// What becomes of the regions: a few of each generic class are kept, and all of them are written into the
// source.
#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string_view>

#include <fmt/format.h>

#include "cases/studies/mutants/generator/sites.hpp"
#include "reference/fingerprint.hpp"

namespace assay::mutants {
namespace {

// Classes of numerics (accumulator, rounding, scale, softmax, ...) have few sites; these have them
// everywhere.
constexpr auto kGeneric = std::to_array<std::string_view>(
    {"codec", "arithmetic", "tile", "statement", "constant", "condition", "index", "tail", "comparison"});

}  // namespace

void thin(std::vector<std::vector<Region>>& files, std::size_t most) {
  const auto hash = [](std::size_t file, const Mutant& m) {  // of what does not move with the line
    return Fingerprint(file).add(m.before).add(m.after).value();
  };
  const auto generic = [](const Mutant& m) { return std::ranges::find(kGeneric, m.kind) != kGeneric.end(); };
  std::map<std::string, std::vector<std::uint64_t>> hashes;
  for (std::size_t f = 0; f < files.size(); ++f)
    for (const auto& r : files[f])
      for (const auto& m : r.mutants)
        if (generic(m)) hashes[m.kind].push_back(hash(f, m));
  for (auto& [kind, list] : hashes) std::ranges::sort(list);
  for (std::size_t f = 0; f < files.size(); ++f) {
    for (auto& r : files[f]) {
      std::erase_if(r.mutants, [&](const Mutant& m) {
        const auto& list = hashes[m.kind];
        return generic(m) && list.size() > most && hash(f, m) >= list[most];
      });
    }
    std::erase_if(files[f], [](const Region& r) { return r.mutants.empty(); });
  }
}

std::string schemata(const Source& s, std::vector<Region>& regions, int& next_id) {
  for (auto& r : regions)
    for (auto& m : r.mutants) m.id = next_id++;
  std::set<int> relaxed, dropped;  // "constexpr" of tables, and of conditions on them
  for (int i = 0; i < s.count(); ++i)
    if (s.is(i, "constexpr") && !s.is(i - 1, "if") && is_table(s, i)) relaxed.insert(i);

  std::size_t next = 0;  // region
  std::string out;
  // Source from token `from` to token `to` as it stands, white space in front of each token included; regions
  // inside are expanded.
  const std::function<void(int, int)> emit = [&](int from, int to) {
    for (int i = from; i < to;) {
      const std::size_t white = i == 0 ? 0 : s.at(i - 1).end;
      out += s.text.substr(white, s.at(i).begin - white);
      if (next < regions.size() && regions[next].begin == i && regions[next].end <= to) {
        const Region r = regions[next++];
        const int first = r.mutants.front().id;
        const std::string chosen = fmt::format("::assay_mutants::in({}, {})", first, r.mutants.size());
        const auto inner = [&] {
          // The region's own tokens: the first one's white space is out already.
          if (next < regions.size() && regions[next].begin == r.begin && regions[next].end <= r.end) {
            const std::size_t mark = out.size();
            emit(r.begin, r.end);
            const std::size_t width =
                r.begin == 0 ? s.at(0).begin : s.at(r.begin).begin - s.at(r.begin - 1).end;
            out.erase(mark, width);
          } else {
            out += s.at(r.begin).text;
            emit(r.begin + 1, r.end);
          }
        };
        if (r.form == RegionForm::value) {
          out += fmt::format("::assay_mutants::narrowed<{}, {}>({}, ", r.mutants.size(), r.narrowing, first);
          inner();
          out += ")";
        } else if (r.form == RegionForm::statement) {
          out += "{ if (" + chosen + ") { ";
          for (const auto& m : r.mutants)
            out += fmt::format("if (::assay_mutants::is({})) {{ {} }} ", m.id, m.after);
          out += "} else { ";
          inner();
          out += " } }";
        } else {
          const bool discarded = r.form == RegionForm::discarded;
          const std::string open = discarded                         ? "(void)("
                                   : r.form == RegionForm::condition ? "static_cast<bool>("
                                                                     : "(";
          const auto wrap = [&](const std::string& text) { return open + text + ")"; };
          out += "(" + chosen + " ? (";
          for (std::size_t k = 0; k < r.mutants.size(); ++k) {
            if (k + 1 < r.mutants.size()) out += fmt::format("::assay_mutants::is({}) ? ", r.mutants[k].id);
            out += wrap(r.mutants[k].after);
            if (k + 1 < r.mutants.size()) out += " : ";
          }
          out += ") : " + open;
          inner();
          out += "))";
        }
        i = r.end;
        continue;
      }
      if (relaxed.contains(i)) {
        out += "const";
      } else if (!dropped.contains(i)) {
        out += s.at(i).text;
      }
      ++i;
    }
  };
  // "if constexpr" over an entry of a table that is no longer constexpr.
  const auto conditional = [&](int i) {
    if (!s.is(i, "constexpr") || !s.is(i - 1, "if")) return false;
    for (int j = i; j < s.partner(i + 1); ++j)
      if (s.is(j, ".")) return true;
    return false;
  };
  for (int i = 0; i < s.count(); ++i)
    if (conditional(i)) dropped.insert(i);
  emit(0, s.count());
  if (s.count() > 0) out += s.text.substr(s.at(s.count() - 1).end);
  return out;
}

}  // namespace assay::mutants
