// assay-silicon: the matrix units of a Hopper GPU against reference/arithmetic, bit for bit.
//
// Exit codes: 0 all agree; 1 something differs; 2 wrong usage; 77 no such GPU here.
#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "cases/studies/silicon/exact.hpp"
#include "cases/studies/silicon/fit.hpp"
#include "cases/studies/silicon/program.hpp"
#include "cases/studies/silicon/report.hpp"
#include "cases/studies/silicon/self_test.hpp"
#include "cases/studies/silicon/vectors.hpp"
#include "reference/error.hpp"

namespace assay::silicon {
namespace {

struct Options {
  bool self_test = false, questions = false, exact = false;
  double compare = 0, fit = 0, seconds = 1e9;
  std::string vectors, functions, repeat, json;
  std::vector<std::string> only;
  std::uint64_t seed = 20250601;
  int threads = static_cast<int>(std::thread::hardware_concurrency());
};

std::vector<const Instruction*> chosen(const Options& o) {
  std::vector<const Instruction*> all;
  for (const Instruction& i : instructions()) {
    if (o.only.empty()) all.push_back(&i);
  }
  for (const std::string& name : o.only) all.push_back(&instruction(name));
  return all;
}

Runner on_device() {
  return [device = std::make_shared<Device>()](Batch& batch) { device->run(batch.device_view()); };
}

std::string provenance(const std::string& command) {
  return fmt::format("{}; driver {}; {}; {}", Device::description(), driver_version(), timestamp(), command);
}

bool run_self_test(const Options& o) {
  constexpr std::uint64_t kOutputs = 200'000;
  bool good = true;
  for (const SelfTest& t : self_test(o.seed, kOutputs, o.threads)) {
    fmt::print("{} {:24} {:20} {:>8} of {:>8} outputs differ\n", t.ok() ? "ok  " : "FAIL", t.instruction,
               t.change.empty() ? "unchanged" : t.change, t.mismatches, t.outputs);
    good &= t.ok();
  }
  return good;
}

bool run_questions() {
  std::vector<Vector> asked = questions();
  const std::vector<Vector> model = asked;
  Device device;
  run_on_device(asked, device);
  bool good = true;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    const Vector& v = asked[i];
    const bool same = agrees(v, static_cast<double>(accumulator_number(*v.how, model[i].d)));
    fmt::print("{} {:24} {:44} got {:a} ({:0{}x}) model {:a}\n", same ? "same  " : "DIFFER", v.how->name,
               v.what, accumulator_number(*v.how, v.d), v.d, 2 * v.how->accumulator_bytes(),
               accumulator_number(*v.how, model[i].d));
    good &= same;
  }
  return good;
}

bool run_compare(const Options& o, const std::string& command) {
  std::vector<std::pair<std::string, Tally>> tallies;
  bool good = true;
  for (const Instruction* how : chosen(o)) {
    if (find_matrix_unit(how->unit) == nullptr) {
      fmt::print("{:24} has no model\n", how->name);
      continue;
    }
    const auto start = std::chrono::steady_clock::now();
    const Tally tally =
        compare(*how, matrix_unit(how->unit),
                {o.seed, static_cast<std::uint64_t>(o.compare), o.threads, kAllSteps, kMostTiles, o.seconds},
                on_device);
    print_tally(*how, tally, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    good &= tally.outputs > 0 && tally.mismatches == 0;
    tallies.emplace_back(how->name, tally);
    if (!o.json.empty()) {  // after each instruction: what there is survives a time limit
      const nlohmann::ordered_json head = {{"device", Device::description()},
                                           {"driver", driver_version()},
                                           {"date", timestamp()},
                                           {"command", command},
                                           {"seed", o.seed}};
      write_file(o.json, tally_json(head.dump(), tallies));
    }
  }
  return good;
}

void run_fit(const Options& o) {
  for (const Instruction* how : chosen(o)) {
    for (const Fit& f : fit(*how, o.seed, static_cast<std::uint64_t>(o.fit), on_device())) {
      fmt::print("fit {:24} {:44} {:>8} of {:>8} differ\n", how->name, f.model, f.mismatches, f.outputs);
    }
    std::fflush(stdout);
  }
}

bool run_vectors(const Options& o, const std::string& command) {
  constexpr int kEach = 1;
  std::vector<Vector> vectors = questions();
  for (Vector& v : discriminating_vectors(kEach, o.seed)) vectors.push_back(std::move(v));
  const std::vector<Vector> model = vectors;
  Device device;
  run_on_device(vectors, device);
  std::string text = fmt::format(
      "# instruction;a;b;c;d;what it shows or tells apart. Codes in hex, k ascending; d is what the GPU "
      "gave.\n# {}\n",
      provenance(command));
  int differ = 0;
  for (std::size_t i = 0; i < vectors.size(); ++i) {
    text += vector_line(vectors[i]) + "\n";
    differ += same_number(accumulator_number(*vectors[i].how, vectors[i].d),
                          accumulator_number(*model[i].how, model[i].d))
                  ? 0
                  : 1;
  }
  fmt::print("{} vectors, {} of them unlike the model\n", vectors.size(), differ);
  write_file(o.vectors, text);
  return differ == 0;
}

void run_functions(const Options& o, const std::string& command) {
  Device device;
  std::string csv = fmt::format(
      "# Errors over all f32 inputs, by sign and binade 2^e <= |x| < 2^(e+1).\n# {}\n"
      "function,sign,exponent,inputs,not_nearest,max_ulp,worst,max_relative,max_ulp_subnormal,worst_"
      "subnormal\n",
      provenance(command));
  const std::vector<std::uint32_t> special = {0x00000000, 0x80000000, 0x7f800000, 0xff800000, 0x7fc00000,
                                              0x00000001, 0x80000001, 0xc3160000, 0xc2fc0001, 0x43000000};
  for (int i = 0; i < kFunctions; ++i) {
    const auto f = static_cast<Function>(i);
    const std::vector<UlpRow> rows = device.ulp_table(f);
    csv += table_csv(f, rows);
    UlpRow all;
    for (const UlpRow& r : rows) absorb(all, r);
    fmt::print(
        "{:20} {} inputs, {} not nearest, max {:.4f} ulp at {:08x}, {:.4f} * 2^-23 relative, subnormal "
        "results {:.4f}\n",
        function_name(f), all.inputs, all.not_nearest, all.max_ulp, all.worst, all.max_relative,
        all.max_ulp_subnormal);
    const std::vector<std::uint32_t> y = device.evaluate(f, special);
    for (std::size_t k = 0; k < y.size(); ++k) fmt::print("  {:08x}->{:08x}", special[k], y[k]);
    fmt::print("\n");
  }
  write_file(o.functions, csv);
}

bool run_exact(const Options& o) {
  constexpr std::uint64_t kEveryInput = std::uint64_t{1} << 32;
  bool good = true;
  for (const Function f : kModelled) {
    const ExactTally t = compare_exactly(f, 0, kEveryInput, o.threads, [] {
      return [device = std::make_shared<Device>()](Function of, const std::vector<std::uint32_t>& inputs) {
        return device->evaluate(of, inputs);
      };
    });
    fmt::print("{:20} {} inputs, {} differ", function_name(f), t.inputs, t.differ);
    if (t.differ > 0) fmt::print("; first {:08x}: got {:08x}, model {:08x}", t.first, t.got, t.want);
    fmt::print("\n");
    std::fflush(stdout);
    good &= t.differ == 0;
  }
  return good;
}

// INSTRUCTION:SEED:BATCH:TILE:ROW:COL
bool run_repeat(const Options& o) {
  std::istringstream fields(o.repeat);
  std::string name;
  std::getline(fields, name, ':');
  std::uint64_t seed = 0, index = 0;
  int tile = 0, row = 0, col = 0;
  char colon = 0;
  fields >> seed >> colon >> index >> colon >> tile >> colon >> row >> colon >> col;
  const Instruction& how = instruction(name);
  Batch batch = draw_batch(how, seed, index);
  const auto outside = [](int x, int n) { return x < 0 || x >= n; };
  if (!fields || outside(tile, batch.tiles) || outside(row, kTileSide) || outside(col, kTileSide)) {
    throw InputError(InputErrorKind::bad_value,
                     o.repeat + " is not INSTRUCTION:SEED:BATCH:TILE:ROW:COL of that batch");
  }
  on_device()(batch);
  const Element e = element_of(batch, tile, row, col);
  const double want =
      fused_dot(matrix_unit(how.unit), {e.a, how.a_format}, {e.b, how.b_format}, static_cast<double>(e.c));
  fmt::print("{}\n", mismatch_line(batch, tile, row, col, static_cast<float>(want)));
  const std::size_t at = (static_cast<std::size_t>(tile) * kTileSide * kTileSide +
                          static_cast<std::size_t>(row * kTileSide + col)) *
                         static_cast<std::size_t>(how.accumulator_bytes());
  return same_number(accumulator_number(how, load_accumulator(how, batch.d.data() + at)),
                     static_cast<float>(want));
}

int run(const Options& o, const std::string& command) {
  bool good = true;
  fmt::print("seed {}, {} threads\n", o.seed, o.threads);
  if (o.self_test) good &= run_self_test(o);
  const bool gpu = o.questions || o.exact || o.compare > 0 || o.fit > 0 || !o.vectors.empty() ||
                   !o.functions.empty() || !o.repeat.empty();
  if (gpu) {
    if (const std::string why = Device::why_not(); !why.empty()) {
      fmt::print("skipped: {}\n", why);
      return kNoDevice;
    }
    fmt::print("{}\n", provenance(command));
    if (o.questions) good &= run_questions();
    if (o.exact) good &= run_exact(o);
    if (o.fit > 0) run_fit(o);
    if (!o.repeat.empty()) good &= run_repeat(o);
    if (!o.vectors.empty()) good &= run_vectors(o, command);
    if (!o.functions.empty()) run_functions(o, command);
    if (o.compare > 0) good &= run_compare(o, command);
  }
  return good ? 0 : 1;
}

}  // namespace
}  // namespace assay::silicon

