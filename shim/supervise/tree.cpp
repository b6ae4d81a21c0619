#include "supervise/tree.h"

#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <ctime>
#include <string>
#include <string_view>

#include "base/text.h"

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

}  // namespace

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

}  // namespace rankshim::supervise
