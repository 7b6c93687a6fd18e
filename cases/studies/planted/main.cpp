// assay-planted: the smallest defect that the limits see, by op, format and defect, with the fill that shows
// it.
#include "cases/studies/planted/measure.hpp"
#include "harness/cli/program.hpp"

namespace assay::planted {
namespace {

int run(const std::string& only, const Effort& effort, bool list) {
  int accused = 0;
  std::size_t asked = 0;
  if (!list) fmt::print("{}", table_head());
  for (const Subject& subject : subjects()) {
    if (subject.line.find(only) == std::string::npos) continue;
    ++asked;
    if (list) {
      fmt::print("{}   # {}: {}\n", subject.line, subject.path, subject.contract);
      continue;
    }
    const Measured measured = measure(subject, effort);
    fmt::print("{}", table_row(measured));
    std::fflush(stdout);
    accused += measured.accused;
    if (measured.accused > 0)
      fmt::print(stderr, "honest kernel beyond the limit, {} times: {} {} ({})\n", measured.accused,
                 subject.line, measured.first_accused, subject.contract);
  }
  if (asked == 0)
    throw InputError(InputErrorKind::bad_value,
                     fmt::format("no case has '{}' in its line; see --list", only));
  return accused == 0 ? kGreen : kFinding;
}

}  // namespace
}  // namespace assay::planted

int main(int argc, char** argv) {
  using namespace assay;
  CLI::App app("the smallest defect that is seen: of each op and format, at the sizes of engines");
  app.footer("Example:\n  assay planted --only 'kv=bf16' --seeds 20");
  std::string only;
  planted::Effort effort;
  bool list = false;
  app.add_option("--only", only, "cases whose line has this text in it");
  app.add_option("--fills", effort.only, "these fills alone")->delimiter(',');
  app.add_flag("--made", effort.made, "the fills made for these defects alone, each with all seeds");
  app.add_option("--seeds", effort.seeds, "of the best fills")->check(CLI::Range(1, 100000));
  app.add_option("--scouts", effort.scouts, "seeds that each fill is tried with")->check(CLI::Range(1, 1000));
  app.add_option("--best", effort.fills, "how many fills are the best of a defect")
      ->check(CLI::Range(1, 100));
  app.add_flag("--list", list, "the cases alone");
  int exit_code = kGreen;
  app.callback([&] { exit_code = planted::run(only, effort, list); });
  return run_program(app, argc, argv, exit_code);
}
