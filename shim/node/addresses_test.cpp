#include "node/addresses.h"

#include <catch2/catch.hpp>

#include "node/host.h"

namespace rankshim::node {
namespace {

using Texts = std::vector<std::string>;

Texts hosts(std::string_view file, std::string_view name) {
  Texts texts;
  for (const auto& address : addresses_in_hosts(file, name)) texts.push_back(address.to_string());
  return texts;
}

constexpr std::string_view file =
    "# 10.0.0.9 train-3\n127.0.0.1\tlocalhost\n10.1.2.3  train-3.svc.ns\tTrain-3 # 10.0.0.8 train-3\n"
    "\n10.1.2.4\nfd00::3 other train-3\r\n";

TEST_CASE("a literal address is one with and without brackets, IPv4 and IPv6, with a scope") {
  CHECK(literal("10.0.0.1")->to_string() == "10.0.0.1");
  CHECK(literal("fd00::a")->to_string() == "fd00::a");
  CHECK(literal("[fd00::a]")->to_string() == "fd00::a");
  CHECK(literal("fe80::1%lo")->to_string() == "fe80::1%lo");
  for (const char* text : {"", "job-0", "10.0.0", "10.0.0.256", "[fd00::a", "1.2.3.4.", "fd00"}) {
    CAPTURE(text);
    CHECK_FALSE(literal(text));
  }
}

TEST_CASE("a hosts file gives every address of a name, in its order") {
  CHECK(hosts(file, "train-3") == Texts{"10.1.2.3", "fd00::3"});
  CHECK(hosts(file, "TRAIN-3.svc.ns.") == Texts{"10.1.2.3"});
  CHECK(hosts(file, "10.1.2.4").empty());
  CHECK(hosts(file, "train").empty());
}

TEST_CASE("the hosts file gives every address of a name, letter case aside") {
  constexpr std::string_view hosts_file =
      "# Kubernetes-managed hosts file.\n"
      "127.0.0.1\tlocalhost\n"
      "::1 localhost ip6-localhost\n"
      "10.1.2.3   Job-Master-0.job.ns.svc.cluster.local\tjob-master-0 # the pod\n"
      "fd00::3 job-master-0\n"
      "10.1.2.3 job-master-0\n"
      "# 10.9.9.9 job-master-1\n"
      "10.1.2.4\n"
      "nonsense job-master-1\n"
      "10.1.2.5 last";
  CHECK(hosts(hosts_file, "localhost") == Texts{"127.0.0.1", "::1"});
  CHECK(hosts(hosts_file, "JOB-MASTER-0") == Texts{"10.1.2.3", "fd00::3"});
  CHECK(hosts(hosts_file, "job-master-0.job.ns.svc.cluster.local.") == Texts{"10.1.2.3"});
  CHECK(hosts(hosts_file, "job-master-1").empty());
  CHECK(hosts(hosts_file, "the").empty());
  CHECK(hosts(hosts_file, "last") == Texts{"10.1.2.5"});
  CHECK(hosts("", "last").empty());
}

TEST_CASE("of a name with any number of addresses in the hosts file the first count", "[attack]") {
  std::string long_file;
  for (unsigned host = 0; host < 65536; ++host)
    long_file += "10.0." + std::to_string(host / 256) + "." + std::to_string(host % 256) + " job-0\n";
  const auto addresses = addresses_in_hosts(long_file, "job-0");
  REQUIRE(addresses.size() == most_addresses);
  CHECK(addresses.back().to_string() == "10.0.0.47");
}

TEST_CASE("an address in a text becomes its name, with its port, and nothing else does") {
  const auto named = [](std::string_view text) {
    return with_names(text, [](const std::string& address) {
      return address == "10.0.0.1" ? "one" : address == "fd00::9" ? "nine" : std::string();
    });
  };
  CHECK(named("to 10.0.0.1:80, [::ffff:10.0.0.1]:80 and 10.0.0.1<80>.") == "to one, one and one<80>.");
  CHECK(named("[FD00::9]:80: gone") == "nine: gone");
  CHECK(named("10.0.0.2 10.0.0.1.5 fd00::9a std::boom :: .") ==
        "10.0.0.2 10.0.0.1.5 fd00::9a std::boom :: .");
}

TEST_CASE("a hosts file gives the domain of a host name") {
  CHECK(domain_in_hosts(file, "train-3") == "svc.ns");
  CHECK(domain_in_hosts(file, "train").empty());
  CHECK(domain_in_hosts(file, "10").empty());
  CHECK(domain_in_hosts(file, "").empty());
}

TEST_CASE("an address of this node is distinguished from a foreign one") {
  CHECK(is_own(*literal("127.0.0.1")));
  CHECK(is_own(*literal("127.0.0.9")));
  CHECK_FALSE(is_own(*literal("192.0.2.1")));  // RFC 5737: belongs to no host
  CHECK_FALSE(is_own(*literal("2001:db8::1")));
  CHECK_FALSE(is_own(*literal("0.0.0.0")));
  CHECK_FALSE(is_own(*literal("224.0.0.1")));
}

TEST_CASE("the interface of an address is named, for IPv4 and IPv6") {
  const Host host{Environment()};
  CHECK(host.interface_towards("127.0.0.1") == "lo");
  if (is_own(*literal("::1"))) CHECK(host.interface_towards("::1") == "lo");
}

}  // namespace
}  // namespace rankshim::node
