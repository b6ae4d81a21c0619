#include "launchers/torchrun/launcher_in_proc.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <iterator>

#include "base/files.h"
#include "base/text.h"

namespace rankshim::torchrun {
namespace {

// For a host's network with all its connections.
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
    if (take_part(name, "[") != "socket:") continue;
    const auto socket = take_number<std::uint64_t>(name);
    if (socket && std::ranges::find(sockets, *socket) != sockets.end()) return true;
  }
  return false;
}

}  // namespace

std::optional<unsigned> Candidate::number(std::string_view name) const {
  return first_number<unsigned>(value_in(environment, name));
}

Candidate look_at(const Process& process) {
  if (!process.alive()) return {};
  std::optional<std::string> environment = read_proc(process.pid, "environ");
  // A process that has ended meanwhile is no worker: a launcher starts short-lived helpers first.
  if (!environment) return {errno == ENOENT || errno == ESRCH ? Presence::none : Presence::hidden, {}};
  const Presence presence = environment->empty()                           ? Presence::perhaps
                            : value_in(*environment, "LOCAL_RANK").empty() ? Presence::none
                                                                           : Presence::some;
  return {presence, std::move(*environment)};
}

bool has_local_rank(const std::vector<std::string>& environment) {
  return std::ranges::any_of(environment, [](const auto& entry) { return entry.starts_with("LOCAL_RANK="); });
}

Presence find_worker(pid_t launcher, const std::vector<std::string>& environment) {
  const std::optional<std::vector<Process>> below = descendants(launcher);
  if (!below) return Presence::some;
  const bool any_counts = has_local_rank(environment);
  Presence found = Presence::none;
  for (const Process& process : *below) {
    if (any_counts && process.alive()) return Presence::some;
    found = std::max(found, look_at(process).presence);
  }
  return found == Presence::hidden ? Presence::some : found;
}

std::vector<Process> workers_of(pid_t launcher, const std::vector<std::string>& environment) {
  std::vector<Process> found = descendants(launcher).value_or(std::vector<Process>{});
  const bool children_count = has_local_rank(environment);
  std::erase_if(found, [&](const Process& process) {
    return children_count ? !process.alive() || process.parent != launcher
                          : look_at(process).presence != Presence::some;
  });
  const std::vector<Process> all = found;
  std::erase_if(found, [&](const Process& process) {
    return std::ranges::find(all, process.parent, &Process::pid) != all.end();
  });
  return found;
}

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
  for (const char* const table : {"net/tcp", "net/tcp6"})
    std::ranges::copy(sockets_at(read_proc(agent, table).value_or(""), port), std::back_inserter(sockets));
  if (sockets.empty()) return false;
  std::vector<Process> processes = descendants(agent).value_or(std::vector<Process>{});
  processes.push_back({.pid = agent});
  return std::ranges::any_of(processes,
                             [&](const Process& process) { return holds_one_of(process.pid, sockets); });
}

}  // namespace rankshim::torchrun
