#include "look/ras.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <catch2/catch.hpp>
#include <chrono>
#include <string>
#include <vector>

#include "loop/loop.h"

namespace rankshim::look {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using outcome::GroupProgress;
using namespace std::chrono_literals;

/// A rank of a communicator, in the form of NVIDIA's page about RAS; `counts` is "AllReduce": 21.
std::string member(unsigned rank, int pid, const std::string& counts, const char* host = "172.16.64.245") {
  return fmt::format(
      R"({{"rank": {}, "host": "{}", "pid": {}, "cuda_dev": 0, "nvml_dev": 0, "status": {{"init_state": 0,
           "async_error": 0, "finalize_called": false, "destroy_flag": false, "abort_flag": false}},
           "collective_counts": {{{}}}}})",
      rank, host, pid, counts);
}

std::string silent(unsigned rank, int pid) {
  return fmt::format(
      R"({{"rank": {}, "host": "172.16.64.245", "pid": {}, "cuda_dev": 1, "nvml_dev": 1,
           "status": {{"unresponsive": true, "considered_dead": false}}}})",
      rank, pid);
}

std::string communicator(const char* hash, const std::vector<std::string>& members,
                         const std::vector<std::string>& missing = {}) {
  return fmt::format(
      R"({{"hash": "{}", "secondary_hash": "0x1:0x2", "size": {}, "ranks_count": {},
           "missing_ranks_count": {}, "ranks": [{}], "missing_ranks": [{}]}})",
      hash, members.size() + missing.size(), members.size(), missing.size(), fmt::join(members, ","),
      fmt::join(missing, ","));
}

std::string document(const std::vector<std::string>& communicators) {
  return fmt::format(
      R"({{"nccl_version": "2.29.1", "communicators_count": {}, "communicators": [{}],
           "ras": {{"collection_time_sec": 0.000, "timeouts_count": 0}}}})",
      communicators.size(), fmt::join(communicators, ","));
}

const std::vector<InspectedWorker> own = {{.rank = 0, .pid = 70}};

TEST_CASE("a rank that has started fewer collectives is behind the others", "[look]") {
  const auto found = parse_ras(
      document(
          {communicator("0xae", {member(0, 70, R"("AllReduce": 21, "Broadcast": 1)"),
                                 member(1, 71, R"("AllReduce": 20, "Broadcast": 1)"),
                                 member(2, 70, R"("AllReduce": 21, "Broadcast": 1)", "172.16.64.246")})}),
      3, own);
  REQUIRE(found.size() == 3);
  const GroupProgress waits{.name = "0xae:0x1:0x2",
                            .description = "NCCL's communicator 0xae",
                            .members = {{0, 2}},
                            .entered = 22,
                            .ended = 21,
                            .operation = "AllReduce"};
  CHECK(found.at(0) == std::vector{waits});
  CHECK(found.at(2) == std::vector{waits});
  CHECK(found.at(1).at(0).entered == 21);
  CHECK(found.at(1).at(0).ended == 21);
}

TEST_CASE("a rank that has started another operation is in that one", "[look]") {
  const auto found = parse_ras(
      document({communicator(
          "0xae", {member(0, 70, R"("AllReduce": 21)"), member(1, 71, R"("AllReduce": 20, "Reduce": 1)")})}),
      2, own);
  CHECK(found.at(0).at(0).operation == "AllReduce");
  CHECK(found.at(1).at(0).operation == "Reduce");
  CHECK(found.at(1).at(0).entered == 21);
  CHECK(found.at(1).at(0).ended == 20);
}

TEST_CASE("ranks of smaller communicators are known by their processes", "[look]") {
  const auto count = [](int n) { return fmt::format(R"("AllGather": {})", n); };
  const auto found = parse_ras(
      document({communicator("0xb", {member(0, 71, count(5)), member(1, 73, count(4))}),
                communicator("0xa",
                             {member(0, 70, ""), member(1, 71, ""), member(2, 72, ""), member(3, 73, "")})}),
      4, own);
  REQUIRE(found.at(3).size() == 2);
  CHECK(found.at(3).at(0).members == std::vector<outcome::RankRange>{{1, 1}, {3, 3}});
  CHECK(found.at(1).at(0).entered == 5);
  CHECK(found.at(3).at(0).entered == 4);
  CHECK(found.at(0).size() == 1);
}

TEST_CASE("a process that does not answer RAS is a member without numbers", "[look]") {
  const auto found = parse_ras(
      document({communicator("0xae", {member(0, 70, R"("AllReduce": 21)")}, {silent(1, 71)})}), 2, own);
  REQUIRE(found.size() == 1);
  CHECK(found.at(0).at(0).members == std::vector<outcome::RankRange>{{0, 1}});
}

TEST_CASE("an answer that does not know this node's workers is not believed", "[look]") {
  const auto ranks = [](const std::string& json, std::size_t count,
                        const std::vector<InspectedWorker>& workers) {
    return parse_ras(json, count, workers).size();
  };
  const std::string zero = member(0, 70, ""), one = member(1, 71, "");
  const std::string valid = document({communicator("0xae", {zero, one})});
  CHECK(ranks(valid, 2, own) == 2);
  CHECK(ranks(valid, 2, {{.rank = 1, .pid = 70}}) == 0);  // another order
  CHECK(ranks(valid, 2, {{.rank = 0, .pid = 69}}) == 0);  // another job on this machine
  CHECK(ranks(valid, 2, {}) == 0);
  CHECK(ranks(valid, 3, own) == 0);
  CHECK(ranks(valid, 1, own) == 0);
  CHECK(ranks(document({communicator("0xae", {zero, zero})}), 2, own) == 0);
  CHECK(ranks(document({communicator("0xae", {zero, member(1, 70, "")})}), 2, own) ==
        0);  // two ranks, one process
  CHECK(ranks(document({communicator("0xae", {zero, member(2, 71, "")})}), 2, own) == 0);
}