int main(int argc, char** argv) {
  using namespace assay::silicon;
  CLI::App app{
      "Runs tiles through the matrix units of a Hopper GPU and compares them with reference/arithmetic"};
  Options o;
  app.footer("Examples:\n  assay silicon --self-test\n  assay silicon --compare 1e8 --seconds 5");
  app.add_flag("--self-test", o.self_test,
               "no GPU: does the comparison notice a model with one parameter changed?");
  app.add_flag("--questions", o.questions, "experiments written by hand, one a line");
  app.add_flag("--exact", o.exact, "compare the functions that are modelled exactly, on every f32");
  app.add_option("--compare", o.compare, "compare at least this many outputs of each instruction");
  app.add_option("--fit", o.fit, "compare this many outputs with the model and all its neighbours");
  app.add_option("--vectors", o.vectors, "write the discriminating vectors and what the GPU gives for them");
  app.add_option("--functions", o.functions,
                 "write the errors of ex2.approx and its like over all f32 inputs");
  app.add_option("--repeat", o.repeat, "one output again: INSTRUCTION:SEED:BATCH:TILE:ROW:COL");
  app.add_option("--only", o.only, "these instructions")->delimiter(',');
  app.add_option("--seed", o.seed, "of all draws");
  app.add_option("--threads", o.threads, "that draw and emulate")->check(CLI::Range(1, 1024));
  app.add_option("--seconds", o.seconds, "stop --compare of an instruction after these");
  app.add_option("--json", o.json, "write what --compare found");
  app.require_option(1, 0);
  std::string command = "assay-silicon";
  for (int i = 1; i < argc; ++i) command += fmt::format(" {}", argv[i]);
  return run_program("assay-silicon", app, argc, argv, [&] { return run(o, command); });
}
