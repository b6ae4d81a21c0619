#include "supervise/kernel.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
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

/// Sets the disposition unless `action` is null; returns 1 if it was "ignored" before, else 0.
int exchange_action(int signal, const Action* action) {
  Action before;
  const int done = result(syscall(SYS_rt_sigaction, signal, action, &before, sizeof(SignalSet)));
  return done < 0 ? done : static_cast<int>(before.handler == SIG_IGN);
}

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

}  // namespace

int set_signal_mask(SignalSet blocked, SignalSet* before) {
  return result(syscall(SYS_rt_sigprocmask, SIG_SETMASK, &blocked, before, sizeof(SignalSet)));
}

int is_ignored(int signal) { return exchange_action(signal, nullptr); }

int set_ignored(int signal, bool ignored) {
  Action action;
  action.handler = ignored ? SIG_IGN : SIG_DFL;
  return exchange_action(signal, &action);
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
  const UniqueFd descriptor(pidfd_open(leader));
  if (descriptor.number() < 0) return -ENOSYS;
  const int sent = pidfd_send(descriptor.number(), signal, to_process_group);
  return sent == -EINVAL ? -ENOSYS : sent;
}

int pidfd_open(pid_t process) { return result(syscall(SYS_pidfd_open, process, 0)); }

int pidfd_send(int pidfd, const Signal& signal, unsigned flags) {
  const siginfo_t info = to_siginfo(signal);
  return result(
      syscall(SYS_pidfd_send_signal, pidfd, signal.number, signal.is_queued() ? &info : nullptr, flags));
}

bool detach(pid_t process, int signal) {
  siginfo_t info{};
  const bool known = ptrace(PTRACE_GETSIGINFO, process, nullptr, &info) == 0;
  // execve(2) sends a traced process a TRAP (ptrace(2)).
  const bool by_exec = signal == SIGTRAP && known && info.si_code == SI_USER && info.si_pid == process;
  // NOLINTNEXTLINE(performance-no-int-to-ptr): ptrace(2) takes the signal as a pointer
  return ptrace(PTRACE_DETACH, process, nullptr, reinterpret_cast<void*>(by_exec ? 0L : long{signal})) == 0;
}

int forbid_core(pid_t process) {
  rlimit limit{};
  if (prlimit(process, RLIMIT_CORE, nullptr, &limit) != 0) return -errno;
  limit.rlim_cur = limit.rlim_max == 0 ? 0 : 1;
  return result(prlimit(process, RLIMIT_CORE, &limit, nullptr));
}

void reserve_standard_descriptors() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(descriptor, F_GETFD) < 0) open("/", O_PATH | O_CLOEXEC);  // takes the lowest free number
}

}  // namespace rankshim::supervise::kernel
