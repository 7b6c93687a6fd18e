// assay-vectors: what the matrix units of a device that this project has not give, as one file; and that
// file's import.
//
// Exit codes: 0 collected, or imported and every unit agrees; 1 a unit's model does not agree; 2 wrong usage,
// or a file that is refused; 77 no device that this build can ask.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "cases/studies/silicon/program.hpp"
#include "cases/studies/silicon/report.hpp"
#include "cases/studies/silicon/vector_file.hpp"
#include "reference/error.hpp"

namespace assay::silicon {
namespace {

// Of a file that a model made: it shows that the way works and nothing of hardware.
constexpr std::string_view kModelled = "none: the models of this program";

struct Options {
  std::string collect, import, golden, apply, emulate;
  std::uint64_t seed = 20250601;
};

std::string file_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  if (!in || !(text << in.rdbuf())) throw InputError(InputErrorKind::bad_value, "cannot read " + path);
  return text.str();
}

int collect(const Options& o) {
  VectorFile file{std::string(kModelled), o.emulate, "none", o.seed, {}};
  if (o.emulate.empty()) {
    if (const std::string why = Device::why_not(); !why.empty()) {
      fmt::print("skipped: {}\n", why);
      return kNoDevice;
    }
    const std::string driver = driver_version();
    file = {Device::description(), Device::architecture(), driver.empty() ? "unknown" : driver, o.seed, {}};
  }
  file.vectors = asked_of(file.architecture, o.seed);
  if (o.emulate.empty()) {
    Device device;
    run_on_device(file.vectors, device);
  }
  fmt::print("{}: {} vectors of {}\n", file.device, file.vectors.size(), file.architecture);
  write_file(o.collect, vector_file_text(file));
  return 0;
}

void print_difference(const UnitAgreement& one) {
  constexpr std::size_t kShown = 5;
  fmt::print("{}: its model ({}) differs in {} of {} vectors\n", one.unit->name,
             to_string(one.unit->standing), one.differ.size(), one.vectors);
  for (std::size_t i = 0; i < std::min(kShown, one.differ.size()); ++i) {
    const Vector& v = one.differ[i];
    fmt::print("  differs {}\n    device {:a}, model {:a}\n", vector_line(v), accumulator_number(*v.how, v.d),
               model_result(v, *one.unit));
  }
  for (std::size_t i = 0; i < std::min(kShown, one.fits.size()); ++i) {
    fmt::print("  {} {:24} {} of {} differ\n", one.fits[i].differ == 0 ? "FITS" : "fit ", one.fits[i].model,
               one.fits[i].differ, one.vectors);
  }
}

// What becomes of the standing of a unit that agrees.
std::string_view consequence(const MatrixUnit& unit, bool modelled, bool applied) {
  if (modelled) return ": a model made this file";
  if (unit.standing == Standing::silicon) return ", as before";
  return applied ? " -> silicon" : "; --apply would make it silicon";
}

int import(const Options& o) {
  std::istringstream in(file_text(o.import));
  const VectorFile file = read_vector_file(in);
  fmt::print("{}, {}, driver {}: {} vectors\n", file.device, file.architecture, file.driver,
             file.vectors.size());
  const std::vector<UnitAgreement> units = agreement(file);
  bool good = true, any = false;
  for (const UnitAgreement& one : units) {
    if (!one.differ.empty()) print_difference(one);
    good &= one.differ.empty(), any |= one.differ.empty();
  }
  const bool modelled = file.device == kModelled;
  std::string code = o.apply.empty() || modelled ? "" : file_text(o.apply);
  const std::string source =
      fmt::format("{}: reference/golden/arithmetic/{}", file.device,
                  std::filesystem::path(o.golden.empty() ? "FILE" : o.golden).filename().string());
  for (const UnitAgreement& one : units) {
    if (!one.differ.empty()) continue;
    fmt::print("{}: all {} vectors agree; standing {}{}\n", one.unit->name, one.vectors,
               to_string(one.unit->standing), consequence(*one.unit, modelled, !code.empty()));
    if (!code.empty()) code = with_standing_silicon(code, one.unit->name, source);
  }
  if (modelled && (!o.golden.empty() || !o.apply.empty()))
    throw InputError(InputErrorKind::bad_value,
                     "a file that a model made is no golden data and verifies nothing");
  if (!o.golden.empty() && any) write_file(o.golden, golden_text(file, units));
  if (!code.empty()) write_file(o.apply, code);
  return good ? 0 : 1;
}

int run(const Options& o) {
  if (o.collect.empty() == o.import.empty())
    throw InputError(InputErrorKind::bad_value, "one of --collect FILE and --import FILE is wanted");
  return o.import.empty() ? collect(o) : import(o);
}

}  // namespace
}  // namespace assay::silicon

int main(int argc, char** argv) {
  using namespace assay::silicon;
  CLI::App app{"What a device's matrix units give, as one file of vectors, and the import of such a file"};
  Options o;
  app.footer("Examples:\n  assay vectors --collect mine.vectors\n  assay vectors --import mine.vectors");
  auto* collects = app.add_option("--collect", o.collect, "ask the device here, write this file");
  auto* imports = app.add_option("--import", o.import, "judge such a file by the models");
  collects->excludes(imports);
  app.add_option("--seed", o.seed, "of the questions that --collect asks")->needs(collects);
  app.add_option("--emulate", o.emulate, "with --collect: the models of this architecture, not a device")
      ->needs(collects);
  app.add_option("--golden", o.golden, "with --import: write the vectors of the units that agree")
      ->needs(imports);
  app.add_option("--apply", o.apply,
                 "with --import: set those units' standing in this copy of matrix_unit.cpp")
      ->needs(imports);
  return run_program("assay-vectors", app, argc, argv, [&] { return run(o); });
}
