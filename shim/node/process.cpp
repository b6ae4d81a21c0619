#include "node/process.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <system_error>
#include <utility>
#include <variant>

#include "base/files.h"
#include "base/text.h"
#include "node/accelerators.h"

namespace rankshim::node {
namespace {

constexpr std::string_view nul("\0", 1);  // ends each entry of environ and cmdline

/// The folder below /proc/PID with the files of a thread that has not ended: "" for the main thread, whose
/// stat this is, and "task/TID/" for another. The kernel shows a process as a zombie as soon as its main
/// thread has ended (by pthread_exit(3), or by a KILL that another thread cannot take yet).
std::string living_thread(pid_t pid, std::string_view stat) {
  const auto has_ended = [](std::string_view state) { return state == "Z" || state == "X"; };
  if (!has_ended(stat_field(stat, 3)) || parse_number<unsigned>(stat_field(stat, 20)).value_or(1) < 2)
    return {};
  Folder threads(fmt::format("/proc/{}/task", pid).c_str());
  while (const char* name = threads.next()) {
    const std::string folder = fmt::format("task/{}/", name);
    const std::string line = read_proc(pid, folder + "stat").value_or("");
    if (!line.empty() && !has_ended(stat_field(line, 3))) return folder;
  }
  return {};
}

}  // namespace

bool is_dying(pid_t pid) {
  constexpr unsigned exiting = 4;  // PF_EXITING of linux:include/linux/sched.h
  const std::string thread = living_thread(pid, read_proc(pid, "stat").value_or(""));
  const auto flags = parse_number<unsigned>(stat_field(read_proc(pid, thread + "stat").value_or(""), 9));
  if (!flags || (*flags & exiting) != 0) return true;
  constexpr std::uint64_t kill = std::uint64_t{1} << (SIGKILL - 1U);
  const std::string status = read_proc(pid, thread + "status").value_or("");
  return std::ranges::any_of(std::array{"SigPnd:\t", "ShdPnd:\t"}, [&](const char* field) {
    const std::string pending(text_after(status, field));
    return (std::strtoull(pending.c_str(), nullptr, 16) & kill) != 0;
  });
}

std::vector<pid_t> running_processes() {
  std::vector<pid_t> running;
  for (const Process& process : all_processes().value_or(std::vector<Process>{}))
    if (process.alive() && !is_dying(process.pid)) running.push_back(process.pid);
  return running;
}

std::optional<std::vector<Process>> all_processes() {
  std::error_code unknown;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self", unknown);
  if (self != std::to_string(getpid())) return std::nullopt;  // it shows the pids of another PID namespace
  Folder proc("/proc");
  if (!proc) return std::nullopt;
  std::vector<Process> processes;
  while (const char* name = proc.next()) {
    const auto pid = parse_number<pid_t>(name);
    if (!pid) continue;
    if (const std::optional<Process> process = read_process(*pid)) processes.push_back(*process);
  }
  // The kernel lists them in this order (fs/proc/base.c, next_tgid), but does not promise it.
  std::ranges::sort(processes, {}, &Process::pid);
  return processes;
}

std::string_view stat_field(std::string_view line, unsigned number) {
  constexpr unsigned first = 3;
  const auto name_end = line.rfind(") ");
  if (name_end == std::string_view::npos || line.find(" (") == std::string_view::npos) return {};
  std::string_view rest = line.substr(name_end + 2);
  for (unsigned before = first; before < number; ++before) next_word(rest);
  return next_word(rest);
}

std::optional<Process> parse_stat(std::string_view line) {
  const auto pid = parse_number<pid_t>(line.substr(0, line.find(" (")));
  const auto parent = parse_number<pid_t>(stat_field(line, 4)),
             group = parse_number<pid_t>(stat_field(line, 5));
  const auto start = parse_number<std::uint64_t>(stat_field(line, 22));
  if (!pid || !parent || !group || !start) return std::nullopt;
  return Process{
      .pid = *pid, .parent = *parent, .group = *group, .state = stat_field(line, 3)[0], .start = *start};
}

std::optional<Process> read_process(pid_t pid) {
  const std::optional<std::string> line = read_proc(pid, "stat");
  std::optional<Process> process = line ? parse_stat(*line) : std::nullopt;
  if (!process || process->alive()) return process;
  const std::string thread = living_thread(pid, *line);
  const auto other = thread.empty() ? std::nullopt : read_proc(pid, thread + "stat");
  if (const auto parsed = other ? parse_stat(*other) : std::nullopt) process->state = parsed->state;
  return process;
}

bool is_alive(pid_t pid) {
  const std::optional<Process> process = read_process(pid);
  return process && process->alive();
}

std::optional<Process> read_again(const Process& process) {
  const std::optional<Process> now = read_process(process.pid);
  return now && now->is(process) ? now : std::nullopt;
}

std::optional<std::vector<Process>> descendants(pid_t ancestor, const std::vector<Process>& except) {
  std::optional<std::vector<Process>> all = all_processes();
  if (!all) return std::nullopt;
  const auto excepted = [&](const Process& process) {
    return std::ranges::any_of(except, [&](const Process& other) { return other.is(process); });
  };
  const auto descends = [&](const Process& process) {
    const Process* at = &process;
    // Bounded, because parents change while /proc is being read and could seem to form a circle.
    for (std::size_t step = 0; step <= all->size() && !excepted(*at); ++step) {
      if (at->parent == ancestor) return true;
      const auto parent = std::ranges::lower_bound(*all, at->parent, {}, &Process::pid);
      if (parent == all->end() || parent->pid != at->parent) return false;
      at = &*parent;
    }
    return false;
  };
  std::vector<Process> found;
  std::ranges::copy_if(*all, std::back_inserter(found), descends);
  return found;
}

std::optional<std::string> read_proc(pid_t pid, std::string_view file) {
  // Reading a process's memory takes a lock that a process stuck in the kernel (on a dead file server) holds.
  if (file == "environ" || file == "cmdline" || file == "maps") {
    const std::optional<Process> process = read_process(pid);
    if (process && process->state == 'D') {
      errno = EBUSY;
      return std::nullopt;
    }
  }
  // Enough for the table of a network with many connections. Arguments and environment have at most 2 MiB, a
  // quarter of the stack.
  constexpr std::size_t most = std::size_t{16} << 20U;
  auto read = read_file(fmt::format("/proc/{}/{}", pid, file), most);
  if (auto* content = std::get_if<std::string>(&read)) return std::move(*content);
  errno = std::get<Unreadable>(read).error;
  return std::nullopt;
}

std::string_view value_in(std::string_view environment, std::string_view name) {
  return text_after(environment, std::string(name) + "=", nul);
}

std::vector<std::string> read_command_line(pid_t pid) {
  const std::string text = read_proc(pid, "cmdline").value_or("");
  std::vector<std::string> words;
  for (std::string_view rest = text; !rest.empty();) words.emplace_back(split_next(rest, nul));
  return words;
}

std::string find_open_file(pid_t pid, const std::function<bool(const std::string& file)>& wanted) {
  const std::string files = fmt::format("/proc/{}/fd", pid);
  Folder folder(files.c_str());
  while (const char* descriptor = folder.next()) {
    std::error_code unknown;
    std::string file = std::filesystem::read_symlink(files + "/" + descriptor, unknown);
    if (wanted(file)) return file;
  }
  return {};
}

std::vector<std::string> holders_of_accelerators(bool in_own_cgroup) {
  const pid_t own = getpid();
  const auto cgroup = read_proc(own, "cgroup");
  std::vector<std::string> holders;
  for (const Process& process : all_processes().value_or(std::vector<Process>{})) {
    if (process.pid == own) continue;
    if (in_own_cgroup && read_proc(process.pid, "cgroup") != cgroup) continue;
    const std::string file = find_open_file(process.pid, is_accelerator_file);
    if (file.empty()) continue;
    const std::string name = read_proc(process.pid, "comm").value_or("?");
    holders.push_back(fmt::format("{}: {} (pid {})", file, trimmed(name), process.pid));
  }
  return holders;
}

bool is_shell(std::string_view name) {
  constexpr std::array<std::string_view, 8> shells = {"sh",  "bash", "dash", "ash",
                                                      "zsh", "ksh",  "mksh", "busybox"};
  return contains(shells, name);
}

std::optional<int> zombie_status(pid_t pid) {
  const std::string line = read_proc(pid, "stat").value_or("");
  if (stat_field(line, 3) != "Z" || !living_thread(pid, line).empty()) return std::nullopt;
  const auto status = parse_number<int>(stat_field(line, 52));
  if (status != 0) return status;
  struct stat owner{};
  const std::string folder = "/proc/" + std::to_string(pid);
  if (stat(folder.c_str(), &owner) != 0 || owner.st_uid != geteuid()) return std::nullopt;
  return status;
}

}  // namespace rankshim::node
