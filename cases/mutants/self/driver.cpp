// self_mutation MUTANTS.json EQUIVALENT.list I/N PERCENT TEST...: do the tests of the harness notice when the
// harness is wrong? Each test program is built from mutated sources; it runs once per mutant that it comes by
// (every N-th of them, from the I-th on), and a mutant is killed when some program fails, crashes or does not
// end. Exits with 1 below PERCENT.
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

#include "cases/mutants/kill.hpp"

extern char** environ;

namespace assay::mutants {
namespace {

constexpr std::chrono::seconds kLimit{30};

// Whether the program ends with status 0 in time.
bool passes(const std::string& program, const std::string& mutant, const std::string& seen) {
  std::vector<std::string> variables{"ASSAY_MUTANT=" + mutant, "ASSAY_MUTANTS_SEEN=" + seen};
  std::vector<char*> environment;
  for (char** e = environ; *e != nullptr; ++e) environment.push_back(*e);
  for (auto& v : variables) environment.push_back(v.data());
  environment.push_back(nullptr);
  std::string name = program, flag = "--gtest_fail_fast";
  char* arguments[] = {name.data(), flag.data(), nullptr};
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, 1, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&files, 2, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  const int failed = posix_spawn(&child, program.c_str(), &files, nullptr, arguments, environment.data());
  posix_spawn_file_actions_destroy(&files);
  if (failed != 0) throw std::runtime_error("cannot start " + program);
  const auto deadline = std::chrono::steady_clock::now() + kLimit;
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > deadline) {
      kill(child, SIGKILL);
      waitpid(child, &status, 0);
      return false;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

std::set<int> reached(const std::string& program) {
  const std::string file = program + ".seen";
  if (!passes(program, "record", file)) throw std::runtime_error(program + " fails without a mutant");
  std::set<int> ids;
  std::ifstream in(file);
  for (std::string word; in >> word;) {
    int first = 0, last = 0;
    if (std::sscanf(word.c_str(), "%d-%d", &first, &last) == 2)
      for (int i = first; i <= last; ++i) ids.insert(i);
  }
  return ids;
}

int run(const std::vector<std::string>& words) {
  int offset = 0, every = 1;
  if (words.size() < 5 || std::sscanf(words[2].c_str(), "%d/%d", &offset, &every) != 2 || every < 1) {
    fmt::print(stderr, "self_mutation MUTANTS.json EQUIVALENT.list I/N PERCENT TEST...\n");
    return 2;
  }
  const auto mutants = read_manifest(words[0]);
  const auto equivalents = read_equivalents(words[1]);
  std::map<std::string, std::set<int>> comes_by;
  for (std::size_t i = 4; i < words.size(); ++i) comes_by[words[i]] = reached(words[i]);
  // Files that these programs were built from: a mutant of theirs that no test comes by survives.
  std::map<int, std::string> file_of;
  for (const auto& m : mutants) file_of[m.id] = m.file;
  std::set<std::string> files;
  for (const auto& [program, ids] : comes_by)
    for (const int id : ids) files.insert(file_of[id]);
  std::vector<const Manifest*> chosen;
  for (std::size_t i = static_cast<std::size_t>(offset); i < mutants.size();
       i += static_cast<std::size_t>(every))
    if (files.contains(mutants[i].file)) chosen.push_back(&mutants[i]);

  std::vector<char> any(chosen.size(), 0), dead(chosen.size(), 0);
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < chosen.size(); i = next++)
      for (const auto& [program, ids] : comes_by)
        if (dead[i] == 0 && ids.contains(chosen[i]->id))
          any[i] = 1, dead[i] = !passes(program, std::to_string(chosen[i]->id), "");
  };
  {
    std::vector<std::jthread> threads;
    for (unsigned t = 1; t < std::thread::hardware_concurrency(); ++t) threads.emplace_back(work);
    work();
  }
  std::size_t killed = 0, total = 0, equivalent = 0;
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    const Manifest& m = *chosen[i];
    if (dead[i] == 0 &&
        std::ranges::any_of(equivalents, [&](const Equivalent& e) { return stands_for(e, m); })) {
      ++equivalent;
      continue;
    }
    ++total;
    killed += dead[i] != 0;
    if (dead[i] == 0)
      fmt::print("survivor {} {}:{} {}\n    {}  ->  {}{}\n", m.id, m.file, m.line, m.kind, m.before, m.after,
                 any[i] != 0 ? "" : "   (no test comes by)");
  }
  fmt::print("killed {} of {}, equivalent {}\n", killed, total, equivalent);
  return total > 0 && static_cast<double>(killed) >= 0.01 * std::stod(words[3]) * static_cast<double>(total)
             ? 0
             : 1;
}

}  // namespace
}  // namespace assay::mutants

int main(int argc, char** argv) try {
  return assay::mutants::run({argv + 1, argv + argc});
} catch (const std::exception& error) {
  fmt::print(stderr, "self_mutation: {}\n", error.what());
  return 2;
}
