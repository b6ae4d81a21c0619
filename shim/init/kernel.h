#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>

/// The system calls for signals, processes and terminals, one small function each. A function returns what
/// the kernel returns: 0 or more, or −errno. The calls are raw where libc interferes: musl hides the signals
/// 32 to 34, and both libcs do additional work. All of them may be used in a child between vfork and exec.
namespace rankshim::supervise::kernel {

/// Bit N−1 is signal N, all 64 of them.
using SignalSet = std::uint64_t;

/// Replaces the mask of blocked signals; `before` may be null.
int set_signal_mask(SignalSet blocked, SignalSet* before);

/// Whether the signal's disposition is "ignored": 1 or 0.
int is_ignored(int signal);

/// "Ignored" or the default; there are no handlers in this program.
int set_ignored(int signal, bool ignored);

/// A close-on-exec, non-blocking signalfd for these signals, or the same descriptor with another set.
int signal_descriptor(int existing, SignalSet signals);

/// Ends this process at once, also one that shares its memory with its parent.
[[noreturn]] void exit_now(int code);

/// kill(2): 0 and negative numbers mean groups and, for −1, everything.
int send(pid_t target, int signal);

/// What a queued signal carries to its receiver (sigqueue(3)).
struct Payload {
  int code = 0;  ///< si_code, negative: the kernel lets nobody pretend to be the kernel
  pid_t sender = 0;
  uid_t user = 0;
  std::uint64_t value = 0;
};
int queue(pid_t process, int signal, const Payload& payload);

/// The next of these blocked signals, taken from the kernel; −EAGAIN when none came in that time. `payload`
/// may be null.
int take_signal(SignalSet signals, std::chrono::milliseconds time, Payload* payload);

/// To each member of the group whose leader is this child of ours, ended or not. −ENOSYS before Linux 6.9.
int queue_to_group(pid_t leader, int signal, const Payload& payload);

int pidfd_open(pid_t process);
int pidfd_send(int pidfd, int signal, const Payload* payload);

/// Reaps one ended child: its number, 0 when none has ended, −ECHILD when there is none at all. With
/// `stopped_too` a child that was stopped is told of as well, once, and is not reaped (WIFSTOPPED). A child
/// that made us its tracer (PTRACE_TRACEME, as programs do that will not be debugged) and stopped for that is
/// let go, with its signal, and `let_go` is set: nobody else would ever continue it. By wait4(2), and where
/// that is refused by waitid(2).
pid_t reap(int& status, bool stopped_too, bool& let_go);

/// Whether there is any child, ended or not: 1 or 0.
int has_children();

int set_process_group(pid_t process, pid_t group);
int become_subreaper();

/// From now on no execve(2) of this process or its descendants gives privileges (PR_SET_NO_NEW_PRIVS).
int forbid_new_privileges();

/// A session of its own for this process, which must not lead a group; and `terminal` as its controlling
/// terminal.
int start_session();
int take_controlling_terminal(int terminal);
/// As the session's leader, gives up its controlling terminal. The kernel then sends HUP and CONT to its
/// foreground group.
int leave_controlling_terminal(int terminal);

/// What this process gets when its parent ends; 0: nothing. Of a child only from its exec on if that changes
/// no rights.
int set_parent_death_signal(int signal);

/// Stops this process as Ctrl-Z would, until SIGCONT. Where nobody could continue it (an orphaned group, PID
/// 1) the kernel does not stop it. 1: it was stopped and continued; 0: it was not stopped.
int stop_self();

/// The limit on the size of core files: 1 byte, which the kernel takes for "no core at all", also where a
/// program reads them (core(5) calls only 0 that, but a pipe ignores 0); 0 where 1 is not allowed.
int forbid_core(pid_t process);

/// The terminal's foreground process group; −ENOTTY and the like where it is not our controlling terminal.
pid_t foreground_group(int terminal);
int set_foreground_group(int terminal, pid_t group);

/// A close-on-exec, non-blocking pipe.
int make_pipe(int (&ends)[2]);

/// Gives the numbers 0 to 2, where they are closed, to descriptors that cannot be read, written or polled, so
/// that nothing of ours gets them: a log line must not go to a socket that happens to be number 2. The
/// command finds them closed, as they came.
void reserve_standard_descriptors();

}  // namespace rankshim::supervise::kernel
