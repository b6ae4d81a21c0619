#pragma once

#include <sys/types.h>

#include <cerrno>
#include <csignal>
#include <cstdint>

#include "base/signals.h"

namespace rankshim::supervise {

/// A signal that was received or will be sent.
struct Signal {
  int number = 0;
  int code = 0;             ///< si_code
  std::int64_t sender = 0;  ///< pid; 0 for the kernel, or a process outside this PID namespace
  std::uint32_t user = 0;   ///< the sender's uid
  std::uint64_t value = 0;  ///< si_value of a queued signal

  /// Whether the signal carries a sender and a value, from sigqueue(3) or a similar call.
  [[nodiscard]] bool is_queued() const { return code < 0 && code != SI_TKILL; }
};

}  // namespace rankshim::supervise

/// System calls for signals and processes that libc lacks or wraps differently: musl hides the signals 32 to
/// 34 from its functions, so sets are plain 64-bit masks here, and both libcs do additional work. They return
/// what the kernel returns: 0 or more, or −errno. All may be used in a child between vfork and exec.
namespace rankshim::supervise::kernel {

/// Converts the result of a libc call to that form: 0 or more, or −errno.
inline int result(long value) { return value < 0 ? -errno : static_cast<int>(value); }

/// Replaces the mask of blocked signals; `before` may be null.
int set_signal_mask(SignalSet blocked, SignalSet* before);

/// Returns 1 if the signal's disposition is "ignored", else 0.
int is_ignored(int signal);

/// Sets the disposition to "ignored" or the default; returns what is_ignored() was before.
int set_ignored(int signal, bool ignored);

/// Creates a close-on-exec, non-blocking signalfd for these signals, or changes the set of an existing one.
int signal_descriptor(int existing, SignalSet signals);

/// kill(2): 0 and negative numbers mean groups, and −1 means every process.
int send(pid_t target, int signal);

/// Sends to one process: kill(2), or sigqueue(3) for a queued signal.
int send(pid_t process, const Signal& signal);

/// Sends a queued signal to each member of the group that this child leads or, if it has ended, led. Returns
/// −ENOSYS before Linux 6.9.
int queue_to_group(pid_t leader, const Signal& signal);

int pidfd_open(pid_t process);
/// `flags` as in pidfd_send_signal(2).
int pidfd_send(int pidfd, const Signal& signal, unsigned flags = 0);

/// Detaches from a stopped child that made this process its tracer (PTRACE_TRACEME, to prevent debugging);
/// returns whether it had. The child continues with the signal that stopped it, which nobody else would see
/// to.
bool detach(pid_t process, int signal);

/// Limits the size of core files to 1 byte. The kernel then neither writes a core file nor pipes one to a
/// program (core(5) mentions only 0, but pipes ignore 0). Sets the limit to 0 if 1 is not allowed.
int forbid_core(pid_t process);

/// Occupies the closed descriptors among 0 to 2 with files that cannot be read, written or polled, so that no
/// file of rankshim gets those numbers: a log line must not go to a socket that happens to be number 2. The
/// command starts with them closed, as rankshim did.
void reserve_standard_descriptors();

}  // namespace rankshim::supervise::kernel
