#include "look/progress.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <catch2/catch.hpp>
#include <filesystem>
#include <string>

#include "base/text.h"
#include "loop/loop.h"
#include "node/private_folder.h"

namespace rankshim::look {
namespace {

using outcome::GroupProgress;

const std::string good = R"(["0","default_pg",[[0,7,1]],21,20,"all_reduce"])";

/// How many groups are taken from an answer; −1 if it is none.
int groups_in(const std::string& answer) {
  const auto groups = parse_progress(answer);
  return groups ? static_cast<int>(groups->size()) : -1;
}

TEST_CASE("a worker's answer has its groups", "[look]") {
  const auto groups = parse_progress("[" + good + R"(,["3","dp",[[1,57,8],[60,60,1]],5,5,""]])");
  REQUIRE(groups);
  CHECK(*groups ==
        std::vector<GroupProgress>{
            {.name = "0",
             .description = "default_pg",
             .members = {{0, 7}},
             .entered = 21,
             .ended = 20,
             .operation = "all_reduce"},
            {.name = "3", .description = "dp", .members = {{1, 57, 8}, {60, 60}}, .entered = 5, .ended = 5}});
  CHECK(groups_in("[]") == 0);
}

TEST_CASE("of an answer only what can be is taken", "[look]") {
  CHECK(groups_in("") == -1);
  CHECK(groups_in("{}") == -1);
  CHECK(groups_in("[" + good) == -1);
  const char* const impossible[] = {
      "7",
      "[]",
      R"(["0","",[[0,7,1]],20,21,""])",                   // more have ended than were entered
      R"(["0","",[[0,7,1]],-1,-1,""])",                   //
      R"(["0","",[[0,7,1]],1e3,5,""])",                   //
      R"(["0","",[[0,7,1]],18446744073709551615,5,""])",  // with one more it would be 0
      R"(["0","",[[7,0,1]],21,20,""])",                   //
      R"(["0","",[[0,7,0]],21,20,""])",                   // would divide by 0
      R"(["0","",[[0,2147483648,1]],21,20,""])",          //
      R"(["0","",[[0,7]],21,20,""])",                     //
      R"(["0","",7,21,20,""])",                           //
      R"([0,"",[[0,7,1]],21,20,""])",                     //
      R"(["0","",[[0,7,1]],21,20,null])",                 //
      R"(["0","",[[0,7,1]],21,20])",                      //
  };
  for (const char* const group : impossible) {
    INFO(group);
    CHECK(groups_in(fmt::format("[{},{}]", group, good)) == 1);
  }
}

TEST_CASE("an answer is bounded, and its texts are safe to print", "[look]") {
  std::string many = good, ranges = "[0,0,1]";
  for (int i = 0; i < 1000; ++i) many += "," + good;
  CHECK(groups_in("[" + many + "]") == most_groups);
  for (int i = 0; i < 10'000; ++i) ranges += ",[0,0,1]";
  CHECK(groups_in(fmt::format(R"([["0","",[{}],1,1,""]])", ranges)) == 0);
  const auto groups =
      parse_progress(fmt::format(R"([["\u001b[2J","{}",[],1,1,"a\nb"]])", std::string(5000, 'x')));
  REQUIRE(groups);
  CHECK(groups->front().name == "\\x1b[2J");
  CHECK(groups->front().description.size() == 200);
  CHECK(groups->front().operation == "a\\nb");
}

/// A process that answers each question at `folder`/look.`name` with that text; by its own number if `name`
/// is empty.
class Answerer {
 public:
  Answerer(const std::string& folder, const std::string& name, const std::string& text) {
    const int place = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
    (std::filesystem::path(folder).parent_path() / "new")
        .string()
        .copy(address.sun_path, sizeof address.sun_path - 1);
    REQUIRE(bind(place, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
    pid_ = fork();
    if (pid_ == 0) {
      for (char question[16];;) {
        sockaddr_un asker{};
        socklen_t size = sizeof asker;
        if (recvfrom(place, question, sizeof question, 0, reinterpret_cast<sockaddr*>(&asker), &size) < 0)
          _exit(1);
        sendto(place, text.data(), text.size(), 0, reinterpret_cast<const sockaddr*>(&asker), size);
      }
    }
    close(place);
    std::filesystem::rename(address.sun_path,
                            folder + "/look." + (name.empty() ? std::to_string(pid_) : name));
  }
  ~Answerer() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  Answerer(const Answerer&) = delete;
  Answerer& operator=(const Answerer&) = delete;
  [[nodiscard]] pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = 0;
};

TEST_CASE("workers are asked at once, and only their own answers count", "[look]") {
  const node::PrivateFolder parent = node::make_private_folder("/tmp", "test");
  const std::string folder = parent.path + "/" + std::string(200, 'x');  // longer than an address
  std::filesystem::create_directory(folder);
  const auto ask_in = [](const std::string& place, const std::vector<pid_t>& pids, bool operations,
                         std::chrono::milliseconds patience) {
    boost::asio::io_context io;
    return loop::block_on(io, ask_progress(io, place, pids, operations, patience));
  };
  const auto ask = [&](const std::vector<pid_t>& pids, bool operations, std::chrono::milliseconds patience) {
    return ask_in(folder, pids, operations, patience);
  };
  {
    const Answerer one(folder, "", "[" + good + "]"), other(folder, "", "[]"), babbler(folder, "", "no JSON"),
        liar(folder, "1", "[" + good + "]");
    const auto answers =
        ask({one.pid(), other.pid(), babbler.pid(), 1, getpid()}, true, std::chrono::milliseconds(300));
    CHECK(answers.size() == 2);  // that of pid 1 has another sender
    CHECK(answers.at(one.pid()).size() == 1);
    CHECK(answers.at(other.pid()).empty());
    const auto start = loop::Clock::now();
    CHECK(ask({one.pid(), other.pid()}, false, std::chrono::minutes(10)).size() == 2);
    CHECK(loop::Clock::now() - start < std::chrono::minutes(1));  // it waits for nobody else
  }
  CHECK(ask({1}, false, std::chrono::minutes(10)).empty());  // nobody listens any more
  CHECK(ask_in("", {1}, false, std::chrono::minutes(10)).empty());
  std::filesystem::remove_all(parent.path);
}

}  // namespace
}  // namespace rankshim::look
