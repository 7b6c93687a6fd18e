// self_mutation MUTANTS.json EQUIVALENT.list I/N PERCENT {TEST [--gtest_filter=PATTERN]}...: do the tests of
// the harness notice when the harness is wrong? Each test program is built from mutated sources; it runs once
// per mutant that it reaches (every N-th of them, from the I-th on), and a mutant is killed when some program
// fails, crashes or does not end. A filter chooses among the tests of the program before it. Exits with 1
// below PERCENT (of the mutants that are not excused), for a row of the list that excuses more or fewer
// mutants than it states, and for an excused mutant that is killed; with 2 for wrong usage, and with 3 when
// there was nothing that could be killed.
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "cases/studies/mutants/kill.hpp"

extern char** environ;

namespace assay::mutants {
namespace {

using Clock = std::chrono::steady_clock;

struct Program {
  std::string path, filter;
  // A mutant that takes longer than this does not end: twenty times the correct program.
  std::chrono::milliseconds limit{600000};
  std::set<int> comes_by = {};
};

enum class End : std::uint8_t { passed, failed, late };

// How the program ends with this mutant on.
End end_of(const Program& of, const std::string& mutant, const std::string& seen) {
  const std::string& program = of.path;
  std::vector<std::string> variables{"ASSAY_MUTANT=" + mutant, "ASSAY_MUTANTS_SEEN=" + seen};
  std::vector<char*> environment;
  for (char** e = environ; *e != nullptr; ++e) environment.push_back(*e);
  for (auto& v : variables) environment.push_back(v.data());
  environment.push_back(nullptr);
  std::string name = program, flag = "--gtest_fail_fast",
              filter = of.filter.empty() ? "--gtest_filter=*" : of.filter;
  char* arguments[] = {name.data(), flag.data(), filter.data(), nullptr};
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, 1, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&files, 2, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  const int failed = posix_spawn(&child, program.c_str(), &files, nullptr, arguments, environment.data());
  posix_spawn_file_actions_destroy(&files);
  if (failed != 0) throw std::runtime_error("cannot start " + program);
  const auto deadline = Clock::now() + of.limit;
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    if (Clock::now() > deadline) {
      kill(child, SIGKILL);
      waitpid(child, &status, 0);
      return End::late;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? End::passed : End::failed;
}

// The mutants that the program reaches, and the time that it may take.
void look(Program& program) {
  const auto start = Clock::now();
  if (end_of(program, "0", "") != End::passed)
    throw std::runtime_error(program.path + " fails without a mutant");
  const auto taken = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start);
  const std::string file = program.path + ".seen";
  if (end_of(program, "record", file) != End::passed)
    throw std::runtime_error(program.path + " fails while it records");
  program.limit = std::max<std::chrono::milliseconds>(20 * taken, std::chrono::seconds(30));
  std::ifstream in(file);
  for (std::string word; in >> word;) {
    int first = 0, last = 0;
    if (std::sscanf(word.c_str(), "%d-%d", &first, &last) == 2)
      for (int i = first; i <= last; ++i) program.comes_by.insert(i);
  }
}

struct Verdict {
  bool reached = false, dead = false, late = false;
  std::string by;
};

int run(const std::vector<std::string>& words) {
  int offset = 0, every = 1;
  if (words.size() < 5 || std::sscanf(words[2].c_str(), "%d/%d", &offset, &every) != 2 || every < 1 ||
      offset < 0 || offset >= every) {
    fmt::print(
        stderr,
        "self_mutation MUTANTS.json EQUIVALENT.list I/N PERCENT {{TEST [--gtest_filter=PATTERN]}}...\n");
    return 2;
  }
  const auto mutants = read_manifest(words[0]);
  const auto list = read_excuses(words[1]);
  const Excused excuses = excused(list, mutants);
  std::vector<std::string> faults = excuses.faults;
  std::vector<Program> programs;
  for (std::size_t i = 4; i < words.size(); ++i) {
    if (!words[i].starts_with("--gtest_filter=")) {
      programs.push_back({words[i], ""});
    } else if (!programs.empty()) {
      programs.back().filter = words[i];
    }
  }
  for (auto& p : programs) look(p);
  // Files that these programs were built from: a mutant of theirs that no test reaches survives.
  std::map<int, std::string> file_of;
  for (const auto& m : mutants) file_of[m.id] = m.file;
  std::set<std::string> files;
  for (const auto& p : programs)
    for (const int id : p.comes_by) files.insert(file_of[id]);
  std::vector<const Manifest*> chosen;
  for (std::size_t i = static_cast<std::size_t>(offset); i < mutants.size();
       i += static_cast<std::size_t>(every))
    if (files.contains(mutants[i].file)) chosen.push_back(&mutants[i]);

  std::vector<Verdict> verdicts(chosen.size());
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < chosen.size(); i = next++)
      for (const auto& p : programs) {
        Verdict& v = verdicts[i];
        if (v.dead || !p.comes_by.contains(chosen[i]->id)) continue;
        const End end = end_of(p, std::to_string(chosen[i]->id), "");
        v.reached = true, v.dead = end != End::passed, v.late = end == End::late, v.by = p.path;
      }
  };
  {
    std::vector<std::jthread> threads;
    for (unsigned t = 1; t < std::thread::hardware_concurrency(); ++t) threads.emplace_back(work);
    work();
  }
  struct Count {
    std::size_t killed = 0, late = 0, excused = 0, all = 0;
    std::string text() const {
      const auto percent = [&](std::size_t of) {
        return of == 0 ? 0 : 100.0 * static_cast<double>(killed) / static_cast<double>(of);
      };
      return fmt::format(
          "killed {} of {} ({:.1f} %; {} of them did not end); less {} excused: {} of {} ({:.1f} %)", killed,
          all, percent(all), late, excused, killed, all - excused, percent(all - excused));
    }
  };
  Count total;
  std::map<std::string, Count> by_file;
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    const Manifest& m = *chosen[i];
    const Verdict& v = verdicts[i];
    const Excuse* excuse = excuses.find(m.id);
    if (excuse != nullptr && v.dead) faults.push_back(killed_after_all(*excuse, m, v.by));
    for (Count* c : {&total, &by_file[m.file]}) {
      ++c->all;
      c->killed += v.dead;
      c->late += v.late;
      c->excused += excuse != nullptr && !v.dead;
    }
    if (!v.dead && excuse == nullptr)
      fmt::print("survivor {} {}:{} {}\n    {}  ->  {}{}\n", m.id, m.file, m.line, m.kind, m.before, m.after,
                 v.reached ? "" : "   (no test reaches)");
  }
  for (const auto& f : faults) fmt::print("list of equivalent mutants: {}\n", f);
  for (const auto& [file, count] : by_file) fmt::print("{}: {}\n", file, count.text());
  const std::size_t asked = total.all - total.excused;
  fmt::print("{}\n", total.text());
  if (asked == 0) return 3;
  const bool enough =
      100 * static_cast<double>(total.killed) >= std::stod(words[3]) * static_cast<double>(asked);
  return faults.empty() && total.killed > 0 && enough ? 0 : 1;
}

}  // namespace
}  // namespace assay::mutants

int main(int argc, char** argv) try {
  return assay::mutants::run({argv + 1, argv + argc});
} catch (const std::exception& error) {
  fmt::print(stderr, "self_mutation: {}\n", error.what());
  return 2;
}
