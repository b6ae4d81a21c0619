#pragma once

#include <sys/types.h>

#include <cerrno>
#include <cstdint>

#include "base/signals.h"
#include "supervise/signals.h"

/// The system calls for signals and processes that libc has not, or does otherwise: musl hides the
/// signals 32 to 34, and both libcs do additional work. A function returns what the kernel returns: 0 or
/// more, or −errno. All of them may be used in a child between vfork and exec.
namespace rankshim::supervise::kernel {

/// The same of a call by libc: 0 or more, or −errno.
inline int result(long value) { return value < 0 ? -errno : static_cast<int>(value); }

/// Replaces the mask of blocked signals; `before` may be null.
int set_signal_mask(SignalSet blocked, SignalSet* before);

/// Whether the signal's disposition is "ignored": 1 or 0.
int is_ignored(int signal);

/// Sets the disposition to "ignored" or the default; this program has no handlers.
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
int pidfd_send(int pidfd, const Signal& signal);

/// Reaps one ended child. Returns its number, 0 if none has ended, −ECHILD if there is none. With
/// `stopped_too` it also reports each stop of a child once, without reaping it (WIFSTOPPED). A child that
/// made this process its tracer (PTRACE_TRACEME, as programs do that prevent debugging) and stopped for that
/// is continued with its signal, and `let_go` is set: no other process would ever continue it.
pid_t reap(int& status, bool stopped_too, bool& let_go);

/// Whether there is any child, ended or not: 1 or 0.
int has_children();

/// Stops this process, as Ctrl-Z would, until SIGCONT. The kernel does not stop a process that nothing could
/// continue (in an orphaned group, or PID 1). Returns 1 if it was stopped and continued, 0 if it was not
/// stopped.
int stop_self();

/// Sets the limit on the size of core files to 1 byte. The kernel then writes no core, and pipes none to a
/// program either (core(5) names only 0 for that, but a pipe ignores 0). Sets it to 0 if 1 is not allowed.
int forbid_core(pid_t process);

/// From now on this process takes memory from this NUMA node, and from others if it is full
/// (MPOL_PREFERRED).
int prefer_memory(int node);

/// Gives the closed descriptors among 0 to 2 to files that cannot be read, written or polled, so that no file
/// of rankshim gets those numbers: a log line must not go to a socket that happens to be number 2. The
/// command starts with them closed, as rankshim did.
void reserve_standard_descriptors();

}  // namespace rankshim::supervise::kernel
