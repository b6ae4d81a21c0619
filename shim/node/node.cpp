#include "node/node.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <utility>

#include "base/files.h"
#include "base/text.h"
#include "node/accelerators.h"
#include "node/cgroup.h"
#include "node/own_address.h"
#include "node/program_path.h"

namespace rankshim {
namespace {

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  [[nodiscard]] int number() const { return number_; }

 private:
  int number_;
};

/// A socket address from a literal and a port; the length is 0 if the text is no literal.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;
  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  /// The address itself and its size.
  [[nodiscard]] std::pair<const void*, std::size_t> bytes() const {
    if (storage.ss_family == AF_INET)
      return {&reinterpret_cast<const sockaddr_in*>(&storage)->sin_addr, sizeof(in_addr)};
    return {&reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_addr, sizeof(in6_addr)};
  }
  /// Whether the other has the same family and address. Ports are ignored.
  [[nodiscard]] bool same_address(const sockaddr& other) const {
    if (other.sa_family != storage.ss_family) return false;
    const auto [address, size] = bytes();
    const auto offset = reinterpret_cast<const char*>(address) - reinterpret_cast<const char*>(&storage);
    return std::memcmp(address, reinterpret_cast<const char*>(&other) + offset, size) == 0;
  }
};

SocketAddress socket_address(std::string_view literal, std::uint16_t port) {
  const std::string text(without_brackets(literal));
  SocketAddress result;
  auto* v4 = reinterpret_cast<sockaddr_in*>(&result.storage);
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&result.storage);
  if (inet_pton(AF_INET, text.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(port);
    result.length = sizeof *v4;
  } else if (inet_pton(AF_INET6, text.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(port);
    result.length = sizeof *v6;
  }
  return result;
}

/// The name of the interface that has this address. For IPv4 this takes one call on an open socket:
/// getifaddrs reads all details of all interfaces from the kernel, which takes longer than rankshim's whole
/// start.
std::string interface_with(const SocketAddress& own, int socket) {
  if (own.storage.ss_family == AF_INET) {
    std::array<ifreq, 64> requests{};
    ifconf list{};
    list.ifc_len = sizeof requests;
    list.ifc_req = requests.data();
    if (ioctl(socket, SIOCGIFCONF, &list) == 0 && static_cast<std::size_t>(list.ifc_len) < sizeof requests) {
      for (const ifreq& one :
           std::span(requests).first(static_cast<std::size_t>(list.ifc_len) / sizeof(ifreq))) {
        if (own.same_address(one.ifr_addr)) return one.ifr_name;
      }
      return {};
    }
  }
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, freeifaddrs);
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr != nullptr && own.same_address(*entry->ifa_addr)) return entry->ifa_name;
  }
  return {};
}

/// The local address from which packets to `peer` would leave; for an empty `peer`, that of the default
/// route. The length is 0 if there is no route. Connecting a datagram socket only looks up the route
/// (udp(7)); 192.0.2.1 and 2001:db8::1 belong to no host (RFC 5737, 3849). If `interface` is not null, it
/// becomes the name of the interface with that address.
SocketAddress source_address(std::string_view peer, std::string* interface) {
  for (const std::string_view target :
       {peer, std::string_view("192.0.2.1"), std::string_view("2001:db8::1")}) {
    const SocketAddress address = socket_address(target, 9);
    if (address.length == 0) continue;
    const Descriptor probe(socket(address.storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (probe.number() < 0 || connect(probe.number(), address.get(), address.length) != 0) continue;
    SocketAddress own;
    socklen_t length = sizeof own.storage;
    if (getsockname(probe.number(), reinterpret_cast<sockaddr*>(&own.storage), &length) != 0) continue;
    own.length = length;
    if (interface != nullptr) *interface = interface_with(own, probe.number());
    return own;
  }
  return {};
}

/// Whether a listener could bind the port now on every address, as torch's store does.
bool can_listen(std::uint16_t port) {
  const Descriptor probe(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (probe.number() < 0) return true;  // then no IPv4 listener can exist either
  const int on = 1;                     // torch's listener sets this too: a port in TIME_WAIT counts as free
  setsockopt(probe.number(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const SocketAddress address = socket_address("0.0.0.0", port);
  return bind(probe.number(), address.get(), address.length) == 0;
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

std::variant<std::string, Unreadable> RealNode::read(const std::string& path) const {
  return read_file(path);
}

void RealNode::each_name(const char* folder, void (*see)(void* context, std::string_view name),
                         void* context) const {
  Folder entries(folder);
  while (const char* name = entries.next()) {
    if (*name != '.') see(context, name);
  }
}

std::string RealNode::host_name() const {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return {};
  return name.data();
}

std::optional<DeviceCount> RealNode::accelerators() const { return visible_accelerators(*this); }

DeviceCount RealNode::cpus() const {
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

bool RealNode::take_port(std::uint16_t port) const {
  if (port == taken_port_) return true;
  if (!can_listen(port) || !claim_port(port)) return false;
  taken_port_ = port;
  return true;
}

bool RealNode::owns_address(std::string_view literal) const {
  const SocketAddress address = socket_address(literal, 0);
  return address.length != 0 && is_own_address(*address.get(), address.length);
}

std::optional<std::string> RealNode::address_towards(std::string_view peer) const {
  const SocketAddress own = source_address(peer, nullptr);
  if (own.length == 0) return std::nullopt;
  std::array<char, INET6_ADDRSTRLEN> text{};
  const auto [bytes, size] = own.bytes();
  if (inet_ntop(own.storage.ss_family, bytes, text.data(), text.size()) == nullptr) return std::nullopt;
  return std::string(text.data());
}

std::string RealNode::interface_towards(std::string_view peer) const {
  std::string interface;
  source_address(peer, &interface);
  return interface;
}

std::optional<std::string> RealNode::find_program(std::string_view program) const {
  const auto runs = [](const std::string& path) {
    struct stat status{};
    return stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) && access(path.c_str(), X_OK) == 0;
  };
  for (std::string& path : executable_candidates(program, environment().get("PATH").value_or(default_path)))
    if (runs(path)) return std::move(path);
  return std::nullopt;
}

}  // namespace rankshim
