#include "launchers/torchrun/meeting.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>

#include "base/duration.h"
#include "base/files.h"
#include "base/log.h"
#include "base/text.h"
#include "node/process.h"

namespace rankshim::torchrun {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds time_to_import{1000};  // if the time is over while it still imports

/// "0100007F:5FD8": the address in hexadecimal, and the port.
bool has_port(std::string_view address, std::uint16_t port) {
  const auto colon = address.rfind(':');
  return colon != std::string_view::npos && parse_number<unsigned>(address.substr(colon + 1), 16) == port;
}

bool holds_one_of(pid_t process, const std::vector<std::uint64_t>& sockets) {
  Folder descriptors(fmt::format("/proc/{}/fd", process).c_str());
  while (const char* descriptor = descriptors.next()) {
    std::array<char, 64> target{};
    const ssize_t length = readlinkat(descriptors.descriptor(), descriptor, target.data(), target.size());
    std::string_view name(target.data(), static_cast<std::size_t>(std::max<ssize_t>(length, 0)));
    if (!name.starts_with("socket:[") || !name.ends_with(']')) continue;
    name = name.substr(8, name.size() - 9);
    const auto socket = parse_number<std::uint64_t>(name);
    if (socket && std::ranges::find(sockets, *socket) != sockets.end()) return true;
  }
  return false;
}

}  // namespace

std::vector<std::uint64_t> sockets_at(std::string_view table, std::uint16_t port) {
  std::vector<std::uint64_t> sockets;
  while (!table.empty()) {
    std::string_view line = take_line(table);
    take_word(line);  // "0:"
    const std::string_view local = take_word(line);
    const std::string_view remote = take_word(line);
    const std::string_view state = take_word(line);
    constexpr std::string_view established = "01";  // include/net/tcp_states.h
    constexpr std::string_view listening = "0A";
    if (!(state == listening && has_port(local, port)) && !(state == established && has_port(remote, port)))
      continue;
    for (int column = 0; column < 5; ++column) take_word(line);  // queues, timer, retransmits, user, timeout
    if (const auto socket = parse_number<std::uint64_t>(take_word(line))) sockets.push_back(*socket);
  }
  return sockets;
}

bool is_in_rendezvous(pid_t agent, std::uint16_t port) {
  std::vector<std::uint64_t> sockets;
  for (const char* const table : {"net/tcp", "net/tcp6"}) {
    const std::vector<std::uint64_t> found = sockets_at(read_proc(agent, table).value_or(""), port);
    sockets.insert(sockets.end(), found.begin(), found.end());
  }
  if (sockets.empty()) return false;
  if (holds_one_of(agent, sockets)) return true;
  const std::optional<std::vector<Process>> below = descendants(agent);
  return below && std::ranges::any_of(
                      *below, [&](const Process& process) { return holds_one_of(process.pid, sockets); });
}

Meeting::Meeting(const MeetingPlan& plan, pid_t agent, Clock::time_point started)
    : plan_(plan),
      agent_(agent),
      started_(started),
      logged_at_(started),
      due_(started + std::min(plan.log_interval, plan.limit.value_or(plan.log_interval))) {}

bool Meeting::is_over(Clock::time_point now) {
  const bool meets = is_in_rendezvous(agent_, plan_.port);
  if (meets && plan_.limit && now >= started_ + *plan_.limit) return true;
  if (now >= logged_at_ + plan_.log_interval) {
    logged_at_ += plan_.log_interval;
    const std::string since = seconds(std::chrono::duration_cast<milliseconds>(logged_at_ - started_));
    if (meets) {
      log::info("waiting for the other nodes: torchrun has no worker yet, {} after its start{}", since,
                plan_.limit ? "; at most " + seconds(*plan_.limit) : std::string());
    } else {
      log::info("torchrun has not reached the master's port yet, {} after its start: it is still importing",
                since);
    }
  }
  due_ = logged_at_ + plan_.log_interval;
  if (plan_.limit && due_ > started_ + *plan_.limit)
    due_ = std::max(started_ + *plan_.limit, now + time_to_import);
  return false;
}

}  // namespace rankshim::torchrun
