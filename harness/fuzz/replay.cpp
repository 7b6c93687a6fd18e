// Runs a fuzz target without libFuzzer, for the tests of every build: on each file of its corpus, and on so
// many inputs that are made of them. The inputs are a pure function of the corpus and of that number.
//
//   fuzz_case CORPUS RUNS
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "reference/mix.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

namespace fs = std::filesystem;

std::string input;  // the one that runs, for the handler

// What was run when the target died, in hexadecimal: the line is enough to repeat it.
void report(int signal) {
  constexpr char kDigits[] = "0123456789abcdef";
  const auto say = [](const char* text, std::size_t size) { (void)!write(STDERR_FILENO, text, size); };
  say("input:", 6);
  for (const char c : input) {
    const auto byte = static_cast<unsigned char>(c);
    const char text[] = {' ', kDigits[byte / 16], kDigits[byte % 16]};
    say(text, sizeof text);
  }
  say("\n", 1);
  ::signal(signal, SIG_DFL);
  raise(signal);
}

void run(std::string text) {
  input = std::move(text);
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
}

class Mutator {
 public:
  explicit Mutator(const std::vector<std::string>& corpus) : corpus_(corpus) {}

  std::string next() {
    constexpr std::size_t kLongest = 512;
    std::string text = corpus_[below(corpus_.size())];
    for (std::size_t changes = 1 + below(4); changes > 0; --changes) change(text);
    if (text.size() > kLongest) text.resize(kLongest);
    return text;
  }

 private:
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(assay::next_mixed(state_) % n); }

  void change(std::string& text) {
    // Bytes that mean something to one grammar or another.
    constexpr std::string_view kSyntax = "=,:%#!'\"\\/*+-. \t\n\r{}[]0129eEnull\x7f\x80\xff";
    const std::size_t at = below(text.size() + 1);
    const std::size_t length = below(std::min<std::size_t>(text.size() - at, 16) + 1);
    switch (below(6)) {
      case 0:
        text.erase(at, length);
        return;
      case 1:
        text.insert(at, 1, kSyntax[below(kSyntax.size())]);
        return;
      case 2:
        text.insert(at, 1, static_cast<char>(below(256)));
        return;
      case 3:
        text.insert(below(text.size() + 1), text.substr(at, length));
        return;
      case 4:
        if (at < text.size()) text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
        return;
      default: {
        const std::string& other = corpus_[below(corpus_.size())];
        const std::size_t from = below(other.size() + 1);
        text.replace(at, length, other.substr(from, below(24)));
      }
    }
  }

  const std::vector<std::string>& corpus_;
  std::uint64_t state_ = 1;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s CORPUS RUNS\n", argv[0]);
    return 2;
  }
  for (const int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL}) ::signal(signal, report);
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(argv[1])) files.push_back(entry.path());
  std::sort(files.begin(), files.end());  // the order of a directory is not the same everywhere
  std::vector<std::string> corpus;
  for (const fs::path& path : files) {
    std::ifstream file(path, std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  if (corpus.empty()) {
    std::fprintf(stderr, "%s: no seed in it\n", argv[1]);
    return 2;
  }
  run("");
  for (const std::string& seed : corpus) run(seed);
  Mutator mutator(corpus);
  const long runs = std::strtol(argv[2], nullptr, 10);
  for (long i = 0; i < runs; ++i) run(mutator.next());
  std::printf("%zu seeds, %ld inputs made of them\n", corpus.size(), runs);
  return 0;
}
