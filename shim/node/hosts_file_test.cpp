#include "node/hosts_file.h"

#include <catch2/catch.hpp>

namespace rankshim {
namespace {

constexpr std::string_view file =
    "# 10.0.0.9 train-3\n127.0.0.1\tlocalhost\n10.1.2.3  train-3.svc.ns\tTrain-3 # 10.0.0.8 train-3\n"
    "\n10.1.2.4\nfd00::3 other train-3\r\n";

TEST_CASE("a hosts file gives every address of a name, in its order") {
  using Addresses = std::vector<std::string_view>;
  CHECK(addresses_in_hosts(file, "train-3") == Addresses{"10.1.2.3", "fd00::3"});
  CHECK(addresses_in_hosts(file, "TRAIN-3.svc.ns.") == Addresses{"10.1.2.3"});
  CHECK(addresses_in_hosts(file, "10.1.2.4").empty());
  CHECK(addresses_in_hosts(file, "train").empty());
}

TEST_CASE("a hosts file gives the domain of a host name") {
  CHECK(domain_in_hosts(file, "train-3") == "svc.ns");
  CHECK(domain_in_hosts(file, "train").empty());
  CHECK(domain_in_hosts(file, "10").empty());
  CHECK(domain_in_hosts(file, "").empty());
}

}  // namespace
}  // namespace rankshim
