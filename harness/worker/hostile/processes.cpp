// Other processes: those that a kernel starts, and those that watch it.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>

#include "harness/worker/hostile/plugin.hpp"

namespace hostile {
namespace {

[[noreturn]] void sleep_for_ever() {
  for (;;) pause();
}
void start(void (*child)()) {
  if (fork() == 0) {
    child();
    _exit(0);
  }
}
void become_daemon() {
  setsid();
  start(sleep_for_ever);
}
// Misdeeds that would reach everything on the machine are done in a PID namespace only, which has few
// processes.
bool contained() {
  int processes = 0;
  const char* flag = std::getenv("HOSTILE_CONTAINED");
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored))
    processes +=
        entry.path().filename().string().find_first_not_of("0123456789") == std::string::npos ? 1 : 0;
  return processes > 0 && processes < 20 && std::string_view(flag == nullptr ? "" : flag) == "1";
}
void only_contained(Call& c, void (*deed)(Call&)) {
  c.twice();
  if (contained()) return deed(c);
  std::strcpy(c.reason, "not tried outside of a PID namespace");
  c.status = ASSAY_FAILED;
}

constexpr Variant kVariants[] = {
    {"leave_a_child",
     [](Call& c) {
       start(sleep_for_ever);
       c.twice();
     }},
    {"leave_a_spinning_child",
     [](Call& c) {
       start(spin);
       c.twice();
     }},
    {"leave_a_child_and_die",
     [](Call&) {
       start(sleep_for_ever);
       raise(SIGKILL);
     }},
    {"leave_a_child_in_a_session_of_its_own_and_die",
     [](Call&) {
       start([] {
         setsid();
         sleep_for_ever();
       });
       usleep(20'000);
       raise(SIGKILL);
     }},
    {"leave_a_child_in_a_group_of_its_own",
     [](Call& c) {
       start([] {
         setpgid(0, 0);
         sleep_for_ever();
       });
       c.twice();
     }},
    {"leave_a_daemon",
     [](Call& c) {
       start(become_daemon);
       usleep(20'000);
       c.twice();
     }},
    {"leave_a_daemon_and_die",
     [](Call&) {
       start(become_daemon);
       usleep(20'000);
       raise(SIGKILL);
     }},
    {"leave_a_daemon_that_ignores_signals",
     [](Call& c) {
       start([] {
         for (int s = 1; s < 65; ++s) signal(s, SIG_IGN);
         become_daemon();
       });
       usleep(20'000);
       c.twice();
     }},
    {"leave_a_daemon_without_environment_or_name",
     [](Call& c) {
       start([] {
         prctl(PR_SET_NAME, "kworker/0:1");
         become_daemon();
       });
       usleep(20'000);
       c.twice();
     }},
    {"leave_a_stopped_child",
     [](Call& c) {
       start([] { raise(SIGSTOP); });
       c.twice();
     }},
    {"leave_fifty_children",
     [](Call& c) {
       for (int i = 0; i < 50; ++i) start(sleep_for_ever);
       c.twice();
     }},
    {"leave_a_chain_of_children",
     [](Call& c) {
       if (fork() == 0) {
         for (int i = 0; i < 30; ++i)
           if (fork() != 0) sleep_for_ever();
         sleep_for_ever();
       }
       c.twice();
     }},
    {"flee_from_child_to_child",
     [](Call&) {
       if (fork() != 0) raise(SIGKILL);
       for (int i = 0; i < 400; ++i) {  // each lives for a moment only: what is killed is gone already
         if (fork() != 0) _exit(0);
         if (i % 7 == 0) setsid();
         usleep(500);
       }
       sleep_for_ever();
     }},
    {"adopt_its_own_orphans_and_die",
     [](Call&) {
       prctl(PR_SET_CHILD_SUBREAPER, 1);
       start(become_daemon);
       usleep(20'000);
       raise(SIGKILL);
     }},
    {"let_a_child_hold_the_output",
     [](Call& c) {
       start([] {
         close(3);
         close(4);
         sleep_for_ever();
       });
       c.twice();
     }},
    {"let_a_child_answer",
     [](Call& c) {  // which is not the process that was asked
       if (fork() != 0) sleep_for_ever();
       c.twice();
     }},
    {"run_on_in_a_child_and_die",
     [](Call& c) {
       if (fork() != 0) _exit(0);
       usleep(50'000);
       c.twice();
     }},
    {"kill_the_parent",
     [](Call& c) {
       c.twice();
       if (kill(getppid(), SIGKILL) != 0) c.refused("a signal");
       usleep(50'000);
     }},
    {"stop_the_parent",
     [](Call& c) {
       c.twice();
       if (kill(getppid(), SIGSTOP) != 0) c.refused("a signal");
     }},
    {"stop_the_parent_and_spin",
     [](Call&) {
       kill(getppid(), SIGSTOP);
       spin();
     }},
    {"stop_the_parent_and_sleep",
     [](Call&) {
       kill(getppid(), SIGSTOP);
       sleep_for_ever();
     }},
    {"terminate_the_parent",
     [](Call& c) {
       c.twice();
       if (kill(getppid(), SIGTERM) != 0) c.refused("a signal");
       usleep(50'000);
     }},
    {"trace_the_parent",
     [](Call& c) {
       c.twice();
       if (ptrace(PTRACE_SEIZE, getppid(), nullptr, nullptr) != 0) c.refused("ptrace");
     }},
    {"write_the_parents_memory",
     [](Call& c) {
       c.twice();
       if (open(("/proc/" + std::to_string(getppid()) + "/mem").c_str(), O_RDWR | O_CLOEXEC) < 0)
         c.refused("its memory");
     }},
    {"limit_the_parent",
     [](Call& c) {
       c.twice();
       const rlimit none{0, 0};
       if (prlimit(getppid(), RLIMIT_NOFILE, &none, nullptr) != 0) c.refused("prlimit");
     }},
    {"kill_its_group",
     [](Call& c) {
       c.twice();
       kill(0, SIGKILL);
       sleep_for_ever();
     }},
    {"be_traced_by_nobody",
     [](Call& c) {
       c.twice();
       ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
     }},
    {"kill_everything", [](Call& c) { only_contained(c, [](Call&) { kill(-1, SIGKILL); }); }},
    {"stop_everything", [](Call& c) { only_contained(c, [](Call&) { kill(-1, SIGSTOP); }); }},
    {"kill_the_judge",
     [](Call& c) {
       only_contained(c, [](Call& d) {
         const char* judge = std::getenv("HOSTILE_JUDGE");
         if (judge == nullptr || kill(std::atoi(judge), SIGKILL) != 0) d.refused("a signal");
       });
     }},
    {"connect_to_loopback",
     [](Call& c) {
       c.twice();
       const char* port = std::getenv("HOSTILE_PORT");
       sockaddr_in address{};
       address.sin_family = AF_INET;
       address.sin_port = htons(static_cast<std::uint16_t>(port == nullptr ? 9 : std::atoi(port)));
       address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
       const int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
       if (connect(s, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
         c.refused("a connection");
       close(s);
     }},
    {"write_to_a_home_folder",
     [](Call& c) {
       c.twice();
       const char* file = std::getenv("HOSTILE_FILE");
       const int fd = open(file == nullptr ? "" : file, O_WRONLY | O_CLOEXEC);
       if (fd < 0 || write(fd, "spoilt", 6) != 6) c.refused("a file");
       close(fd);
     }},
    {"fork_and_answer_twice",
     [](Call& c) {
       c.twice();
       fork();
     }},
    {"correct_with_a_child_that_ended",
     [](Call& c) {
       const pid_t child = fork();
       if (child == 0) _exit(7);
       int code = 0;
       waitpid(child, &code, 0);
       if (WEXITSTATUS(code) == 7) c.twice();
     }},
    {"correct_with_a_child_left_unreaped",
     [](Call& c) {
       start([] {});
       usleep(5'000);
       c.twice();
     }},
};

}  // namespace

std::span<const Variant> processes() { return kVariants; }

}  // namespace hostile
