#include "node/host.h"

#include <fmt/format.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <boost/asio/ip/host_name.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/udp.hpp>
#include <boost/asio/local/datagram_protocol.hpp>
#include <cerrno>
#include <cstring>

#include "base/files.h"
#include "base/text.h"
#include "node/accelerators.h"
#include "node/addresses.h"
#include "node/cgroup.h"

namespace rankshim::node {

namespace asio = boost::asio;
namespace ip = boost::asio::ip;

namespace {

int open_socket(int family, int type) { return socket(family, type | SOCK_CLOEXEC, 0); }

bool binds(int socket, const auto& endpoint) {
  return bind(socket, endpoint.data(), static_cast<socklen_t>(endpoint.size())) == 0;
}

/// Whether a listener could bind the port now on every address, as torch's store does.
bool can_listen(std::uint16_t port) {
  const UniqueFd probe(open_socket(AF_INET, SOCK_STREAM));
  if (probe.number() < 0) return true;  // then no IPv4 listener can exist either
  const int on = 1;                     // torch's listener sets this too: a port in TIME_WAIT is free
  setsockopt(probe.number(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  return binds(probe.number(), ip::tcp::endpoint(ip::tcp::v4(), port));
}

/// Claims the port with an abstract socket, which, like a port, belongs to one network namespace (unix(7)).
/// Unlike a bound port, it blocks only other instances of rankshim. It stays open until this process ends.
bool claim_port(std::uint16_t port) {
  const int claim = open_socket(AF_UNIX, SOCK_DGRAM);
  if (claim < 0) return true;  // abstract sockets cannot be created here
  const std::string name = '\0' + ("rankshim/port/" + std::to_string(port));
  if (binds(claim, asio::local::datagram_protocol::endpoint(name)) || errno != EADDRINUSE) return true;
  close(claim);
  return false;
}

/// A local address, and the socket that has it.
struct Source {
  ip::address address;
  UniqueFd socket;
};

/// The address from which packets to the literal address `peer` would leave, or on the default route if it is
/// empty. Connecting a datagram socket only looks up the route (udp(7)); 192.0.2.1 and 2001:db8::1 belong to
/// no host (RFC 5737, 3849).
std::optional<Source> source_towards(std::string_view peer) {
  for (const std::string_view target :
       {peer, std::string_view("192.0.2.1"), std::string_view("2001:db8::1")}) {
    const auto address = literal(target);
    if (!address) continue;
    ip::udp::endpoint endpoint(*address, 9);
    auto length = static_cast<socklen_t>(endpoint.size());
    UniqueFd probe(open_socket(endpoint.protocol().family(), SOCK_DGRAM));
    if (probe.number() >= 0 && connect(probe.number(), endpoint.data(), length) == 0 &&
        getsockname(probe.number(), endpoint.data(), &length) == 0)
      return Source{endpoint.address(), std::move(probe)};
  }
  return std::nullopt;
}

/// The name of the interface that has this IPv4 address; empty if there is none. (getifaddrs fetches every
/// detail of every interface from the kernel, which takes longer than rankshim's whole start.)
std::string interface_of(const Source& own) {
  std::array<ifreq, 128> requests{};
  ifconf found{};
  found.ifc_len = sizeof requests;
  found.ifc_req = requests.data();
  if (ioctl(own.socket.number(), SIOCGIFCONF, &found) != 0) return {};
  for (const ifreq& one : requests) {
    ip::udp::endpoint endpoint(ip::udp::v4(), 0);
    std::memcpy(endpoint.data(), &one.ifr_addr, endpoint.size());
    if (endpoint.address() == own.address) return one.ifr_name;
  }
  return {};
}

}  // namespace

std::variant<std::string, Unreadable> Host::read(const std::string& path) const { return read_file(path); }

void Host::each_name(const char* folder, const std::function<void(std::string_view name)>& see) const {
  Folder entries(folder);
  while (const char* name = entries.next())
    if (*name != '.') see(name);
}

std::string Host::field(const std::string& path, std::string_view key) const {
  return std::string(trimmed(text_after(file(path).value_or(""), key)));
}

std::string Host::host_name() const {
  boost::system::error_code none;
  return ip::host_name(none);
}

std::optional<DeviceCount> Host::accelerators() const { return visible_accelerators(*this); }

DeviceCount Host::cpus() const {
  cpu_set_t set;
  CPU_ZERO(&set);
  const long count =
      sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : sysconf(_SC_NPROCESSORS_ONLN);
  const unsigned all = count < 1 ? 1U : static_cast<unsigned>(count);
  const auto quota = cgroup_cpus(*this);
  if (quota && *quota < all) return {static_cast<unsigned>(*quota), "cgroup CPU quota"};
  return {all, "CPU affinity"};
}

bool Host::take_port(std::uint16_t port) const {
  if (port == taken_port_) return true;
  if (!can_listen(port) || !claim_port(port)) return false;
  taken_port_ = port;
  return true;
}

bool Host::owns_address(std::string_view address) const {
  const auto known = literal(address);
  return known && is_own(*known);
}

std::optional<std::string> Host::address_towards(std::string_view peer) const {
  const auto own = source_towards(peer);
  return own ? std::optional(own->address.to_string()) : std::nullopt;
}

std::string Host::interface_towards(std::string_view peer) const {
  const auto own = source_towards(peer);
  if (!own) return {};
  if (own->address.is_v4()) return interface_of(*own);
  const std::string address = fmt::format("{:02x}", fmt::join(own->address.to_v6().to_bytes(), ""));
  const std::string line = field("/proc/self/net/if_inet6", address);  // … NAME (linux:net/ipv6/addrconf.c)
  return line.substr(line.rfind(' ') + 1);
}

std::optional<std::string> Host::find_program(std::string_view program) const {
  const auto runs = [](const std::string& path) {
    struct stat status{};
    return stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) && access(path.c_str(), X_OK) == 0;
  };
  for (std::string& path : executable_candidates(program, environment().get("PATH").value_or(default_path)))
    if (runs(path)) return std::move(path);
  return std::nullopt;
}

}  // namespace rankshim::node
