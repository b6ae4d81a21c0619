#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// The one reader of /proc/PID. If that is missing or another PID namespace's, nothing is known.
namespace rankshim::node {

struct Process {
  pid_t pid = 0;
  pid_t parent = 0;
  pid_t group = 0;
  /// proc(5): R S D Z T …; if its main thread has ended and others have not, that of one of these.
  char state = '?';
  std::uint64_t start = 0;  ///< in clock ticks since boot; together with pid it identifies a process uniquely
  [[nodiscard]] bool is(const Process& other) const { return pid == other.pid && start == other.start; }
  [[nodiscard]] bool alive() const { return state != 'Z' && state != 'X'; }
};

/// A field from STATE on of /proc/PID/stat's one line, "PID (NAME) STATE PPID …", numbered as in proc(5),
/// whatever characters NAME has; empty if there is none.
std::string_view stat_field(std::string_view line, unsigned number);

/// Reads that line.
std::optional<Process> parse_stat(std::string_view line);

/// The process as /proc shows it now; nullopt as for read_proc.
std::optional<Process> read_process(pid_t pid);

/// Whether /proc shows that the process exists and is not a zombie.
bool is_alive(pid_t pid);

/// The same process as /proc shows it now; nullopt if it is gone, whoever has its number.
std::optional<Process> read_again(const Process& process);

/// All processes, sorted by number; nullopt if /proc does not show them by the numbers of this PID namespace.
std::optional<std::vector<Process>> all_processes();

/// All descendants of `ancestor`, sorted by number, without `ancestor` itself, without `except` and without
/// the descendants of those; nullopt if /proc does not show them.
std::optional<std::vector<Process>> descendants(pid_t ancestor, const std::vector<Process>& except = {});

/// Whether the process has begun to end, or will because of a KILL that it has not taken yet; so it is where
/// /proc does not show it.
bool is_dying(pid_t pid);

/// The processes that run and on which no KILL is on its way, sorted by number; none if /proc does not show
/// them.
std::vector<pid_t> running_processes();

/// A file of /proc/PID; nullopt if it cannot be read, and errno has the reason. For files in the process's
/// memory (environ, cmdline, maps) that is EBUSY while the process waits in the kernel without accepting
/// signals (state D): reading them could block for ever.
std::optional<std::string> read_proc(pid_t pid, std::string_view file);

/// The value of a variable in a process's "environ"; empty if it is not set.
std::string_view value_in(std::string_view environment, std::string_view name);

/// The words of the command line that the process was started with; none as for read_proc.
std::vector<std::string> read_command_line(pid_t pid);

/// What one of the process's open descriptors leads to that is `wanted`, as /proc/PID/fd names it; empty if
/// there is none, or if it is another user's process.
std::string find_open_file(pid_t pid, const std::function<bool(const std::string& file)>& wanted);

/// The processes without this one, all or those of its cgroup, that have an accelerator's file open, each as
/// "/dev/nvidia0: python3 (pid 17)"; as far as /proc shows them.
std::vector<std::string> holders_of_accelerators(bool in_own_cgroup);

/// Whether a program of that name, without its folder, is a shell.
bool is_shell(std::string_view name);

/// The wait status of a zombie. The kernel shows 0 to a reader that may not trace the process (proc(5)), so a
/// zero counts only if the process has the same user.
std::optional<int> zombie_status(pid_t pid);

}  // namespace rankshim::node
