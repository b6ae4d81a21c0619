#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// Reads /proc/PID; nothing else does. If /proc is missing or belongs to another PID namespace, nothing is
/// known.
namespace rankshim::node {

struct Process {
  pid_t pid = 0;
  pid_t parent = 0;
  pid_t group = 0;
  /// As in proc(5): R S D Z T …; if the main thread has ended and others have not, the state of one of those.
  char state = '?';
  std::uint64_t start = 0;  ///< in clock ticks since boot; with the pid it identifies a process uniquely
  [[nodiscard]] bool is(const Process& other) const { return pid == other.pid && start == other.start; }
  [[nodiscard]] bool alive() const { return state != 'Z' && state != 'X'; }
};

/// A field of the line in /proc/PID/stat, "PID (NAME) STATE PPID …", from STATE on, numbered as in proc(5);
/// NAME may contain any characters. Empty if there is no such field.
std::string_view stat_field(std::string_view line, unsigned number);

/// Parses that line.
std::optional<Process> parse_stat(std::string_view line);

/// The process as /proc shows it now; nullopt if it cannot be read.
std::optional<Process> read_process(pid_t pid);

/// Whether /proc shows that the process exists and is not a zombie.
bool is_alive(pid_t pid);

/// The same process as /proc shows it now; nullopt if it is gone, even if another one has its pid.
std::optional<Process> read_again(const Process& process);

/// All processes, sorted by pid; nullopt if /proc does not show them with the pids of this PID namespace.
std::optional<std::vector<Process>> all_processes();

/// All descendants of `ancestor`, sorted by pid, except `except` and their descendants; nullopt if /proc does
/// not show them. `ancestor` itself is not included.
std::optional<std::vector<Process>> descendants(pid_t ancestor, const std::vector<Process>& except = {});

/// Whether the process is exiting, or has a KILL pending. True if /proc does not show it.
bool is_dying(pid_t pid);

/// The processes that run and have no KILL pending, sorted by pid; empty if /proc does not show them.
std::vector<pid_t> running_processes();

/// Reads a file of /proc/PID; nullopt if it cannot be read, with the reason in errno. For files that show the
/// process's memory (environ, cmdline, maps) that is EBUSY while the process is in uninterruptible sleep
/// (state D), because reading them could block for ever.
std::optional<std::string> read_proc(pid_t pid, std::string_view file);

/// The value of a variable in the text of a process's "environ"; empty if it is not set.
std::string_view value_in(std::string_view environment, std::string_view name);

/// The words of the process's command line; empty if it cannot be read.
std::vector<std::string> read_command_line(pid_t pid);

/// The first of the process's open files that is `wanted`, as /proc/PID/fd names it; empty if there is none,
/// or the process belongs to another user.
std::string find_open_file(pid_t pid, const std::function<bool(const std::string& file)>& wanted);

/// The other processes that have an accelerator's file open, each as "/dev/nvidia0: python3 (pid 17)", as far
/// as /proc shows them: all of them, or only those in this process's cgroup.
std::vector<std::string> holders_of_accelerators(bool in_own_cgroup);

/// Whether a program of that name is a shell. `name` has no folder.
bool is_shell(std::string_view name);

/// The wait status of a zombie. The kernel shows 0 to a reader that may not trace the process (proc(5)), so a
/// zero counts only if the process belongs to the same user.
std::optional<int> zombie_status(pid_t pid);

}  // namespace rankshim::node
