#include "supervise/tree.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <ctime>
#include <iterator>
#include <string>
#include <string_view>

#include "base/files.h"
#include "base/text.h"
#include "supervise/kernel.h"

namespace rankshim::supervise {
namespace {

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

/// By the name that it was called by, which for a script is its interpreter's.
bool runs_shell(pid_t pid) {
  const std::vector<std::string> words = read_command_line(pid);
  if (words.empty()) return false;
  std::string_view name = base_name(words.front());
  if (name.starts_with('-')) name.remove_prefix(1);  // a login shell
  return is_shell(name);
}

/// Whether the signal goes on to this child though its parent takes it.
bool goes_on(const Process& parent, const SignalMasks& masks, const Process& child, bool by_shell,
             int signal) {
  if (child.group != parent.group) return false;
  const std::optional<SignalMasks> childs = signal_masks(child.pid);
  if (!childs) return false;
  if (by_shell) {  // what a shell starts in the background ignores both
    constexpr SignalSet both = bit(SIGINT) | bit(SIGQUIT);
    return (childs->ignored & both) != both || (masks.ignored & both) == both;
  }
  return (masks.ignored & bit(signal)) != 0 && (childs->ignored & bit(signal)) == 0;
}

std::vector<Process> next_after(const Process& process, const std::vector<Process>& all, int signal) {
  std::vector<Process> next;
  std::ranges::copy_if(all, std::back_inserter(next),
                       [&](const Process& other) { return other.parent == process.pid; });
  // Read after the signal was sent: whoever handles it by now has got it in its handler, and whoever does not
  // is already ending.
  const std::optional<SignalMasks> masks = signal_masks(process.pid);
  if (next.empty() || !masks || !masks->take(signal)) return next;
  const bool by_shell = runs_shell(process.pid);
  if (!by_shell && signal != SIGINT && signal != SIGQUIT) return {};
  std::erase_if(next,
                [&](const Process& child) { return !goes_on(process, *masks, child, by_shell, signal); });
  return next;
}

}  // namespace

int send_to(const Process& process, const Signal& signal) {
  const int opened = kernel::pidfd_open(process.pid);
  if (opened == -ESRCH) return -ESRCH;
  const Descriptor descriptor(opened);
  // The descriptor is opened first and the process compared then: if it is still the same, so is the
  // descriptor's.
  std::optional<Process> now = read_process(process.pid);
  if (!now && errno != ENOENT && errno != ESRCH) now = read_process(process.pid);
  if (!now || !now->is(process)) return -ESRCH;
  const int sent = opened >= 0 ? kernel::pidfd_send(opened, signal) : -ENOSYS;
  // If there is no pidfd (old kernels, seccomp), the comparison just made has to do.
  const bool no_pidfd = sent == -ENOSYS || sent == -EPERM || sent == -EINVAL;
  return no_pidfd ? kernel::send(process.pid, signal) : sent;
}

int send_each(const std::vector<Process>& processes, const Signal& signal) {
  int refused = 0;
  for (const Process& process : processes) {
    if (!process.alive()) continue;
    const int sent = send_to(process, signal);
    if (sent < 0 && sent != -ESRCH && refused == 0) refused = sent;
  }
  return refused;
}

std::optional<SignalMasks> signal_masks(pid_t pid) {
  const std::string status = read_proc(pid, "status").value_or("");
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

bool StopWalk::is_possible() { return signal_masks(getpid()).has_value(); }

int StopWalk::pass(const std::vector<Process>& all, const std::vector<Process>& roots, const Signal& signal) {
  int refused = -ESRCH;
  bool reached = false;
  std::vector<Process> next = roots;
  for (std::size_t at = 0; at < next.size(); ++at) {  // it grows
    const Process process = next[at];
    const bool again = std::ranges::any_of(reached_, [&](const Reached& earlier) {
      return earlier.signal == signal.number && earlier.process.is(process);
    });
    const int sent = again ? 0 : send_to(process, signal);
    if (at < roots.size()) {
      reached = reached || sent >= 0;
      if (sent < 0 && sent != -ESRCH) refused = sent;
    }
    if (sent < 0 && sent != -ESRCH) continue;
    if (!again) reached_.push_back({process, signal.number});
    std::ranges::copy(next_after(process, all, signal.number), std::back_inserter(next));
  }
  return reached ? 0 : refused;
}

void StopWalk::forget(int signal) {
  std::erase_if(reached_, [signal](const Reached& earlier) { return earlier.signal == signal; });
}

bool StopWalk::has_reached(const Process& process) const {
  return std::ranges::any_of(reached_, [&](const Reached& earlier) { return earlier.process.is(process); });
}

}  // namespace rankshim::supervise
