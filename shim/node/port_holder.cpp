#include "node/port_holder.h"

#include <fmt/format.h>
#include <unistd.h>

#include <vector>

#include "base/text.h"
#include "node/process.h"

namespace rankshim::node {
namespace {

/// The name of the process that has the socket open; empty if /proc shows no such process, or hides its
/// descriptors.
std::string owner_of_socket(std::uint64_t inode) {
  const std::string wanted = fmt::format("socket:[{}]", inode);
  for (const Process& process : all_processes().value_or(std::vector<Process>{})) {
    if (find_open_file(process.pid, [&](const std::string& file) { return file == wanted; }).empty())
      continue;
    const std::string name = read_proc(process.pid, "comm").value_or("?");
    return fmt::format("{} (pid {})", printable(trimmed(name)), process.pid);
  }
  return {};
}

}  // namespace

std::optional<PortSocket> find_port_socket(std::string_view table, std::uint16_t port) {
  // "0: 0100007F:1F90 REMOTE STATE QUEUES TIMER RETRANSMITS UID TIMEOUT INODE …", below a line of titles
  constexpr std::string_view listening = "0A";  // TCP_LISTEN (include/net/tcp_states.h)
  std::optional<PortSocket> found;
  next_line(table);
  while (!table.empty()) {
    std::string_view line = next_line(table);
    next_word(line);
    const std::string_view local = next_word(line);
    if (parse_number<std::uint16_t>(local.substr(local.find(':') + 1), 16) != port) continue;
    next_word(line);
    const bool listens = next_word(line) == listening;
    for (int skipped = 0; skipped < 3; ++skipped) next_word(line);  // queues, timer, retransmits
    const auto user = parse_number<uid_t>(next_word(line));
    next_word(line);
    const auto inode = parse_number<std::uint64_t>(next_word(line));
    if (!user || !inode || *inode == 0 || (found && !listens)) continue;
    found = PortSocket{.user = *user, .inode = *inode, .listens = listens};
    if (listens) break;
  }
  return found;
}

std::string holder_of_port(std::uint16_t port) {
  std::optional<PortSocket> holder;
  for (const char* table : {"net/tcp", "net/tcp6"}) {
    const auto found = find_port_socket(read_proc(getpid(), table).value_or(""), port);
    if (found && (!holder || found->listens)) holder = found;
    if (holder && holder->listens) break;
  }
  if (!holder) return {};
  const std::string owner = owner_of_socket(holder->inode);
  return owner.empty() ? fmt::format("a process of user {} in another container", holder->user) : owner;
}

}  // namespace rankshim::node
