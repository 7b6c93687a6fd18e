// assay-stub-server: the stub for trying `assay cascade --endpoint` by hand.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>

#include "cases/studies/cascade/live/stub_server.hpp"

int main(int argc, char** argv) {
  using namespace assay::live;
  StubOptions options;
  std::string fault = "none", dialect = "llama";
  std::string names;
  for (const auto& [f, name] : kFaults) names += (names.empty() ? "" : ", ") + std::string(name);
  CLI::App app{"A small language model behind HTTP on 127.0.0.1, with switchable faults; ends with SIGINT."};
  app.add_option("--seed", options.seed, "Of the model's weights");
  app.add_option("--fault", fault, names);
  app.add_option("--from", options.from, "First completion that a fault of transport strikes");
  app.add_option("--dialect", dialect, "llama, openai or chat")
      ->check(CLI::IsMember({"llama", "openai", "chat"}));
  app.add_flag("!--no-logprobs", options.logprobs, "Gives text only");
  CLI11_PARSE(app, argc, argv);
  bool known = false;
  for (const auto& [f, name] : kFaults)
    if (name == fault) options.fault = f, known = true;
  if (!known) {
    fmt::print(stderr, "--fault {}: allowed: {}\n", fault, names);
    return 2;
  }
  options.llama = dialect == "llama";
  options.completions = dialect != "chat";
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGINT);
  sigaddset(&ends, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &ends, nullptr);  // before the server's threads, which inherit it
  const StubServer server(options);
  fmt::print("{}\n", server.endpoint());
  std::fflush(stdout);
  int which = 0;
  sigwait(&ends, &which);
  return 0;
}
