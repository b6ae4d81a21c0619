#include "link/message.h"

#include <catch2/catch.hpp>

namespace rankshim::link {
namespace {

using namespace std::string_literals;
using outcome::NotRestarted;

template <class Type>
Type there_and_back(const Type& message) {
  const auto back = from_text(to_text(message));
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
  const Stop stop =
      there_and_back(Stop{{.rank = 17, .cause = Cause::out_of_memory, .code = 137, .node = 2, .host = "c"},
                          {{.node = 7}},
                          true,
                          NotRestarted{.why = NotRestarted::Why::node_gone,
                                       .used = 2,
                                       .most = 3,
                                       .within = std::chrono::hours(1),
                                       .of_the_job = true,
                                       .code = 300,
                                       .cause = Cause::hang,
                                       .gone = Culprit{.cause = Cause::node_lost, .node = 4, .host = "e"},
                                       .was_spare = true}});
  CHECK(stop.culprit.rank == 17);
  CHECK(stop.culprit.node == 2);
  REQUIRE(stop.others.size() == 1);
  CHECK(stop.others.front().node == 7);
  CHECK(stop.again);
  REQUIRE(stop.not_restarted);
  CHECK(stop.not_restarted->why == NotRestarted::Why::node_gone);
  CHECK(stop.not_restarted->most == 3);
  CHECK(stop.not_restarted->within == std::chrono::hours(1));
  CHECK(stop.not_restarted->code == 255);
  CHECK(stop.not_restarted->gone->host == "e");
  CHECK(stop.not_restarted->was_spare);
  CHECK_FALSE(there_and_back(Culprit{.code = 1}).rank);
  const outcome::Loss loss{.sign = outcome::Loss::Sign::silent,
                           .then = outcome::Loss::Then::not_back,
                           .time = std::chrono::seconds(30),
                           .within = std::chrono::seconds(10),
                           .others = 7};
  CHECK(there_and_back(Culprit{.cause = Cause::node_lost, .loss = loss}).loss == loss);
  const outcome::Loss long_ago{.time = std::chrono::years(1)};
  CHECK(there_and_back(Culprit{.loss = long_ago}).loss->time == std::chrono::milliseconds(UINT32_MAX));
  const Done done = there_and_back(Done{143, {{0, 143, 12}, {7, 1, 1500}}});
  CHECK(done.code == 143);
  REQUIRE(done.workers.size() == 2);
  CHECK(done.workers[1].local_rank == 7);
  CHECK(done.workers[1].code == 1);
  CHECK(done.workers[1].age == 1500);
}

TEST_CASE("a cause that only a newer rankshim knows is an end of some kind", "[link]") {
  const auto fail = from_text(R"(fail {"cause":"out_of_luck","code":3})");
  REQUIRE(fail);
  CHECK(std::get<Culprit>(*fail).cause == Cause::exited);
}

TEST_CASE("a message is its type and its members", "[link]") {
  CHECK(to_text(Go{.rank = 1, .nodes = 8, .offset = 8, .world = 64}) ==
        R"(go {"attempt":0,"uncounted":0,"rank":1,"nodes":8,"offset":8,"world":64})");
  CHECK(to_text(Go{.nodes = 8, .world = 64}) ==
        R"(go {"attempt":0,"uncounted":0,"nodes":8,"offset":0,"world":64})");
  CHECK(to_text(Culprit{.cause = Cause::exited, .code = 3}) ==
        R"(fail {"program":"","cause":"exited","code":3,"text":"","node":0,"host":"","frame":"","peer":"",)"
        R"("ranks":[],"victims":[]})");
  CHECK(
      to_text(Seen{{{1, std::nullopt, 0}, {2, 143, 7}}}) ==
      R"(seen {"workers":[{"local_rank":1,"age":0},{"local_rank":2,"code":143,"age":7}],"number":0,"more":false})");
  CHECK(to_text(Done{0, {{1, 2, 3}}}) == R"(done {"code":0,"workers":[{"local_rank":1,"code":2,"age":3}]})");
  CHECK(to_text(Ping{}) == "ping {}");
}

TEST_CASE("what is no message is refused; unknown members are not", "[link]") {
  const char* const bad[] = {
      "",
      "go",
      " {}",
      "GO {}",
      "goes {}",
      "hello ",
      "hello []",
      "hello {",
      "hello {} {}",
      R"(hello {"rank":-1})",
      R"(hello {"rank":"1"})",
      R"(hello {"rank":4294967296})",
      R"(hello {"rank":18446744073709551615})",
      R"(hello {"rank":1.5})",
      R"(hello {"run":7})",
      R"(done {"workers":3})",
      R"(done {"workers":["a"]})",
      R"(fail {"rank":[]})",
      R"(fail {"loss":{"sign":"bad_luck"}})",
      R"(fail {"loss":{"time":4294967296}})",
      R"(stop {"culprit":[]})",
      R"(stop {"again":1})",
      R"(stop {"not_restarted":{"why":"bad_luck"}})",
      R"(stop {"not_restarted":{"gone":{"node":65536}}})",
      R"(stop {"not_restarted":{"within":-1}})",
      R"(done {"workers":[{"age":-1}]})",
      R"(welcome {"port":65536})",
      R"(go {"attempt":1000001})",
      R"(go {"world":2147483649})",
      R"(go {"offset":3,"world":2})",
      R"(go {"rank":8,"nodes":8})",
      R"(go {"nodes":65537})",
      R"(stop {"culprit":{"node":65536}})",
      R"(refuse {"cause":"exited"})",
      R"(refuse {"cause":"peer_lost"})",
      R"(refuse {"cause":"unreachable","culprit":{}})",
      R"(refuse {"roll_call":{"problems":{"first":[{"kind":"bad_luck"}],"more":0}}})",
      R"(refuse {"roll_call":{"missing":{"first":[-1]}}})",
      R"(unlinked {"why":{"kind":"differs","agreed":"mood"}})",
      R"(moved {"hub":{"index":65536}})",
      R"(waiting {"what":"luck"})",
      R"(stop {"culprit":{"ranks":[{"first":2,"last":1}]}})",
      R"(stop {"culprit":{"victims":[{"first":0,"last":4294967295}]}})",
      "hello {\"run\":\"\xff\"}",
  };
  for (const char* const text : bad) {
    CAPTURE(text);
    CHECK_FALSE(from_text(text));
  }
  CHECK(from_text(R"(hello {"rank":1,"colour":"red","later":{"a":[1]}})"));
}

TEST_CASE("a code or a rank that nobody can have comes back as one that can be", "[link][attack]") {
  CHECK_FALSE(there_and_back(Culprit{.rank = 4'294'967'295}).rank);
  for (const int signal : {-1, 0, 65, 2'147'483'647})
    CHECK_FALSE(there_and_back(Culprit{.signal = signal}).signal);
  CHECK(there_and_back(Culprit{.signal = 64}).signal == 64);
  CHECK(there_and_back(Culprit{.rank = most_ranks - 1}).rank == most_ranks - 1);
  for (const auto& [sent, received] :
       {std::pair(-9, 0), std::pair(2'147'483'647, 255), std::pair(137, 137)}) {
    CHECK(there_and_back(Culprit{.code = sent}).code == received);
    CHECK(there_and_back(Done{.code = sent}).code == received);
    CHECK(there_and_back(Seen{{{.code = sent}}}).workers.front().code == received);
  }
}

TEST_CASE("an impossible port to listen on is dropped: all nodes would take the go that names it for invalid",
          "[link][attack]") {
  for (const auto& [said, heard] : {std::pair{65'535U, 65'535U}, {65'536U, 0U}}) {
    const auto hello = from_text(to_text(Hello{.listen_port = said}));
    REQUIRE(hello);
    CHECK(std::get<Hello>(*hello).listen_port == heard);
  }
}

TEST_CASE("why a job does not start travels as values", "[link]") {
  Refuse refuse{.cause = Cause::unreachable,
                .roll_call = {.nodes = 64,
                              .missing = {{2, 3}, 60},
                              .is_enough = true,
                              .silent = {{{4, "e", "10.0.0.5"}}, 1},
                              .votes = LackingVotes{1, 3, true},
                              .gone = {{{5, "f", ""}}, 2},
                              .problems = {}},
                .culprit = {}};
  const Problem problem{.kind = ProblemKind::differs,
                        .agreed = Agreed::nnodes,
                        .node = NodeName{2, "c", "10.0.0.3"},
                        .other = NodeName{0, "a", ""},
                        .culprit = Culprit{.cause = Cause::exited, .code = 3},
                        .theirs = "2",
                        .ours = "3",
                        .master = "job-0",
                        .addresses = {"10.0.0.3"},
                        .detail = "python (pid 7)",
                        .number = 7,
                        .most = 8};
  refuse.roll_call.problems.add(problem);
  const Refuse back = there_and_back(refuse);
  CHECK(back.cause == Cause::unreachable);
  CHECK(back.roll_call.nodes == 64);
  CHECK(back.roll_call.missing.first == std::vector<unsigned>{2, 3});
  CHECK(back.roll_call.missing.more == 60);
  CHECK(back.roll_call.is_enough);
  CHECK(back.roll_call.silent.first == refuse.roll_call.silent.first);
  CHECK(back.roll_call.votes->all == 3);
  CHECK(back.roll_call.votes->counted);
  CHECK(back.roll_call.gone.more == 2);
  CHECK(back.roll_call.problems.first == std::vector{problem});
  CHECK(there_and_back(Stranger{problem}).why == problem);
  CHECK(there_and_back(Moved{{.index = 3, .address = "10.0.0.4", .port = 7}, true}).hub.port == 7);
  CHECK_FALSE(there_and_back(Moved{{}, true}).is_hearsay);
  const Waiting waiting = there_and_back(Waiting{.what = WaitingFor::port,
                                                 .roll_call = refuse.roll_call,
                                                 .port = problem,
                                                 .running = {{{1, "b", ""}}, 4}});
  CHECK(waiting.what == WaitingFor::port);
  CHECK(waiting.is_wrong());
  CHECK(waiting.port == problem);
  CHECK(waiting.running.more == 4);
}

TEST_CASE("the longest roll call fits into a message", "[link]") {
  const NodeName name{4'000'000'000, std::string(253, 'h'), std::string(45, '1')};
  Refuse refuse{.cause = Cause::unreachable,
                .roll_call = {.missing = {}, .silent = {}, .gone = {}, .problems = {}},
                .culprit = {}};
  for (unsigned i = 0; i < 1000; ++i) {
    refuse.roll_call.missing.add(4'000'000'000, 10);
    refuse.roll_call.silent.add(name);
    refuse.roll_call.gone.add(name);
    refuse.roll_call.problems.add({.kind = ProblemKind::differs,
                                   .agreed = Agreed::nproc_per_node,
                                   .node = name,
                                   .other = name,
                                   .theirs = std::string(1024, '"'),
                                   .ours = std::string(1024, '"'),
                                   .master = std::string(253, 'm')});
  }
  CHECK(to_text(refuse).size() <= longest_text);
  const RollCall back = there_and_back(refuse).roll_call;
  CHECK(back.problems.first.size() == 3);
  CHECK(back.problems.more == 997);
  CHECK(back.silent.first.size() == 3);
  CHECK(back.missing.first.size() == 10);
}

TEST_CASE("the longest stop fits into a message, with why the job is not restarted", "[link]") {
  const std::string text(2000, '"');
  const outcome::Place place{
      .line = {text, UINT32_MAX, text}, .call = text, .kernel = text, .works = true, .below = text};
  const Culprit culprit{
      .rank = most_ranks - 1,
      .program = text,
      .cause = Cause::stop_requested,
      .code = 255,
      .signal = 64,
      .text = text,
      .node = most_nodes - 1,
      .host = text,
      .frame = text,
      .peer = text,
      .ranks = std::vector<outcome::RankRange>(100, {most_ranks - 2, most_ranks - 1}),
      .after = UINT32_MAX,
      .hang = outcome::Hang{.place = place, .waits_at = place, .number = UINT64_MAX, .further = UINT64_MAX},
      .loss = outcome::Loss{.sign = outcome::Loss::Sign::unanswered,
                            .then = outcome::Loss::Then::not_listening,
                            .time = std::chrono::years(1),
                            .within = std::chrono::years(1),
                            .others = UINT32_MAX}};
  const Stop stop{culprit, std::vector<Culprit>(4, culprit), true,
                  NotRestarted{.why = NotRestarted::Why::left_processes,
                               .used = UINT32_MAX,
                               .most = UINT32_MAX,
                               .within = std::chrono::years(1),
                               .code = 255,
                               .gone = culprit}};
  CHECK(to_text(stop).size() <= longest_text);
  const Stop back = there_and_back(stop);
  CHECK(back.culprit.node == most_nodes - 1);
  CHECK(back.not_restarted->gone->node == most_nodes - 1);
}

TEST_CASE("texts are bounded and printable", "[link]") {
  Hello hello{.run = std::string(5000, 'r')};
  CHECK(there_and_back(hello).run == std::string(1024, 'r'));
  for (std::string* text :
       {&hello.run, &hello.attempt, &hello.launcher, &hello.master, &hello.host, &hello.pod,
        &hello.platform_node, &hello.version, &hello.address, &hello.instance})
    *text = std::string(300, '"');
  CHECK(to_text(hello).size() <= longest_text);
  there_and_back(hello);
  CHECK(there_and_back(Culprit{.text = "a\x1b[31m\n" + std::string(2000, 'x')}).text.size() == 1024);
  const Done many{.workers = std::vector<WorkerReport>(100, {UINT32_MAX, INT32_MIN, UINT32_MAX})};
  CHECK(to_text(many).size() <= longest_text);
  CHECK(there_and_back(many).workers.size() == 60);
  CHECK(there_and_back(Unlinked{{.detail = "a\nb"}}).why.detail == "a\\nb");
  CHECK(std::get<Unlinked>(*from_text(R"(unlinked {"why":{"detail":"\u001b[0m"}})")).why.detail ==
        "\\x1b[0m");
}

TEST_CASE("lines come out as they went in, however the stream is cut", "[link]") {
  const std::string stream = std::string(greeting) + "ping {}\n" + std::string(300, 'x') + "\n";
  for (std::size_t step = 1; step <= stream.size(); ++step) {
    Decoder decoder;
    std::vector<Line> lines;
    for (std::size_t at = 0; at < stream.size(); at += step) {
      decoder.feed(std::string_view(stream).substr(at, step));
      while (auto line = decoder.next()) lines.push_back(std::move(*line));
    }
    REQUIRE(lines.size() == 2);
    CHECK(lines[0].text == "ping {}");
    CHECK(lines[1].tag == std::string(300, 'x'));
  }
}

TEST_CASE("a tag follows a message's text", "[link]") {
  Decoder decoder;
  decoder.feed(std::string(greeting) + "go {\"world\":1}0a1b\n");
  const auto line = decoder.next();
  REQUIRE(line);
  CHECK(line->text == "go {\"world\":1}");
  CHECK(line->tag == "0a1b");
}

TEST_CASE("what is no peer is known by its first bytes", "[link]") {
  struct Case {
    std::string bytes;
    StreamError broken;
  };
  const Case cases[] = {
      {"\0\xce\xf7\x85\x3c\x0d"s, StreamError::store_client},
      {"\0\xce\xf7\x85\x3c"s, StreamError::store_client},  // one that says nothing more
      {"\0"s, StreamError::no},
      {"\0\xce\xf7\x85\x3c\7"s, StreamError::no},
      {"\1\0\0\0\0\0\0\0"s, StreamError::store},
      {"\0\0\0\0\0\0\0\0"s, StreamError::store},
      {"\1\0\0"s, StreamError::other},
      {"GET / HTTP/1.1\r\n", StreamError::other},
      {"HTTP/1.1", StreamError::other},
      {"\0\xce\xf7\x85\x3c\7RSHX"s, StreamError::other},
      {"\0\xce\xf7\x85\x3c\7RS"s, StreamError::no},
      {"\0\xce\xf7\x85\x3c\7RSHM\1"s, StreamError::version},
      {std::string(greeting) + std::string(longest_line + 1, 'x'), StreamError::other},
      {std::string(greeting) + "ping {" + std::string(longest_text - 6, ' ') + "}\n", StreamError::other},
      {std::string(greeting) + std::string(longest_line, 'x'), StreamError::no},
  };
  for (const Case& c : cases) {
    CAPTURE(c.bytes);
    Decoder decoder;
    decoder.feed(c.bytes);
    CHECK_FALSE(decoder.next());
    CHECK(decoder.at_end() == c.broken);
  }
}

}  // namespace
}  // namespace rankshim::link
