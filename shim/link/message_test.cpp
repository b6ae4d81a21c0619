#include "link/message.h"

#include <catch2/catch.hpp>

namespace rankshim::link {
namespace {

template <class Type>
Type there_and_back(const Type& message) {
  const auto back = from_json(type_of(message), to_json(message));
  REQUIRE(back);
  return std::get<Type>(*back);
}

TEST_CASE("a message comes back as it was", "[link]") {
  const Hello hello{.run = "job-7",
                    .attempt = "2",
                    .instance = "ab",
                    .rank = 3,
                    .nnodes = 4,
                    .workers = 8,
                    .launcher = "torchrun",
                    .master = "job-0",
                    .port = 29500,
                    .host = "worker-3"};
  const Hello back = there_and_back(hello);
  CHECK(back.run == "job-7");
  CHECK(back.rank == 3);
  CHECK(back.port == 29500);
  CHECK(back.host == "worker-3");
  CHECK(there_and_back(Waiting{16, 2, {5, 9}, "note"}).missing == std::vector<unsigned>{5, 9});
  const Stop stop = there_and_back(
      Stop{{.rank = 17, .cause = "oom", .code = 137, .node = 2, .host = "c"}, true, "note"});
  CHECK(stop.culprit.rank == 17);
  CHECK(stop.culprit.node == 2);
  CHECK(stop.again);
  CHECK(stop.note == "note");
  CHECK_FALSE(there_and_back(Failure{.code = 1}).rank);
  const Done done = there_and_back(Done{143, {{0, 143, 12}, {7, 1, 1500}}});
  CHECK(done.code == 143);
  REQUIRE(done.workers.size() == 2);
  CHECK(done.workers[1].local_rank == 7);
  CHECK(done.workers[1].code == 1);
  CHECK(done.workers[1].age == 1500);
}

TEST_CASE("each type has the number that the protocol says", "[link]") {
  CHECK(type_of(Hello{}) == 1);
  CHECK(type_of(Go{}) == 6);
  CHECK(type_of(Pong{}) == 13);
}

TEST_CASE("what is no message is refused; unknown members are not", "[link]") {
  const std::pair<int, const char*> bad[] = {
      {0, "{}"},
      {14, "{}"},
      {255, "{}"},
      {1, ""},
      {1, "[]"},
      {1, "{"},
      {1, "{} {}"},
      {1, R"({"rank":-1})"},
      {1, R"({"rank":"1"})"},
      {1, R"({"rank":4294967296})"},
      {1, R"({"rank":18446744073709551615})"},
      {1, R"({"rank":1.5})"},
      {1, R"({"run":7})"},
      {4, R"({"missing":3})"},
      {4, R"({"missing":["a"]})"},
      {7, R"({"rank":[]})"},
      {8, R"({"culprit":[]})"},
      {8, R"({"again":1})"},
      {10, R"({"workers":[{"age":-1}]})"},
      {1, "{\"run\":\"\xff\"}"},
  };
  for (const auto& [type, body] : bad) {
    CAPTURE(type, body);
    CHECK_FALSE(from_json(static_cast<std::uint8_t>(type), body));
  }
  CHECK(from_json(1, R"({"rank":1,"colour":"red","later":{"a":[1]}})"));
}

TEST_CASE("texts are bounded and printable", "[link]") {
  Hello hello{.run = std::string(5000, 'r')};
  CHECK(there_and_back(hello).run == std::string(1024, 'r'));
  for (std::string* text : {&hello.run, &hello.attempt, &hello.launcher, &hello.master, &hello.host,
                            &hello.pod, &hello.platform_node, &hello.version, &hello.address, &hello.session})
    *text = std::string(300, '"');
  CHECK(to_json(hello).size() <= longest_body);
  there_and_back(hello);
  CHECK(there_and_back(Failure{.text = "a\x1b[31m\n" + std::string(2000, 'x')}).text.size() == 1024);
  const Done many{.workers = std::vector<WorkerDone>(100, {UINT32_MAX, INT32_MIN, UINT32_MAX})};
  CHECK(to_json(many).size() <= longest_body);
  CHECK(there_and_back(many).workers.size() == 60);
  CHECK(there_and_back(Refuse{78, "a\nb"}).sentence == "a\\nb");
  CHECK(std::get<Refuse>(*from_json(5, R"({"sentence":"\u001b[0m"})")).sentence == "\\x1b[0m");
}

TEST_CASE("sentences name the node, its host and what happened", "[link]") {
  CHECK(waiting_line({16, 2, {5, 9}, ""}) == "waiting for 2 of 16 nodes: ranks 5, 9");
  CHECK(waiting_line({2, 1, {1}, "and so"}) == "waiting for 1 of 2 nodes: rank 1; and so");
  CHECK(missing_ranks({64, 12, {1, 2}, ""}) == "ranks 1, 2 and 10 more");
  const Failure failure{.rank = 17, .code = 137, .text = "was killed by SIGKILL", .node = 3, .host = "e"};
  CHECK(Stop{failure}.sentence() == "node 3 (host e) failed: rank 17 was killed by SIGKILL");
  CHECK(Stop{{.code = 3, .node = 1}}.sentence() == "node 1 failed: ended with code 3");
  CHECK(Stop{{.cause = "stopped", .text = "SIGTERM", .node = 3, .host = "e"}}.sentence() ==
        "node 3 (host e) was asked to stop (SIGTERM)");
  CHECK(Stop{{.cause = "lost", .text = "it went away", .node = 3, .host = "e"}}.sentence() ==
        "node 3 (host e) is lost: it went away");
}

}  // namespace
}  // namespace rankshim::link
