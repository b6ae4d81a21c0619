#include "link/roster.h"

#include <catch2/catch.hpp>

namespace rankshim::link {
namespace {

Node node(unsigned rank, const std::string& seen, const std::string& own) {
  Node node;
  node.hello.rank = rank, node.hello.host = "pod-" + std::to_string(rank), node.hello.address = own;
  node.hello.seen = seen;
  return node;
}

TEST_CASE("a node's address in torch's messages becomes its name", "[link]") {
  const std::vector<Node> nodes = {node(0, "10.0.0.1", ""),  node(1, "10.0.0.10", "192.168.7.3"),
                                   node(2, "fd00::9", ""),   node(3, "10.0.0.77", ""),
                                   node(4, "10.0.0.77", ""), node(5, "", "")};
  struct Case {
    std::string text, named;
  };
  const Case cases[] = {
      {"Connection closed by peer [10.0.0.10]:4711. GLHF",
       "Connection closed by peer node 1 (pod-1, 10.0.0.10). GLHF"},
      {"Connection closed by peer [::ffff:10.0.0.1]:29500",
       "Connection closed by peer node 0 (pod-0, 10.0.0.1)"},
      {"connect to 10.0.0.1:29500 timed out", "connect to node 0 (pod-0, 10.0.0.1) timed out"},
      {"socketPollConnect: connect to 192.168.7.3<54321> failed",
       "socketPollConnect: connect to node 1 (pod-1, 192.168.7.3)<54321> failed"},
      {"lost 10.0.0.1, 10.0.0.10.", "lost node 0 (pod-0, 10.0.0.1), node 1 (pod-1, 10.0.0.10)."},
      {"peer [fd00::9]:80", "peer node 2 (pod-2, fd00::9)"},
      {"10.0.0.1", "node 0 (pod-0, 10.0.0.1)"},
      {"10.0.0.100 110.0.0.1 10.0.0.1.5 10.0.0.1a afd00::9 fd00::9a",
       "10.0.0.100 110.0.0.1 10.0.0.1.5 10.0.0.1a afd00::9 fd00::9a"},
      {"10.0.0.77:1 is two nodes'", "10.0.0.77:1 is two nodes'"},
      {"ValueError: boom", "ValueError: boom"},
      {"", ""},
  };
  for (const Case& c : cases) CHECK(with_node_names(c.text, nodes) == c.named);
}

}  // namespace
}  // namespace rankshim::link
