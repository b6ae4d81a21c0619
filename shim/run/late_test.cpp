#include "run/late.h"

#include <catch2/catch.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rankshim::run {
namespace {

using Words = std::vector<std::string>;
const Words place = {"RANK", "WORLD_SIZE"};
const Words interface = {"GLOO_SOCKET_IFNAME"};
const Words flags = {"node_rank", "master_addr"};

const Words agent = {"python3",
                     "-m",
                     "torch.distributed.run",
                     "--nnodes=3",
                     "--node_rank=3",
                     "--master_addr=node-0",
                     "train.py",
                     "--node_rank=7",
                     "--seed=1"};

/// The agent's command line with another word at this index.
Words with(std::size_t at, std::string word) {
  Words words = agent;
  words[at] = std::move(word);
  return words;
}

}  // namespace

TEST_CASE("a prepared command is told the flags that have another value now", "[warm]") {
  CHECK(changed_flags(agent, agent, flags) == Words{});
  Words now = with(4, "--node_rank=0");
  now[5] = "--master_addr=10.0.0.2";
  CHECK(changed_flags(agent, now, flags) == Words{"--node_rank=0", "--master_addr=10.0.0.2"});
}

TEST_CASE("a prepared command with any other difference in its words starts in the ordinary way", "[warm]") {
  const std::vector<std::pair<std::string, Words>> rows = {
      {"a flag that may not change", with(3, "--nnodes=2")},
      {"another flag in its place", with(4, "--master_addr=node-1")},
      {"a switch in its place", with(4, "--node_rank")},
      {"the script's own flag of that name", with(7, "--node_rank=8")},
      {"the script's flag", with(8, "--seed=2")},
      {"another script", with(6, "other.py")},
      {"another interpreter", with(0, "python4")},
  };
  for (const auto& [what, now] : rows) {
    INFO(what);
    CHECK_FALSE(changed_flags(agent, now, flags));
  }
  Words more = agent;
  more.insert(more.begin() + 4, "--local_addr=10.0.0.1");
  CHECK_FALSE(changed_flags(agent, more, flags));
  CHECK_FALSE(changed_flags(more, agent, flags));
  CHECK_FALSE(changed_flags(agent, with(4, "--node_rank=0"), {}));
}

TEST_CASE("a switch of the same name before the flag would be what is replaced", "[warm]") {
  Words before = agent;
  before.insert(before.begin() + 3, "--node_rank");
  Words now = before;
  now[5] = "--node_rank=0";
  CHECK_FALSE(changed_flags(before, now, flags));
}

TEST_CASE("a prepared command is told the variables of its place, and its network interface", "[warm]") {
  const Words before = {"HOME=/root", "RANK=3", "WORLD_SIZE=4"};
  CHECK(changed_variables(before, before, interface, place) == Words{});
  CHECK(changed_variables(before, {"HOME=/root", "RANK=0", "WORLD_SIZE=4", "GLOO_SOCKET_IFNAME=eth1"},
                          interface, place) == Words{"RANK=0", "GLOO_SOCKET_IFNAME=eth1"});
  CHECK_FALSE(changed_variables(before, {"HOME=/home", "RANK=3", "WORLD_SIZE=4"}, interface, place));
  CHECK_FALSE(changed_variables(before, {"HOME=/root", "RANK=3"}, interface, place));
  CHECK_FALSE(changed_variables(before, {"HOME=/root", "RANK=0", "WORLD_SIZE=4"}, interface, {}));
  CHECK_FALSE(changed_variables({"GLOO_SOCKET_IFNAME=eth0"}, {"GLOO_SOCKET_IFNAME=eth1"}, interface, place));
}

}  // namespace rankshim::run
