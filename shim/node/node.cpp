#include "node/node.h"

#include <netinet/in.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/files.h"
#include "base/text.h"
#include "node/accelerators.h"
#include "node/addresses.h"
#include "node/cgroup.h"

namespace rankshim {
namespace {

/// Whether a listener could bind the port now on every address, as torch's store does.
bool can_listen(std::uint16_t port) {
  const Descriptor probe(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (probe.number() < 0) return true;  // then no IPv4 listener can exist either
  const int on = 1;                     // torch's listener sets this too: a port in TIME_WAIT counts as free
  setsockopt(probe.number(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  return bind(probe.number(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

/// Claims the port by an abstract socket, which like a port has the scope of one network namespace (unix(7)).
/// Unlike a bound port it blocks only other instances of rankshim. It stays open as long as this process
/// runs.
bool claim_port(std::uint16_t port) {
  const int claim = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (claim < 0) return true;  // no abstract socket can be made here
  const std::string text = "rankshim/port/" + std::to_string(port);
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  std::memcpy(name.sun_path + 1, text.data(), text.size());
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  if (bind(claim, reinterpret_cast<const sockaddr*>(&name), length) == 0 || errno != EADDRINUSE) return true;
  close(claim);
  return false;
}

}  // namespace

std::variant<std::string, Unreadable> Node::read(const std::string& path) const { return read_file(path); }

void Node::each_name(const char* folder, const std::function<void(std::string_view name)>& see) const {
  Folder entries(folder);
  while (const char* name = entries.next())
    if (*name != '.') see(name);
}

std::string Node::host_name() const { return own_host_name(); }

std::optional<DeviceCount> Node::accelerators() const { return visible_accelerators(*this); }

DeviceCount Node::cpus() const {
  cpu_set_t set;
  CPU_ZERO(&set);
  long count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : sysconf(_SC_NPROCESSORS_ONLN);
  const char* what = "CPU affinity";
  if (const auto quota = cgroup_cpus(*this); quota && *quota < count) {
    count = *quota;
    what = "cgroup CPU quota";
  }
  return {count < 1 ? 1U : static_cast<unsigned>(count), what};
}

bool Node::take_port(std::uint16_t port) const {
  if (port == taken_port_) return true;
  if (!can_listen(port) || !claim_port(port)) return false;
  taken_port_ = port;
  return true;
}

bool Node::owns_address(std::string_view address) const {
  const auto known = literal(address);
  return known && is_own(*known);
}

std::optional<std::string> Node::address_towards(std::string_view peer) const {
  const auto own = source_towards(peer);
  return own ? std::optional(own->to_string()) : std::nullopt;
}

std::string Node::interface_towards(std::string_view peer) const {
  const auto own = source_towards(peer);
  return own ? interface_with(*own) : std::string();
}

std::optional<std::string> Node::find_program(std::string_view program) const {
  const auto runs = [](const std::string& path) {
    struct stat status{};
    return stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) && access(path.c_str(), X_OK) == 0;
  };
  for (std::string& path : executable_candidates(program, environment().get("PATH").value_or(default_path)))
    if (runs(path)) return std::move(path);
  return std::nullopt;
}

}  // namespace rankshim
