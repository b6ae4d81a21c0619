#include "launchers/torchrun/launcher_in_proc.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/text.h"

namespace rankshim::torchrun {
namespace {

/// "0100007F:5FD8": the address in hexadecimal, and the port.
bool has_port(std::string_view address, std::uint16_t port) {
  const auto colon = address.rfind(':');
  return colon != std::string_view::npos && parse_number<unsigned>(address.substr(colon + 1), 16) == port;
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

std::set<std::string> sockets_at(std::string_view table, std::uint16_t port) {
  std::set<std::string> sockets;
  while (!table.empty()) {
    std::string_view line = take_line(table);
    // "0:", local, remote, state, queues, timer, retransmits, user, timeout, inode
    std::array<std::string_view, 10> columns;
    for (std::string_view& column : columns) column = take_word(line);
    const bool listens = columns[3] == "0A" && has_port(columns[1], port);  // include/net/tcp_states.h
    const bool is_connected = columns[3] == "01" && has_port(columns[2], port);
    if (listens || is_connected) sockets.insert(fmt::format("socket:[{}]", columns[9]));
  }
  return sockets;
}

bool is_in_rendezvous(pid_t agent, std::uint16_t port) {
  std::set<std::string> sockets = sockets_at(read_proc(agent, "net/tcp").value_or(""), port);
  sockets.merge(sockets_at(read_proc(agent, "net/tcp6").value_or(""), port));
  if (sockets.empty()) return false;
  std::vector<Process> processes = descendants(agent).value_or(std::vector<Process>{});
  processes.push_back({.pid = agent});
  return std::ranges::any_of(processes, [&](const Process& process) {
    return !find_open_file(process.pid, [&](const std::string& file) {
              return sockets.contains(file);
            }).empty();
  });
}

}  // namespace rankshim::torchrun
