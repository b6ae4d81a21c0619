#include "node/node.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <memory>

namespace rankshim {
namespace {

constexpr std::size_t largest_file = 1 << 20;

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

/// A socket address from a literal and a port; the length is 0 where the text is no literal.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;
  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

SocketAddress socket_address(std::string_view literal, std::uint16_t port) {
  if (literal.starts_with('[') && literal.ends_with(']')) literal = literal.substr(1, literal.size() - 2);
  const std::string text(literal);
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

std::optional<long> number_in(std::string_view text) {
  long value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc{}) return std::nullopt;
  return value;
}

/// The CPU quota of our cgroup, rounded up; nothing where there is no limit. Inside a container its cgroup is
/// the root of the hierarchy that it sees (cgroup_namespaces(7)).
std::optional<long> cgroup_cpus(const Node& node) {
  if (const auto max = node.file("/sys/fs/cgroup/cpu.max")) {  // v2: "QUOTA PERIOD", QUOTA may be "max"
    const auto quota = number_in(*max);
    const auto blank = max->find(' ');
    if (!quota || blank == std::string::npos) return std::nullopt;
    const auto period = number_in(std::string_view(*max).substr(blank + 1));
    if (!period || *period <= 0) return std::nullopt;
    return (*quota + *period - 1) / *period;
  }
  for (const std::string folder :
       {"/sys/fs/cgroup/cpu/", "/sys/fs/cgroup/cpu,cpuacct/"}) {  // v1: −1 is no limit
    const auto quota_text = node.file(folder + "cpu.cfs_quota_us");
    const auto period_text = node.file(folder + "cpu.cfs_period_us");
    if (!quota_text || !period_text) continue;
    const auto quota = number_in(*quota_text);
    const auto period = number_in(*period_text);
    if (quota && period && *quota > 0 && *period > 0) return (*quota + *period - 1) / *period;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> RealNode::file(const std::string& path) const {
  const Descriptor descriptor(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  if (descriptor.number() < 0) return std::nullopt;
  std::string content;
  std::array<char, 4096> chunk{};
  while (content.size() < largest_file) {
    const ssize_t got = read(descriptor.number(), chunk.data(), chunk.size());
    if (got < 0) return std::nullopt;
    if (got == 0) break;
    content.append(chunk.data(), static_cast<std::size_t>(got));
  }
  return content;
}

std::vector<std::string> RealNode::folder(const std::string& path) const {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir(path.c_str()), closedir);
  if (!folder) return names;
  while (const dirent* entry = readdir(folder.get())) names.emplace_back(entry->d_name);
  std::sort(names.begin(), names.end());
  return names;
}

std::string RealNode::host_name() const {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return {};
  return name.data();
}

std::optional<DeviceCount> RealNode::accelerators() const {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir("/dev"), closedir);
  if (!folder) return std::nullopt;
  unsigned count = 0;
  constexpr std::string_view prefix = "nvidia";
  while (const dirent* entry =
             readdir(folder.get())) {  // /dev/nvidiactl, nvidia-uvm and their like have no digit there
    const std::string_view name = entry->d_name;
    if (name.starts_with(prefix) && name.size() > prefix.size() &&
        name.find_first_not_of("0123456789", prefix.size()) == std::string_view::npos) {
      ++count;
    }
  }
  if (count == 0) return std::nullopt;
  return DeviceCount{count, "/dev/nvidia[0-9]*"};
}

DeviceCount RealNode::cpus() const {
  cpu_set_t set;
  CPU_ZERO(&set);
  long count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : sysconf(_SC_NPROCESSORS_ONLN);
  std::string what = "CPU affinity";
  if (const auto quota = cgroup_cpus(*this); quota && *quota < count) {
    count = *quota;
    what = "cgroup CPU quota";
  }
  return {count < 1 ? 1U : static_cast<unsigned>(count), what};
}

bool RealNode::port_is_free(std::uint16_t port) const {
  const Descriptor probe(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (probe.number() < 0) return true;  // then nobody can listen there in IPv4 either
  const int on = 1;                     // as torch's listener does: a port in TIME_WAIT is free
  setsockopt(probe.number(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const SocketAddress address = socket_address("0.0.0.0", port);
  return bind(probe.number(), address.get(), address.length) == 0;
}

bool RealNode::owns_address(std::string_view literal) const {
  const SocketAddress address = socket_address(literal, 0);
  if (address.length == 0) return false;
  const Descriptor probe(socket(address.storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  return probe.number() >= 0 && bind(probe.number(), address.get(), address.length) == 0;
}

std::optional<std::string> RealNode::address_towards(std::string_view peer) const {
  // Connecting a datagram socket only looks up the route (udp(7)); 192.0.2.1 and 2001:db8::1 are nobody's
  // (RFC 5737, 3849).
  for (const std::string_view target :
       {peer, std::string_view("192.0.2.1"), std::string_view("2001:db8::1")}) {
    const SocketAddress address = socket_address(target, 9);
    if (address.length == 0) continue;
    const Descriptor probe(socket(address.storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (probe.number() < 0 || connect(probe.number(), address.get(), address.length) != 0) continue;
    sockaddr_storage own{};
    socklen_t length = sizeof own;
    if (getsockname(probe.number(), reinterpret_cast<sockaddr*>(&own), &length) != 0) continue;
    std::array<char, INET6_ADDRSTRLEN> text{};
    const void* bytes =
        own.ss_family == AF_INET
            ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in*>(&own)->sin_addr)
            : static_cast<const void*>(&reinterpret_cast<const sockaddr_in6*>(&own)->sin6_addr);
    if (inet_ntop(own.ss_family, bytes, text.data(), text.size()) != nullptr) return std::string(text.data());
  }
  return std::nullopt;
}

std::optional<std::string> RealNode::find_program(std::string_view program) const {
  const auto runs = [](const std::string& path) {
    struct stat status{};
    return stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) && access(path.c_str(), X_OK) == 0;
  };
  if (program.find('/') != std::string_view::npos) {
    std::string path(program);
    return runs(path) ? std::optional(path) : std::nullopt;
  }
  std::string_view rest = environment().get("PATH").value_or("/usr/local/bin:/bin:/usr/bin");
  while (true) {
    const auto colon = rest.find(':');
    std::string path(rest.substr(0, colon));
    if (path.empty()) path = ".";
    path.append("/").append(program);
    if (runs(path)) return path;
    if (colon == std::string_view::npos) return std::nullopt;
    rest.remove_prefix(colon + 1);
  }
}

}  // namespace rankshim
