#include "supervise/tree.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <ctime>

#include "base/files.h"
#include "base/signals.h"
#include "base/text.h"

namespace rankshim::supervise {
namespace {

constexpr std::size_t longest_stat = 1024;

template <class Number>
bool parse(std::string_view text, Number& number) {
  const auto parsed = parse_number<Number>(text);
  number = parsed.value_or(number);
  return parsed.has_value();
}

/// Whether the file is in the process's memory: reading it waits for a lock that a process which hangs in the
/// kernel holds (because of a dead file server or a driver).
bool reads_memory(std::string_view file) { return file == "environ" || file == "cmdline"; }

/// Whether /proc shows the numbers of this PID namespace.
bool proc_is_ours() {
  std::array<char, 16> target{};
  const ssize_t length = readlink("/proc/self", target.data(), target.size());
  return length > 0 && parse_number<pid_t>({target.data(), static_cast<std::size_t>(length)}) == getpid();
}

std::optional<std::vector<Process>> all_processes() {
  if (!proc_is_ours()) return std::nullopt;
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

constexpr std::uint64_t startup_seconds = 60;
constexpr std::uint64_t ticks_per_second = 100;  // USER_HZ, the same on x86 and Arm

std::uint64_t age_in_seconds(const Process& process) {
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  const std::uint64_t born = process.start / ticks_per_second;
  const auto seconds = static_cast<std::uint64_t>(now.tv_sec);
  return seconds > born ? seconds - born : 0;
}

/// The set of signals in a line of /proc/PID/status.
std::optional<SignalSet> signals_in(std::string_view status, std::string_view field) {
  const auto at = status.find(field);
  if (at == std::string_view::npos) return std::nullopt;
  std::string_view rest = status.substr(at + field.size());
  constexpr int hexadecimal = 16;
  return take_number<SignalSet>(rest, hexadecimal);
}

}  // namespace

std::optional<Process> parse_stat(std::string_view line) {
  // "PID (NAME) STATE PPID PGRP …": the name may contain blanks and parentheses; the start time is field 22.
  constexpr int parent_field = 4;
  constexpr int group_field = 5;
  constexpr int start_field = 22;
  const std::size_t open = line.find(" (");
  const std::size_t close = line.rfind(") ");
  if (open == std::string_view::npos || close == std::string_view::npos || close + 2 >= line.size())
    return std::nullopt;
  Process process;
  process.state = line[close + 2];
  bool good = parse(line.substr(0, open), process.pid);
  std::string_view rest = line.substr(close + 3);
  for (int field = parent_field; good && field <= start_field; ++field) {
    if (!rest.starts_with(' ')) return std::nullopt;
    rest.remove_prefix(1);
    const std::string_view value = rest.substr(0, rest.find_first_of(" \n"));
    rest.remove_prefix(value.size());
    if (field == parent_field) good = parse(value, process.parent);
    if (field == group_field) good = parse(value, process.group);
    if (field == start_field) good = parse(value, process.start);
  }
  return good ? std::optional(process) : std::nullopt;
}

std::optional<std::vector<Process>> descendants(pid_t ancestor, const std::vector<Process>& except) {
  std::optional<std::vector<Process>> all = all_processes();
  if (!all) return std::nullopt;
  const auto excepted = [&](const Process& process) {
    return std::ranges::any_of(except, [&](const Process& other) {
      return other.pid == process.pid && other.start == process.start;
    });
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

int send_to(const Process& process, int signal, const kernel::Payload* payload) {
  const int descriptor = kernel::pidfd_open(process.pid);
  if (descriptor == -ESRCH) return -ESRCH;
  // The descriptor is opened first and the process compared then: if it is still the same, so is the
  // descriptor's.
  std::optional<Process> now = read_process(process.pid);
  if (!now && errno != ENOENT && errno != ESRCH) now = read_process(process.pid);
  int sent = -ESRCH;
  if (now && now->start == process.start) {
    sent = descriptor >= 0 ? kernel::pidfd_send(descriptor, signal, payload) : -ENOSYS;
    if (sent == -ENOSYS || sent == -EPERM || sent == -EINVAL) {
      // There is no pidfd (old kernels, seccomp): the comparison just made has to do.
      sent = payload == nullptr ? kernel::send(process.pid, signal)
                                : kernel::queue(process.pid, signal, *payload);
    }
  }
  if (descriptor >= 0) close(descriptor);
  return sent;
}

int send_each(const std::vector<Process>& processes, int signal, const kernel::Payload* payload) {
  int refused = 0;
  for (const Process& process : processes) {
    if (!process.alive()) continue;
    const int sent = send_to(process, signal, payload);
    if (sent < 0 && sent != -ESRCH && refused == 0) refused = sent;
  }
  return refused;
}

std::optional<SignalMasks> signal_masks(pid_t pid) {
  constexpr std::size_t longest_status = 8192;
  const std::string status = read_proc(pid, "status", longest_status).value_or("");
  const auto caught = signals_in(status, "\nSigCgt:\t");
  const auto ignored = signals_in(status, "\nSigIgn:\t");
  const auto blocked = signals_in(status, "\nSigBlk:\t");
  if (!caught || !ignored || !blocked) return std::nullopt;
  return SignalMasks{.caught = *caught, .ignored = *ignored, .blocked = *blocked};
}

bool can_take(const Process& worker, int signal) {
  if (age_in_seconds(worker) >= startup_seconds) return true;
  const std::optional<SignalMasks> masks = signal_masks(worker.pid);
  return masks && masks->take(signal);
}

std::optional<std::string> read_proc(pid_t pid, const char* file, std::size_t limit) {
  if (reads_memory(file)) {
    const std::optional<Process> process = read_process(pid);
    if (process && process->state == 'D') {
      errno = EBUSY;
      return std::nullopt;
    }
  }
  std::array<char, 64> path{};
  std::snprintf(path.data(), path.size(), "/proc/%d/%s", pid, file);
  const int descriptor = open(path.data(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return std::nullopt;
  std::string content;
  ssize_t got = 0;
  do {
    const std::size_t before = content.size();
    content.resize(std::min(limit, before + std::max<std::size_t>(before, longest_stat)));
    got = read(descriptor, content.data() + before, content.size() - before);
    content.resize(before + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  } while (got > 0 && content.size() < limit);
  const int error = errno;
  close(descriptor);
  errno = error;
  return got < 0 ? std::nullopt : std::optional(content);
}

std::optional<Process> read_process(pid_t pid) {
  const std::optional<std::string> line = read_proc(pid, "stat", longest_stat);
  return line ? parse_stat(*line) : std::nullopt;
}

std::optional<std::string> read_environment(pid_t pid) {
  // The kernel's limit on arguments and environment together is a quarter of the stack's, 2 MiB unless
  // raised.
  constexpr std::size_t longest = std::size_t{8} << 20U;
  return read_proc(pid, "environ", longest);
}

std::optional<int> zombie_status(pid_t pid) {
  const std::optional<std::string> stat_line = read_proc(pid, "stat", 1024);
  if (!stat_line) return std::nullopt;
  const auto name_end = stat_line->rfind(')');  // the name may contain blanks and parentheses
  if (name_end == std::string::npos || name_end + 2 >= stat_line->size() ||
      (*stat_line)[name_end + 2] != 'Z') {
    return std::nullopt;
  }
  constexpr unsigned fields_after_name = 50;  // field 3 is the state, field 52 the exit code
  std::size_t at = name_end + 1;
  for (unsigned field = 1; field < fields_after_name; ++field) {
    at = stat_line->find(' ', at + 1);
    if (at == std::string::npos) return std::nullopt;
  }
  std::string_view rest = std::string_view(*stat_line).substr(at + 1);
  const auto status = take_number<int>(rest);
  if (!status || *status != 0) return status;
  struct stat owner{};
  const std::string folder = "/proc/" + std::to_string(pid);
  if (::stat(folder.c_str(), &owner) != 0 || owner.st_uid != geteuid()) return std::nullopt;
  return status;
}

}  // namespace rankshim::supervise
