#include <boost/system/system_error.hpp>
#include <catch2/catch.hpp>
#include <csignal>
#include <new>

#include "supervise/supervised_for_test.h"

using namespace rankshim::supervise;

namespace {

/// As if memory were refused, or a call of Asio, whenever something is told.
class Refusal final : public Observer {
 public:
  void started(const std::vector<pid_t>& /*processes*/, Clock::time_point /*when*/,
               const std::vector<std::string>& /*environment*/) override {
    throw std::bad_alloc();
  }
  void stop_passed_on(const rankshim::outcome::StopRequest& /*stop*/,
                      std::optional<std::chrono::milliseconds> /*grace*/) override {
    throw boost::system::system_error(ENOSPC, boost::system::system_category(), "epoll");
  }
  void command_ended(const ExitRecord& /*record*/) override { throw std::bad_alloc(); }
};

/// The same for a launcher, in the supervisor's own steps.
class RefusedLauncher final : public Workers {
 public:
  void started(const std::vector<pid_t>& /*processes*/, Clock::time_point /*when*/,
               const std::vector<std::string>& /*environment*/) override {
    throw std::bad_alloc();
  }
  void stop_passed_on(const rankshim::outcome::StopRequest& /*stop*/,
                      std::optional<std::chrono::milliseconds> /*grace*/) override {
    throw std::bad_alloc();
  }
  void command_ended(const ExitRecord& /*record*/) override { throw std::bad_alloc(); }
  void finish() override { throw std::bad_alloc(); }
};

constexpr const char* ends_with_terms =
    "trap 'echo asked; exit 9' TERM; trap 'echo noted' USR1; exec 3<> <(:); echo ready; "
    "while :; do read -r -t 0.2 -u 3; done";

}  // namespace

TEST_CASE("where memory is refused signals are passed on and the end is the command's", "[supervise]") {
  for (const Mode mode : modes()) {
    INFO(name(mode));
    Refusal refusal;
    Policy policy;
    policy.observer = &refusal;
    Supervised command(mode, ends_with_terms, policy);
    REQUIRE(command.line() == "ready");
    command.signal(SIGUSR1);
    CHECK(command.line() == "noted");
    command.signal(SIGTERM);
    CHECK(command.line() == "asked");
    const ExitRecord record = command.record();
    CHECK(record.kind == ExitRecord::Kind::exited);
    CHECK(record.number == 9);
    CHECK(record.stop.value().signal == SIGTERM);
  }
}

TEST_CASE("where whatever the launcher is told fails signals are passed on and the end is the command's",
          "[supervise]") {
  for (const Mode mode : modes()) {
    INFO(name(mode));
    RefusedLauncher launcher;
    Policy policy;
    policy.launcher = &launcher;
    Supervised command(mode, ends_with_terms, policy);
    REQUIRE(command.line() == "ready");
    command.signal(SIGTERM);
    CHECK(command.line() == "asked");
    CHECK(command.record().number == 9);
  }
}

TEST_CASE("where memory is refused the grace is kept", "[supervise]") {
  for (const Mode mode : modes()) {
    INFO(name(mode));
    Refusal refusal;
    Policy policy;
    policy.observer = &refusal;
    policy.grace = std::chrono::milliseconds(100);
    Supervised command(mode, "trap 'echo asked' TERM; echo ready; while :; do sleep 3600; done", policy);
    REQUIRE(command.line() == "ready");
    command.signal(SIGTERM);
    const ExitRecord record = command.record();
    CHECK(record.number == SIGKILL);
    CHECK(record.killed_by_us);
  }
}
