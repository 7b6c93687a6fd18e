// assay-sweep-kernel: measures cells of the kernel sweep and prints a line of JSON for each as it ends.
// `assay sweep kernel` starts it; its store, order and pages are not known here.
#include <iostream>

#include "cases/lists.hpp"
#include "cases/studies/sweep/measure.hpp"
#include "harness/backend_names.hpp"
#include "harness/budget.hpp"
#include "harness/cli/program.hpp"
#include "reference/parallel.hpp"

namespace assay::sweep {
namespace {

using Json = nlohmann::ordered_json;

struct Settings {
  std::vector<std::string> lines, backends;
  std::string keep;
  bool plan = false, from_input = false;
  double timeout_seconds = 600;
  int threads = 1;
};

void print(const Json& j) {
  fmt::print("{}\n", j.dump());
  // Whoever reads is gone: what would be measured from here on is nobody's.
  if (std::fflush(stdout) != 0) throw std::runtime_error("standard output cannot be written");
}

// What each backend of the cells is: device, library and versions, for the store's header.
void describe_backend(const std::string& name, Workers& workers) {
  try {
    const reply::Opened opened = workers.open(name);
    print({{"backend", name}, {"description", opened.description}});
  } catch (const InputError&) {
    throw;
  } catch (const std::exception& e) {
    print({{"backend", name}, {"refused", e.what()}});
  }
}

int run(Settings s) {
  std::vector<std::string> backends;
  for (const std::string& text : s.backends)
    for (std::string& name : typed_backends(text)) backends.push_back(std::move(name));
  std::vector<Cell> cells;
  const auto take = [&](const std::string& line, const std::string& where) {
    for (Cell& c : parse_cells(line, backends, where)) cells.push_back(std::move(c));
  };
  for (const std::string& line : s.lines) take(line, "'" + line + "'");
  std::string line;
  for (int number = 1; s.from_input && std::getline(std::cin, line); ++number)
    if (!line.empty()) take(line, fmt::format("input:{}", number));
  if (cells.empty())
    throw InputError(InputErrorKind::bad_value, "no cell was given; such as 'pv len=4096 backend=cpu'");
  for (const Cell& c : cells)
    if (c.backend.empty() && !s.plan)
      throw InputError(InputErrorKind::bad_value,
                       fmt::format("'{}': no backend; give backend= or -b", c.line()));
  if (s.plan) {
    for (const Cell& c : cells)
      print({{"cell", c.line()},
             {"inputs", c.inputs()},
             {"work", c.work()},
             {"needles", c.integer("needles")}});
    return kGreen;
  }
  set_reference_threads(s.threads);
  const auto known = known_backends();
  Workers workers(known);
  std::vector<std::string> described;
  for (const Cell& c : cells)
    if (std::ranges::find(described, c.backend) == described.end()) {
      describe_backend(c.backend, workers);
      described.push_back(c.backend);
    }
  Measurer measurer(
      workers, {.timeout = std::chrono::milliseconds(static_cast<std::int64_t>(s.timeout_seconds * 1000))},
      bytes_available(), s.keep);
  for (const Cell& c : cells) print(measurer.measure(c));
  return kGreen;
}

}  // namespace
}  // namespace assay::sweep

int main(int argc, char** argv) {
  using namespace assay;
  CLI::App app{"Measures cells of the kernel sweep: a line of JSON each"};
  app.name("assay-sweep-kernel");
  sweep::Settings s;
  app.add_option("cell", s.lines, "Cells: 'pv len=4096,65536 mean=0.5', 'qk len=4096 k=q8_0,q4_0'");
  app.add_option("-b,--backend", s.backends, "For cells that name none");
  app.add_flag("--stdin", s.from_input, "Reads cells, one a line, from standard input");
  app.add_flag("--plan", s.plan,
               "Prints the cells and the multiply-adds that each costs, and measures nothing");
  app.add_option("--timeout", s.timeout_seconds, "Seconds of one run of a kernel")
      ->check(CLI::Range(0.001, 1e6))
      ->capture_default_str();
  app.add_option("--threads", s.threads, "Of the reference")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--keep", s.keep, "A folder for the case files of cells that are red");
  int exit_code = kGreen;
  app.callback([&] { exit_code = sweep::run(s); });
  return run_program(app, argc, argv, exit_code);
}
