#include "supervise/kernel.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/files.h"

namespace rankshim::supervise::kernel {
namespace {

/// The structure of rt_sigaction(2); libc's struct sigaction differs.
struct Action {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the kernel's 0 and 1
  void (*handler)(int) = SIG_DFL;
  unsigned long flags = 0;
  void (*restorer)() = nullptr;
  SignalSet mask = 0;
};

siginfo_t to_siginfo(const Signal& signal) {
  siginfo_t info{};
  info.si_signo = signal.number;
  info.si_code = signal.code;
  info.si_pid = static_cast<pid_t>(signal.sender);
  info.si_uid = signal.user;
  static_assert(sizeof(info.si_value) == sizeof(signal.value));
  std::memcpy(&info.si_value, &signal.value, sizeof(signal.value));
  return info;
}

/// Detaches from a stopped child if this process was its tracer; returns whether it was. The child continues
/// with its signal, except for the TRAP that execve(2) sends to a traced process (ptrace(2)).
bool detach(pid_t process, int signal) {
  siginfo_t info{};
  const bool known = ptrace(PTRACE_GETSIGINFO, process, nullptr, &info) == 0;
  const bool by_exec = signal == SIGTRAP && known && info.si_code == SI_USER && info.si_pid == process;
  // NOLINTNEXTLINE(performance-no-int-to-ptr): ptrace(2) takes the signal as a pointer
  return ptrace(PTRACE_DETACH, process, nullptr, reinterpret_cast<void*>(by_exec ? 0L : long{signal})) == 0;
}

}  // namespace

int set_signal_mask(SignalSet blocked, SignalSet* before) {
  return result(syscall(SYS_rt_sigprocmask, SIG_SETMASK, &blocked, before, sizeof(SignalSet)));
}

int is_ignored(int signal) {
  Action action;
  const int done = result(syscall(SYS_rt_sigaction, signal, nullptr, &action, sizeof(SignalSet)));
  return done < 0 ? done : static_cast<int>(action.handler == SIG_IGN);
}

int set_ignored(int signal, bool ignored) {
  Action action;
  action.handler = ignored ? SIG_IGN : SIG_DFL;
  return result(syscall(SYS_rt_sigaction, signal, &action, nullptr, sizeof(SignalSet)));
}

int signal_descriptor(int existing, SignalSet signals) {
  return result(syscall(SYS_signalfd4, existing, &signals, sizeof(SignalSet), O_CLOEXEC | O_NONBLOCK));
}

int send(pid_t target, int signal) { return result(syscall(SYS_kill, target, signal)); }

int send(pid_t process, const Signal& signal) {
  if (!signal.is_queued()) return send(process, signal.number);
  const siginfo_t info = to_siginfo(signal);
  return result(syscall(SYS_rt_sigqueueinfo, process, signal.number, &info));
}

int queue_to_group(pid_t leader, const Signal& signal) {
  constexpr unsigned to_process_group = 4;  // PIDFD_SIGNAL_PROCESS_GROUP, newer than our headers
  const Descriptor descriptor(pidfd_open(leader));
  if (descriptor.number() < 0) return -ENOSYS;
  const siginfo_t info = to_siginfo(signal);
  const int sent =
      result(syscall(SYS_pidfd_send_signal, descriptor.number(), signal.number, &info, to_process_group));
  return sent == -EINVAL ? -ENOSYS : sent;
}

int pidfd_open(pid_t process) { return result(syscall(SYS_pidfd_open, process, 0)); }

int pidfd_send(int pidfd, const Signal& signal) {
  const siginfo_t info = to_siginfo(signal);
  return result(
      syscall(SYS_pidfd_send_signal, pidfd, signal.number, signal.is_queued() ? &info : nullptr, 0));
}

pid_t reap(int& status, bool stopped_too, bool& let_go) {
  while (true) {
    const pid_t pid = result(wait4(-1, &status, WNOHANG | (stopped_too ? WUNTRACED : 0), nullptr));
    if (pid <= 0 || !WIFSTOPPED(status) || !detach(pid, WSTOPSIG(status))) return pid;
    let_go = true;
  }
}

int has_children() {
  siginfo_t info;
  const int done = result(waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT));
  return done == 0 ? 1 : done == -ECHILD ? 0 : done;
}

int stop_self() {
  constexpr SignalSet all = ~SignalSet{0};
  constexpr SignalSet stop = SignalSet{1} << (SIGTSTP - 1);
  SignalSet pending = 0;
  set_signal_mask(all & ~stop, nullptr);
  send(getpid(), SIGTSTP);  // the process stops here
  set_signal_mask(all, nullptr);
  syscall(SYS_rt_sigpending, &pending, sizeof(SignalSet));
  return (pending & (SignalSet{1} << (SIGCONT - 1))) != 0 ? 1 : 0;
}

int forbid_core(pid_t process) {
  rlimit limit{};
  if (prlimit(process, RLIMIT_CORE, nullptr, &limit) != 0) return -errno;
  limit.rlim_cur = limit.rlim_max == 0 ? 0 : 1;
  return result(prlimit(process, RLIMIT_CORE, &limit, nullptr));
}

int prefer_memory(int node) {
  constexpr int preferred = 1;  // MPOL_PREFERRED (linux/mempolicy.h)
  cpu_set_t nodes;
  CPU_ZERO(&nodes);
  CPU_SET(static_cast<std::size_t>(node), &nodes);
  return result(syscall(SYS_set_mempolicy, preferred, &nodes, 8 * sizeof nodes));
}

void reserve_standard_descriptors() {
  int descriptor = -1;
  do {
    descriptor = open("/", O_PATH | O_CLOEXEC);
  } while (descriptor >= 0 && descriptor <= STDERR_FILENO);
  if (descriptor >= 0) close(descriptor);
}

}  // namespace rankshim::supervise::kernel