TEST_CASE("what is not RAS's JSON has no numbers", "[look]") {
  const auto with = [](const std::string& counts) {
    return parse_ras(document({communicator("0xae", {member(0, 70, counts), member(1, 71, counts)})}), 2,
                     own);
  };
  CHECK(with(R"("AllReduce": 1)").size() == 2);
  for (const char* const counts :
       {R"("AllReduce": -1)", R"("AllReduce": "1")", R"("AllReduce": 18446744073709551615)"}) {
    INFO(counts);
    CHECK(with(counts).empty());
  }
  const std::string valid = document({communicator("0xae", {member(0, 70, ""), member(1, 71, "")})});
  for (std::size_t size = 0; size < valid.size(); size += 7)
    CHECK(parse_ras(valid.substr(0, size), 2, own).empty());
  for (const char* const text : {"[]", "7", R"({"communicators": 7})", R"({"communicators": [7]})",
                                 R"({"communicators": [{"size": 18446744073709551615}]})"}) {
    INFO(text);
    CHECK(parse_ras(text, 2, own).empty());
  }
  const std::string hostile =
      document({communicator("0x\\u001b[2J", {member(0, 70, ""), member(1, 71, "")})});
  CHECK(parse_ras(hostile, 2, own).at(0).at(0).description.find('\x1b') == std::string::npos);
}

TEST_CASE("RAS listens where NCCL_RAS_ADDR says", "[look]") {
  const auto where = [](const char* address) {
    std::string all;
    for (const tcp::endpoint& one : ras_endpoints(address))
      all += fmt::format("{} {}\n", one.address().to_string(), one.port());
    return all;
  };
  CHECK(where("") == "127.0.0.1 28028\n::1 28028\n");
  CHECK(where("localhost:7") == "127.0.0.1 7\n::1 7\n");
  CHECK(where("10.0.0.7:28030") == "10.0.0.7 28030\n");
  CHECK(where("[fd00::7]:9") == "fd00::7 9\n");
  CHECK(where("ras.example:9").empty());
  CHECK(where("28028").empty());
  CHECK(where("127.0.0.1:70000").empty());
}

/// A process's RAS: greets, and answers the status after the other lines.
asio::awaitable<void> serve(tcp::acceptor& acceptor, std::string status, std::vector<std::string>& asked) {
  tcp::socket client = co_await acceptor.async_accept(asio::use_awaitable);
  std::string text;
  for (const char* const answer : {"SERVER PROTOCOL 2\n", "OK\n", "OK\n", status.c_str()}) {
    const std::size_t size =
        co_await asio::async_read_until(client, asio::dynamic_buffer(text), '\n', asio::use_awaitable);
    asked.push_back(text.substr(0, size - 1));
    text.erase(0, size);
    co_await asio::async_write(client, asio::buffer(std::string(answer)), asio::use_awaitable);
  }
}

TEST_CASE("RAS is asked for JSON, and what precedes it is left out", "[look]") {
  asio::io_context io;
  tcp::acceptor acceptor(io, {asio::ip::address_v4::loopback(), 0});
  std::vector<std::string> asked;
  loop::spawn(io, serve(acceptor, "{\n  \"communicators\": []\n}\n", asked));
  const std::string answer = loop::block_on(io, ask_ras({acceptor.local_endpoint()}, 10s));
  CHECK(asked == std::vector<std::string>{"CLIENT PROTOCOL 2", "TIMEOUT 1", "SET FORMAT json", "STATUS"});
  CHECK(answer == "{\n  \"communicators\": []\n}\n");
}

TEST_CASE("an older RAS, which knows no JSON, has no answer", "[look]") {
  asio::io_context io;
  tcp::acceptor acceptor(io, {asio::ip::address_v4::loopback(), 0});
  std::vector<std::string> asked;
  loop::spawn(io, serve(acceptor, "Job summary\n===========\n", asked));
  CHECK(loop::block_on(io, ask_ras({acceptor.local_endpoint()}, 10s)).empty());
}

TEST_CASE("a process that is stopped greets nobody, and is not waited for", "[look]") {
  asio::io_context io;
  tcp::acceptor stopped(io, {asio::ip::address_v4::loopback(), 0});
  tcp::acceptor acceptor(io, {asio::ip::address_v4::loopback(), 0});
  std::vector<std::string> asked;
  loop::spawn(io, serve(acceptor, "{}\n", asked));
  CHECK(loop::block_on(io, ask_ras({stopped.local_endpoint()}, 1ms)).empty());
  const std::string answer =
      loop::block_on(io, ask_ras({stopped.local_endpoint(), acceptor.local_endpoint()}, 60s));
  CHECK(answer == "{}\n");
}

}  // namespace
}  // namespace rankshim::look
