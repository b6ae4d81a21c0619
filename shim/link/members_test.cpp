#include "link/members.h"

#include <catch2/catch.hpp>

namespace rankshim::link {
namespace {

using namespace std::chrono_literals;
using State = Member::State;

/// Three nodes that train, and two spares.
struct MembersStory {
  Members members{5, 2};
  std::vector<bool> here = std::vector<bool>(5, true);
  std::vector<std::string> hosts = {"a", "b", "c", "d", "e"};
  Members::Time now{1h};

  void launch() {
    const auto ranks = members.assign(here, true);
    REQUIRE(ranks);
    members.launched(*ranks, here, hosts, now);
  }
  void lose(unsigned index, State how = State::lost) {
    here[index] = false;
    members.gone(index, how);
  }
  std::optional<Assignment> assigned(bool is_patient = true) { return members.assign(here, is_patient); }
};

TEST_CASE("without spares each node has its index as its rank, and all are waited for", "[link]") {
  const Members members(3, 0);
  CHECK_FALSE(members.has_spares());
  CHECK(members.assign({true, true, true}, true) == Assignment{0, 1, 2});
  CHECK(members.assign({true, false, true}, true) == std::nullopt);
  CHECK(members.assign({true, false, true}, false) == std::nullopt);
}

TEST_CASE("at first all are waited for, and then as many as train are enough", "[link]") {
  MembersStory story;
  CHECK(story.assigned() == Assignment{0, 1, 2});
  story.here[4] = false;
  CHECK(story.assigned() == std::nullopt);
  CHECK(story.assigned(false) == Assignment{0, 1, 2});
  story.here[1] = false;
  CHECK(story.assigned(false) == Assignment{0, 3, 2});
  story.here[3] = false;
  CHECK(story.assigned(false) == std::nullopt);
}

TEST_CASE("a node that cannot join is not waited for", "[link]") {
  MembersStory story;
  story.lose(2);
  CHECK(story.assigned() == Assignment{0, 1, 3});
}

TEST_CASE("a lost node's rank goes to the first spare at once, and all others keep theirs", "[link]") {
  for (const State how : {State::lost, State::drained}) {
    MembersStory story;
    story.launch();
    story.lose(1, how);
    story.here[4] = false;  // it comes a moment later
    CHECK(story.assigned() == Assignment{0, 3, 2});
    story.launch();
    CHECK(story.members.all()[3].rank == 1U);
    CHECK(story.members.all()[1].state == how);
    CHECK(story.members.all()[4].state == State::spare);
  }
}

TEST_CASE("holes are filled from the lowest rank, with as many spares as are here", "[link]") {
  MembersStory story;
  story.launch();
  story.lose(2), story.lose(1);
  CHECK(story.assigned() == Assignment{0, 3, 4});
  story.here[4] = false;
  CHECK(story.assigned() == std::nullopt);
  story.lose(4);
  CHECK(story.assigned(false) == std::nullopt);
}

TEST_CASE("a node that comes back before a spare has its rank keeps it, and becomes a spare otherwise",
          "[link]") {
  MembersStory story;
  story.launch();
  story.lose(1);
  story.members.came_back(1);
  story.here[1] = true;
  CHECK(story.assigned() == Assignment{0, 1, 2});
  story.lose(1);
  story.launch();
  story.members.came_back(1);
  CHECK(story.members.all()[1].state == State::spare);
  story.here[1] = true;
  CHECK(story.assigned() == Assignment{0, 3, 2});
}

TEST_CASE("only a healthy spare that waits takes over from a node that has failed twice", "[link]") {
  MembersStory story;
  story.launch();
  story.members.failed(1);
  CHECK_FALSE(story.members.has_replacement(1));
  story.members.failed(1);
  CHECK(story.members.has_replacement(1));
  CHECK_FALSE(story.members.has_replacement(2));
  CHECK_FALSE(story.members.has_replacement(99));
  story.lose(3), story.lose(4);
  CHECK_FALSE(story.members.has_replacement(1));
}

TEST_CASE("a node that still ends its processes is waited for, and replaced when its time is over",
          "[link]") {
  MembersStory story;
  story.launch();
  story.here[1] = false;
  CHECK(story.assigned() == std::nullopt);
  CHECK(story.assigned(false) == Assignment{0, 3, 2});
}

TEST_CASE("a node whose workers fail twice in a row is put aside, and gets a rank only where nobody else is",
          "[link]") {
  MembersStory story;
  story.launch();
  story.members.failed(1);
  CHECK(story.assigned() == Assignment{0, 1, 2});
  story.members.failed(1);
  CHECK(story.assigned() == Assignment{0, 3, 2});
  story.launch();
  CHECK(story.members.all()[1].state == State::aside);
  CHECK(word(story.members.all()[1].state) == "put aside");
  story.lose(3), story.lose(4), story.lose(2);
  CHECK(story.assigned() == std::nullopt);
  story.members.came_back(2);
  story.here[2] = true;
  CHECK(story.assigned() == Assignment{0, 1, 2});
}

TEST_CASE("a node that was put aside keeps its rank where no spare is left", "[link]") {
  MembersStory story;
  story.launch();
  story.members.failed(2), story.members.failed(2);
  story.lose(3);
  story.here[4] = false;
  CHECK(story.assigned() == std::nullopt);  // the other spare is about to come
  CHECK(story.assigned(false) == Assignment{0, 1, 2});
}

TEST_CASE("failures of different nodes put nobody aside, and node 0 is put aside like any other", "[link]") {
  MembersStory story;
  story.launch();
  for (const unsigned index : {1U, 2U, 1U, 2U}) story.members.failed(index);
  CHECK(story.assigned() == Assignment{0, 1, 2});
  for (unsigned count = 0; count < 2; ++count) story.members.failed(0);
  CHECK(story.assigned() == Assignment{3, 1, 2});
}

TEST_CASE("a hub that takes over has the ranks from those that come", "[link]") {
  Members members = Members::taken_over(5, 2);
  const Members::Time since(3h);
  members.held(0, 0, "host-0", since);
  members.held(1, 1, "host-1", since);
  members.held(2, 4, "host-4", since);
  members.held(2, 3, "host-3", since);  // two cannot have had it
  members.gone(0, Member::State::lost);
  const std::vector<bool> is_here{false, true, false, true, true};
  CHECK(members.assign(is_here, false) == Assignment{3, 1, 4});
  members.launched({3, 1, 4}, is_here, {"host-0", "host-1", "host-2", "host-3", "host-4"}, since + 1h);
  const auto history = members.history();
  REQUIRE(history.size() == 2);
  CHECK(history[0].host == "host-0");
  CHECK(history[0].why == "lost");
  CHECK(history[1].index == 3);
}

TEST_CASE("what another node says of one that the job does not have is ignored", "[link][attack]") {
  Members members = Members::taken_over(3, 1);
  members.held(0, 3, "host-3", {});
  members.gone(60'000, Member::State::lost);
  CHECK(members.assign({true, true, true}, false) == Assignment{0, 1});
}

TEST_CASE("the history has all nodes of the ranks that have had several", "[link]") {
  MembersStory story;
  story.launch();
  CHECK(story.members.history().empty());
  story.now += 3h;
  story.lose(1);
  story.launch();
  const auto history = story.members.history();
  REQUIRE(history.size() == 2);
  CHECK((history[0].rank == 1 && history[0].index == 1 && history[0].host == "b"));
  CHECK((history[0].why == "lost" && *history[0].until - history[0].since == 3h));
  CHECK((history[1].rank == 1 && history[1].index == 3 && !history[1].until));
}

TEST_CASE("a rank's next node says why the one before has it no more", "[link]") {
  MembersStory story;
  story.launch();
  story.hosts[2] = "another machine";
  story.launch();
  CHECK(story.members.history()[0].why == "started anew");
  story.here[1] = false;  // it does not come in time
  const auto ranks = story.assigned(false);
  REQUIRE(ranks);
  story.members.launched(*ranks, story.here, story.hosts, story.now);
  CHECK(story.members.history()[0].why == "lost");
  CHECK(story.members.all()[1].state == State::lost);
}

}  // namespace
}  // namespace rankshim::link
