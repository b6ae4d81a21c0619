#pragma once

#include <sys/types.h>

#include <cerrno>
#include <csignal>
#include <cstdint>

#include "base/signals.h"

namespace rankshim::supervise {

/// A signal that was received, or that is to be sent.
struct Signal {
  int number = 0;
  int code = 0;             ///< si_code
  std::int64_t sender = 0;  ///< pid; 0 if it is outside this PID namespace or the kernel
  std::uint32_t user = 0;   ///< the sender's uid
  std::uint64_t value = 0;  ///< si_value of a queued signal

  /// Whether it is sent with a sender and a value, by sigqueue(3) or a similar call.
  [[nodiscard]] bool is_queued() const { return code < 0 && code != SI_TKILL; }
};

}  // namespace rankshim::supervise

/// The system calls for signals and processes that libc has not, or does otherwise: musl hides the signals 32
/// to 34 from its functions, so sets are plain 64 bits here, and both libcs do additional work. They return
/// what the kernel returns: 0 or more, or −errno. All may be used in a child between vfork and exec.
namespace rankshim::supervise::kernel {

/// The same of a call by libc: 0 or more, or −errno.
inline int result(long value) { return value < 0 ? -errno : static_cast<int>(value); }

/// Replaces the mask of blocked signals; `before` may be null.
int set_signal_mask(SignalSet blocked, SignalSet* before);

/// Whether the signal's disposition is "ignored": 1 or 0.
int is_ignored(int signal);

/// Sets the disposition to "ignored" or the default; returns as is_ignored() what it was before.
int set_ignored(int signal, bool ignored);

/// A close-on-exec, non-blocking signalfd for these signals, or the existing descriptor with another set.
int signal_descriptor(int existing, SignalSet signals);

/// kill(2): 0 and negative numbers mean groups, and −1 means every process.
int send(pid_t target, int signal);

/// To one process: kill(2), or sigqueue(3) for a queued signal.
int send(pid_t process, const Signal& signal);

/// Sends a queued signal to each member of the group whose leader is this child, which may have ended.
/// −ENOSYS before Linux 6.9.
int queue_to_group(pid_t leader, const Signal& signal);

int pidfd_open(pid_t process);
/// `flags` as in pidfd_send_signal(2).
int pidfd_send(int pidfd, const Signal& signal, unsigned flags = 0);

/// Detaches from a stopped child that made this process its tracer (PTRACE_TRACEME, to prevent debugging);
/// returns whether it had. The child continues with the signal that stopped it: nobody else would do that.
bool detach(pid_t process, int signal);

/// Sets the limit on the size of core files to 1 byte. The kernel then writes no core, and pipes none to a
/// program either (core(5) names only 0 for that, but a pipe ignores 0). Sets it to 0 if 1 is not allowed.
int forbid_core(pid_t process);

/// Gives the closed descriptors among 0 to 2 to files that cannot be read, written or polled, so that no file
/// of rankshim gets those numbers: a log line must not go to a socket that happens to be number 2. The
/// command starts with them closed, as rankshim did.
void reserve_standard_descriptors();

}  // namespace rankshim::supervise::kernel
