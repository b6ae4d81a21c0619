#include "wait/dns.h"

#include <catch2/catch.hpp>

namespace rankshim::wait {
namespace {

using Names = std::vector<std::string>;

TEST_CASE("resolv.conf is read as glibc reads it") {
  const ResolvConf conf = read_resolv_conf(
      "# comment\n; comment\n"
      "nameserver 10.96.0.10 # trailing\n"
      "nameserver\tfd00::10\n"
      "domain gone.example\n"
      "search gone.too\n"
      "search ns.svc.cluster.local. svc.cluster.local .\tcluster.local\n"
      "options ndots:5 timeout:1 use-vc\n"
      "options edns0\n",
      "host.example.org");
  CHECK(conf.servers == Names{"10.96.0.10", "fd00::10"});
  CHECK(conf.search == Names{"ns.svc.cluster.local", "svc.cluster.local", "", "cluster.local"});
  CHECK(conf.ndots == 5);
  CHECK(conf.tcp);
}

TEST_CASE("without a search list the host name's domain is it") {
  CHECK(read_resolv_conf("", "node7.hpc.example").search == Names{"hpc.example"});
  CHECK(read_resolv_conf("", "node7").search.empty());
  CHECK(read_resolv_conf("search\n", "node7.hpc.example").search.empty());
  CHECK(read_resolv_conf("domain a.example b.example\n", "node7.hpc.example").search == Names{"a.example"});
  CHECK(read_resolv_conf("", "").ndots == 1);
  CHECK(read_resolv_conf("options ndots:99", "").ndots == 15);
  CHECK(read_resolv_conf("options ndots:x", "").ndots == 1);
}

TEST_CASE("a search line may be as long as Kubernetes lets it be") {
  std::string file = "search";
  for (int i = 0; i < 32; ++i) file += " " + std::string(60, 'a') + std::to_string(i);
  CHECK(read_resolv_conf(file, "").search.size() == 32);
}

TEST_CASE("of name servers and search domains the first count, and the rest is counted", "[attack]") {
  std::string file;
  for (unsigned line = 0; line < 40'000; ++line)
    file += "nameserver nonsense\nnameserver 10.0.0." + std::to_string(line % 200 + 1) + "\n";
  file += "search";
  for (unsigned domain = 0; domain < 60'000; ++domain) file += " d" + std::to_string(domain);
  const ResolvConf conf = read_resolv_conf(file, "");
  CHECK(conf.servers == Names{"10.0.0.1", "10.0.0.2", "10.0.0.3"});
  CHECK(conf.more_servers == 39'997);
  CHECK(conf.search.size() == most_search_domains);
  CHECK(conf.more_search == 60'000 - most_search_domains);
  CHECK(candidates("job-0", conf).size() == most_search_domains + 1);
  CHECK(read_resolv_conf(file + "\nsearch one\n", "").more_search == 0);
}

TEST_CASE("the candidates come in glibc's order, and the likeliest of them is known") {
  const Names k8s = {"ns.svc.cluster.local", "svc.cluster.local", "cluster.local"};
  struct Row {
    std::string name;
    Names search;
    unsigned ndots;
    Names expected;
    std::size_t likeliest;
  };
  const std::vector<Row> rows = {
      {"job-0",
       k8s,
       5,
       {"job-0.ns.svc.cluster.local", "job-0.svc.cluster.local", "job-0.cluster.local", "job-0"},
       0},
      {"job-0.job",
       k8s,
       5,
       {"job-0.job.ns.svc.cluster.local", "job-0.job.svc.cluster.local", "job-0.job.cluster.local",
        "job-0.job"},
       0},
      {"job-0.ns",
       k8s,
       5,
       {"job-0.ns.ns.svc.cluster.local", "job-0.ns.svc.cluster.local", "job-0.ns.cluster.local", "job-0.ns"},
       1},
      {"job-0.ns.svc",
       k8s,
       5,
       {"job-0.ns.svc.ns.svc.cluster.local", "job-0.ns.svc.svc.cluster.local", "job-0.ns.svc.cluster.local",
        "job-0.ns.svc"},
       2},
      {"m.other.svc",
       k8s,
       5,
       {"m.other.svc.ns.svc.cluster.local", "m.other.svc.svc.cluster.local", "m.other.svc.cluster.local",
        "m.other.svc"},
       2},
      {"m.ns.svc.cluster.local",
       k8s,
       5,
       {"m.ns.svc.cluster.local.ns.svc.cluster.local", "m.ns.svc.cluster.local.svc.cluster.local",
        "m.ns.svc.cluster.local.cluster.local", "m.ns.svc.cluster.local"},
       3},
      {"m.job.ns.svc.cluster.local",
       k8s,
       5,
       {"m.job.ns.svc.cluster.local", "m.job.ns.svc.cluster.local.ns.svc.cluster.local",
        "m.job.ns.svc.cluster.local.svc.cluster.local", "m.job.ns.svc.cluster.local.cluster.local"},
       0},
      {"job-0.", k8s, 5, {"job-0"}, 0},
      {"node7", {"hpc.example"}, 1, {"node7.hpc.example", "node7"}, 0},
      {"node7.hpc.example", {"hpc.example"}, 1, {"node7.hpc.example", "node7.hpc.example.hpc.example"}, 0},
      {"node7", {}, 1, {"node7"}, 0},
      {"node7", {"", "hpc.example"}, 1, {"node7", "node7.hpc.example"}, 0},
      {"node7", {"hpc.example"}, 0, {"node7", "node7.hpc.example"}, 0},
      {std::string(250, 'a'), {"hpc.example"}, 1, {std::string(250, 'a')}, 0},
      {".", {}, 1, {}, 0},
      {std::string(254, 'a'), {}, 1, {}, 0},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name, row.ndots);
    const ResolvConf conf{{}, row.search, row.ndots, false};
    const Names names = candidates(row.name, conf);
    CHECK(names == row.expected);
    CHECK(likeliest(row.name, conf, names) == row.likeliest);
  }
}

}  // namespace
}  // namespace rankshim::wait
