#include "report/snapshot.h"

#include <catch2/catch.hpp>

namespace rankshim::report {
namespace {

std::string answer_with(const std::vector<ListElement>& all, std::size_t most) {
  json::Object answer;
  add_list(answer, "nodes", all, most);
  return answer.str();
}

ListElement node(unsigned rank, std::string_view state) {
  ListElement element{state, {}};
  element.object.number("node_rank", rank).text("state", state);
  return element;
}

TEST_CASE("a list in an answer that has room for all is whole") {
  CHECK(answer_with({}, 100) == R"({"nodes":[]})");
  CHECK(answer_with({node(0, "running"), node(1, "failed")}, 100) ==
        R"({"nodes":[{"node_rank":0,"state":"running"},{"node_rank":1,"state":"failed"}]})");
}

TEST_CASE("of a list that is too long those stay that differ from most", "[attack]") {
  constexpr std::size_t most = std::size_t{32} << 10U;
  std::vector<ListElement> all;
  for (unsigned rank = 0; rank < 4096; ++rank)
    all.push_back(node(rank, rank == 3000 ? "failed" : rank % 1024 == 1000 ? "stopped" : "running"));
  const std::string answer = answer_with(all, most);
  CHECK(answer.size() < most + 100);
  CHECK(answer.starts_with(R"({"nodes":[{"node_rank":0,"state":"running"},)"));
  CHECK(answer.find(R"({"node_rank":1000,"state":"stopped"},{"node_rank":2024,"state":"stopped"},)"
                    R"({"node_rank":3000,"state":"failed"},{"node_rank":3048,"state":"stopped"},)") !=
        std::string::npos);
  CHECK(answer.ends_with(R"("nodes_by_state":{"failed":1,"running":4091,"stopped":4}})"));
}

TEST_CASE("an element that is longer than a list may be leaves room for the others", "[attack]") {
  ListElement long_one = node(0, "running");
  long_one.object.text("failure", std::string(200, 'x'));
  CHECK(answer_with({long_one, node(1, "running")}, 100) ==
        R"({"nodes":[{"node_rank":1,"state":"running"}],"nodes_by_state":{"running":2}})");
}

TEST_CASE("a status has what is suspected, how the last attempt ended, and what is prepared") {
  Snapshot snapshot{.phase = PhaseName::run, .since = Snapshot::Clock::now()};
  CHECK_THAT(status_json(snapshot), !Catch::Contains("hang") && !Catch::Contains("last_exit"));
  snapshot.hang = "no collective has completed for 5 min";
  snapshot.last_exit = LastExit{1, outcome::Cause::exception};
  snapshot.prepared = PreparedAttempt{.number = 2, .processes = 8, .ready = 3};
  CHECK_THAT(status_json(snapshot),
             Catch::Contains(R"("hang":"no collective has completed for 5 min")") &&
                 Catch::Contains(R"("last_exit":{"exit_code":1,"cause":"exception"})") &&
                 Catch::Contains(R"("prepared":{"attempt":2,"processes":8,"ready":3})"));
}

}  // namespace
}  // namespace rankshim::report
