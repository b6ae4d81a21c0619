#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "loop/loop.h"
#include "supervise/kernel.h"
#include "supervise/supervised_for_test.h"
#include "supervise/tree.h"

namespace rankshim::supervise {
namespace {

using node::Process;

constexpr int too_long_ms = 120'000;

// The test program, too, blocks all signals before main. It must be possible to end it all the same, and the
// children of its other tests must not inherit that. And whoever runs it may have signals ignored: nohup
// SIGHUP, a shell's background job SIGINT and SIGQUIT.
[[maybe_unused]] const bool like_from_a_terminal = [] {
  for (int signal = 1; signal <= 64; ++signal) kernel::set_ignored(signal, false);
  return kernel::set_signal_mask(inherited_mask(), nullptr) == 0;
}();

/// What fits through a pipe of an ExitRecord.
struct FlatEnding {
  ExitRecord::Kind kind;
  int number, stop_signal;
  bool ordered;
  bool killed_by_us, never_met;
  unsigned leftovers, leftovers_killed;
  long ran;
  SpawnFailure::Call call;
  char path[512];
  bool interpreter;
};

FlatEnding flatten(const ExitRecord& record) {
  FlatEnding flat{record.kind,
                  record.number,
                  record.stop ? record.stop->signal : 0,
                  record.stop && record.stop->by == rankshim::outcome::StopRequest::By::order,
                  record.killed_by_us,
                  record.workers.never_met,
                  record.leftovers,
                  record.leftovers_killed,
                  record.ran.count(),
                  record.failure.call,
                  {},
                  record.failure.interpreter};
  record.failure.path.copy(flat.path, sizeof(flat.path) - 1);
  return flat;
}

pid_t fork_into(Mode mode) {
  const long flags = mode == Mode::pid_1 ? CLONE_NEWPID | CLONE_NEWNS : 0;
  return static_cast<pid_t>(syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0));
}

bool own_proc() {
  return mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         mount("proc", "/proc", "proc", 0, nullptr) == 0;
}

bool permitted(Mode mode) {
  const pid_t child = fork_into(mode);
  if (child == 0) _exit(mode == Mode::pid_1 && !own_proc() ? 1 : 0);
  int status = 1;
  if (child > 0) waitpid(child, &status, 0);
  return status == 0;
}

std::vector<std::string> environment() {
  std::vector<std::string> entries;
  for (char** entry = environ; *entry != nullptr; ++entry) entries.emplace_back(*entry);
  return entries;
}

[[noreturn]] void supervise_here(Mode mode, const std::vector<std::string>& argv, Policy policy,
                                 const std::function<void()>& before, const Supervised::Preparation& prepare,
                                 int output, int result) {
  if (mode == Mode::pid_1 && !own_proc()) _exit(99);
  dup2(output, STDOUT_FILENO);
  if (before) before();
  // What the constructor before main does in the program; what is inherited is what it found in the test
  // program.
  kernel::set_signal_mask(~SignalSet{0}, nullptr);
  boost::asio::io_context io(1);
  SignalQueue signals(io);
  Command command{argv, environment()};
  if (prepare) prepare(io, command, policy);
  const FlatEnding flat = flatten(loop::block_on(io, supervise(io, signals, command, policy)));
  [[maybe_unused]] const auto written = write(result, &flat, sizeof(flat));
  policy.apart = nullptr;  // ends what is prepared
  _exit(0);
}

void wait_readable(int descriptor, const char* what) {
  pollfd watched{descriptor, POLLIN, 0};
  INFO("waiting for " << what);
  REQUIRE(poll(&watched, 1, too_long_ms) == 1);
}

}  // namespace

const char* name(Mode mode) { return mode == Mode::pid_1 ? "as PID 1" : "as subreaper"; }

std::vector<Mode> modes() {
  static const bool namespaces = permitted(Mode::pid_1);
  if (namespaces) return {Mode::pid_1, Mode::subreaper};
  if (std::getenv("CI") != nullptr)
    FAIL("PID namespaces are not permitted here: nothing can be tried as PID 1");
  WARN("PID namespaces are not permitted here: not tried as PID 1");
  return {Mode::subreaper};
}

Supervised::Supervised(Mode mode, const std::vector<std::string>& argv, const Policy& policy,
                       const std::function<void()>& before, const Preparation& prepare) {
  int output[2];
  int result[2];
  REQUIRE(pipe2(output, O_CLOEXEC) == 0);
  REQUIRE(pipe2(result, O_CLOEXEC) == 0);
  pid_ = fork_into(mode);
  if (pid_ == 0) supervise_here(mode, argv, policy, before, prepare, output[1], result[1]);
  close(output[1]);
  close(result[1]);
  output_ = output[0];
  result_ = result[0];
  REQUIRE(pid_ > 0);
}

Supervised::Supervised(Mode mode, const std::string& script, const Policy& policy,
                       const std::function<void()>& before)
    : Supervised(mode, std::vector<std::string>{"/bin/bash", "-c", script}, policy, before) {}

Supervised::~Supervised() {
  if (pid_ > 0) {
    // A subreaper's end is not that of what it started.
    const std::vector<Process> below = node::descendants(pid_).value_or(std::vector<Process>{});
    ::kill(pid_, SIGKILL);
    for (const Process& process : below) ::kill(process.pid, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  close(output_);
  close(result_);
}

void Supervised::signal(int number) const { REQUIRE(kernel::send(pid_, number) == 0); }

void Supervised::queue(int number, int value) const {
  REQUIRE(kernel::send(pid_, {number, SI_QUEUE, getpid(), getuid(), static_cast<std::uint64_t>(value)}) == 0);
}

std::string Supervised::line() {
  while (unread_.find('\n') == std::string::npos) {
    wait_readable(output_, "a line of the command");
    char buffer[4096];
    const ssize_t got = ::read(output_, buffer, sizeof(buffer));
    if (got <= 0) return {};
    unread_.append(buffer, static_cast<std::size_t>(got));
  }
  const std::size_t end = unread_.find('\n');
  const std::string found = unread_.substr(0, end);
  unread_.erase(0, end + 1);
  return found;
}

ExitRecord Supervised::record() {
  wait_readable(result_, "supervise() to end");
  FlatEnding flat{};
  REQUIRE(::read(result_, &flat, sizeof(flat)) == static_cast<ssize_t>(sizeof(flat)));
  ExitRecord record;
  record.kind = flat.kind;
  record.number = flat.number;
  record.failure.call = flat.call;
  record.failure.path = flat.path;
  record.failure.interpreter = flat.interpreter;
  if (flat.stop_signal != 0) {
    record.stop.emplace().signal = flat.stop_signal;
    if (flat.ordered) record.stop->by = rankshim::outcome::StopRequest::By::order;
  }
  record.killed_by_us = flat.killed_by_us;
  record.workers.never_met = flat.never_met;
  record.leftovers = flat.leftovers;
  record.leftovers_killed = flat.leftovers_killed;
  record.ran = std::chrono::milliseconds(flat.ran);
  waitpid(pid_, nullptr, 0);
  pid_ = -1;
  return record;
}

int Supervised::exit_code() {
  int status = 0;
  REQUIRE(waitpid(pid_, &status, 0) == pid_);
  pid_ = -1;
  REQUIRE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

}  // namespace rankshim::supervise
